//! Misbehaving paths, for every packet transport and channel, in virtual time: paths that carry only short packets, and
//! attackers who cut, change, repeat and forge packets.

use crate::datagrams::PAIRS;
use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, ChannelKind, Side};
use quorate_network::transports::{QuicVotes, TransportKind, WireSettings};
use quorate_testkit::ends::replica_end;
use quorate_testkit::pair::{A, B, MS, Net, Random, even};
use quorate_types::{ClusterId, Lane, ReplicaId};
use std::cell::RefCell;
use std::rc::Rc;

/// Headers of IPv6 and UDP.
const HEADER_BYTES: usize = 48;

/// Two connected replicas, with votes in datagrams if the transport supports it.
pub fn connected((transport, channel): (TransportKind, ChannelKind), mut settings: WireSettings) -> Net {
    settings.quic.votes = QuicVotes::Datagrams;
    let association = transport.carrier().association().expect("it runs over packets");
    let open = |replica: u16, side| {
        let end = replica_end(ClusterId::from_name("paths"), replica, replica as u8);
        let end = ChannelConfig { kind: channel, ..end };
        association.open(&end, side, &settings, [replica as u8 + 1; 32]).expect("a machine")
    };
    let ends = [open(0, Side::Initiator { expects: ReplicaId(1) }), open(1, Side::Responder)];
    let mut net = Net::new(ends, even());
    net.step(A, |machine, now, out| machine.start(now, out));
    net.connect();
    net
}

fn sorted(mut frames: Vec<Bytes>) -> Vec<Bytes> {
    frames.sort();
    frames
}

/// Packets longer than the setting may be lost: no end sends any, and frames arrive in pieces.
#[test]
fn packets_are_no_longer_than_the_path_that_is_configured() {
    for pair in PAIRS {
        for mtu_bytes in [1_280, 1_400, 4_000] {
            let mut settings = WireSettings::default();
            settings.packets.mtu_bytes = mtu_bytes;
            let mut net = connected(pair, settings);
            let frames: Vec<Bytes> = (0..40_usize).map(|at| vec![at as u8; at * at * 40].into()).collect();
            for frame in &frames {
                net.send(A, frame.clone());
                net.send(B, frame.clone());
            }
            let done = net.run(60_000, |net| net.frames[A].len() == 40 && net.frames[B].len() == 40);
            assert!(done, "{pair:?}, {mtu_bytes} bytes: {:?}", net.lost);
            assert!([A, B].into_iter().all(|at| sorted(net.got(at)) == sorted(frames.clone())), "{pair:?}");
            let longest = net.trace.iter().map(|(_, _, bytes)| *bytes).max();
            assert!(longest <= Some(mtu_bytes - HEADER_BYTES), "{pair:?}, {mtu_bytes} bytes: {longest:?}");
        }
    }
}

/// Cuts, changes, repeats or replaces a packet.
fn forge(random: &mut Random, packet: &Bytes) -> Bytes {
    let mut forged = packet.to_vec();
    let at = random.draw() as usize % packet.len().max(1);
    match random.draw() % 5 {
        0 => {}
        1 => forged.truncate(at),
        2 => forged[at] ^= 1 + (random.draw() % 255) as u8,
        3 => forged.extend_from_slice(&random.draw().to_le_bytes()),
        _ => forged = random.draw().to_le_bytes().repeat(1 + at / 8),
    }
    forged.into()
}

/// Runs both ends while a forged packet arrives at either before each genuine one, derived from it if `on_path`.
/// Returns a description of the failure.
fn attacked(pair: (TransportKind, ChannelKind), seed: u64, on_path: bool) -> Option<String> {
    const FRAMES: usize = 60;
    let mut net = connected(pair, WireSettings::default());
    let seen: Rc<RefCell<Vec<(usize, Bytes)>>> = Rc::default();
    let log = seen.clone();
    net.fate = Box::new(move |_, from, packet| {
        log.borrow_mut().push((from, packet.clone()));
        vec![10 * MS]
    });
    let mut random = Random(seed);
    let frames: Vec<Bytes> = (0..FRAMES).map(|at| vec![at as u8; 1 + at * 50].into()).collect();
    for (at, frame) in frames.iter().enumerate() {
        for from in [A, B] {
            net.step(from, |machine, now, out| {
                match at % 2 {
                    0 => machine.send(now, frame.clone(), Lane::Ordinary, out),
                    _ => machine.send(now, frame.clone(), Lane::Vote, out),
                }
                machine.flush(now, out);
            });
        }
        let packets: Vec<_> = seen.borrow_mut().drain(..).collect();
        for (from, packet) in packets {
            let packet =
                if on_path { packet } else { Bytes::from(random.draw().to_le_bytes().repeat(packet.len() / 8 + 1)) };
            let forged = forge(&mut random, &packet);
            net.inject(1 - from, forged.clone(), 5 * MS);
            net.inject(from, forged, 5 * MS);
        }
        net.run(3, |_| false);
    }
    net.run(20_000, |net| net.frames[A].len() >= FRAMES && net.frames[B].len() >= FRAMES);
    net.run(100, |_| false);
    let loses = !pair.0.profile().repairs_losses;
    let whole = [A, B].into_iter().all(|at| {
        let got = sorted(net.got(at));
        let is_sent_once = got.windows(2).all(|two| two[0] != two[1]) && got.iter().all(|frame| frames.contains(frame));
        is_sent_once && (got.len() == FRAMES || loses && on_path)
    });
    let counts = (net.frames[A].len(), net.frames[B].len());
    (!whole || net.lost != [None, None]).then(|| format!("{pair:?}, seed {seed}: {counts:?} frames, {:?}", net.lost))
}

/// Where each packet is authenticated, an attacker on the path can only lose packets: DTLS drops a packet with junk
/// appended, and treats a later unchanged copy as a replay.
#[test]
fn packets_that_are_cut_changed_or_repeated_change_nothing_where_packets_are_authenticated() {
    for pair in PAIRS.into_iter().filter(|(_, channel)| *channel != ChannelKind::PLAIN) {
        (1..=10).for_each(|seed| assert_eq!(attacked(pair, seed, true), None));
    }
}

/// With the plain channel this holds against all attackers who do not see the packets: they lack the connection's
/// token.
#[test]
fn packets_from_off_the_path_change_nothing_over_any_pair() {
    for pair in PAIRS {
        (1..=10).for_each(|seed| assert_eq!(attacked(pair, seed, false), None));
    }
}
