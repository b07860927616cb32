//! Handshakes with reordered packets.

use crate::datagrams::PAIRS;
use quorate_network::channels::{ChannelConfig, Side};
use quorate_network::transports::WireSettings;
use quorate_testkit::ends::replica_end;
use quorate_testkit::pair::{A, B, MS, Net, Random};
use quorate_types::{ClusterId, ReplicaId};

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
