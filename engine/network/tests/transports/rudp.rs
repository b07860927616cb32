//! UDP and robust UDP machines on a network in virtual time.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_network::channels::{ChannelConfig, ChannelKind, Loss, Machine, Side};
use quorate_network::transports::{
    PacketConfig, RetransmissionConfig, RetransmissionProfile, TransportKind, WireSettings,
};
use quorate_testkit::ends::{client_end, replica_end};
use quorate_testkit::pair::{A, B, Fate, MS, Net, Random};
use quorate_types::{ClusterId, Lane, ReplicaId, Time};
use std::time::Duration;

const SECOND_NS: u64 = 1_000 * MS;
const DIALS: Side = Side::Initiator { expects: ReplicaId(1) };

fn cluster() -> ClusterId {
    ClusterId::from_name("virtual")
}

/// Loses packets at random, one in `one_in` (0: none); the others take `us` microseconds.
fn loses(one_in: u64, us: u64, seed: u64) -> Fate {
    let mut random = Random(seed | 1);
    Box::new(move |_, _, _| if one_in > 0 && random.draw().is_multiple_of(one_in) { vec![] } else { vec![us * 1_000] })
}

/// A link with a capacity of `rate` bytes per second in each direction, a queue of `queue_bytes` before it, and a delay
/// of `us` microseconds.
fn narrow(rate: u64, queue_bytes: u64, us: u64) -> Fate {
    let mut free = [Time(0); 2];
    Box::new(move |now, from, packet| {
        let begins = free[from].max(now);
        let waiting = begins.since(now).as_nanos() as u64;
        let bytes = packet.len() as u64;
        if waiting * rate / SECOND_NS + bytes > queue_bytes {
            return vec![];
        }
        free[from] = begins + Duration::from_nanos(bytes * SECOND_NS / rate);
        vec![free[from].since(now).as_nanos() as u64 + us * 1_000]
    })
}

fn settings(config: RetransmissionConfig) -> WireSettings {
    WireSettings { retransmission: config, ..WireSettings::default() }
}

fn open(transport: TransportKind, end: &ChannelConfig, side: Side, settings: &WireSettings) -> Box<dyn Machine> {
    let association = transport.carrier().association().expect("it runs over packets");
    let nonce = if matches!(side, Side::Responder) { [2; 32] } else { [1; 32] };
    association.open(end, side, settings, nonce).expect("a machine")
}

/// Replica 0 dials replica 1.
fn dialled(transport: TransportKind, channel: ChannelKind, settings: &WireSettings, us: u64) -> Net {
    let end = |replica: u16| ChannelConfig { kind: channel, ..replica_end(cluster(), replica, replica as u8) };
    dial(open(transport, &end(0), DIALS, settings), open(transport, &end(1), Side::Responder, settings), us)
}

fn dial(dialler: Box<dyn Machine>, listener: Box<dyn Machine>, us: u64) -> Net {
    let mut net = Net::new([dialler, listener], loses(0, us, 1));
    net.step(A, |machine, now, out| machine.start(now, out));
    net
}

/// Replica 0 is connected to replica 1.
fn pair(transport: TransportKind, channel: ChannelKind, settings: &WireSettings, us: u64) -> Net {
    let mut net = dialled(transport, channel, settings, us);
    net.connect();
    net
}

fn rudp(settings: &WireSettings, us: u64) -> Net {
    pair(TransportKind::RUDP, ChannelKind::PLAIN, settings, us)
}

/// Sends frames in one burst.
fn send(net: &mut Net, from: usize, frames: &[Bytes]) {
    net.step(from, |machine, now, out| {
        frames.iter().for_each(|frame| machine.send(now, frame.clone(), Lane::Ordinary, out));
        machine.flush(now, out);
    });
}

/// Sends a frame all of whose packets are lost.
fn send_lost(net: &mut Net) {
    let fate = std::mem::replace(&mut net.fate, loses(1, 0, 1));
    send(net, A, &[Bytes::from_static(b"lost")]);
    net.fate = fate;
}

fn received(net: &Net, end: usize) -> Vec<Bytes> {
    let mut frames = net.got(end);
    frames.sort();
    frames
}

fn numbered(count: u32, bytes: usize) -> Vec<Bytes> {
    (0..count)
        .map(|number| {
            let mut frame = number.to_be_bytes().to_vec();
            frame.resize(bytes.max(4), number as u8);
            frame.into()
        })
        .collect()
}

#[test]
fn frames_over_udp_share_packets_unless_they_are_to_be_apart() {
    for channel in [ChannelKind::PLAIN, ChannelKind::DTLS] {
        for (frames_apart, packets) in [(false, 1), (true, 3)] {
            let packet_settings = PacketConfig { frames_apart, ..PacketConfig::default() };
            let settings = WireSettings { packets: packet_settings, ..WireSettings::default() };
            let mut net = pair(TransportKind::UDP, channel, &settings, 100);
            let before = net.trace.len();
            send(&mut net, A, &numbered(3, 50));
            assert_eq!(net.trace.len() - before, packets, "{channel}, apart: {frames_apart}");
            assert!(net.run(1_000, |net| net.frames[B].len() == 3));
            assert_eq!(received(&net, B), numbered(3, 50));
        }
    }
}

#[test]
fn what_is_sent_before_the_connection_stands_arrives() {
    for (transport, channel) in [
        (TransportKind::UDP, ChannelKind::PLAIN),
        (TransportKind::UDP, ChannelKind::DTLS),
        (TransportKind::RUDP, ChannelKind::PLAIN),
        (TransportKind::RUDP, ChannelKind::DTLS),
    ] {
        let mut net = dialled(transport, channel, &WireSettings::default(), 1_000);
        send(&mut net, A, &numbered(2, 700));
        send(&mut net, B, &numbered(3, 700));
        assert!(net.run(1_000, |net| net.frames[A].len() == 3 && net.frames[B].len() == 2), "{transport} {channel}");
    }
}

#[test]
fn a_lost_packet_is_asked_for_and_delays_no_other_frame() {
    let mut net = rudp(&WireSettings::default(), 5_000);
    // One way, a quarter of the round trip, the NACK back, and one way again.
    send(&mut net, A, &numbered(1, 100));
    assert!(net.run(1_000, |net| net.frames[B].len() == 1));
    net.run(100, |_| false);
    let start = net.now;
    net.frames[B].clear();
    send_lost(&mut net);
    for frame in numbered(5, 1_000) {
        send(&mut net, A, &[frame]);
    }
    assert!(net.run(1_000, |net| net.frames[B].len() == 6));
    let took = |frame: usize| net.frames[B][frame].0.since(start);
    assert_eq!(took(4), Duration::from_millis(5), "the others are not delayed");
    assert_eq!(net.frames[B][5].1, &b"lost"[..]);
    // As if its thread was busy: a round trip of 80 ms instead of one, and nothing is lost.
    assert!(took(5) < Duration::from_millis(20), "{:?}", took(5));
}

#[test]
fn a_remote_that_becomes_slow_gets_little_twice() {
    const BURST: u32 = 400;
    let mut net = rudp(&WireSettings::default(), 500);
    for _ in 0..20 {
        send(&mut net, A, &numbered(1, 1_000));
        net.run(20, |_| false);
    }
    // The round trip of 2 ms, 1 ms of acknowledgement delay, and the margin of 2 ms; then one way.
    net.fate = loses(0, 40_000, 1);
    let mut packets = Vec::new();
    for _ in 0..6 {
        let before = net.trace.len();
        net.frames[B].clear();
        send(&mut net, A, &numbered(BURST, 1_000));
        assert!(net.run(2_000, |net| net.frames[B].len() == BURST as usize));
        net.run(200, |_| false);
        packets.push(net.trace[before..].iter().filter(|(_, from, bytes)| *from == A && *bytes > 500).count() as u32);
    }
    let needed = *packets.last().expect("six bursts");
    assert!(packets[0] < needed + needed / 4, "{packets:?}: the first timeouts come too early");
    assert_eq!(packets[3..], [needed; 3], "the timeout follows the round trip");
    assert!(needed <= BURST, "{packets:?}: several frames share a packet");
}

#[test]
fn a_lost_last_packet_is_sent_again_after_the_timeout_of_the_profile() {
    for (profile, ms) in [(RetransmissionProfile::S100, 100), (RetransmissionProfile::S50, 50)] {
        let config = RetransmissionConfig { profile, ..RetransmissionConfig::default() };
        let mut net = rudp(&settings(config), 1_000);
        send(&mut net, A, &numbered(1, 10));
        net.run(400, |_| false);
        let start = net.now;
        send_lost(&mut net);
        assert!(net.run(1_000, |net| net.frames[B].len() == 2));
        assert_eq!(net.now.since(start), Duration::from_millis(ms + 1), "{profile}");
    }
}

#[test]
fn the_automatic_profile_follows_the_smallest_round_trip() {
    let mut net = rudp(&WireSettings::default(), 1_000);
    for frame in numbered(50, 10) {
        send(&mut net, A, &[frame]);
        net.run(20, |_| false);
    }
    let start = net.now;
    send_lost(&mut net);
    assert!(net.run(1_000, |net| net.frames[B].len() == 51));
    // 10 MB/s and a 20 ms round trip: 200 kB in flight, and 64 kB more in the queue.
    assert!(net.now.since(start) < Duration::from_millis(10), "{:?}", net.now.since(start));
}

#[test]
fn a_remote_that_falls_silent_is_noticed_even_without_frames() {
    let mut net = rudp(&WireSettings::default(), 1_000);
    net.run(10_000, |_| false);
    assert_eq!(net.lost, [None, None], "an idle link stands");
    net.fate = loses(1, 0, 1);
    assert!(net.run(10_000, |net| net.lost == [Some(Loss::Silent(2_000)), Some(Loss::Silent(2_000))]));
    let mut net = pair(TransportKind::UDP, ChannelKind::PLAIN, &WireSettings::default(), 1_000);
    net.run(10_000, |_| false);
    assert_eq!(net.lost, [None, None], "an idle link stands");
    net.fate = loses(1, 0, 1);
    assert!(net.run(10_000, |net| net.lost == [Some(Loss::Silent(3_000)), Some(Loss::Silent(3_000))]));
}

#[test]
fn a_paced_sender_does_not_overflow_a_slow_link() {
    let run = |pacing: bool| {
        let config = RetransmissionConfig { pacing, ..RetransmissionConfig::default() };
        // 10 MB/s, 20 ms round trip: 200 kB on the way, and room for 64 kB more.
        let mut net = rudp(&settings(config), 10_000);
        net.fate = narrow(10_000_000, 64_000, 10_000);
        net.trace.clear();
        let start = net.now;
        send(&mut net, A, &numbered(2_000, 10_000));
        let arrived = net.run(60_000, |net| net.frames[B].len() == 2_000);
        let packets = net.trace.len();
        assert!(arrived, "pacing {pacing}: {} frames, {:?}, {packets} packets", net.frames[B].len(), net.lost);
        (net.now.since(start), packets)
    };
    let (unpaced, unpaced_packets) = run(false);
    let (paced, paced_packets) = run(true);
    assert!(paced < unpaced, "{paced:?} paced, {unpaced:?} unpaced");
    assert!(2 * paced_packets < unpaced_packets, "{paced_packets} packets paced, {unpaced_packets} unpaced");
    // 20 MB at 10 MB/s take 2 s.
    assert!(paced < Duration::from_secs(4), "{paced:?}");
}

#[test]
fn a_forged_or_foreign_packet_changes_nothing() {
    let mut net = rudp(&WireSettings::default(), 1_000);
    for packet in [&b""[..], &[0x52; 40], &[0x51; 60], &[0x53; 9], &[22, 3, 3, 0, 0], b"GET / HTTP/1.1\r\n"] {
        for end in [A, B] {
            net.step(end, |machine, now, out| machine.packet(now, Bytes::copy_from_slice(packet), out));
        }
    }
    send(&mut net, A, &numbered(3, 10));
    assert!(net.run(1_000, |net| net.frames[B].len() == 3));
    assert_eq!(net.lost, [None, None]);
}

#[test]
fn a_packet_that_comes_twice_is_taken_once() {
    let mut net = rudp(&WireSettings::default(), 1_000);
    send(&mut net, A, &numbered(3, 700));
    let copies: Vec<_> =
        net.flying.iter().map(|((at, number), flight)| ((*at, number + 1_000), flight.clone())).collect();
    net.flying.extend(copies);
    net.run(1_000, |_| false);
    assert_eq!(received(&net, B), numbered(3, 700));
}

#[test]
fn a_client_is_answered() {
    let settings = WireSettings::default();
    let listener = ChannelConfig { kind: ChannelKind::PLAIN, ..replica_end(cluster(), 1, 1) };
    let dialler = open(TransportKind::RUDP, &client_end(cluster(), 7), DIALS, &settings);
    let mut net = dial(dialler, open(TransportKind::RUDP, &listener, Side::Responder, &settings), 1_000);
    net.connect();
    send(&mut net, B, &numbered(2, 10));
    assert!(net.run(1_000, |net| net.frames[A].len() == 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// All frames arrive once in spite of losses, over both channels.
    #[test]
    fn all_frames_arrive_once_whatever_is_lost(
        seed in any::<u64>(),
        loses_one_in in 3..40u64,
        one_way_us in 20..40_000u64,
        sizes in proptest::collection::vec(0..60_000usize, 1..60),
        pacing in any::<bool>(),
        encrypted in any::<bool>(),
    ) {
        let config = RetransmissionConfig { pacing, unacknowledged_ms: 60_000, ..RetransmissionConfig::default() };
        let channel = if encrypted { ChannelKind::DTLS } else { ChannelKind::PLAIN };
        let mut net = pair(TransportKind::RUDP, channel, &settings(config), one_way_us);
        net.fate = loses(loses_one_in, one_way_us, seed);
        let frames: Vec<Bytes> = sizes.iter().enumerate().map(|(at, size)| vec![at as u8; *size].into()).collect();
        send(&mut net, A, &frames);
        send(&mut net, B, &frames);
        let count = frames.len();
        let arrived = net.run(300_000, |net| net.frames.iter().all(|got| got.len() >= count));
        prop_assert!(arrived, "{} and {} of {count}; {:?}", net.frames[A].len(), net.frames[B].len(), net.lost);
        net.run(1_000, |_| false);
        let mut frames = frames;
        frames.sort();
        prop_assert_eq!(received(&net, A), frames.clone());
        prop_assert_eq!(received(&net, B), frames);
    }

    /// UDP loses frames, but invents none, and no link fails.
    #[test]
    fn udp_delivers_only_what_was_sent(
        seed in any::<u64>(),
        loses_one_in in 2..40u64,
        sizes in proptest::collection::vec(0..20_000usize, 1..40),
    ) {
        let mut net = pair(TransportKind::UDP, ChannelKind::PLAIN, &WireSettings::default(), 100);
        net.fate = loses(loses_one_in, 100, seed);
        let frames: Vec<Bytes> = sizes.iter().enumerate().map(|(at, size)| vec![at as u8; *size].into()).collect();
        send(&mut net, A, &frames);
        net.run(100, |_| false);
        prop_assert!(received(&net, B).iter().all(|frame| frames.contains(frame)));
        prop_assert_eq!(&net.lost, &[None, None]);
    }

    /// Junk behind a genuine token at worst ends the link.
    #[test]
    fn junk_never_panics(
        junk in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0..40usize,
        encrypted in any::<bool>(),
    ) {
        let channel = if encrypted { ChannelKind::DTLS } else { ChannelKind::PLAIN };
        let mut net = pair(TransportKind::RUDP, channel, &WireSettings::default(), 100);
        send(&mut net, A, &numbered(3, 100));
        let genuine: Vec<Bytes> = net.flying.values().map(|(_, packet)| packet.clone()).collect();
        for packet in genuine {
            let changed = [&packet[..at.min(packet.len())], &junk].concat();
            net.step(B, |machine, now, out| machine.packet(now, changed.into(), out));
        }
        net.run(1_000, |_| false);
    }
}
