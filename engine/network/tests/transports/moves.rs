//! A NAT that assigns a new port during a connection, for every packet transport and channel, at the ports of clients
//! and of replicas, in virtual time; and an attacker who tries to divert a connection to its own address.

use crate::datagrams::PAIRS;
use crate::foreign::{Dialler, Pair, field};
use bytes::Bytes;
use quorate_network::channels::ChannelKind;
use quorate_testkit::hosts::{DELAY_NS, Field, ROUND_TRIP};
use quorate_testkit::pair::Random;
use quorate_types::ReplicaId;
use std::net::SocketAddr;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
/// Maximum bytes sent to an unproved address, per byte received from it.
const MAX_AMPLIFICATION: usize = 3;
/// Time within which an idle end sends a keep-alive over any transport.
const SIGN_OF_LIFE: Duration = Duration::from_millis(1_500);

/// A connection from host 0 to host 1, over which a frame has passed in each direction. Returns the ids at both ends.
fn connected(pair: Pair, dialler: Dialler) -> (Field, [u64; 2]) {
    let mut field = field(pair, dialler);
    let own = field.dial(0, 1, ReplicaId(1));
    assert!(field.run(LIMIT, |field| field.hosts.iter().all(|host| !host.established.is_empty())), "{pair:?}");
    let ids = [own, field.hosts[1].established[0]];
    exchange(&mut field, ids, 0);
    (field, ids)
}

fn frame(number: u64) -> Bytes {
    Bytes::from(number.to_le_bytes().repeat(200))
}

/// Sends a frame in each direction and waits for both.
fn exchange(field: &mut Field, ids: [u64; 2], number: u64) {
    for (at, id) in ids.into_iter().enumerate() {
        field.send(at, id, frame(number));
    }
    let done = field.run(LIMIT, |field| field.hosts.iter().all(|host| host.frames.contains(&frame(number))));
    assert!(done, "frame {number} is lost");
}

/// Gives host 0 another address, from which it sends a short frame.
fn move_to(field: &mut Field, ids: [u64; 2], to: SocketAddr, number: u64) {
    field.rebind(0, to);
    field.send(0, ids[0], Bytes::copy_from_slice(&number.to_le_bytes()));
    field.run(2 * ROUND_TRIP, |_| false);
}

/// Returns the bytes that host 1 has sent to an address.
fn sent_to(field: &Field, address: SocketAddr) -> usize {
    field.trace.iter().map(|(_, to, packet)| (to, packet)).filter(|(to, _)| **to == address).map(|(_, p)| p.len()).sum()
}

fn every_pair() -> impl Iterator<Item = (Pair, Dialler)> {
    PAIRS.into_iter().flat_map(|pair| [Dialler::Client, Dialler::Peer].map(|dialler| (pair, dialler)))
}

/// The next packet from the new address moves the connection within two round trips, frames included.
#[test]
fn a_connection_follows_its_remote_to_a_new_port_and_to_a_new_address() {
    for (pair, dialler) in every_pair() {
        let (mut field, ids) = connected(pair, dialler);
        for (number, address) in (1..).zip([([192, 0, 2, 1], 61_001), ([192, 0, 2, 1], 61_002), ([203, 0, 113, 5], 7)])
        {
            let (from, to) = (field.hosts[0].address, SocketAddr::from(address));
            // Until everything is acknowledged.
            field.run(Duration::from_secs(1), |_| false);
            move_to(&mut field, ids, to, number);
            let host = &field.hosts[1];
            let has_come = host.frames.contains(&Bytes::copy_from_slice(&number.to_le_bytes()));
            assert!(has_come, "{pair:?}, {dialler:?}: a frame from {to}");
            assert_eq!(host.moves.last(), Some(&(ids[1], from, to)), "{pair:?}, {dialler:?}");
            assert_eq!(host.moves.len(), number as usize, "{pair:?}, {dialler:?}: {:?}", host.moves);
            exchange(&mut field, ids, number);
        }
        assert!(field.hosts.iter().all(|host| host.established.len() == 1 && host.machines.len() == 1), "{pair:?}");
    }
}

/// An idle end's keep-alives reveal its address.
#[test]
fn an_idle_connection_follows_its_remote_by_the_signs_of_life() {
    for (pair, dialler) in every_pair() {
        let (mut field, ids) = connected(pair, dialler);
        field.run(Duration::from_secs(5), |_| false);
        field.rebind(0, ([192, 0, 2, 1], 61_001).into());
        field.run(SIGN_OF_LIFE + 2 * ROUND_TRIP, |_| false);
        assert_eq!(field.hosts[1].moves.len(), 1, "{pair:?}, {dialler:?}");
        field.send(1, ids[1], frame(1));
        let has_come = field.run(Duration::from_secs(1), |field| field.hosts[0].frames.contains(&frame(1)));
        assert!(has_come, "{pair:?}, {dialler:?}");
    }
}

/// An attacker has a copy of all packets after the handshake, including the honest end's moves, but no key and no part
/// of the handshake. It sends them from its own addresses, changed and unchanged, and answers challenges by guesses.
#[test]
fn copies_and_guesses_from_elsewhere_move_no_connection_and_are_answered_with_at_most_three_times_as_much() {
    for (pair, dialler) in every_pair() {
        let (mut field, ids) = connected(pair, dialler);
        let seen = field.trace.len();
        move_to(&mut field, ids, ([192, 0, 2, 1], 61_001).into(), 1);
        (1..4).for_each(|number| exchange(&mut field, ids, number));
        let moves = field.hosts[1].moves.clone();
        assert_eq!(moves.len(), 1, "{pair:?}");
        let copies: Vec<Bytes> = field.trace[seen..].iter().map(|(.., packet)| packet.clone()).collect();
        let (mut random, replica) = (Random(7), field.hosts[1].address);
        for (at, copy) in copies.iter().enumerate() {
            let forger: SocketAddr = ([198, 51, 100, 1], 1_000 + at as u16).into();
            let mut received = 0;
            // Anybody who has seen a token can end a connection over `plain` with junk from any address.
            let changes = if pair.1 == ChannelKind::PLAIN { 3 } else { 6 };
            for change in 0..changes {
                let mut packet = copy.to_vec();
                match change {
                    0 => {}
                    // The kinds of a challenge and of its answer.
                    1 => packet[0] = 0x55,
                    2 => packet = [&[0x56][..], &packet[1..17.min(packet.len())]].concat(),
                    3 => packet.truncate(9),
                    4 => packet = [&packet[..9], &random.draw().to_le_bytes()].concat(),
                    _ => *packet.last_mut().expect("no packet is empty") ^= 1,
                }
                received += packet.len();
                field.inject(forger, replica, packet.into(), DELAY_NS);
                field.run(ROUND_TRIP, |_| false);
                let challenges = field.trace.iter().filter(|(_, to, _)| *to == forger);
                // Received challenges are changed and sent back as answers.
                let answers: Vec<Bytes> = challenges.map(|(.., packet)| packet.clone()).collect();
                for answer in answers {
                    let mut packet = answer.to_vec();
                    (packet[0], received) = (0x56, received + packet.len() + answer.len());
                    field.inject(forger, replica, packet.into(), DELAY_NS);
                    field.inject(forger, replica, answer, DELAY_NS);
                }
                field.run(ROUND_TRIP, |_| false);
                let sent = sent_to(&field, forger);
                assert!(sent <= MAX_AMPLIFICATION * received, "{pair:?}: {sent} bytes for {received}, packet {at}");
            }
        }
        assert_eq!(field.hosts[1].moves, moves, "{pair:?}, {dialler:?}: a connection has moved to a forger");
        exchange(&mut field, ids, 9);
    }
}

/// An attacker on the path sends a copy of each packet from a victim's address, and the copy overtakes the packet: the
/// victim is not flooded, the connection does not move, and frames take no longer.
#[test]
fn copies_that_overtake_their_packets_flood_nobody_and_change_nothing() {
    let victim: SocketAddr = ([198, 51, 100, 9], 53).into();
    for (pair, dialler) in every_pair() {
        let exchanges = |copier: Option<SocketAddr>| {
            let (mut field, ids) = connected(pair, dialler);
            field.copier = copier.map(|address| (address, 0));
            let begin = field.now;
            (1..20).for_each(|number| exchange(&mut field, ids, number));
            (field.now - begin, field)
        };
        let ((calm, _), (raced, field)) = (exchanges(None), exchanges(Some(victim)));
        let copied = field.copier.map_or(0, |(_, bytes)| bytes);
        let sent = sent_to(&field, victim);
        assert!(sent <= MAX_AMPLIFICATION * copied, "{pair:?}: {sent} bytes for {copied}");
        assert_eq!(field.hosts[1].moves, [], "{pair:?}, {dialler:?}: it follows a copy");
        assert!(raced <= calm, "{pair:?}, {dialler:?}: {raced:?} instead of {calm:?}");
    }
}
