//! Machines of UDP and robust UDP on a network in virtual time.

use crate::support::{client_end, replica_end};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_channels::{ChannelConfig, ChannelKind, Loss, Machine, Output, Side};
use quorate_transports::{RetransmissionConfig, RetransmissionProfile, TransportKind, WireSettings};
use quorate_types::{ClusterId, ReplicaId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seed-driven choices (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A network between two machines.
struct Net {
    /// A packet in how many is lost; 0: none.
    loses_one_in: u64,
    one_way: Duration,
    /// Bytes per second, or 0 for no limit, and the bytes that may wait for it.
    rate: u64,
    queue_bytes: u64,
    dice: Dice,
}

struct Pair {
    net: Net,
    ends: [Box<dyn Machine>; 2],
    now: Time,
    /// Packets on their way, by arrival.
    flying: BTreeMap<(Time, u64), (usize, Bytes)>,
    sent: u64,
    /// When each direction is free again.
    free: [Time; 2],
    frames: [Vec<(Time, Bytes)>; 2],
    established: [bool; 2],
    lost: [Option<Loss>; 2],
}

fn settings(config: RetransmissionConfig) -> WireSettings {
    WireSettings { retransmission: config, ..WireSettings::default() }
}

impl Pair {
    fn new(transport: TransportKind, channel: ChannelKind, settings: &WireSettings, net: Net) -> Pair {
        let cluster = ClusterId::from_name("virtual");
        let end = |replica: u16| ChannelConfig { kind: channel, ..replica_end(cluster, replica, replica as u8) };
        let open = |replica: u16, side: Side| {
            let association = transport.carrier().association().expect("it runs over packets");
            association.open(&end(replica), side, settings, [replica as u8 + 1; 32]).expect("a machine")
        };
        let ends = [open(0, Side::Initiator { expects: ReplicaId(1) }), open(1, Side::Responder)];
        let mut pair = Pair {
            net,
            ends,
            now: Time(1),
            flying: BTreeMap::new(),
            sent: 0,
            free: [Time(0); 2],
            frames: Default::default(),
            established: [false; 2],
            lost: Default::default(),
        };
        pair.act(0, |machine, now, out| machine.start(now, out));
        pair
    }

    fn act(&mut self, end: usize, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let mut out = Vec::new();
        act(&mut *self.ends[end], self.now, &mut out);
        for said in out {
            match said {
                Output::Packet(packet) => self.fly(end, packet),
                Output::Established => self.established[end] = true,
                Output::Frame(frame) => self.frames[end].push((self.now, frame)),
                Output::Lost(why) => self.lost[end] = Some(why),
            }
        }
    }

    fn fly(&mut self, from: usize, packet: Bytes) {
        self.sent += 1;
        let net = &mut self.net;
        if net.loses_one_in > 0 && net.dice.roll(net.loses_one_in) == 0 {
            return;
        }
        let mut leaves = self.now;
        if net.rate > 0 {
            let free = self.free[from].max(self.now);
            let waiting = free.since(self.now).as_nanos() as u64 * net.rate / 1_000_000_000;
            if waiting + packet.len() as u64 > net.queue_bytes {
                return;
            }
            leaves = free + Duration::from_nanos(packet.len() as u64 * 1_000_000_000 / net.rate);
            self.free[from] = leaves;
        }
        self.flying.insert((leaves + net.one_way, self.sent), (1 - from, packet));
    }

    /// Runs until `wanted`, or for at most `limit`. Returns whether it is so.
    fn run(&mut self, limit: Duration, wanted: impl Fn(&Pair) -> bool) -> bool {
        let end = self.now + limit;
        while !wanted(self) {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let due = self.ends.iter().filter_map(|end| end.due()).min();
            let Some(next) = [arrival, due].into_iter().flatten().min().filter(|next| *next <= end) else {
                self.now = end;
                return false;
            };
            self.now = self.now.max(next);
            if arrival.is_some_and(|at| at <= self.now) {
                let (_, (to, packet)) = self.flying.pop_first().expect("it was just there");
                self.act(to, |machine, now, out| machine.packet(now, packet, out));
                continue;
            }
            for end in 0..2 {
                if self.ends[end].due().is_some_and(|due| due <= self.now) {
                    self.act(end, |machine, now, out| machine.timer(now, out));
                }
            }
        }
        true
    }

    fn connect(mut self) -> Pair {
        assert!(self.run(Duration::from_secs(20), |pair| pair.established == [true; 2]), "no connection");
        self
    }

    fn send(&mut self, from: usize, frames: &[Bytes]) {
        for frame in frames {
            self.act(from, |machine, now, out| machine.send(now, frame.clone(), out));
        }
        self.act(from, |machine, now, out| machine.flush(now, out));
    }

    fn received(&self, end: usize) -> Vec<Bytes> {
        let mut frames: Vec<Bytes> = self.frames[end].iter().map(|(_, frame)| frame.clone()).collect();
        frames.sort();
        frames
    }
}

fn net(loses_one_in: u64, one_way_us: u64, seed: u64) -> Net {
    let one_way = Duration::from_micros(one_way_us);
    Net { loses_one_in, one_way, rate: 0, queue_bytes: 0, dice: Dice(seed | 1) }
}

fn rudp(settings: &WireSettings, net: Net) -> Pair {
    Pair::new(TransportKind::RUDP, ChannelKind::PLAIN, settings, net).connect()
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
fn a_lost_packet_is_asked_for_and_delays_no_other_frame() {
    let mut pair = rudp(&WireSettings::default(), net(0, 5_000, 1));
    // A measured round trip first.
    pair.send(0, &numbered(1, 100));
    assert!(pair.run(Duration::from_secs(1), |pair| pair.frames[1].len() == 1));
    pair.run(Duration::from_millis(100), |_| false);
    let start = pair.now;
    pair.frames[1].clear();
    pair.net.loses_one_in = 1;
    pair.send(0, &[Bytes::from_static(b"lost")]);
    pair.net.loses_one_in = 0;
    for frame in numbered(5, 1_000) {
        pair.send(0, &[frame]);
    }
    assert!(pair.run(Duration::from_secs(1), |pair| pair.frames[1].len() == 6));
    let took = |frame: usize| pair.frames[1][frame].0.since(start);
    assert_eq!(took(4), Duration::from_millis(5), "the others are not delayed");
    assert_eq!(pair.frames[1][5].1, &b"lost"[..]);
    // There, a quarter of the round trip, the NACK back, and there again.
    assert!(took(5) < Duration::from_millis(20), "{:?}", took(5));
}

#[test]
fn a_lost_last_packet_is_sent_again_after_the_timeout_of_the_profile() {
    for (profile, ms) in [(RetransmissionProfile::S100, 100), (RetransmissionProfile::S50, 50)] {
        let config = RetransmissionConfig { profile, ..RetransmissionConfig::default() };
        let mut pair = rudp(&settings(config), net(0, 1_000, 1));
        pair.send(0, &numbered(1, 10));
        pair.run(Duration::from_millis(400), |_| false);
        let start = pair.now;
        pair.net.loses_one_in = 1;
        pair.send(0, &[Bytes::from_static(b"lost")]);
        pair.net.loses_one_in = 0;
        assert!(pair.run(Duration::from_secs(1), |pair| pair.frames[1].len() == 2));
        assert_eq!(pair.now.since(start), Duration::from_millis(ms + 1), "{profile}");
    }
}

#[test]
fn the_automatic_profile_follows_the_smallest_round_trip() {
    let mut pair = rudp(&WireSettings::default(), net(0, 1_000, 1));
    for frame in numbered(50, 10) {
        pair.send(0, &[frame]);
        pair.run(Duration::from_millis(20), |_| false);
    }
    let start = pair.now;
    pair.net.loses_one_in = 1;
    pair.send(0, &[Bytes::from_static(b"lost")]);
    pair.net.loses_one_in = 0;
    assert!(pair.run(Duration::from_secs(1), |pair| pair.frames[1].len() == 51));
    // The round trip of 2 ms, 1 ms for which the answer may wait, and the margin of 2 ms; then one way.
    assert!(pair.now.since(start) < Duration::from_millis(10), "{:?}", pair.now.since(start));
}

#[test]
fn a_remote_that_falls_silent_is_noticed_even_without_frames() {
    let mut pair = rudp(&WireSettings::default(), net(0, 1_000, 1));
    pair.run(Duration::from_secs(10), |_| false);
    assert_eq!(pair.lost, [None, None], "an idle link stands");
    pair.net.loses_one_in = 1;
    assert!(
        pair.run(Duration::from_secs(10), |pair| pair.lost == [Some(Loss::Silent(2_000)), Some(Loss::Silent(2_000))])
    );
    let mut pair =
        Pair::new(TransportKind::UDP, ChannelKind::PLAIN, &WireSettings::default(), net(0, 1_000, 1)).connect();
    pair.run(Duration::from_secs(10), |_| false);
    assert_eq!(pair.lost, [None, None], "an idle link stands");
    pair.net.loses_one_in = 1;
    assert!(
        pair.run(Duration::from_secs(10), |pair| pair.lost == [Some(Loss::Silent(3_000)), Some(Loss::Silent(3_000))])
    );
}

#[test]
fn a_paced_sender_does_not_overflow_a_slow_link() {
    let run = |pacing: bool| {
        let config = RetransmissionConfig { pacing, ..RetransmissionConfig::default() };
        // 10 MB/s, 20 ms round trip: 200 kB on the way, and room for 64 kB more.
        let net = Net { rate: 10_000_000, queue_bytes: 64_000, ..net(0, 10_000, 1) };
        let mut pair = rudp(&settings(config), net);
        pair.sent = 0;
        let start = pair.now;
        pair.send(0, &numbered(2_000, 10_000));
        let arrived = pair.run(Duration::from_secs(60), |pair| pair.frames[1].len() == 2_000);
        assert!(arrived, "pacing {pacing}: {} frames, {:?}, {} packets", pair.frames[1].len(), pair.lost, pair.sent);
        (pair.now.since(start), pair.sent)
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
    let mut pair = rudp(&WireSettings::default(), net(0, 1_000, 1));
    for packet in [&b""[..], &[0x52; 40], &[0x51; 60], &[0x53; 9], &[22, 3, 3, 0, 0], b"GET / HTTP/1.1\r\n"] {
        for end in 0..2 {
            pair.act(end, |machine, now, out| machine.packet(now, Bytes::copy_from_slice(packet), out));
        }
    }
    pair.send(0, &numbered(3, 10));
    assert!(pair.run(Duration::from_secs(1), |pair| pair.frames[1].len() == 3));
    assert_eq!(pair.lost, [None, None]);
}

#[test]
fn a_packet_that_comes_twice_is_taken_once() {
    let mut pair = rudp(&WireSettings::default(), net(0, 1_000, 1));
    pair.send(0, &numbered(3, 700));
    let copies: Vec<_> =
        pair.flying.iter().map(|((at, number), flight)| ((*at, number + 1_000), flight.clone())).collect();
    pair.flying.extend(copies);
    pair.run(Duration::from_secs(1), |_| false);
    assert_eq!(pair.received(1), numbered(3, 700));
}

#[test]
fn a_client_is_answered() {
    let cluster = ClusterId::from_name("virtual");
    let mut pair = Pair::new(TransportKind::RUDP, ChannelKind::PLAIN, &WireSettings::default(), net(0, 1_000, 1));
    let association = TransportKind::RUDP.carrier().association().expect("it runs over packets");
    let side = Side::Initiator { expects: ReplicaId(1) };
    let client = client_end(cluster, 7);
    pair.ends[0] = association.open(&client, side, &WireSettings::default(), [9; 32]).expect("a machine");
    pair.flying.clear();
    pair.act(0, |machine, now, out| machine.start(now, out));
    let mut pair = pair.connect();
    pair.send(1, &numbered(2, 10));
    assert!(pair.run(Duration::from_secs(1), |pair| pair.frames[0].len() == 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, all frames arrive, once, over both channels.
    #[test]
    fn all_frames_arrive_once_whatever_is_lost(
        seed in any::<u64>(),
        loses_one_in in 3..40u64,
        one_way_us in 20..40_000u64,
        sizes in proptest::collection::vec(0..60_000usize, 1..60),
        pacing in any::<bool>(),
        sealed in any::<bool>(),
    ) {
        let config = RetransmissionConfig { pacing, unacknowledged_ms: 60_000, ..RetransmissionConfig::default() };
        let channel = if sealed { ChannelKind::DTLS } else { ChannelKind::PLAIN };
        let mut pair = Pair::new(TransportKind::RUDP, channel, &settings(config), net(0, one_way_us, seed)).connect();
        pair.net.loses_one_in = loses_one_in;
        let frames: Vec<Bytes> = sizes.iter().enumerate().map(|(at, size)| vec![at as u8; *size].into()).collect();
        pair.send(0, &frames);
        pair.send(1, &frames);
        let count = frames.len();
        let arrived = pair.run(Duration::from_secs(300), |pair| pair.frames.iter().all(|got| got.len() >= count));
        prop_assert!(arrived, "{} and {} of {count}; {:?}", pair.frames[0].len(), pair.frames[1].len(), pair.lost);
        pair.run(Duration::from_secs(1), |_| false);
        let mut frames = frames;
        frames.sort();
        prop_assert_eq!(pair.received(0), frames.clone());
        prop_assert_eq!(pair.received(1), frames);
    }

    /// UDP loses frames, but makes none up, and breaks no link.
    #[test]
    fn udp_delivers_only_what_was_sent(
        seed in any::<u64>(),
        loses_one_in in 2..40u64,
        sizes in proptest::collection::vec(0..20_000usize, 1..40),
    ) {
        let mut pair = Pair::new(TransportKind::UDP, ChannelKind::PLAIN, &WireSettings::default(), net(0, 100, seed)).connect();
        pair.net.loses_one_in = loses_one_in;
        let frames: Vec<Bytes> = sizes.iter().enumerate().map(|(at, size)| vec![at as u8; *size].into()).collect();
        pair.send(0, &frames);
        pair.run(Duration::from_millis(100), |_| false);
        prop_assert!(pair.received(1).iter().all(|frame| frames.contains(frame)));
        prop_assert_eq!(&pair.lost, &[None, None]);
    }

    /// Junk behind a genuine token ends the link at worst.
    #[test]
    fn junk_never_panics(junk in proptest::collection::vec(any::<u8>(), 0..200), at in 0..40usize, sealed in any::<bool>()) {
        let channel = if sealed { ChannelKind::DTLS } else { ChannelKind::PLAIN };
        let mut pair = Pair::new(TransportKind::RUDP, channel, &WireSettings::default(), net(0, 100, 1)).connect();
        pair.send(0, &numbered(3, 100));
        let genuine: Vec<Bytes> = pair.flying.values().map(|(_, packet)| packet.clone()).collect();
        for packet in genuine {
            let changed = [&packet[..at.min(packet.len())], &junk].concat();
            pair.act(1, |machine, now, out| machine.packet(now, changed.into(), out));
        }
        pair.run(Duration::from_secs(1), |_| false);
    }
}
