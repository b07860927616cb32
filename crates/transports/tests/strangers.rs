//! Ten thousand strangers at a replica that speaks over packets: junk, first packets and nothing more, and handshakes
//! that stop in the middle. They take a bounded number of places, and replicas and clients go on beside them.

use crate::datagrams::Ground;
use crate::support::{End, R1, ToyVerifier, client, client_end, connected, drive, quick};
use bytes::Bytes;
use quorate_channels::{ChannelConfig, ChannelKind, Machine, Output, Side};
use quorate_transports::{Event, LinkConfig, Remote, TransportKind, Wire, WireSettings};
use quorate_types::{ClusterId, ReplicaId, Time};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const STRANGERS: usize = 10_000;
/// Strangers between two polls of the replica: fewer than the refusals that a transport keeps.
const AT_ONCE: usize = 40;
/// Accepted links that are not authenticated yet, at most.
const PLACES: usize = 24;

/// Clients at a time, at most. Anybody may be a client, so some strangers become one, and fall silent then.
const CLIENTS: usize = 32;

/// One attacker with an address of its own.
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

    /// Answers what the replica has answered to the first packet, such as its cookie, and never anything later.
    fn answer_once(&mut self) {
        let mut buffer = [0; 2_048];
        if let Ok(count) = self.socket.recv(&mut buffer) {
            let packet = Bytes::copy_from_slice(&buffer[..count]);
            self.act(|machine, out| machine.packet(Time(0) + Duration::from_millis(1), packet, out));
        }
    }
}

fn dialler(wire: &Wire, at: usize) -> Box<dyn Machine> {
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
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"still here"));
    newcomer.transport.send_to(ReplicaId(0), Bytes::from_static(b"and new"));
    drive([&mut a, &mut b, &mut newcomer], "their frames", |[a, ..]| {
        a.frames_from(R1) == [&b"still here"[..]] && a.frames_from(client(7)) == [&b"and new"[..]]
    });
    assert!(a.lost(R1).is_none(), "the link of honest replicas stands");
    let held = a.transport.counters().client_memory_peak_bytes;
    assert!(held < 1 << 20, "{held} bytes were held for links without a proof");
}

/// Returns how many clients have come to an end, and how many have left.
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
