//! A test machine over the kernel's UDP, to test the driver's sockets, clock, timers, links and budgets.

use bytes::Bytes;
use quorate_network::channels::{
    ChannelConfig, ChannelError, ChannelKind, LocalEnd, Machine, NONCE_BYTES, Output, RemoteIdentity, Side,
};
use quorate_network::transports::{
    Association, Datagrams, Endpoint, Endpoints, LinkConfig, TransportKind, TransportProfile, Wire, WireSettings,
};
use quorate_testkit::ends::{End, R0, R1, client, connected, drive, drive_with, quick, replica_end, unkeyed};
use quorate_testkit::ends::{ToyVerifier, client_end};
use quorate_testkit::wires::{REPEATING, SIGNED, toy_wire};
use quorate_types::{ClientId, Committee, EpochId, Lane, Parameters, ReplicaId, Time};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Every pair of a transport over packets and a channel.
pub const PAIRS: [(TransportKind, ChannelKind); 7] = [
    (TransportKind::UDP, ChannelKind::PLAIN),
    (TransportKind::UDP, ChannelKind::DTLS),
    (TransportKind::RUDP, ChannelKind::PLAIN),
    (TransportKind::RUDP, ChannelKind::DTLS),
    (TransportKind::SCTP, ChannelKind::PLAIN),
    (TransportKind::SCTP, ChannelKind::DTLS),
    (TransportKind::QUIC, ChannelKind::TLS),
];

/// Loses about every third packet that it sends. The second field is the state of an xorshift generator: if exactly
/// every third packet were lost, a batch of three retransmitted packets would lose the same one each time.
struct Lossy(Box<dyn Machine>, u32);

impl Lossy {
    fn lose(&mut self, now: Time, out: &mut Vec<Output>, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let mut said = Vec::new();
        act(&mut *self.0, now, &mut said);
        out.extend(said.into_iter().filter(|said| {
            let is_packet = matches!(said, Output::Packet(_));
            self.1 ^= self.1 << 13;
            self.1 ^= self.1 >> 17;
            self.1 ^= self.1 << 5;
            !is_packet || !self.1.is_multiple_of(3)
        }));
    }
}

impl Machine for Lossy {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.lose(now, out, |machine, now, out| machine.start(now, out));
    }
    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        self.lose(now, out, |machine, now, out| machine.packet(now, packet, out));
    }
    fn send(&mut self, now: Time, frame: Bytes, lane: Lane, out: &mut Vec<Output>) {
        self.lose(now, out, |machine, now, out| machine.send(now, frame, lane, out));
    }
    fn due(&self) -> Option<Time> {
        self.0.due()
    }
    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.lose(now, out, |machine, now, out| machine.timer(now, out));
    }
    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        self.0.close(now, out);
    }
    fn remote(&self) -> Option<RemoteIdentity> {
        self.0.remote()
    }
    fn unsent_bytes(&self) -> usize {
        self.0.unsent_bytes()
    }
    fn partial_bytes(&self) -> usize {
        self.0.partial_bytes()
    }
    fn set_frame_limit(&mut self, bytes: usize) {
        self.0.set_frame_limit(bytes);
    }
}

struct LossyRepeating;

impl Association for LossyRepeating {
    fn profile(&self) -> &TransportProfile {
        REPEATING.profile()
    }
    fn open(
        &self,
        end: &ChannelConfig,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        let association = REPEATING.carrier().association().expect("the transport runs over packets");
        Ok(Box::new(Lossy(association.open(end, side, settings, nonce)?, 0x9e37_79b9)))
    }
}

/// Each end loses about every third packet.
const LOSSY: TransportKind = TransportKind::of(&Datagrams(&LossyRepeating));

pub struct Ground {
    committee: Committee,
    sockets: Vec<Option<UdpSocket>>,
    wire: Wire,
}

impl Ground {
    fn new(replicas: usize, transport: TransportKind, links: LinkConfig) -> Ground {
        Ground::over(replicas, Wire { transport, settings: links.into(), ..toy_wire() })
    }

    pub fn over(replicas: usize, wire: Wire) -> Ground {
        let sockets: Vec<_> = (0..replicas).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
        let member = |socket: &UdpSocket| unkeyed(socket.local_addr().expect("a bound address").into());
        let members = sockets.iter().map(member).collect();
        let committee = Committee::new("datagrams", members).expect("a small committee");
        // The epoch of the tests' ends.
        let committee = Committee { epoch: EpochId(committee.cluster.0), ..committee };
        Ground { committee, sockets: sockets.into_iter().map(Some).collect(), wire }
    }

    pub fn address(&self, replica: usize) -> SocketAddr {
        self.committee.members[replica].address.socket().expect("its host is a number")
    }

    /// Creates the transport of a replica with the key `key`. The second call binds the port anew.
    pub fn replica(&mut self, replica: u16, key: u8) -> End {
        self.replica_of(self.committee.clone(), replica, key)
    }

    /// A replica that reaches another one through a relay.
    pub fn replica_through(&mut self, replica: u16, key: u8, (other, relay): (usize, SocketAddr)) -> End {
        let mut committee = self.committee.clone();
        committee.members[other].address = relay.into();
        self.replica_of(committee, replica, key)
    }

    fn replica_of(&mut self, committee: Committee, replica: u16, key: u8) -> End {
        let at = usize::from(replica);
        let socket = self.sockets[at].take();
        let socket = socket.unwrap_or_else(|| UdpSocket::bind(self.address(at)).expect("the port is free again"));
        let LocalEnd::Replica(signer) = replica_end(self.committee.cluster, replica, key).me else {
            unreachable!("this end is a replica's")
        };
        let endpoints = Endpoints::from(Some(Endpoint::from(socket)));
        End::new(
            self.wire
                .replica(&committee, Parameters::default(), endpoints, signer, Arc::new(ToyVerifier))
                .expect("a transport"),
        )
    }

    pub fn client(&self, id: u64) -> End {
        self.client_of(&self.committee, id)
    }

    /// A client that reaches the first replica through a relay at another address.
    pub fn client_through(&self, id: u64, relay: SocketAddr) -> End {
        let mut committee = self.committee.clone();
        committee.members[0].address = relay.into();
        self.client_of(&committee, id)
    }

    fn client_of(&self, committee: &Committee, id: u64) -> End {
        let LocalEnd::Client(client) = client_end(self.committee.cluster, id).me else {
            unreachable!("this end is a client's")
        };
        assert_eq!(client, ClientId(id.into()));
        End::new(self.wire.client(committee, client, Arc::new(ToyVerifier)).expect("a transport"))
    }
}

/// Frames of many sizes, some longer than a packet; together they fit in the queue for an unconnected replica.
pub fn frames() -> Vec<Bytes> {
    (0..60_usize).map(|at| Bytes::from(vec![at as u8; at * at * 10])).collect()
}

#[test]
fn frames_arrive_once_and_in_order_although_a_third_of_the_packets_are_lost() {
    let mut ground = Ground::new(2, LOSSY, quick());
    let (mut a, mut b, mut c) = (ground.replica(0, 0), ground.replica(1, 1), ground.client(7));
    // The first frames are sent before any link exists.
    for frame in frames() {
        a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary);
        b.transport.send_to(ReplicaId(0), frame, Lane::Ordinary);
    }
    drive([&mut a, &mut b, &mut c], "all are connected", |[a, b, c]| {
        connected(a, b) && c.transport.is_connected(ReplicaId(0)) && c.transport.is_connected(ReplicaId(1))
    });
    for frame in frames() {
        c.transport.send_to(ReplicaId(1), frame, Lane::Ordinary);
    }
    drive([&mut a, &mut b, &mut c], "the frames", |[a, b, _]| {
        a.frames_from(R1).len() == 60 && b.frames_from(R0).len() == 60 && b.frames_from(client(7)).len() == 60
    });
    assert_eq!(a.frames_from(R1), frames());
    assert_eq!(b.frames_from(R0), frames());
    assert_eq!(b.frames_from(client(7)), frames());
    let link = b.link_to(client(7)).expect("the client is connected");
    b.transport.send(link, Bytes::from_static(b"answer"));
    drive([&mut a, &mut b, &mut c], "the answer", |[_, _, c]| c.frames_from(R1) == [&b"answer"[..]]);
    assert_eq!(a.transport.counters().frames_dropped + b.transport.counters().frames_dropped, 0);
    drive([&mut a, &mut b, &mut c], "all is acknowledged", |[a, b, c]| {
        [a, b, c].iter().all(|end| !end.transport.has_unsent())
    });
}

#[test]
fn a_remote_that_falls_silent_is_lost_with_its_reason_and_dialled_again() {
    let mut ground = Ground::new(2, REPEATING, quick());
    let (mut a, mut b) = (ground.replica(0, 0), ground.replica(1, 1));
    drive([&mut a, &mut b], "connected", |[a, b]| connected(a, b));
    // `b` is stopped: it neither answers nor closes its connections.
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"into the void"), Lane::Ordinary);
    drive([&mut a], "the loss is noticed", |[a]| a.lost(R1).is_some());
    let why = a.lost(R1).expect("just seen");
    assert!(why.starts_with("nothing was acknowledged for "), "{why}");
    drop(b);
    let mut b = ground.replica(1, 1);
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"welcome back"), Lane::Ordinary);
    drive([&mut a, &mut b], "a frame on the new link", |[_, b]| b.frames_from(R0) == [&b"welcome back"[..]]);
}

#[test]
fn a_restarted_replica_is_connected_again() {
    let mut ground = Ground::new(2, REPEATING, quick());
    let (mut a, mut b) = (ground.replica(0, 0), ground.replica(1, 1));
    drive([&mut a, &mut b], "connected", |[a, b]| connected(a, b));
    drop(a);
    let mut a = ground.replica(0, 0);
    // Frames on the old link are lost with it.
    drive_with([&mut a, &mut b], "its frame", |[a, b]| {
        if a.transport.is_connected(ReplicaId(1)) {
            a.transport.send_to(ReplicaId(1), Bytes::from_static(b"from another life"), Lane::Ordinary);
        }
        b.frames_from(R0).last().is_some_and(|frame| frame == &b"from another life"[..])
    });
    assert_eq!(b.lost(R0), Some("the connection was closed"));
}

#[test]
fn closing_a_link_is_reported_to_the_other_end() {
    let mut ground = Ground::new(1, REPEATING, quick());
    let (mut a, mut c) = (ground.replica(0, 0), ground.client(3));
    drive([&mut a, &mut c], "connected", |[a, _]| a.link_to(client(3)).is_some());
    let link = a.link_to(client(3)).expect("just seen");
    a.transport.close(link, "enough".to_owned());
    drive([&mut a, &mut c], "both ends know", |[a, c]| a.lost(client(3)).is_some() && c.lost(R0).is_some());
    assert_eq!(a.lost(client(3)), Some("enough"));
    assert_eq!(c.lost(R0), Some("the connection was closed"));
}

#[test]
fn another_key_never_connects() {
    let mut ground = Ground::new(2, REPEATING, LinkConfig { handshake_timeout_ms: 200, ..quick() });
    let (mut a, mut impostor) = (ground.replica(0, 0), ground.replica(1, 9));
    drive([&mut a, &mut impostor], "the impostor is given up", |[a, _]| a.refused_with("no handshake within 200 ms"));
    assert!(!a.transport.is_connected(ReplicaId(1)) && !impostor.transport.is_connected(ReplicaId(0)));
}

#[test]
fn packets_of_strangers_do_not_disturb_links_and_take_a_bounded_number_of_places() {
    let links = LinkConfig { max_unauthenticated_links: 4, max_unauthenticated_links_per_address: 4, ..quick() };
    let mut ground = Ground::new(2, REPEATING, links);
    let (mut a, mut b) = (ground.replica(0, 0), ground.replica(1, 1));
    drive([&mut a, &mut b], "connected", |[a, b]| connected(a, b));
    let strangers: Vec<_> = (0..20).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
    for stranger in &strangers {
        stranger.send_to(b"no packet of this protocol", ground.address(0)).expect("the packet is sent");
    }
    drive([&mut a, &mut b], "the strangers are evicted", |[a, _]| {
        a.refusals.iter().filter(|refusal| refusal.why.to_string().starts_with("evicted")).count() == 16
    });
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"still here"), Lane::Ordinary);
    drive([&mut a, &mut b], "the link of honest replicas", |[a, _]| a.frames_from(R1) == [&b"still here"[..]]);
    assert!(a.lost(R1).is_none() && b.lost(R0).is_none());
}

#[test]
fn a_client_that_sends_a_frame_over_the_limit_is_cut() {
    let mut ground = Ground::new(1, REPEATING, LinkConfig { client_frame_bytes: 5_000, ..quick() });
    let (mut a, mut c) = (ground.replica(0, 0), ground.client(3));
    drive([&mut a, &mut c], "connected", |[a, c]| {
        a.link_to(client(3)).is_some() && c.transport.is_connected(ReplicaId(0))
    });
    c.transport.send_to(ReplicaId(0), Bytes::from(vec![1; 5_000]), Lane::Ordinary);
    c.transport.send_to(ReplicaId(0), Bytes::from(vec![2; 5_001]), Lane::Ordinary);
    drive_with([&mut a, &mut c], "the client is cut", |[a, _]| a.lost(client(3)).is_some());
    assert!(a.lost(client(3)).is_some_and(|why| why.contains("over the limit of 5000")));
    assert_eq!(a.frames_from(client(3)).len(), 1, "only the frame within the limit arrives");
}

#[test]
fn the_toy_transport_works_with_channels_over_packets() {
    for channel in [SIGNED, ChannelKind::PLAIN] {
        assert_eq!(Wire { channel, ..toy_wire() }.fits(), Ok(()));
    }
    let stream = Wire { channel: ChannelKind::TLS, ..toy_wire() };
    assert!(stream.fits().expect_err("it works over a stream").what.contains("datagrams"));
    assert!(SIGNED.profile().authenticates_frames && !REPEATING.profile().guards_links);
}
