//! Votes over QUIC: on the stream, or in datagrams that wait for nothing and are not retransmitted.

use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, ChannelKind, Loss, Machine, Side};
use quorate_network::transports::{QuicConfig, QuicVotes, TransportKind, Wire, WireSettings};
use quorate_testkit::ends::{client_end, replica_end};
use quorate_testkit::pair::{A, B, Fate, MS, Net, even, rough};
use quorate_types::{ClusterId, Lane, ReplicaId};
use std::time::Duration;

fn cluster() -> ClusterId {
    ClusterId::from_name("votes")
}

fn settings(votes: QuicVotes) -> WireSettings {
    WireSettings { quic: QuicConfig { votes, ..QuicConfig::default() }, ..WireSettings::default() }
}

fn open(end: ChannelConfig, side: Side, votes: QuicVotes, nonce: u8) -> Box<dyn Machine> {
    let association = TransportKind::QUIC.carrier().association().expect("QUIC runs over packets");
    let end = ChannelConfig { kind: ChannelKind::TLS, ..end };
    association.open(&end, side, &settings(votes), [nonce; 32]).expect("TLS can be set up")
}

/// Replica 0 dials replica 1; each has its own setting.
fn pair(votes: [QuicVotes; 2], fate: Fate) -> Net {
    let dials = Side::Initiator { expects: ReplicaId(1) };
    let one = open(replica_end(cluster(), 0, 0), dials, votes[A], 1);
    let other = open(replica_end(cluster(), 1, 1), Side::Responder, votes[B], 2);
    let mut net = Net::new([one, other], fate);
    net.step(A, |machine, now, out| machine.start(now, out));
    net
}

fn in_datagrams() -> Net {
    let mut net = pair([QuicVotes::Datagrams; 2], even());
    net.connect();
    net.run(100, |_| false);
    net
}

fn vote(net: &mut Net, from: usize, frame: Bytes) {
    net.step(from, |machine, now, out| {
        machine.send(now, frame, Lane::Vote, out);
        machine.flush(now, out);
    });
}

/// Loses the next `count` packets of A; all others take 10 ms.
fn lose(net: &mut Net, mut count: usize) {
    net.fate = Box::new(move |_, from, _| {
        let is_lost = from == A && count > 0;
        count -= usize::from(is_lost);
        if is_lost { vec![] } else { vec![10 * MS] }
    });
}

/// Returns when each vote arrived, after the first packet of an earlier frame was lost.
fn votes_behind_a_lost_frame(votes: QuicVotes) -> Vec<Duration> {
    let mut net = pair([votes; 2], even());
    net.connect();
    net.run(100, |_| false);
    lose(&mut net, 1);
    let began = net.now;
    net.send(A, Bytes::from_static(b"a proposal"));
    (0..3).for_each(|at| vote(&mut net, A, Bytes::from(vec![at; 100])));
    assert!(net.run(60_000, |net| net.frames[B].len() == 4), "{:?}", net.lost);
    let of_votes = net.frames[B].iter().filter(|(_, frame)| frame.len() == 100);
    of_votes.map(|(at, _)| at.since(began)).collect()
}

#[test]
fn votes_in_datagrams_wait_for_no_lost_packet_and_those_on_the_stream_do() {
    let on_stream = votes_behind_a_lost_frame(QuicVotes::Stream);
    assert!(on_stream.iter().all(|waited| *waited >= Duration::from_millis(20)), "{on_stream:?}");
    assert_eq!(votes_behind_a_lost_frame(QuicVotes::Datagrams), [Duration::from_millis(10); 3]);
}

#[test]
fn a_lost_vote_stays_lost_and_other_frames_do_not() {
    let mut net = in_datagrams();
    lose(&mut net, 1);
    vote(&mut net, A, Bytes::from_static(b"lost"));
    vote(&mut net, A, Bytes::from_static(b"kept"));
    assert!(!net.run(10_000, |net| net.got(B).iter().any(|frame| frame == "lost")));
    assert_eq!(net.got(B), ["kept"]);
    lose(&mut net, 1);
    net.send(A, Bytes::from_static(b"repaired"));
    assert!(net.run(10_000, |net| net.got(B) == ["kept", "repaired"]), "{:?}", net.lost);
    assert!(net.run(1_000, |net| net.ends[A].unsent_bytes() == 0), "something waits for what is lost");
}

#[test]
fn a_vote_too_long_for_a_packet_travels_on_the_stream() {
    let mut net = in_datagrams();
    lose(&mut net, 1);
    let long = Bytes::from(vec![7; 5_000]);
    vote(&mut net, A, long.clone());
    assert!(net.run(10_000, |net| net.got(B) == [long.clone()]), "{:?}", net.lost);
}

#[test]
fn ends_with_different_settings_work_together_on_the_stream() {
    for votes in [[QuicVotes::Datagrams, QuicVotes::Stream], [QuicVotes::Stream, QuicVotes::Datagrams]] {
        let mut net = pair(votes, rough(7, 5));
        let frames: Vec<Bytes> = (0..100_u8).map(|at| Bytes::from(vec![at; 50])).collect();
        for frame in &frames {
            vote(&mut net, A, frame.clone());
            vote(&mut net, B, frame.clone());
        }
        let done = net.run(60_000, |net| net.frames[A].len() == 100 && net.frames[B].len() == 100);
        assert!(done, "{votes:?}: {:?}", net.lost);
        assert!(net.got(A) == frames && net.got(B) == frames, "{votes:?}: each vote once and in order");
    }
}

#[test]
fn votes_sent_before_the_link_stands_leave_once_it_does() {
    let mut net = pair([QuicVotes::Datagrams; 2], even());
    for at in [A, B] {
        vote(&mut net, at, Bytes::from_static(b"early"));
    }
    assert!(net.run(10_000, |net| net.got(A) == ["early"] && net.got(B) == ["early"]), "{:?}", net.lost);
}

/// Votes that exceed the library's buffer and the congestion window are queued, and neither end drops any.
#[test]
fn a_burst_of_votes_waits_within_bounds_and_arrives() {
    const VOTES: usize = 20_000;
    let mut net = in_datagrams();
    net.step(A, |machine, now, out| {
        (0..VOTES).for_each(|at| machine.send(now, Bytes::from((at as u64).to_le_bytes().repeat(20)), Lane::Vote, out));
        machine.flush(now, out);
    });
    assert!(net.ends[A].unsent_bytes() > VOTES * 160 / 2, "they cannot all have left");
    assert!(net.run(60_000, |net| net.frames[B].len() == VOTES), "{} came, {:?}", net.frames[B].len(), net.lost);
    assert!(net.run(1_000, |net| net.ends[A].unsent_bytes() == 0));
}

#[test]
fn a_client_that_sends_a_vote_is_cut() {
    let dials = Side::Initiator { expects: ReplicaId(1) };
    let client = open(client_end(cluster(), 9), dials, QuicVotes::Datagrams, 1);
    let replica = open(replica_end(cluster(), 1, 1), Side::Responder, QuicVotes::Datagrams, 2);
    let mut net = Net::new([client, replica], even());
    net.step(A, |machine, now, out| machine.start(now, out));
    net.connect();
    net.send(A, Bytes::from_static(b"a request"));
    assert!(net.run(1_000, |net| net.got(B) == ["a request"]));
    vote(&mut net, A, Bytes::from_static(b"a vote"));
    assert!(net.run(1_000, |net| net.lost[B].is_some()));
    assert!(matches!(net.lost[B], Some(Loss::Violation(why)) if why.contains("only replicas may")), "{:?}", net.lost);
    assert_eq!(net.got(B), ["a request"]);
}

#[test]
fn a_vote_over_the_limit_of_frames_ends_the_connection() {
    let mut net = in_datagrams();
    net.ends[B].set_frame_limit(100);
    vote(&mut net, A, Bytes::from(vec![1; 101]));
    assert!(net.run(1_000, |net| net.lost[B].is_some()));
    assert_eq!(net.lost[B], Some(Loss::FrameTooLong { bytes: 101, limit: 100 }));
}

#[test]
fn a_wire_says_whether_it_loses_votes() {
    let loses =
        |transport, votes| Wire { transport, channel: ChannelKind::TLS, settings: settings(votes) }.loses_votes();
    assert!(loses(TransportKind::QUIC, QuicVotes::Datagrams));
    assert!(!loses(TransportKind::QUIC, QuicVotes::Stream));
    assert!(loses(TransportKind::UDP, QuicVotes::Stream));
    for transport in [TransportKind::TCP, TransportKind::RUDP, TransportKind::SCTP] {
        assert!(!loses(transport, QuicVotes::Datagrams), "{transport}");
    }
}
