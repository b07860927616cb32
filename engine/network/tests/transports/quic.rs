//! QUIC as a machine: two ends in virtual time, over links that lose, repeat and reorder packets, and with attackers.
//! The last tests run it over the kernel's UDP.

use crate::datagrams::{Ground, frames};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_network::channels::{
    ChannelConfig, ChannelError, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Loss, Machine, Output, Sessions, Side,
    Versions, Welcome,
};
use quorate_network::transports::{LinkConfig, PacketConfig, QuicConfig, TransportKind, Wire, WireSettings};
use quorate_testkit::ends::{End, R0, R1, ToyVerifier, client, connected, drive, drive_with, quick, replica_end};
use quorate_testkit::pair::{A, B, Fate, MS, Net, even, rough};
use quorate_types::{ClientId, ClusterId, EpochId, Lane, Parameters, ReplicaId, Time};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

fn cluster() -> ClusterId {
    ClusterId::from_name("quic")
}

fn end(replica: u16, key: u8) -> ChannelConfig {
    ChannelConfig { kind: ChannelKind::TLS, ..replica_end(cluster(), replica, key) }
}

fn open(end: &ChannelConfig, side: Side, settings: &WireSettings, nonce: u8) -> Box<dyn Machine> {
    let association = TransportKind::QUIC.carrier().association().expect("QUIC runs over packets");
    association.open(end, side, settings, [nonce; 32]).expect("TLS can be set up")
}

/// Replica 0 dials replica 1.
fn pair(settings: &WireSettings, fate: Fate) -> Net {
    let dials = Side::Initiator { expects: ReplicaId(1) };
    let ends = [open(&end(0, 0), dials, settings, 1), open(&end(1, 1), Side::Responder, settings, 2)];
    let mut net = Net::new(ends, fate);
    net.step(A, |machine, now, out| machine.start(now, out));
    net
}

fn defaults() -> WireSettings {
    WireSettings::default()
}

#[test]
fn frames_arrive_once_and_in_order_over_a_rough_path() {
    // Long enough that a path losing a third of the packets is never silent for that long by chance.
    let patient = QuicConfig { idle_timeout_ms: 30_000, ..QuicConfig::default() };
    let settings = WireSettings { quic: patient, ..defaults() };
    for seed in 1..=5 {
        let mut net = pair(&settings, rough(seed, 3));
        for frame in frames() {
            net.send(A, frame.clone());
            net.send(B, frame);
        }
        let done = net.run(600_000, |net| net.frames[A].len() == 60 && net.frames[B].len() == 60);
        assert!(done, "seed {seed}: {} and {} frames, {:?}", net.frames[A].len(), net.frames[B].len(), net.lost);
        assert!(net.got(A) == frames() && net.got(B) == frames(), "seed {seed}");
        assert!(net.run(60_000, |net| net.ends.iter().all(|end| end.unsent_bytes() == 0)), "not all is acknowledged");
        assert_eq!(net.ends.iter().map(|end| end.partial_bytes()).sum::<usize>(), 0);
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
fn bulk_delays_no_ordinary_frame() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.step(A, |machine, now, out| {
        (0..200).for_each(|_| machine.send(now, Bytes::from(vec![7; 100_000]), Lane::Bulk, out));
        machine.flush(now, out);
    });
    net.run(50, |_| false);
    let asked = net.now;
    net.send(A, Bytes::from_static(b"vote"));
    assert!(net.run(60_000, |net| net.got(B).iter().any(|frame| frame == "vote")));
    let waited = net.now.since(asked);
    assert!(waited <= Duration::from_millis(25), "the vote took {waited:?} on a path of 10 ms");
    assert!(net.frames[B].len() < 100, "{} frames of bulk came first", net.frames[B].len());
    assert!(net.run(600_000, |net| net.frames[B].len() == 201), "{:?}", net.lost);
}

#[test]
fn a_lost_packet_of_bulk_holds_back_no_ordinary_frame() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.run(100, |_| false);
    // The first bulk packets are lost.
    let mut sent = 0;
    net.fate = Box::new(move |_, from, _| {
        sent += usize::from(from == A);
        if from == A && sent <= 2 { vec![] } else { vec![10 * MS] }
    });
    let began = net.now;
    net.step(A, |machine, now, out| {
        machine.send(now, Bytes::from(vec![7; 6_000]), Lane::Bulk, out);
        machine.flush(now, out);
    });
    net.send(A, Bytes::from_static(b"vote"));
    assert!(net.run(60_000, |net| net.frames[B].len() == 2), "{:?}", net.lost);
    let [(vote_at, vote), (bulk_at, bulk)] = &net.frames[B][..] else { unreachable!("there are two") };
    assert!(vote == "vote" && bulk.len() == 6_000);
    assert_eq!(vote_at.since(began), Duration::from_millis(10));
    assert!(bulk_at.since(began) >= Duration::from_millis(30), "nothing was lost");
}

#[test]
fn a_silent_remote_is_lost_after_the_idle_timeout_and_an_idle_one_is_not() {
    let mut net = pair(&defaults(), even());
    net.connect();
    assert!(!net.run(60_000, |net| net.lost.iter().any(Option::is_some)), "{:?}", net.lost);
    net.fate = Box::new(|_, _, _| vec![]);
    let cut = net.now;
    assert!(net.run(60_000, |net| net.lost[A].is_some()));
    assert_eq!(net.lost[A], Some(Loss::Silent(3_000)));
    assert!(net.now.since(cut) <= Duration::from_millis(6_100), "{:?}", net.now.since(cut));
}

#[test]
fn closing_is_told() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.step(B, |machine, now, out| machine.close(now, out));
    assert!(net.run(1_000, |net| net.lost[A].is_some()));
    assert_eq!(net.lost[A], Some(Loss::Closed));
}

#[test]
fn either_end_notices_that_the_other_has_restarted() {
    // The dialling end restarts with a new connection.
    let mut net = pair(&defaults(), even());
    net.connect();
    net.ends[A] = open(&end(0, 0), Side::Initiator { expects: ReplicaId(1) }, &defaults(), 3);
    net.step(A, |machine, now, out| machine.start(now, out));
    assert!(net.run(1_000, |net| net.lost[B].is_some()));
    assert_eq!(net.lost[B], Some(Loss::Restarted));
    // The accepting end restarts without any state.
    let mut net = pair(&defaults(), even());
    net.connect();
    net.ends[B] = open(&end(1, 1), Side::Responder, &defaults(), 4);
    net.send(A, Bytes::from(vec![1; 200]));
    let sent = net.now;
    assert!(net.run(2_000, |net| net.lost[A].is_some()));
    assert_eq!(net.lost[A], Some(Loss::Restarted));
    assert!(net.now.since(sent) < Duration::from_millis(1_000), "{:?}", net.now.since(sent));
}

#[test]
fn packets_that_nobody_can_read_end_no_connection() {
    let mut net = pair(&defaults(), even());
    net.connect();
    for number in 0..2_000_u32 {
        net.inject(A, Bytes::from([&[0x45][..], &number.to_le_bytes().repeat(20)].concat()), 0);
        net.inject(B, Bytes::from([&[0x45][..], &number.to_le_bytes().repeat(20)].concat()), 0);
        net.run(5, |_| false);
    }
    net.send(A, Bytes::from_static(b"still here"));
    assert!(net.run(1_000, |net| net.got(B) == [&b"still here"[..]]), "{:?}", net.lost);
}

fn only_packet(out: &[Output]) -> Bytes {
    match out {
        [Output::Packet(packet)] => packet.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_begins_before_the_address_is_proved_and_answers_are_short() {
    let association = TransportKind::QUIC.carrier().association().expect("QUIC runs over packets");
    let greeter = |secret| association.greeter(&end(1, 1), &defaults(), [secret; 32]).expect("TLS is set up");
    let (mut b, mut reborn, now) = (greeter(1), greeter(2), Time::from_millis(1));
    let [here, there]: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 1).into()];
    let mut a = open(&end(0, 0), Side::Initiator { expects: ReplicaId(1) }, &defaults(), 1);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    a.start(now, &mut first);
    let first = only_packet(&first);
    let Welcome::Answer(token) = b.greet(now, here, &first) else { panic!("a newcomer is asked for its token") };
    assert!(token[0] & 0xf0 == 0xf0, "it is a token: {:x}", token[0]);
    assert!(token.len() < 200, "an answer of {} bytes to a packet of {}", token.len(), first.len());
    a.packet(now, token, &mut second);
    let second = only_packet(&second);
    assert_eq!(b.greet(now, there, &second), Welcome::Ignore, "a token is worth nothing at another address");
    assert_eq!(reborn.greet(now, here, &second), Welcome::Ignore, "and nothing to another end");
    assert_eq!(b.greet(now, here, &second), Welcome::Begin);
    let late = b.greet(now + Duration::from_secs(30), here, &second);
    assert!(matches!(&late, Welcome::Answer(refusal) if refusal.len() < 200), "a token does not last: {late:?}");
    let (mut machine, mut hello) = (open(&end(1, 1), Side::Responder, &defaults(), 2), Vec::new());
    machine.packet(now, second, &mut hello);
    assert!(hello.iter().any(|said| matches!(said, Output::Packet(packet) if packet.len() >= 1_200)), "{hello:?}");
}

#[test]
fn an_end_claims_its_own_packets_and_heeds_those_that_may_come_from_a_remote_that_has_lost_it() {
    let mut net = pair(&defaults(), even());
    let unreadable = Bytes::from(vec![0x45; 100]);
    assert!(net.ends.iter().all(|end| !end.claims(&unreadable) && !end.heeds(&unreadable)));
    net.connect();
    let (mut fresh, mut out) =
        (open(&end(0, 0), Side::Initiator { expects: ReplicaId(1) }, &defaults(), 9), Vec::new());
    fresh.start(Time(0), &mut out);
    let newcomer = only_packet(&out);
    assert!(net.ends.iter().all(|end| !end.claims(&unreadable) && end.heeds(&unreadable)));
    assert!(net.ends.iter().all(|end| !end.claims(&newcomer) && !end.heeds(&newcomer)));
    let sent = net.trace.len();
    net.send(A, Bytes::from_static(b"own"));
    assert!(net.trace.len() > sent);
    let own: Vec<Bytes> = net.flying.values().filter(|(to, _)| *to == B).map(|(_, packet)| packet.clone()).collect();
    assert!(!own.is_empty() && own.iter().all(|packet| net.ends[B].claims(packet) && !net.ends[A].claims(packet)));
}

#[test]
fn impostors_and_strangers_are_refused_with_the_reason() {
    let dials = Side::Initiator { expects: ReplicaId(1) };
    let refused = |one: ChannelConfig, other: ChannelConfig| {
        let ends = [open(&one, dials, &defaults(), 1), open(&other, Side::Responder, &defaults(), 2)];
        let mut net = Net::new(ends, even());
        net.step(A, |machine, now, out| machine.start(now, out));
        assert!(net.run(10_000, |net| net.lost.iter().all(Option::is_some)), "{:?}", net.lost);
        assert!(net.frames.iter().all(Vec::is_empty));
        net.lost.map(|lost| lost.expect("both were seen"))
    };
    let [at_a, _] = refused(end(0, 0), end(1, 66));
    assert_eq!(at_a, Loss::Channel(ChannelError::Signature(ReplicaId(1))));
    let [_, at_b] = refused(end(0, 66), end(1, 1));
    assert_eq!(at_b, Loss::Channel(ChannelError::Signature(ReplicaId(0))));
    let foreign = ChannelConfig { cluster: ClusterId::from_name("another"), ..end(0, 0) };
    let both = refused(foreign, end(1, 1));
    assert!(both.iter().all(|loss| matches!(loss, Loss::Channel(ChannelError::Cluster { .. }))), "{both:?}");
    let both = refused(end(0, 0), end(2, 2));
    assert!(matches!(both[A], Loss::Channel(ChannelError::UnexpectedRemote { .. })), "{both:?}");
    assert!(matches!(both[B], Loss::Channel(ChannelError::Misdirected { .. })), "{both:?}");
}

#[test]
fn a_frame_over_the_limit_ends_the_connection() {
    let mut net = pair(&defaults(), even());
    net.connect();
    net.ends[B].set_frame_limit(5_000);
    net.send(A, Bytes::from(vec![1; 5_000]));
    net.send(A, Bytes::from(vec![1; 5_001]));
    assert!(net.run(1_000, |net| net.lost[B].is_some()));
    assert_eq!(net.lost[B], Some(Loss::FrameTooLong { bytes: 5_001, limit: 5_000 }));
    assert_eq!(net.frames[B].len(), 1);
}

#[test]
fn packets_stay_within_the_configured_size() {
    let settings = |first, carried| {
        let quic = QuicConfig { mtu_bytes: first, ..QuicConfig::default() };
        let packets = PacketConfig { mtu_bytes: carried, ..PacketConfig::default() };
        WireSettings { quic, packets, ..defaults() }
    };
    let longest = |settings: WireSettings, path: usize| {
        let fate = move |_: Time, _: usize, packet: &Bytes| if packet.len() > path { vec![] } else { vec![MS] };
        let mut net = pair(&settings, Box::new(fate));
        net.send(A, Bytes::from(vec![1; 3_000_000]));
        assert!(net.run(60_000, |net| net.frames[B].len() == 1), "{:?}", net.lost);
        net.trace.iter().map(|(_, _, bytes)| *bytes).max()
    };
    // 48 bytes are the headers of IPv6 and UDP.
    assert_eq!(longest(settings(1_200, 1_280), usize::MAX), Some(1_232));
    assert_eq!(longest(settings(1_350, 1_280), usize::MAX), Some(1_350));
    assert_eq!(longest(settings(1_200, 0), usize::MAX), Some(1_452));
    assert_eq!(longest(settings(1_200, 9_000), usize::MAX), Some(8_952));
    assert_eq!(longest(settings(1_200, 1 << 20), usize::MAX), Some(65_000));
    // The path carries less than the probed size: longer packets are lost, and the frame still arrives.
    longest(settings(1_200, 9_000), 1_300);
}

#[test]
fn repairs_are_counted_and_round_trips_measured() {
    let mut net = pair(&defaults(), even());
    assert_eq!(net.ends[A].repairs().round_trip, None, "nothing is measured yet");
    net.connect();
    for frame in frames() {
        net.send(A, frame);
    }
    assert!(net.run(10_000, |net| net.frames[B].len() == 60));
    let repairs = net.ends[A].repairs();
    assert_eq!((repairs.retransmissions, repairs.timeouts), (0, None), "the library counts no timeouts");
    let trip = repairs.round_trip.expect("it is measured");
    assert!((20..=26).contains(&trip.as_millis()), "{trip:?} for 20 ms and an acknowledgement's delay");
    let mut left = 3;
    net.fate = Box::new(move |_, from, packet| {
        let is_lost = from == A && packet.len() > 1_000 && left > 0;
        left -= u64::from(is_lost);
        if is_lost { vec![] } else { vec![10 * MS] }
    });
    net.send(A, Bytes::from(vec![1; 100_000]));
    assert!(net.run(10_000, |net| net.frames[B].len() == 61));
    assert_eq!(net.ends[A].repairs().retransmissions, 3);
}

#[test]
fn settings_out_of_range_are_named() {
    let fault = |quic: QuicConfig| {
        let settings = WireSettings { quic, ..defaults() };
        settings.validate().expect_err("it is out of range").to_string()
    };
    let quic = QuicConfig::default;
    let of_mtu = fault(QuicConfig { mtu_bytes: 1_199, ..quic() });
    assert!(of_mtu.contains("quic.mtu_bytes") && of_mtu.contains("set 1200 to 65000"), "{of_mtu}");
    assert!(fault(QuicConfig { idle_timeout_ms: 0, ..quic() }).contains("quic.idle_timeout_ms"));
    assert!(fault(QuicConfig { ack_packets: 0, ..quic() }).contains("quic.ack_packets"));
    assert!(fault(QuicConfig { window_bytes: 100, ..quic() }).contains("quic.window_bytes"));
    assert!(fault(QuicConfig { max_ack_delay_ms: 20_000, ..quic() }).contains("quic.max_ack_delay_ms"));
}

/// An attacker's manipulation of a packet that it has seen.
#[derive(Clone, Debug)]
enum Forgery {
    Replay,
    Cut(u16),
    Flip(u16, u8),
    Append(Vec<u8>),
    Junk(Vec<u8>),
}

fn forgery() -> impl Strategy<Value = Forgery> {
    prop_oneof![
        Just(Forgery::Replay),
        any::<u16>().prop_map(Forgery::Cut),
        (any::<u16>(), 1..=255_u8).prop_map(|(at, bits)| Forgery::Flip(at, bits)),
        proptest::collection::vec(any::<u8>(), 1..100).prop_map(Forgery::Append),
        proptest::collection::vec(any::<u8>(), 0..1_300).prop_map(Forgery::Junk),
    ]
}

fn forge(forgery: &Forgery, packet: &Bytes) -> Bytes {
    let mut forged = packet.to_vec();
    match forgery {
        Forgery::Replay => {}
        Forgery::Cut(at) => forged.truncate(usize::from(*at) % packet.len()),
        Forgery::Flip(at, bits) => forged[usize::from(*at) % packet.len()] ^= bits,
        Forgery::Append(more) => forged.extend_from_slice(more),
        Forgery::Junk(junk) => forged.clone_from(junk),
    }
    forged.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// After the handshake, an attacker on the path can only delay: everything that arrives was sent.
    #[test]
    fn forged_packets_change_nothing(forgeries in proptest::collection::vec(forgery(), 1..40)) {
        let mut net = pair(&defaults(), even());
        net.connect();
        let mut left = forgeries.into_iter();
        let seen: std::rc::Rc<std::cell::RefCell<Vec<(usize, Bytes)>>> = std::rc::Rc::default();
        let log = seen.clone();
        net.fate = Box::new(move |_, from, packet| {
            log.borrow_mut().push((from, packet.clone()));
            vec![10 * MS]
        });
        for frame in frames().into_iter().take(30) {
            net.send(A, frame.clone());
            net.send(B, frame);
            for (from, packet) in seen.borrow_mut().drain(..) {
                if let Some(forgery) = left.next() {
                    // To either end, before the genuine one.
                    let forged = forge(&forgery, &packet);
                    net.inject(1 - from, forged.clone(), 5 * MS);
                    net.inject(from, forged, 5 * MS);
                }
            }
            net.run(3, |_| false);
        }
        prop_assert!(net.run(60_000, |net| net.frames[A].len() == 30 && net.frames[B].len() == 30), "{:?}", net.lost);
        prop_assert!(net.got(A) == frames()[..30] && net.got(B) == frames()[..30]);
    }

    /// An attacker on the path can prevent a handshake, but can neither crash an end nor be admitted.
    #[test]
    fn forged_handshakes_crash_nobody(forgeries in proptest::collection::vec(forgery(), 1..40)) {
        let mut left = forgeries.into_iter();
        let seen: std::rc::Rc<std::cell::RefCell<Vec<(usize, Bytes)>>> = std::rc::Rc::default();
        let log = seen.clone();
        let fate = move |_: Time, from: usize, packet: &Bytes| {
            log.borrow_mut().push((from, packet.clone()));
            vec![10 * MS]
        };
        let mut net = pair(&defaults(), Box::new(fate));
        for _ in 0..100 {
            for (from, packet) in seen.borrow_mut().drain(..) {
                if let Some(forgery) = left.next() {
                    net.inject(1 - from, forge(&forgery, &packet), 5 * MS);
                }
            }
            net.run(5, |_| false);
        }
        for at in [A, B] {
            prop_assert!(!net.established[at] || net.ends[at].remote().is_some());
        }
    }
}

fn quic(links: LinkConfig) -> Wire {
    Wire { transport: TransportKind::QUIC, channel: ChannelKind::TLS, settings: links.into() }
}

#[test]
fn replicas_and_a_client_exchange_frames_over_udp() {
    let mut ground = Ground::over(2, quic(quick()));
    let (mut a, mut b, mut c) = (ground.replica(0, 0), ground.replica(1, 1), ground.client(7));
    for frame in frames() {
        a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary);
        b.transport.send_to(ReplicaId(0), frame, Lane::Ordinary);
    }
    drive([&mut a, &mut b, &mut c], "all are connected", |[a, b, c]| {
        connected(a, b) && c.transport.is_connected(ReplicaId(0)) && c.transport.is_connected(ReplicaId(1))
    });
    frames().into_iter().for_each(|frame| c.transport.send_to(ReplicaId(1), frame, Lane::Ordinary));
    drive([&mut a, &mut b, &mut c], "the frames", |[a, b, _]| {
        a.frames_from(R1).len() == 60 && b.frames_from(R0).len() == 60 && b.frames_from(client(7)).len() == 60
    });
    assert!(a.frames_from(R1) == frames() && b.frames_from(R0) == frames() && b.frames_from(client(7)) == frames());
    let link = b.link_to(client(7)).expect("the client is connected");
    b.transport.send(link, Bytes::from_static(b"answer"));
    drive([&mut a, &mut b, &mut c], "the answer", |[_, _, c]| c.frames_from(R1) == [&b"answer"[..]]);
    drive([&mut a, &mut b, &mut c], "all is acknowledged", |[a, b, c]| {
        [a, b, c].iter().all(|end| !end.transport.has_unsent())
    });
}

#[test]
fn both_ends_connect_again_after_the_restart_of_either() {
    let mut ground = Ground::over(2, quic(quick()));
    let (mut a, mut b) = (ground.replica(0, 0), ground.replica(1, 1));
    drive([&mut a, &mut b], "connected", |[a, b]| connected(a, b));
    drop(a);
    let mut a = ground.replica(0, 0);
    greet(&mut a, &mut b, ReplicaId(1), R0, "from another life");
    drop(b);
    let mut b = ground.replica(1, 1);
    greet(&mut b, &mut a, ReplicaId(0), R1, "from a third one");
}

/// Sends repeatedly until it arrives: frames on an old link are lost with it.
fn greet(
    from: &mut End,
    to: &mut End,
    replica: ReplicaId,
    sender: quorate_network::transports::Remote,
    text: &'static str,
) {
    drive_with([from, to], text, |[from, to]| {
        if from.transport.is_connected(replica) {
            from.transport.send_to(replica, Bytes::from_static(text.as_bytes()), Lane::Ordinary);
        }
        to.frames_from(sender).last().is_some_and(|frame| frame == text)
    });
}

#[test]
fn strangers_on_udp_take_no_place() {
    const JUNK: &[u8] = b"no packet of this protocol";
    const STRANGERS: usize = 20;
    let links = LinkConfig { max_unauthenticated_links: 4, max_unauthenticated_links_per_address: 4, ..quick() };
    let mut ground = Ground::over(2, quic(links));
    let (mut a, mut b) = (ground.replica(0, 0), ground.replica(1, 1));
    drive([&mut a, &mut b], "connected", |[a, b]| connected(a, b));
    let before = a.transport.counters().bytes_received;
    let strangers: Vec<_> = (0..STRANGERS).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
    for stranger in &strangers {
        stranger.send_to(JUNK, ground.address(0)).expect("the packet is sent");
    }
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"still here"), Lane::Ordinary);
    drive([&mut a, &mut b], "the link of honest replicas", |[a, _]| {
        let came = a.transport.counters().bytes_received - before;
        a.frames_from(R1) == [&b"still here"[..]] && came > (STRANGERS * JUNK.len()) as u64
    });
    assert!(a.lost(R1).is_none() && b.lost(R0).is_none());
    assert!(a.refusals.is_empty(), "nobody waits for a place, and nobody is evicted: {:?}", a.refusals);
}

#[test]
fn quic_is_refused_with_another_channel() {
    assert_eq!(quic(quick()).fits(), Ok(()));
    let bare = Wire { channel: ChannelKind::PLAIN, ..quic(quick()) };
    assert!(bare.fits().expect_err("it has its own").to_string().contains("set `tls`"));
    // A client's id is only a claim, as over all channels.
    let me = LocalEnd::Client(ClientId(9));
    let client = ChannelConfig {
        kind: ChannelKind::TLS,
        cluster: cluster(),
        epoch: EpochId(cluster().0),
        parameters: Parameters::default(),
        me,
        verifier: Arc::new(ToyVerifier),
        versions: Versions::ALL,
        key_update_records: KEY_UPDATE_RECORDS,
        sessions: Sessions::default(),
    };
    let dials = Side::Initiator { expects: ReplicaId(1) };
    let ends = [open(&client, dials, &defaults(), 1), open(&end(1, 1), Side::Responder, &defaults(), 2)];
    let mut net = Net::new(ends, even());
    net.step(A, |machine, now, out| machine.start(now, out));
    net.connect();
    assert_eq!(net.ends[B].remote(), Some(quorate_network::channels::RemoteIdentity::Client(ClientId(9))));
}
