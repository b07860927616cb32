//! Frames over TCP, driven by one epoll instance.
//!
//! In each pair of replicas the lower id dials and the other accepts, so there is one link per pair; a client dials
//! every replica. Readiness is edge-triggered: a link is read until a read comes back short or its budget is spent, and
//! written until the socket is full; only then is it watched for writability.

mod link;
mod listeners;
pub(crate) mod sctp;
mod sctp_sockets;
mod serve;
mod sockets;
mod waiting;

use crate::channels::{Agreed, Carriage, ChannelConfig, ChannelFactory, RemoteIdentity, Side};
use crate::transports::carrier::{Carrier, TransportProfile};
use crate::transports::config::{TcpConfig, WireSettings};
use crate::transports::error::{LinkError, Refusal, SetupError};
use crate::transports::links::{Audience, LinkState, Links, Phase};
use crate::transports::{Counters, Endpoint, Endpoints, Event, LinkId, Listening, Remote, Transport};
use bytes::Bytes;
use link::Link;
use listeners::{Listeners, MAX_LISTENERS};
use mio::{Interest, Token};
use quorate_types::{Address, Committee, Lane, ReplicaId, stages};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use waiting::Waiting;

use sockets::Protocol;
pub(crate) use sockets::UNSENT_BYTES;

/// Token of the waker; endpoints have lower ones.
const WAKER: Token = Token(MAX_LISTENERS);
/// Token of the poll of client links.
const CLIENTS: Token = Token(MAX_LISTENERS + 1);
/// Token of the link at index 0.
const FIRST_LINK: usize = MAX_LISTENERS + 2;

/// Maximum number of events taken from the kernel per poll; the rest is left to the next.
const MAX_READY: usize = 256;
/// TCP as a transport kind.
pub(crate) struct Tcp;

static PROFILE: TransportProfile = TransportProfile {
    name: "tcp",
    summary: "the kernel's TCP",
    carriage: Carriage::Stream,
    own_channel: None,
    guards_links: true,
    keeps_order: true,
    repairs_losses: true,
};

impl Carrier for Tcp {
    fn profile(&self) -> &TransportProfile {
        &PROFILE
    }

    fn listen(&self, address: &Address) -> io::Result<Endpoint> {
        TcpListener::bind(&address.resolve()?[..]).map(Endpoint::from)
    }

    fn replica(
        &self,
        committee: &Committee,
        endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        Ok(Box::new(TcpTransport::replica(committee, endpoints, end, settings)?))
    }

    fn client(
        &self,
        committee: &Committee,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        Ok(Box::new(TcpTransport::client(committee, end, settings)?))
    }
}

/// A [`Transport`] over TCP, or over the kernel's SCTP.
pub struct TcpTransport {
    protocol: Protocol,
    poll: Waiting,
    ready: mio::Events,
    waker: Arc<dyn Fn() + Send + Sync>,
    listeners: Listeners,
    /// Time to resume accepting after the process ran out of descriptors.
    accept_at: Option<Instant>,
    channels: Box<dyn ChannelFactory>,
    tcp: TcpConfig,
    links: Links<Link>,
}

impl TcpTransport {
    /// Creates the transport of the replica that `channels` represents.
    pub fn replica(
        committee: &Committee,
        endpoints: impl Into<Endpoints>,
        channels: impl ChannelFactory + 'static,
        config: impl Into<WireSettings>,
    ) -> Result<TcpTransport, SetupError> {
        let mut endpoints = endpoints.into();
        if endpoints.peers.is_none() {
            endpoints.peers = TcpTransport::bind_own_address(committee, &channels, |address| Tcp.listen(address))?;
        }
        TcpTransport::replica_over(Protocol::Tcp, committee, endpoints, channels, config.into())
    }

    /// Binds the address of the replica that `channels` represents; `None` if it represents none.
    fn bind_own_address(
        committee: &Committee,
        channels: &impl ChannelFactory,
        listen: impl Fn(&Address) -> io::Result<Endpoint>,
    ) -> Result<Option<Endpoint>, SetupError> {
        let RemoteIdentity::Replica(me) = channels.local() else { return Ok(None) };
        let Some(member) = committee.member(me) else { return Ok(None) };
        let fail = |why| SetupError::Listen { address: member.address.clone(), why };
        listen(&member.address).map(Some).map_err(fail)
    }

    fn replica_over(
        protocol: Protocol,
        committee: &Committee,
        endpoints: Endpoints,
        channels: impl ChannelFactory + 'static,
        config: WireSettings,
    ) -> Result<TcpTransport, SetupError> {
        let RemoteIdentity::Replica(me) = channels.local() else {
            return Err(SetupError::Role { found: "client", wanted: "replica" });
        };
        if committee.member(me).is_none() {
            return Err(SetupError::Stranger { me, members: committee.len() });
        }
        config.validate()?;
        TcpTransport::new(protocol, committee, endpoints, Box::new(channels), config)
    }

    /// Creates the transport of the client that `channels` represents: it dials every replica, and redials lost links.
    pub fn client(
        committee: &Committee,
        channels: impl ChannelFactory + 'static,
        config: impl Into<WireSettings>,
    ) -> Result<TcpTransport, SetupError> {
        TcpTransport::client_over(Protocol::Tcp, committee, channels, config.into())
    }

    fn client_over(
        protocol: Protocol,
        committee: &Committee,
        channels: impl ChannelFactory + 'static,
        config: WireSettings,
    ) -> Result<TcpTransport, SetupError> {
        let RemoteIdentity::Client(_) = channels.local() else {
            return Err(SetupError::Role { found: "replica", wanted: "client" });
        };
        config.validate()?;
        TcpTransport::new(protocol, committee, Endpoints::default(), Box::new(channels), config)
    }

    fn new(
        protocol: Protocol,
        committee: &Committee,
        endpoints: Endpoints,
        channels: Box<dyn ChannelFactory>,
        config: WireSettings,
    ) -> Result<TcpTransport, SetupError> {
        let poll = Waiting::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let waker: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            // This fails only if the descriptor is closed, and then nobody is waiting.
            let _ = waker.wake();
        });
        let listeners = Listeners::open(endpoints, &config.tcp, &protocol, poll.registry())?;
        let trouble_ms = config.tcp.unacknowledged_ms;
        Ok(TcpTransport {
            protocol,
            poll,
            ready: mio::Events::with_capacity(MAX_READY),
            listeners,
            accept_at: None,
            links: Links::new(committee, channels.local(), config.links, trouble_ms, waker.clone()),
            waker,
            channels,
            tcp: config.tcp,
        })
    }
}

impl Transport for TcpTransport {
    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane) {
        self.links.send_to(to, frame, lane);
    }

    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.links.send(link, frame);
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        if self.links.is_asking() {
            self.dial_resolved();
        }
        if self.links.has_timer() {
            self.run_timers(Instant::now(), events);
        }
        self.flush_dirty(events);
        self.links.resume();
        let accepts = self.listeners.accepts_more() && self.accept_at.is_none();
        let wait = self.links.wait(timeout, accepts || events.len() > before);
        stages::wait(|| self.poll.wait(&mut self.ready, wait))?;
        self.serve(events);
        if self.poll.take_clients(&mut self.ready)? {
            self.serve_ready(events);
        }
        events.append(&mut self.links.client_events);
        Ok(())
    }

    fn flush_replicas(&mut self) {
        let mut dirty = std::mem::take(&mut self.links.dirty);
        dirty.retain(|id| !self.is_written(*id));
        self.links.dirty = dirty;
    }

    fn defer_clients(&mut self, patience: Option<Duration>) {
        self.poll.defer_clients(patience);
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
        if let Some(found) = self.links.table.get_mut(link) {
            // Data that cannot be written now is lost with the link, so the error does not matter.
            let _ = found.flush(&mut self.links.counters);
        }
        self.links.close(link, why);
    }

    fn is_connected(&self, replica: ReplicaId) -> bool {
        self.links.is_connected(replica)
    }

    fn counters(&self) -> Counters {
        self.links.counters()
    }

    fn round_trips(&self) -> Vec<(ReplicaId, Duration)> {
        self.links.of_replicas(|link| self.protocol.round_trip(&link.socket))
    }

    fn agreed(&self) -> Vec<(ReplicaId, Agreed)> {
        self.links.of_replicas(|link| link.agreed().cloned())
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.links.take_refusals()
    }

    fn listening(&self) -> Option<Listening> {
        Some(Listening {
            peers: self.listeners.address(&[Audience::Anybody, Audience::Peers])?,
            clients: self.listeners.address(&[Audience::Anybody, Audience::Clients])?,
            operators: self.listeners.address(&[Audience::Operators]),
        })
    }

    fn stop_accepting(&mut self) {
        self.listeners.close(self.poll.registry());
        self.links.hurry_clients(Instant::now());
    }

    fn has_unsent(&self) -> bool {
        self.links.has_unsent()
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.waker.clone()
    }
}
