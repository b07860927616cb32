//! SCTP as a machine over a packet channel: two ends in virtual time, over links that lose, repeat and reorder.

use crate::datagrams::frames;
use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, ChannelKind, Loss, Machine, Side};
use quorate_network::transports::{TransportKind, WireSettings};
use quorate_testkit::ends::replica_end;
use quorate_testkit::pair::{A, B, Fate, MS, Net, even, rough};
use quorate_types::{ClusterId, Lane, ReplicaId};
use std::time::Duration;

fn end(replica: u16) -> ChannelConfig {
    ChannelConfig { kind: ChannelKind::PLAIN, ..replica_end(ClusterId::from_name("sctp"), replica, replica as u8) }
}

fn open(replica: u16, side: Side, settings: &WireSettings) -> Box<dyn Machine> {
    let association = TransportKind::SCTP.carrier().association().expect("SCTP runs over packets");
    association.open(&end(replica), side, settings, [replica as u8 + 1; 32]).expect("the channel is over packets")
}

fn pair(settings: &WireSettings, fate: Fate) -> Net {
    let ends = [open(0, Side::Initiator { expects: ReplicaId(1) }, settings), open(1, Side::Responder, settings)];
    let mut net = Net::new(ends, fate);
    net.step(A, |machine, now, out| machine.start(now, out));
    net
}

fn defaults() -> WireSettings {
    WireSettings::default()
}

#[test]
fn frames_arrive_once_and_in_order_over_a_rough_path() {
    for seed in 1..=5 {
        let mut net = pair(&defaults(), rough(seed, 4));
        for frame in frames() {
            net.send(A, frame.clone());
            net.send(B, frame);
        }
        let done = net.run(600_000, |net| net.frames[A].len() == 60 && net.frames[B].len() == 60);
        assert!(done, "seed {seed}: {} and {} frames, {:?}", net.frames[A].len(), net.frames[B].len(), net.lost);
        assert!(net.got(A) == frames() && net.got(B) == frames(), "seed {seed}");
        assert!(net.run(60_000, |net| net.ends.iter().all(|end| end.unsent_bytes() == 0)), "not all is acknowledged");
    }
}

#[test]
fn equal_nonces_and_paths_give_equal_packets() {
    let trace = |seed| {
        let mut net = pair(&defaults(), rough(seed, 5));
        frames().into_iter().for_each(|frame| net.send(A, frame));
        assert!(net.run(600_000, |net| net.frames[B].len() == 60));
        net.trace
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn a_lone_frame_is_acknowledged_at_once() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.run(300, |_| false);
    net.send(A, Bytes::from_static(b"vote"));
    let sent = net.now;
    assert!(net.run(1_000, |net| net.ends[A].unsent_bytes() == 0));
    assert_eq!(net.now.since(sent), Duration::from_millis(20), "an acknowledgement waited");
}

#[test]
fn a_lost_last_packet_is_sent_again_after_a_round_trip_or_two() {
    let mut net = pair(&defaults(), even());
    net.connect();
    for _ in 0..20 {
        net.send(A, Bytes::from_static(b"before"));
        net.run(50, |_| false);
    }
    let mut left = 1;
    net.fate = Box::new(move |_, from, _| {
        if from == A && left > 0 {
            left -= 1;
            return vec![];
        }
        vec![10 * MS]
    });
    net.send(A, Bytes::from_static(b"vote"));
    let sent = net.now;
    assert!(net.run(10_000, |net| net.got(B).iter().any(|frame| frame == "vote")));
    let waited = net.now.since(sent);
    assert!((Duration::from_millis(20)..Duration::from_millis(60)).contains(&waited), "{waited:?}");
}

#[test]
fn bulk_delays_no_ordinary_frame() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.step(A, |machine, now, out| {
        (0..100).for_each(|_| machine.send(now, Bytes::from(vec![7; 50_000]), Lane::Bulk, out));
        machine.flush(now, out);
    });
    net.run(50, |_| false);
    let asked = net.now;
    net.send(A, Bytes::from_static(b"vote"));
    assert!(net.run(60_000, |net| net.got(B).iter().any(|frame| frame == "vote")));
    assert!(net.now.since(asked) <= Duration::from_millis(45), "the vote took {:?}", net.now.since(asked));
    assert!(net.frames[B].len() < 60, "{} frames of bulk came first", net.frames[B].len());
    assert!(net.run(600_000, |net| net.frames[B].len() == 101), "{:?}", net.lost);
}

#[test]
fn a_silent_remote_is_lost_and_an_idle_one_is_not() {
    let mut net = pair(&defaults(), even());
    net.connect();
    assert!(!net.run(60_000, |net| net.lost.iter().any(Option::is_some)), "{:?}", net.lost);
    net.fate = Box::new(|_, _, _| vec![]);
    assert!(net.run(60_000, |net| net.lost[A].is_some()));
    assert_eq!(net.lost[A], Some(Loss::Silent(2_000)));
}

#[test]
fn closing_is_told_and_a_frame_over_the_limit_ends_the_connection() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.step(B, |machine, now, out| machine.close(now, out));
    assert!(net.run(1_000, |net| net.lost[A].is_some()));
    assert_eq!(net.lost[A], Some(Loss::Closed));
    let mut net = pair(&defaults(), even());
    net.connect();
    net.ends[B].set_frame_limit(5_000);
    net.send(A, Bytes::from(vec![1; 5_001]));
    assert!(net.run(1_000, |net| net.lost[B].is_some()));
    assert_eq!(net.lost[B], Some(Loss::FrameTooLong { bytes: 5_001, limit: 5_000 }));
}

#[test]
fn repairs_are_counted_and_round_trips_measured() {
    let mut net = pair(&defaults(), even());
    net.connect();
    assert_eq!(net.ends[A].repairs().round_trip, None, "nothing is measured yet");
    for frame in frames() {
        net.send(A, frame);
        net.run(50, |_| false);
    }
    let repairs = net.ends[A].repairs();
    assert_eq!((repairs.retransmissions, repairs.timeouts), (0, Some(0)));
    assert_eq!(repairs.round_trip, Some(Duration::from_millis(20)));
    // Three packets of a long frame are lost, and retransmitted because later ones arrive.
    let lose = |count: u64| -> Fate {
        let mut left = count;
        Box::new(move |_, from, packet| {
            let is_lost = from == A && packet.len() > 1_000 && left > 0;
            left -= u64::from(is_lost);
            if is_lost { vec![] } else { vec![10 * MS] }
        })
    };
    net.fate = lose(3);
    net.send(A, Bytes::from(vec![1; 30_000]));
    assert!(net.run(10_000, |net| net.frames[B].len() == 61));
    let repairs = net.ends[A].repairs();
    assert!(repairs.retransmissions >= 3, "{repairs:?}");
    // The only packet of a frame is lost: only the timer detects it.
    net.run(1_000, |_| false);
    let before = net.ends[A].repairs();
    net.fate = lose(1);
    net.send(A, Bytes::from(vec![1; 1_200]));
    assert!(net.run(10_000, |net| net.frames[B].len() == 62));
    let after = net.ends[A].repairs();
    assert_eq!(after.timeouts, before.timeouts.map(|timeouts| timeouts + 1));
    assert_eq!(after.retransmissions, before.retransmissions + 1);
    assert_eq!(after.round_trip, before.round_trip, "the acknowledgement of a repeated packet measures nothing");
}
