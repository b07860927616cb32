//! Resumed TLS sessions: who can resume them and how often. A session alone admits nobody.

use crate::handshake::{Line, answer, config, dial, key, replica, talk};
use crate::tls::{Bare, tls};
use quorate_network::channels::sessions::MAX_ACCEPTED_SESSIONS;
use quorate_network::channels::{ChannelConfig, ChannelError, LocalEnd, RemoteIdentity, Sessions};
use quorate_types::{ClientId, ReplicaId};

/// A TLS end that keeps its sessions.
fn keeping(end: ChannelConfig) -> ChannelConfig {
    tls(ChannelConfig { sessions: Sessions::kept(), ..end })
}

/// Connects, and returns both ends.
fn link(a: &ChannelConfig, b: &ChannelConfig) -> (Line, Line) {
    let (mut a, mut b) = (dial(a, 1), answer(b));
    talk(&mut a, &mut b, 100_000);
    (a, b)
}

fn assert_linked((mut a, mut b): (Line, Line)) {
    assert_eq!((&a.failed, &b.failed), (&None, &None));
    assert_eq!(a.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(1))));
    assert!(b.channel.remote().is_some());
    a.channel.encrypt(b"from a", &mut a.sent);
    b.channel.encrypt(b"from b", &mut b.sent);
    talk(&mut a, &mut b, 100_000);
    assert_eq!((&a.plain[..], &b.plain[..]), (&b"from b"[..], &b"from a"[..]));
}

/// Returns the length of the first message to a replica, which is longer with a ticket.
fn first_bytes(end: &ChannelConfig, expects: u16) -> usize {
    dial(end, expects).sent.len()
}

#[test]
fn each_later_connection_resumes_the_session_of_the_one_before() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    let client = keeping(config("one", LocalEnd::Client(ClientId(9))));
    for end in [&a, &client] {
        let before = b.sessions.resumed();
        for resumed in 0..4 {
            assert_linked(link(end, &b));
            assert_eq!(b.sessions.resumed(), before + resumed);
        }
    }
}

#[test]
fn an_end_that_keeps_no_sessions_has_full_handshakes_with_one_that_does() {
    for (a, b) in [(tls(replica(0)), keeping(replica(1))), (keeping(replica(0)), tls(replica(1)))] {
        (0..3).for_each(|_| assert_linked(link(&a, &b)));
        assert_eq!(b.sessions.resumed(), 0);
    }
}

#[test]
fn a_restarted_end_knows_no_session_and_the_handshake_is_full() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    assert_linked(link(&a, &b));
    let restarted = keeping(replica(1));
    assert!(first_bytes(&a, 1) > first_bytes(&keeping(replica(0)), 1), "it offers its session");
    assert_linked(link(&a, &b));
    assert_linked(link(&a, &restarted));
    assert_eq!(restarted.sessions.resumed(), 0);
    assert_linked(link(&a, &restarted));
    assert_eq!(restarted.sessions.resumed(), 1, "its own session is resumed");
}

#[test]
fn a_session_is_offered_to_the_replica_that_gave_it_and_to_no_other() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    let without = first_bytes(&a, 1);
    assert_linked(link(&a, &b));
    assert_eq!(first_bytes(&a, 2), without);
    assert!(first_bytes(&a, 1) > without);
}

#[test]
fn whoever_has_the_sessions_of_a_replica_still_needs_its_key() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    assert_linked(link(&a, &b));
    let thief = ChannelConfig { me: key(0, 66), ..a.clone() };
    let (thief, at_b) = link(&thief, &b);
    assert_eq!(b.sessions.resumed(), 1, "the thief resumes");
    assert_eq!(at_b.failed, Some(ChannelError::Signature(ReplicaId(0))));
    assert!(at_b.channel.remote().is_none() && thief.plain.is_empty());
    assert_linked(link(&a, &b));
}

/// A removed replica counts as an impostor from then on. A member of another cluster was never a member of this one.
#[test]
fn impostors_and_strangers_are_refused_each_time_they_come_back() {
    let b = keeping(replica(1));
    let impostor = keeping(config("one", key(0, 66)));
    let stranger = keeping(config("two", key(0, 0)));
    for times in 0..3 {
        let (_, at_b) = link(&impostor, &b);
        assert_eq!(at_b.failed, Some(ChannelError::Signature(ReplicaId(0))), "the time {times}");
        let (at_stranger, at_b) = link(&stranger, &b);
        for end in [at_stranger, at_b] {
            assert!(matches!(end.failed, Some(ChannelError::Cluster { .. })), "the time {times}: {:?}", end.failed);
            assert!(end.channel.remote().is_none());
        }
    }
    assert!(b.sessions.resumed() >= 2, "they resumed {} times", b.sessions.resumed());
}

/// An impostor answers in a replica's name with another key. It can resume the sessions that it issued, but is refused.
#[test]
fn an_impostor_that_answers_is_refused_although_its_session_is_resumed() {
    let (a, impostor) = (keeping(replica(0)), keeping(config("one", key(1, 66))));
    for times in 0..3 {
        let (at_a, _) = link(&a, &impostor);
        assert_eq!(at_a.failed, Some(ChannelError::Signature(ReplicaId(1))));
        assert!(at_a.channel.remote().is_none());
        assert_eq!(impostor.sessions.resumed(), times);
    }
    // The genuine replica can still connect.
    assert_linked(link(&a, &keeping(replica(1))));
}

/// Relays the two ends' data inside TLS until neither sends more. Returns the number of bytes.
fn pass_on(a: &mut Line, to_a: &mut Bare, b: &mut Line, to_b: &mut Bare) -> usize {
    let mut passed_on = 0;
    for _ in 0..10 {
        let from_a = to_a.open(&a.take_sent());
        let from_b = to_b.open(&b.take_sent());
        passed_on += from_a.len() + from_b.len();
        a.receive(&to_a.encrypt(&from_b));
        b.receive(&to_b.encrypt(&from_a));
    }
    passed_on
}

/// An attacker in the middle has a session with the dialled replica, and resumes it.
#[test]
fn whoever_stands_in_the_middle_is_refused_with_a_session_too() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    assert_linked(link(&a, &b));
    let middle = Bare::to_dial();
    for resumed in 0..3 {
        let (mut at_a, mut at_b) = (dial(&a, 1), answer(&b));
        let (mut to_a, mut to_b) = (Bare::answering(), Bare::dialling(middle.clone()));
        let passed_on = pass_on(&mut at_a, &mut to_a, &mut at_b, &mut to_b);
        assert!(passed_on > 200, "the handshake inside was passed on: {passed_on} bytes");
        assert_eq!(at_a.failed, Some(ChannelError::Signature(ReplicaId(1))));
        assert!(at_a.channel.remote().is_none() && at_b.channel.remote().is_none());
        assert_eq!(b.sessions.resumed(), resumed, "the one in the middle resumes its own session");
    }
}

#[test]
fn a_replayed_ticket_resumes_nothing() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    assert_linked(link(&a, &b));
    let (mut at_a, mut at_b) = (dial(&a, 1), answer(&b));
    let first = at_a.sent.clone();
    talk(&mut at_a, &mut at_b, 100_000);
    assert_eq!(b.sessions.resumed(), 1);
    assert_linked((at_a, at_b));
    for _ in 0..3 {
        let mut replayed = answer(&b);
        replayed.receive(&first);
        assert_eq!((&replayed.failed, replayed.channel.remote()), (&None, None), "a full handshake begins");
    }
    assert_eq!(b.sessions.resumed(), 1);
}

/// An attacker has seen a ticket in transit and does not know the secret that belongs to it.
#[test]
fn a_ticket_without_its_secret_is_refused_and_its_owner_falls_back_to_a_full_handshake() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    assert_linked(link(&a, &b));
    let mut at_a = dial(&a, 1);
    let mut forged = at_a.sent.clone();
    // The last bytes prove knowledge of the secret.
    *forged.last_mut().expect("a first message") ^= 1;
    let mut at_b = answer(&b);
    at_b.receive(&forged);
    assert!(matches!(at_b.failed, Some(ChannelError::Tls(_))), "{:?}", at_b.failed);
    let mut at_b = answer(&b);
    talk(&mut at_a, &mut at_b, 100_000);
    assert_linked((at_a, at_b));
}

#[test]
fn strangers_can_make_an_end_forget_sessions_and_not_more() {
    let (a, b) = (keeping(replica(0)), keeping(replica(1)));
    assert_linked(link(&a, &b));
    for _ in 0..MAX_ACCEPTED_SESSIONS + 8 {
        let (mut stranger, mut at_b) = (Bare::dialling(Bare::to_dial()), answer(&b));
        at_b.receive(&stranger.encrypt(b""));
        stranger.open(&at_b.take_sent());
        at_b.receive(&stranger.encrypt(b""));
        assert_eq!(at_b.failed, None);
    }
    assert_linked(link(&a, &b));
    assert_eq!(b.sessions.resumed(), 0, "the oldest session was forgotten for others");
    assert_linked(link(&a, &b));
    assert_eq!(b.sessions.resumed(), 1);
}
