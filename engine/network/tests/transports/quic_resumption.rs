//! TLS sessions that QUIC connections resume.

use quorate_network::channels::{ChannelConfig, ChannelError, ChannelKind, Loss, Sessions, Side};
use quorate_network::transports::{TransportKind, WireSettings};
use quorate_testkit::ends::{client_end, replica_end};
use quorate_testkit::pair::{A, B, Net, even};
use quorate_types::{ClusterId, ReplicaId};

fn keeping(end: ChannelConfig) -> ChannelConfig {
    ChannelConfig { kind: ChannelKind::TLS, sessions: Sessions::kept(), ..end }
}

fn replica(id: u16, key: u8) -> ChannelConfig {
    keeping(replica_end(ClusterId::from_name("resumption"), id, key))
}

/// The first dials the second, which must be replica 1.
fn dial(one: &ChannelConfig, other: &ChannelConfig, nonce: u8) -> Net {
    let association = TransportKind::QUIC.carrier().association().expect("QUIC runs over packets");
    let open = |end, side, nonce| {
        association.open(end, side, &WireSettings::default(), [nonce; 32]).expect("TLS can be set up")
    };
    let ends = [open(one, Side::Initiator { expects: ReplicaId(1) }, nonce), open(other, Side::Responder, nonce + 1)];
    let mut net = Net::new(ends, even());
    net.step(A, |machine, now, out| machine.start(now, out));
    net
}

fn assert_linked(mut net: Net) {
    net.connect();
    net.send(A, "from a".into());
    net.send(B, "from b".into());
    assert!(net.run(1_000, |net| net.got(A) == ["from b"] && net.got(B) == ["from a"]), "{:?}", net.lost);
}

#[test]
fn each_later_connection_resumes_the_session_of_the_one_before() {
    let client = keeping(client_end(ClusterId::from_name("resumption"), 9));
    for one in [replica(0, 0), client] {
        let other = replica(1, 1);
        for resumed in 0..4_u8 {
            assert_linked(dial(&one, &other, 10 * resumed + 1));
            assert_eq!(other.sessions.resumed(), u64::from(resumed));
        }
    }
}

#[test]
fn a_restarted_end_knows_no_session_and_the_handshake_is_full() {
    let (one, other) = (replica(0, 0), replica(1, 1));
    assert_linked(dial(&one, &other, 1));
    let restarted = replica(1, 1);
    assert_linked(dial(&one, &restarted, 3));
    assert_eq!(restarted.sessions.resumed(), 0);
    assert_linked(dial(&one, &restarted, 5));
    assert_eq!(restarted.sessions.resumed(), 1);
}

#[test]
fn whoever_has_the_sessions_of_a_replica_still_needs_its_key() {
    let (one, other) = (replica(0, 0), replica(1, 1));
    assert_linked(dial(&one, &other, 1));
    let thief = ChannelConfig { sessions: one.sessions.clone(), ..replica(0, 66) };
    let mut net = dial(&thief, &other, 3);
    assert!(net.run(10_000, |net| net.lost[B].is_some()));
    assert_eq!(net.lost[B], Some(Loss::Channel(ChannelError::Signature(ReplicaId(0)))));
    assert_eq!(other.sessions.resumed(), 1, "the thief resumed");
    assert!(!net.established[B] && net.frames[A].is_empty());
    // An impostor that answers in the replica's name is also refused, whichever session it resumes.
    let impostor = replica(1, 66);
    for (resumed, nonce) in [(0, 5), (1, 7)] {
        let mut net = dial(&one, &impostor, nonce);
        assert!(net.run(10_000, |net| net.lost[A].is_some()));
        assert_eq!(net.lost[A], Some(Loss::Channel(ChannelError::Signature(ReplicaId(1)))));
        assert_eq!(impostor.sessions.resumed(), resumed);
    }
}
