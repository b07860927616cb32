//! Keys, a cluster on loopback, and the stacks of transport and channel under test.

use bytes::{Bytes, BytesMut};
use quorate_network::channels::{
    Agreed, Channel, ChannelConfig, ChannelError, ChannelFactory, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd,
    RemoteIdentity, Sessions, Side, Versions,
};
use quorate_network::transports::{
    Endpoint, Endpoints, Event, LinkConfig, LinkId, QuicVotes, Refusal, Remote, TcpTransport, Transport, TransportKind,
    Wire, WireSettings,
};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{ClientId, ClusterId, Committee, EpochId, Hasher, Member, Parameters, ReplicaId};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout that detects a hanging test; no other verdict depends on time.
const HANG: Duration = Duration::from_secs(60);

/// A keyed hash as a signature: the "public key" is the key.
pub struct ToyKey {
    pub replica: ReplicaId,
    pub key: u8,
}

fn toy_signature(replica: ReplicaId, key: u8, message: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new(*b"toy0");
    hasher.update(&replica.0.to_le_bytes());
    hasher.update(&[key]);
    hasher.update(message);
    hasher.finish().0
}

impl Signer for ToyKey {
    fn replica(&self) -> ReplicaId {
        self.replica
    }
    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&toy_signature(self.replica, self.key, message))
    }
}

/// Verifier for which every honest replica's key is its ID.
pub struct ToyVerifier;

impl Verifier for ToyVerifier {
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        signature == toy_signature(replica, replica.0 as u8, message)
    }
}

/// Returns the configuration of an end whose committee signs with [`ToyKey`].
pub fn end_of(cluster: ClusterId, me: LocalEnd) -> ChannelConfig {
    ChannelConfig {
        kind: ChannelKind::PLAIN,
        cluster,
        epoch: EpochId(cluster.0),
        me,
        verifier: Arc::new(ToyVerifier),
        parameters: Parameters::default(),
        versions: Versions::ALL,
        key_update_records: KEY_UPDATE_RECORDS,
        sessions: Sessions::kept(),
    }
}

pub fn replica_end(cluster: ClusterId, replica: u16, key: u8) -> ChannelConfig {
    end_of(cluster, LocalEnd::Replica(Arc::new(ToyKey { replica: ReplicaId(replica), key })))
}

pub fn client_end(cluster: ClusterId, client: u64) -> ChannelConfig {
    end_of(cluster, LocalEnd::Client(ClientId(client.into())))
}

/// A compatible pair of transport and channel.
pub trait Stack {
    /// Returns whether frames arrive in the order of sending.
    fn keeps_order() -> bool {
        true
    }
    /// Returns whether votes may be lost, and may overtake others.
    fn loses_votes() -> bool {
        false
    }
    const OVER_PACKETS: bool = false;
    /// Returns the replica's listening endpoint: one of the two sockets that hold its port, or a new one.
    fn bind(held: (Option<TcpListener>, Option<UdpSocket>), address: SocketAddr) -> Endpoint {
        held.0.unwrap_or_else(|| TcpListener::bind(address).expect("the port is free again")).into()
    }
    fn replica(committee: &Committee, at: Endpoint, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport>;
    fn client(committee: &Committee, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport>;
    /// Returns the bare channel of a client that dials a replica.
    fn client_channel(end: ChannelConfig, dials: ReplicaId) -> Box<dyn Channel>;
}

/// TCP with the plain channel.
pub struct TcpPlain;

impl Stack for TcpPlain {
    fn replica(committee: &Committee, at: Endpoint, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
        Box::new(TcpTransport::replica(committee, at.into_listener().ok(), end, config).expect("a replica's transport"))
    }
    fn client(committee: &Committee, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
        Box::new(TcpTransport::client(committee, end, config).expect("a client's transport"))
    }
    fn client_channel(end: ChannelConfig, dials: ReplicaId) -> Box<dyn Channel> {
        end.open(Side::Initiator { expects: dials }).expect("a channel")
    }
}

/// TCP with TLS, with the key updates that the settings of links demand.
pub struct TcpTls;

impl Stack for TcpTls {
    fn replica(committee: &Committee, at: Endpoint, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
        let key_update_records = config.links.key_update_records;
        TcpPlain::replica(committee, at, ChannelConfig { kind: ChannelKind::TLS, key_update_records, ..end }, config)
    }
    fn client(committee: &Committee, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
        TcpPlain::client(committee, ChannelConfig { kind: ChannelKind::TLS, ..end }, config)
    }
    fn client_channel(end: ChannelConfig, dials: ReplicaId) -> Box<dyn Channel> {
        TcpPlain::client_channel(ChannelConfig { kind: ChannelKind::TLS, ..end }, dials)
    }
}

/// TCP with a channel that changes every byte, as TLS does, to test the path that encrypts and decrypts frames.
pub struct TcpMasked;

impl Stack for TcpMasked {
    fn replica(committee: &Committee, at: Endpoint, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
        Box::new(
            TcpTransport::replica(committee, at.into_listener().ok(), Masks(end), config)
                .expect("a replica's transport"),
        )
    }
    fn client(committee: &Committee, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
        Box::new(TcpTransport::client(committee, Masks(end), config).expect("a client's transport"))
    }
    fn client_channel(end: ChannelConfig, dials: ReplicaId) -> Box<dyn Channel> {
        Masks(end).open(Side::Initiator { expects: dials }).expect("a channel")
    }
}

/// Declares a stack of a packet transport and a channel.
macro_rules! packets {
    ($name:ident, $transport:expr, $channel:expr) => {
        packets!($name, $transport, $channel, QuicVotes::Stream);
    };
    ($name:ident, $transport:expr, $channel:expr, $votes:expr) => {
        pub struct $name;

        impl Stack for $name {
            const OVER_PACKETS: bool = true;
            fn loses_votes() -> bool {
                let mut settings = WireSettings::default();
                settings.quic.votes = $votes;
                Wire { transport: $transport, channel: $channel, settings }.loses_votes()
            }
            fn keeps_order() -> bool {
                $transport.profile().keeps_order
            }
            fn bind(held: (Option<TcpListener>, Option<UdpSocket>), address: SocketAddr) -> Endpoint {
                held.1.unwrap_or_else(|| UdpSocket::bind(address).expect("the port is free again")).into()
            }
            fn replica(
                committee: &Committee,
                at: Endpoint,
                end: ChannelConfig,
                mut config: WireSettings,
            ) -> Box<dyn Transport> {
                config.quic.votes = $votes;
                let at = Endpoints::from(Some(at));
                let key_update_records = config.links.key_update_records;
                let end = ChannelConfig { kind: $channel, key_update_records, ..end };
                $transport.carrier().replica(committee, at, end, config).expect("a replica's transport")
            }
            fn client(committee: &Committee, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
                let end = ChannelConfig { kind: $channel, ..end };
                $transport.carrier().client(committee, end, config).expect("a client's transport")
            }
            fn client_channel(_: ChannelConfig, _: ReplicaId) -> Box<dyn Channel> {
                unreachable!("a channel over packets is not a stream")
            }
        }
    };
}

packets!(RudpPlain, TransportKind::RUDP, ChannelKind::PLAIN);
packets!(QuicTls, TransportKind::QUIC, ChannelKind::TLS);
packets!(QuicDatagrams, TransportKind::QUIC, ChannelKind::TLS, QuicVotes::Datagrams);
packets!(RudpDtls, TransportKind::RUDP, ChannelKind::DTLS);
packets!(UdpPlain, TransportKind::UDP, ChannelKind::PLAIN);
packets!(UdpDtls, TransportKind::UDP, ChannelKind::DTLS);
packets!(SctpPlain, TransportKind::SCTP, ChannelKind::PLAIN);
packets!(SctpDtls, TransportKind::SCTP, ChannelKind::DTLS);

/// Declares a stack of the kernel's SCTP and a channel.
macro_rules! kernel_sctp {
    ($name:ident, $channel:expr) => {
        pub struct $name;

        impl Stack for $name {
            fn bind(_: (Option<TcpListener>, Option<UdpSocket>), address: SocketAddr) -> Endpoint {
                TransportKind::SCTP_KERNEL.carrier().listen(&address.into()).expect("SCTP has ports of its own")
            }
            fn replica(
                committee: &Committee,
                at: Endpoint,
                end: ChannelConfig,
                config: WireSettings,
            ) -> Box<dyn Transport> {
                let key_update_records = config.links.key_update_records;
                let end = ChannelConfig { kind: $channel, key_update_records, ..end };
                let carrier = TransportKind::SCTP_KERNEL.carrier();
                carrier.replica(committee, Some(at).into(), end, config).expect("a replica's transport")
            }
            fn client(committee: &Committee, end: ChannelConfig, config: WireSettings) -> Box<dyn Transport> {
                let end = ChannelConfig { kind: $channel, ..end };
                TransportKind::SCTP_KERNEL.carrier().client(committee, end, config).expect("a client's transport")
            }
            fn client_channel(end: ChannelConfig, dials: ReplicaId) -> Box<dyn Channel> {
                TcpPlain::client_channel(ChannelConfig { kind: $channel, ..end }, dials)
            }
        }
    };
}

kernel_sctp!(KernelSctpPlain, ChannelKind::PLAIN);
kernel_sctp!(KernelSctpTls, ChannelKind::TLS);

/// Returns the reason why this kernel cannot use SCTP; `None` if it can.
pub fn sctp_obstacle() -> Option<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let refused = TransportKind::SCTP_KERNEL.carrier().listen(&address.into()).err()?;
    assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported, "{refused}");
    Some(refused.to_string())
}

struct Masks(ChannelConfig);

impl ChannelFactory for Masks {
    fn open(&self, side: Side) -> Result<Box<dyn Channel>, ChannelError> {
        Ok(Box::new(Masked(self.0.open(side)?)))
    }
    fn local(&self) -> RemoteIdentity {
        self.0.local()
    }
}

const MASK: u8 = 0x5a;

struct Masked(Box<dyn Channel>);

impl Channel for Masked {
    fn start(&mut self, outgoing: &mut Vec<u8>) {
        self.0.start(outgoing);
    }
    fn receive(&mut self, wire: &mut BytesMut, plain: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), ChannelError> {
        let mut opened = BytesMut::new();
        self.0.receive(wire, &mut opened, out)?;
        opened.iter_mut().for_each(|byte| *byte ^= MASK);
        plain.extend_from_slice(&opened);
        Ok(())
    }
    fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) {
        outgoing.extend(plain.iter().map(|byte| byte ^ MASK));
    }
    fn is_transparent(&self) -> bool {
        false
    }
    fn remote(&self) -> Option<RemoteIdentity> {
        self.0.remote()
    }
    fn agreed(&self) -> Option<&Agreed> {
        self.0.agreed()
    }
}

/// A transport, and all events that it reported.
pub struct End {
    pub transport: Box<dyn Transport>,
    pub events: Vec<Event>,
    pub refusals: Vec<Refusal>,
}

impl End {
    pub fn new(transport: Box<dyn Transport>) -> End {
        End { transport, events: Vec::new(), refusals: Vec::new() }
    }

    pub fn poll(&mut self) {
        self.transport.poll(Some(Duration::from_millis(1)), &mut self.events).expect("poll");
        self.refusals.extend(self.transport.take_refusals());
    }

    pub fn frames_from(&self, from: Remote) -> Vec<Bytes> {
        let frames = self.events.iter().filter_map(|event| match event {
            Event::Received { remote, frame, .. } if *remote == from => Some(frame.clone()),
            _ => None,
        });
        frames.collect()
    }

    pub fn received(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Received { .. })).count()
    }

    /// Returns the newest link to a remote.
    pub fn link_to(&self, to: Remote) -> Option<LinkId> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Connected { link, remote } if *remote == to => Some(*link),
            _ => None,
        })
    }

    pub fn lost(&self, from: Remote) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            Event::Disconnected { remote, why, .. } if *remote == from => Some(why.as_str()),
            _ => None,
        })
    }

    pub fn refused_with(&self, text: &str) -> bool {
        self.refusals.iter().any(|refusal| refusal.why.to_string().contains(text))
    }
}

/// Polls all ends in rotation until `wanted` is true.
pub fn drive<const N: usize>(ends: [&mut End; N], what: &str, wanted: impl Fn(&[&mut End; N]) -> bool) {
    drive_with(ends, what, |ends| wanted(ends));
}

/// Does the same, for tests that act between polls.
pub fn drive_with<const N: usize>(
    mut ends: [&mut End; N],
    what: &str,
    mut wanted: impl FnMut(&mut [&mut End; N]) -> bool,
) {
    let start = Instant::now();
    while !wanted(&mut ends) {
        ends.iter_mut().for_each(|end| end.poll());
        assert!(start.elapsed() < HANG, "hangs: {what}");
    }
}

/// Addresses of a cluster on loopback, with the listeners that reserve their ports.
pub struct Ground {
    pub committee: Committee,
    pub listeners: Vec<Option<TcpListener>>,
    /// UDP sockets with the same ports.
    sockets: Vec<Option<UdpSocket>>,
}

/// Binds the same port for TCP and UDP.
fn both(address: &str) -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind(address).expect("a free port");
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().expect("a bound address")) {
            return (listener, socket);
        }
    }
}

impl Ground {
    pub fn new(replicas: usize) -> Ground {
        Ground::on("127.0.0.1:0", replicas)
    }

    pub fn on(address: &str, replicas: usize) -> Ground {
        let (listeners, sockets): (Vec<_>, Vec<_>) = (0..replicas).map(|_| both(address)).unzip();
        let local = |listener: &TcpListener| listener.local_addr().expect("a bound address");
        let members = listeners.iter().map(|at| unkeyed(local(at).into())).collect();
        let committee = Committee::new("conformance", members).expect("a small committee");
        let (listeners, sockets) = (listeners.into_iter().map(Some), sockets.into_iter().map(Some));
        Ground { committee, listeners: listeners.collect(), sockets: sockets.collect() }
    }

    /// Returns the listeners, by replica.
    pub fn into_listeners(self) -> Vec<TcpListener> {
        self.listeners.into_iter().flatten().collect()
    }

    pub fn address(&self, replica: u16) -> SocketAddr {
        self.committee.members[usize::from(replica)].address.socket().expect("its host is a number")
    }

    /// Creates the replica's transport. A second call binds the port again.
    pub fn end<S: Stack>(&mut self, replica: u16, end: ChannelConfig, config: impl Into<WireSettings>) -> End {
        let at = usize::from(replica);
        let endpoint = S::bind((self.listeners[at].take(), self.sockets[at].take()), self.address(replica));
        End::new(S::replica(&self.committee, endpoint, end, config.into()))
    }

    pub fn replica<S: Stack>(&mut self, replica: u16) -> End {
        self.end::<S>(replica, replica_end(self.committee.cluster, replica, replica as u8), quick())
    }

    pub fn client<S: Stack>(&self, client: u64) -> End {
        End::new(S::client(&self.committee, client_end(self.committee.cluster, client), quick().into()))
    }
}

/// Returns a configuration with short redial intervals, which makes tests fast.
pub fn quick() -> LinkConfig {
    LinkConfig { min_reconnect_ms: 5, max_reconnect_ms: 50, ..LinkConfig::default() }
}

pub const R0: Remote = Remote::Replica(ReplicaId(0));
pub const R1: Remote = Remote::Replica(ReplicaId(1));

pub fn client(id: u64) -> Remote {
    Remote::Client(ClientId(id.into()))
}

pub fn connected(a: &End, b: &End) -> bool {
    a.transport.is_connected(ReplicaId(1)) && b.transport.is_connected(ReplicaId(0))
}

pub fn unkeyed(address: quorate_types::Address) -> Member {
    Member { address, identity_key: Bytes::new(), voting_key: Bytes::new(), possession: Bytes::new() }
}
