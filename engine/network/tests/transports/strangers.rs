//! Ten thousand strangers at a replica that speaks over packets: junk, first packets without a sequel, and unfinished
//! handshakes. They occupy a bounded number of places, and replicas and clients are served meanwhile, even a client
//! whose address a stranger had before, or forges.

use crate::datagrams::{Ground, PAIRS};
use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, ChannelKind, Machine, Output, Side};
use quorate_network::transports::{Event, LinkConfig, Remote, TransportKind, Wire, WireSettings};
use quorate_testkit::ends::{End, R1, ToyVerifier, client, client_end, connected, drive, drive_with, quick};
use quorate_types::{ClusterId, Lane, ReplicaId, Time};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const STRANGERS: usize = 10_000;
/// Strangers between two polls of the replica: fewer than the refusals that a transport keeps.
const AT_ONCE: usize = 40;
/// Maximum number of accepted links that are not authenticated yet.
const PLACES: usize = 24;

/// Maximum number of connected clients. Anybody may be a client, so some strangers become one, and then fall silent.
const CLIENTS: usize = 32;

/// One attacker with its own address.
struct Stranger {
    socket: UdpSocket,
    /// `None` if it sends junk.
    machine: Option<Box<dyn Machine>>,
}

impl Stranger {
    fn new(wire: &Wire, at: usize, target: SocketAddr) -> Stranger {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.connect(target).expect("the address is local");
        socket.set_nonblocking(true).expect("non-blocking");
        Stranger::through(wire, at, socket)
    }

    fn through(wire: &Wire, at: usize, socket: UdpSocket) -> Stranger {
        let sends_junk = at.is_multiple_of(4);
        let mut stranger = Stranger { socket, machine: (!sends_junk).then(|| dialler(wire, at)) };
        match &mut stranger.machine {
            Some(_) => stranger.act(|machine, out| machine.start(Time(0), out)),
            None => stranger.send(&vec![at as u8; 1 + at % 1_400]),
        }
        stranger
    }

    /// A packet may be lost, as on any network.
    fn send(&self, packet: &[u8]) {
        let _ = self.socket.send(packet);
    }

    fn act(&mut self, act: impl FnOnce(&mut dyn Machine, &mut Vec<Output>)) {
        let Some(machine) = &mut self.machine else { return };
        let mut out = Vec::new();
        act(&mut **machine, &mut out);
        for said in out {
            if let Output::Packet(packet) = said {
                self.send(&packet);
            }
        }
    }

    /// Answers one packet of the replica, such as its cookie.
    fn answer_once(&mut self) {
        let mut buffer = [0; 2_048];
        if let Ok(count) = self.socket.recv(&mut buffer) {
            let packet = Bytes::copy_from_slice(&buffer[..count]);
            self.act(|machine, out| machine.packet(Time(0) + Duration::from_millis(1), packet, out));
        }
    }
}

pub fn dialler(wire: &Wire, at: usize) -> Box<dyn Machine> {
    let end = ChannelConfig { kind: wire.channel, ..client_end(ClusterId::from_name("datagrams"), at as u64) };
    let end = ChannelConfig { verifier: Arc::new(ToyVerifier), ..end };
    let association = wire.transport.carrier().association().expect("it is over packets");
    let nonce = end.nonce().expect("randomness");
    association.open(&end, Side::Initiator { expects: ReplicaId(0) }, &wire.settings, nonce).expect("a machine")
}

fn ten_thousand(transport: TransportKind, channel: ChannelKind) {
    let links = LinkConfig {
        max_unauthenticated_links: PLACES,
        max_unauthenticated_links_per_address: PLACES,
        max_client_links: CLIENTS,
        max_client_links_per_address: CLIENTS,
        ..quick()
    };
    let wire = Wire { transport, channel, settings: WireSettings::from(links) };
    let mut ground = Ground::over(2, wire.clone());
    let (mut a, mut b) = (ground.replica(0, 0), ground.replica(1, 1));
    drive([&mut a, &mut b], "the replicas connect", |[a, b]| connected(a, b));
    let target = ground.address(0);
    for from in (0..STRANGERS).step_by(AT_ONCE) {
        let mut crowd: Vec<Stranger> = (from..from + AT_ONCE).map(|at| Stranger::new(&wire, at, target)).collect();
        [&mut a, &mut b].into_iter().for_each(End::poll);
        crowd.iter_mut().for_each(Stranger::answer_once);
        [&mut a, &mut b].into_iter().for_each(End::poll);
    }
    let (came, went) = clients(&a);
    let refused = a.refusals.len();
    // Packets that do not fit in the socket's buffer are lost.
    assert!(refused + went > STRANGERS / 2, "only {refused} strangers were refused, and {went} came and went");
    assert!(came - went <= CLIENTS, "{} clients stay", came - went);
    let mut newcomer = ground.client(7);
    drive([&mut a, &mut b, &mut newcomer], "a new client", |[a, _, c]| {
        a.link_to(client(7)).is_some() && c.transport.is_connected(ReplicaId(0))
    });
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"still here"), Lane::Ordinary);
    newcomer.transport.send_to(ReplicaId(0), Bytes::from_static(b"and new"), Lane::Ordinary);
    drive([&mut a, &mut b, &mut newcomer], "their frames", |[a, ..]| {
        a.frames_from(R1) == [&b"still here"[..]] && a.frames_from(client(7)) == [&b"and new"[..]]
    });
    assert!(a.lost(R1).is_none(), "the link of honest replicas stands");
    let held = a.transport.counters().client_memory_peak_bytes;
    assert!(held < 1 << 20, "{held} bytes were held for links without a proof");
}

/// Returns how many clients have connected to an end, and how many have disconnected.
fn clients(end: &End) -> (usize, usize) {
    let is_client = |remote: &Remote| matches!(remote, Remote::Client(_));
    let came = end.events.iter().filter(|said| matches!(said, Event::Connected { remote, .. } if is_client(remote)));
    let went = end.events.iter().filter(|said| matches!(said, Event::Disconnected { remote, .. } if is_client(remote)));
    (came.count(), went.count())
}

#[test]
fn ten_thousand_strangers_do_not_disturb_udp() {
    ten_thousand(TransportKind::UDP, ChannelKind::PLAIN);
    ten_thousand(TransportKind::UDP, ChannelKind::DTLS);
}

#[test]
fn ten_thousand_strangers_do_not_disturb_rudp() {
    ten_thousand(TransportKind::RUDP, ChannelKind::PLAIN);
    ten_thousand(TransportKind::RUDP, ChannelKind::DTLS);
}

#[test]
fn ten_thousand_strangers_do_not_disturb_sctp() {
    ten_thousand(TransportKind::SCTP, ChannelKind::PLAIN);
    ten_thousand(TransportKind::SCTP, ChannelKind::DTLS);
}

#[test]
fn ten_thousand_strangers_do_not_disturb_quic() {
    ten_thousand(TransportKind::QUIC, ChannelKind::TLS);
}

/// Number of answers after which a stranger is a client, over every pair.
const MAX_ANSWERS: usize = 50;

/// How far a stranger proceeds before it falls silent.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Junk,
    FirstPacket,
    OneAnswer,
    Client,
}

/// Forwards packets between a replica and the remote that wrote to it last: the replica sees them all at one address,
/// as behind a router.
pub struct Relay {
    front: UdpSocket,
    back: UdpSocket,
    inside: Option<SocketAddr>,
    carried: usize,
}

impl Relay {
    pub fn new(target: SocketAddr) -> Relay {
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let (front, back) = (socket(), socket());
        back.connect(target).expect("the address is local");
        [&front, &back].into_iter().for_each(|socket| socket.set_nonblocking(true).expect("non-blocking"));
        Relay { front, back, inside: None, carried: 0 }
    }

    pub fn address(&self) -> SocketAddr {
        self.front.local_addr().expect("a bound address")
    }

    /// Forwards packets, and sends the replica a foreign one before packet `at`.
    pub fn carry_with(&mut self, at: usize, foreign: &[u8]) {
        let mut buffer = [0; 2_048];
        while let Ok((count, from)) = self.front.recv_from(&mut buffer) {
            self.inside = Some(from);
            if self.carried == at {
                let _ = self.back.send(foreign);
            }
            self.carried += 1;
            let _ = self.back.send(&buffer[..count]);
        }
        while let Ok(count) = self.back.recv(&mut buffer) {
            if let Some(inside) = self.inside {
                let _ = self.front.send_to(&buffer[..count], inside);
            }
        }
    }

    /// Returns how many packets came from inside.
    pub fn carried(&self) -> usize {
        self.carried
    }

    pub fn carry(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok((count, from)) = self.front.recv_from(&mut buffer) {
            self.inside = Some(from);
            self.carried += 1;
            let _ = self.back.send(&buffer[..count]);
        }
        while let Ok(count) = self.back.recv(&mut buffer) {
            if let Some(inside) = self.inside {
                let _ = self.front.send_to(&buffer[..count], inside);
            }
        }
    }
}

/// A replica with a relay in front of it.
fn relayed(transport: TransportKind, channel: ChannelKind) -> (Wire, Ground, End, Relay) {
    let wire = Wire { transport, channel, settings: WireSettings::from(quick()) };
    let mut ground = Ground::over(1, wire.clone());
    let replica = ground.replica(0, 0);
    let relay = Relay::new(ground.address(0));
    (wire, ground, replica, relay)
}

/// Connects client 7 through the relay and lets it send a frame.
fn connect(ground: &Ground, a: &mut End, relay: &mut Relay) -> End {
    let mut newcomer = ground.client_through(7, relay.address());
    drive_with([a, &mut newcomer], "a new client", |[a, c]| {
        relay.carry();
        a.link_to(client(7)).is_some() && c.transport.is_connected(ReplicaId(0))
    });
    speak(a, &mut newcomer, relay, b"hello");
    newcomer
}

fn speak(a: &mut End, c: &mut End, relay: &mut Relay, frame: &'static [u8]) {
    c.transport.send_to(ReplicaId(0), Bytes::from_static(frame), Lane::Ordinary);
    drive_with([a, c], "its frame", |[a, _]| {
        relay.carry();
        a.frames_from(client(7)).last().is_some_and(|last| last == frame)
    });
}

/// A stranger falls silent, and an honest client takes over its address, as behind a router or when a port is reused.
fn succeed(transport: TransportKind, channel: ChannelKind, stage: Stage) {
    let (wire, ground, mut a, mut relay) = relayed(transport, channel);
    let at = if stage == Stage::Junk { 0 } else { 1 };
    let mut stranger = Stranger::through(&wire, at, relay.back.try_clone().expect("a descriptor"));
    let answers = match stage {
        Stage::Junk | Stage::FirstPacket => 0,
        Stage::OneAnswer => 1,
        Stage::Client => MAX_ANSWERS,
    };
    a.poll();
    for _ in 0..answers {
        stranger.answer_once();
        a.poll();
    }
    assert!(stage != Stage::Client || a.link_to(client(1)).is_some(), "{transport} {channel}: no client yet");
    drop(stranger);
    drop(connect(&ground, &mut a, &mut relay));
    let timed_out = a.refusals.iter().any(|refusal| refusal.why.to_string().contains("no handshake within"));
    assert!(!timed_out, "{transport} {channel} {stage:?}: the client had to wait for the stranger's place to end");
}

#[test]
fn the_address_of_a_silent_stranger_serves_the_next_client() {
    for stage in [Stage::Junk, Stage::FirstPacket, Stage::OneAnswer, Stage::Client] {
        for (transport, channel) in PAIRS {
            succeed(transport, channel, stage);
        }
    }
}

#[test]
fn a_forged_first_packet_does_not_silence_the_client_at_that_address() {
    for (transport, channel) in PAIRS {
        let (wire, ground, mut a, mut relay) = relayed(transport, channel);
        let mut honest = connect(&ground, &mut a, &mut relay);
        let forger = Stranger::through(&wire, 1, relay.back.try_clone().expect("a descriptor"));
        a.poll();
        speak(&mut a, &mut honest, &mut relay, b"still here");
        drop(forger);
        assert!(honest.lost(Remote::Replica(ReplicaId(0))).is_none(), "{transport} {channel}: the link stands");
    }
}
