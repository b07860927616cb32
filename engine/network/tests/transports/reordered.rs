//! Handshakes and frames with reordered packets.

use crate::datagrams::PAIRS;
use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, Side};
use quorate_network::transports::WireSettings;
use quorate_testkit::ends::replica_end;
use quorate_testkit::pair::{A, B, MS, Net, Random};
use quorate_types::{ClusterId, ReplicaId};
use std::time::Duration;

const SEEDS: u64 = 60;
/// Smallest and largest delay of a packet, in milliseconds.
const DELAYS_MS: [u64; 2] = [5, 45];
/// A handshake has at most six flights each way, each of which takes at most the largest delay. Retransmitting a flight
/// after a loss would take 75 ms more.
const LIMIT_MS: u64 = 12 * DELAYS_MS[1];

#[test]
fn packets_that_overtake_each_other_fail_no_handshake() {
    for (transport, channel) in PAIRS {
        for seed in 1..=SEEDS {
            let association = transport.carrier().association().expect("it runs over packets");
            let open = |replica: u16, side| {
                let end = replica_end(ClusterId::from_name("reordered"), replica, replica as u8);
                let end = ChannelConfig { kind: channel, ..end };
                association.open(&end, side, &WireSettings::default(), [replica as u8 + 1; 32]).expect("a machine")
            };
            let ends = [open(0, Side::Initiator { expects: ReplicaId(1) }), open(1, Side::Responder)];
            let mut random = Random(seed * 0x9e37_79b9);
            let spread = (DELAYS_MS[1] - DELAYS_MS[0]) * MS;
            let fate = Box::new(move |_, _, _: &_| vec![DELAYS_MS[0] * MS + random.draw() % spread]);
            let mut net = Net::new(ends, fate);
            net.step(A, |machine, now, out| machine.start(now, out));
            let done = net.run(LIMIT_MS, |net| net.established == [true; 2] || net.lost != [None, None]);
            assert!(done, "{transport} {channel}, seed {seed}: not connected after {LIMIT_MS} ms");
            assert_eq!([&net.lost[A], &net.lost[B]], [&None, &None], "{transport} {channel}, seed {seed}");
        }
    }
}

/// One-way delay of a path around the world.
const FAR_MS: u64 = 100;
/// Frames of this many bytes are sent once per millisecond, for this long.
const FRAME_BYTES: usize = 150;
const SENT_MS: u64 = 5_000;
/// Time within which a frame of the last second arrives: congestion control has had time to find the path's rate.
const DELIVERED_MS: u64 = FAR_MS + 50;

/// Packets on the way at the same time overtake each other if their delays differ by a millisecond. An end that takes
/// the overtaken ones for lost reduces its congestion window again and again.
#[test]
fn packets_that_overtake_each_other_on_a_long_path_slow_no_connection_down() {
    for (transport, channel) in PAIRS {
        let association = transport.carrier().association().expect("it runs over packets");
        let open = |replica: u16, side| {
            let end = replica_end(ClusterId::from_name("overtaken"), replica, replica as u8);
            let end = ChannelConfig { kind: channel, ..end };
            association.open(&end, side, &WireSettings::default(), [replica as u8 + 1; 32]).expect("a machine")
        };
        let ends = [open(0, Side::Initiator { expects: ReplicaId(1) }), open(1, Side::Responder)];
        let mut random = Random(7);
        let fate = Box::new(move |_, _, _: &_| vec![FAR_MS * MS + random.draw() % MS]);
        let mut net = Net::new(ends, fate);
        net.step(A, |machine, now, out| machine.start(now, out));
        net.connect();
        let mut sent = Vec::new();
        for _ in 0..SENT_MS {
            sent.push(net.now);
            net.send(A, Bytes::from(vec![7; FRAME_BYTES]));
            net.run(1, |_| false);
        }
        net.run(2 * DELIVERED_MS, |_| false);
        let late = sent.iter().zip(&net.frames[B]).skip(SENT_MS as usize - 1_000);
        let late = late.map(|(sent, (at, _))| at.since(*sent)).max();
        assert_eq!(net.frames[B].len(), sent.len(), "{transport} {channel}: the latest of those took {late:?}");
        let limit = Duration::from_millis(DELIVERED_MS);
        assert!(late.is_some_and(|late| late <= limit), "{transport} {channel}: a frame took {late:?}");
    }
}
