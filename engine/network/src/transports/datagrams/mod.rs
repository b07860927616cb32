//! Connections over the kernel's UDP: the driver of every [`Machine`].
//!
//! A transport over packets is an [`Association`], which creates the machine for one end of a connection. This module
//! and `links` do the rest: sockets, clock, timers, demultiplexing, peers, places and budgets. The simulator also
//! drives these machines.
//!
//! A packet belongs to the connection whose token or connection ID it carries ([`Router`]); one without is answered
//! statelessly. A restarted remote begins a second connection from the same address, which replaces the first once it
//! is authenticated. A dialling end begins further attempts while the first takes long, and keeps the one that is
//! authenticated first. A packet that the kernel refuses is lost, as it could be on the network.

mod buffers;
mod link;
mod port;
mod router;
mod serve;

pub use router::{Route, Router};

use crate::channels::{Agreed, ChannelConfig, ChannelFactory, Machine, RemoteIdentity, Side};
use crate::transports::carrier::{Association, Carrier, TransportProfile};
use crate::transports::config::WireSettings;
use crate::transports::endpoint::{Endpoint, Endpoints, Listening};
use crate::transports::error::{Refusal, SetupError};
use crate::transports::links::{Audience, Links, index};
use crate::transports::{Counters, Event, LinkId, Remote, Transport};
use buffers::Buffers;
use bytes::Bytes;
use link::PacketLink;
use mio::{Interest, Token};
use port::Port;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{Address, Committee, Lane, ReplicaId, Time};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Token of the waker; sockets have lower ones.
const WAKER: Token = Token(usize::MAX);
/// Maximum number of ready sockets that one poll takes from the kernel: more than a transport has.
const MAX_READY_SOCKETS: usize = 16;
/// Longest time between two sweeps over links without events, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// An association as a transport kind: `TransportKind::of(&Datagrams(&MY_ASSOCIATION))`.
pub struct Datagrams(pub &'static dyn Association);

impl Carrier for Datagrams {
    fn profile(&self) -> &TransportProfile {
        self.0.profile()
    }

    fn listen(&self, address: &Address) -> io::Result<Endpoint> {
        std::net::UdpSocket::bind(&address.resolve()?[..]).map(Endpoint::from)
    }

    fn replica(
        &self,
        committee: &Committee,
        mut endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        let RemoteIdentity::Replica(me) = end.local() else {
            return Err(SetupError::Role { found: "client", wanted: "replica" });
        };
        let Some(member) = committee.member(me) else {
            return Err(SetupError::Stranger { me, members: committee.len() });
        };
        if endpoints.peers.is_none() {
            let fail = |why| SetupError::Listen { address: member.address.clone(), why };
            endpoints.peers = Some(self.listen(&member.address).map_err(fail)?);
        }
        Ok(Box::new(DatagramTransport::new(self.0, committee, endpoints, end, settings)?))
    }

    fn client(
        &self,
        committee: &Committee,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        let RemoteIdentity::Client(_) = end.local() else {
            return Err(SetupError::Role { found: "replica", wanted: "client" });
        };
        Ok(Box::new(DatagramTransport::new(self.0, committee, Endpoints::default(), end, settings)?))
    }

    fn association(&self) -> Option<&'static dyn Association> {
        Some(self.0)
    }
}

/// A [`Transport`] over UDP.
pub struct DatagramTransport {
    poll: mio::Poll,
    ready: mio::Events,
    waker: Arc<dyn Fn() + Send + Sync>,
    association: &'static dyn Association,
    end: ChannelConfig,
    settings: WireSettings,
    /// Replicas whose configured address is an IP address.
    replicas: Vec<(SocketAddr, ReplicaId)>,
    ports: Vec<Port>,
    /// Whether new connections are accepted.
    accepts: bool,
    links: Links<PacketLink>,
    router: Router,
    /// Deadlines of the machines' timers.
    alarms: BTreeSet<(Time, LinkId)>,
    /// Zero of the machines' clock.
    began: Instant,
    buffers: Buffers,
    /// Packets of the batch being received.
    received: Vec<(SocketAddr, Bytes)>,
}

impl DatagramTransport {
    fn new(
        association: &'static dyn Association,
        committee: &Committee,
        endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<DatagramTransport, SetupError> {
        settings.validate()?;
        let poll = mio::Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let waker: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            // This fails only if the descriptor is closed, and then nobody is waiting.
            let _ = waker.wake();
        });
        let peers = if endpoints.clients.is_some() { Audience::Peers } else { Audience::Anybody };
        let addresses = committee.replicas().filter_map(|own| Some((committee.member(own)?.address.socket()?, own)));
        let replicas = addresses.collect();
        let router = Router::new(association.greeter(&end, &settings, end.nonce()?)?);
        let links = Links::new(committee, end.local(), settings.links.clone(), LOOK_MS, waker.clone());
        let mut transport = DatagramTransport {
            poll,
            ready: mio::Events::with_capacity(MAX_READY_SOCKETS),
            waker,
            association,
            end,
            settings,
            replicas,
            ports: Vec::new(),
            accepts: true,
            links,
            router,
            alarms: BTreeSet::new(),
            began: Instant::now(),
            buffers: Buffers::default(),
            received: Vec::new(),
        };
        let listeners = [
            (peers, endpoints.peers),
            (Audience::Clients, endpoints.clients),
            (Audience::Operators, endpoints.operators),
        ];
        for (audience, endpoint) in listeners {
            if let Some(endpoint) = endpoint {
                transport.take_over(endpoint.into_datagrams()?, Some(audience))?;
            }
        }
        Ok(transport)
    }

    /// Registers a socket with the poll; returns its index.
    fn take_over(&mut self, socket: std::net::UdpSocket, audience: Option<Audience>) -> io::Result<usize> {
        let mut port = Port::new(socket, audience, &self.settings.packets)?;
        let at = self.ports.len();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut port.socket, Token(at), interest)?;
        self.ports.push(port);
        Ok(at)
    }

    /// Returns the socket from which to dial an address: one of the same address family, preferably the peers'.
    fn port_for(&mut self, address: SocketAddr) -> io::Result<usize> {
        let suits = |port: &Port| {
            let is_own = !matches!(port.audience, Some(Audience::Clients | Audience::Operators));
            is_own && port.socket.local_addr().is_ok_and(|own| own.is_ipv4() == address.is_ipv4())
        };
        if let Some(at) = self.ports.iter().position(suits) {
            return Ok(at);
        }
        let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        self.take_over(std::net::UdpSocket::bind(SocketAddr::new(any, 0))?, None)
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    fn address(&self, listeners: &[Audience]) -> Option<SocketAddr> {
        let port =
            self.ports.iter().find(|port| port.audience.is_some_and(|audience| listeners.contains(&audience)))?;
        port.socket.local_addr().ok()
    }
}

impl Transport for DatagramTransport {
    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane) {
        self.links.send_to(to, frame, lane);
    }

    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.links.send(link, frame);
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        {
            let _stage = stages::moving(Stage::Send, MessageKind::None);
            let before = self.links.counters.frames_sent;
            self.run_timers(events);
            self.flush_dirty(events, |_| true);
            self.write();
            stages::count(self.links.counters.frames_sent - before);
        }
        let is_busy = events.len() > before || self.ports.iter().any(|port| port.is_readable);
        let alarm = self.alarms.first().map(|(due, _)| due.since(self.now()));
        let wait = self.links.wait(timeout, is_busy);
        match stages::wait(|| self.poll.poll(&mut self.ready, [wait, alarm].into_iter().flatten().min())) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.ready.clear(),
            Err(error) => return Err(error),
        }
        for event in &self.ready {
            if let Some(port) = self.ports.get_mut(event.token().0) {
                port.is_readable |= event.is_readable();
                if event.is_writable() {
                    port.unblock();
                }
            }
        }
        let _stage = stages::moving(Stage::Receive, MessageKind::None);
        let received = self.links.counters.frames_received;
        self.receive(events);
        self.write();
        stages::count(self.links.counters.frames_received - received);
        events.append(&mut self.links.client_events);
        Ok(())
    }

    fn flush_replicas(&mut self) {
        let _stage = stages::moving(Stage::Send, MessageKind::None);
        let (mut events, before) = (Vec::new(), self.links.counters.frames_sent);
        self.flush_dirty(&mut events, |link| matches!(link.remote(), Some(Remote::Replica(_))));
        self.write();
        stages::count(self.links.counters.frames_sent - before);
        // The next poll reports the ended links.
        self.links.client_events.append(&mut events);
    }

    fn release(&mut self, link: LinkId, bytes: usize) {
        self.links.release_frame(link, bytes);
    }

    fn is_congested(&self, link: LinkId) -> bool {
        self.links.is_congested(link)
    }

    fn vouch(&mut self, link: LinkId, genuine: bool) {
        self.links.vouch(link, genuine);
    }

    fn source_group(&self, link: LinkId) -> u64 {
        self.links.source_group(link)
    }

    fn close(&mut self, link: LinkId, why: String) {
        self.announce_close(link);
        self.write();
        self.links.close(link, why);
    }

    fn is_connected(&self, replica: ReplicaId) -> bool {
        self.links.is_connected(replica)
    }

    fn counters(&self) -> Counters {
        self.links.counters()
    }

    fn round_trips(&self) -> Vec<(ReplicaId, Duration)> {
        self.links.of_replicas(|link| link.machine.repairs().round_trip)
    }

    fn agreed(&self) -> Vec<(ReplicaId, Agreed)> {
        self.links.of_replicas(|link| link.machine.agreed().cloned())
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.links.take_refusals()
    }

    fn listening(&self) -> Option<Listening> {
        Some(Listening {
            peers: self.address(&[Audience::Anybody, Audience::Peers])?,
            clients: self.address(&[Audience::Anybody, Audience::Clients])?,
            operators: self.address(&[Audience::Operators]),
        })
    }

    fn stop_accepting(&mut self) {
        self.accepts = false;
        self.links.hurry_clients(Instant::now());
    }

    fn has_unsent(&self) -> bool {
        self.links.has_unsent()
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.waker.clone()
    }
}

impl Drop for DatagramTransport {
    /// Notifies the other ends, which otherwise would notice only by a timeout.
    fn drop(&mut self) {
        let links: Vec<LinkId> = self.links.table.iter().map(|link| link.id).collect();
        links.into_iter().for_each(|link| self.announce_close(link));
        self.write();
    }
}
