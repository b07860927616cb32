//! Frames over TCP, driven by one epoll instance.
//!
//! Of each pair of replicas the lower id dials and the other accepts, so that there is one link per pair; a client dials every
//! replica. Readiness is edge-triggered: a link is read until a read comes back short or its budget is spent, written until the
//! socket takes no more, and only then watched for being writable.

mod clients;
mod doors;
mod link;
mod links;
mod names;
mod peers;
mod serve;
mod sockets;
mod sweep;

use crate::config::{MOST_OPERATORS, TcpConfig};
use crate::error::{LinkError, Refusal, SetupError};
use crate::{Counters, Event, LinkId, Remote, Transport};
use bytes::Bytes;
use clients::Memory;
use doors::{Door, Doors, MOST_DOORS};
use link::{Link, Phase};
use links::Links;
use mio::{Interest, Token};
use names::Names;
use peers::Peer;
use quorate_channels::{ChannelFactory, RemoteIdentity, Side};
use quorate_types::{Address, Committee, ReplicaId};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The tokens below are those of the listeners.
const WAKER: Token = Token(MOST_DOORS);
/// The token of the link at index 0.
const FIRST_LINK: usize = MOST_DOORS + 1;

/// Events taken from the kernel in one poll; the rest comes with the next.
const MOST_READY: usize = 256;
/// A client that leaves this part of `client_queue_bytes` unread is served no more until it reads.
const CONGESTED_SHARE: usize = 4;
/// Refusals kept for [`Transport::take_refusals`]; older ones are forgotten.
const MOST_REFUSALS: usize = 64;

/// Where a replica's transport listens.
#[derive(Default)]
pub struct Listeners {
    /// For peers; if there is none, it listens on its address in the committee.
    pub peers: Option<std::net::TcpListener>,
    /// For clients; if there is none, they share the peers' listener.
    pub clients: Option<std::net::TcpListener>,
    /// For operators; if there is none, they are clients like others.
    pub operators: Option<std::net::TcpListener>,
}

impl From<Option<std::net::TcpListener>> for Listeners {
    fn from(peers: Option<std::net::TcpListener>) -> Listeners {
        Listeners { peers, ..Listeners::default() }
    }
}

/// A [`Transport`] over TCP.
pub struct TcpTransport {
    poll: mio::Poll,
    ready: mio::Events,
    waker: Arc<mio::Waker>,
    doors: Doors,
    names: Names,
    /// When to accept again after the operating system had no descriptor left.
    accept_at: Option<Instant>,
    channels: Box<dyn ChannelFactory>,
    me: RemoteIdentity,
    config: TcpConfig,
    links: Links,
    peers: Vec<Peer>,
    unauthenticated: usize,
    clients: usize,
    operators: usize,
    dirty: Vec<LinkId>,
    unread: Vec<LinkId>,
    /// Clients' links that are not read until there is room for what they send.
    paused: Vec<LinkId>,
    memory: Memory,
    /// When links are looked over next; none while there are none.
    sweep_at: Option<Instant>,
    client_events: Vec<Event>,
    refusals: VecDeque<Refusal>,
    counters: Counters,
    /// When the next dial or deadline is due, or earlier; none while every link is established.
    next_timer: Option<Instant>,
}

impl TcpTransport {
    /// The transport of the replica that `channels` speak for.
    pub fn replica(
        committee: &Committee,
        listeners: impl Into<Listeners>,
        channels: impl ChannelFactory + 'static,
        config: TcpConfig,
    ) -> Result<TcpTransport, SetupError> {
        let RemoteIdentity::Replica(me) = channels.local() else {
            return Err(SetupError::Role { found: "client", wanted: "replica" });
        };
        let Some(member) = committee.member(me) else {
            return Err(SetupError::Stranger { me, members: committee.len() });
        };
        config.validate()?;
        let mut listeners = listeners.into();
        if listeners.peers.is_none() {
            let fail = |why| SetupError::Listen { address: member.address.clone(), why };
            listeners.peers = Some(listen(&member.address).map_err(fail)?);
        }
        TcpTransport::new(committee, listeners, Box::new(channels), config)
    }

    /// The transport of the client that `channels` speak for: it dials every replica, and again when a link is lost.
    pub fn client(
        committee: &Committee,
        channels: impl ChannelFactory + 'static,
        config: TcpConfig,
    ) -> Result<TcpTransport, SetupError> {
        let RemoteIdentity::Client(_) = channels.local() else {
            return Err(SetupError::Role { found: "replica", wanted: "client" });
        };
        config.validate()?;
        TcpTransport::new(committee, Listeners::default(), Box::new(channels), config)
    }

    fn new(
        committee: &Committee,
        listeners: Listeners,
        channels: Box<dyn ChannelFactory>,
        config: TcpConfig,
    ) -> Result<TcpTransport, SetupError> {
        let poll = mio::Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER)?);
        let doors = Doors::open(listeners, &config, poll.registry())?;
        let me = channels.local();
        let now = Instant::now();
        let dials = |replica: ReplicaId| match me {
            RemoteIdentity::Replica(me) => me < replica,
            RemoteIdentity::Client(_) => true,
        };
        let peers = committee.replicas().zip(&committee.members);
        let peers = peers.map(|(replica, member)| Peer::new(member.address.clone(), dials(replica), now)).collect();
        Ok(TcpTransport {
            poll,
            ready: mio::Events::with_capacity(MOST_READY),
            waker,
            doors,
            names: Names::default(),
            accept_at: None,
            channels,
            me,
            memory: Memory::new(&config),
            config,
            links: Links::default(),
            peers,
            unauthenticated: 0,
            clients: 0,
            operators: 0,
            dirty: Vec::new(),
            unread: Vec::new(),
            paused: Vec::new(),
            sweep_at: None,
            client_events: Vec::new(),
            refusals: VecDeque::new(),
            counters: Counters::default(),
            next_timer: Some(now),
        })
    }

    /// Where this transport listens for peers; none for a client.
    pub fn listens_on(&self) -> Option<SocketAddr> {
        self.doors.address(&[Door::Anybody, Door::Peers])
    }

    /// Where it listens for clients; none for a client.
    pub fn listens_for_clients_on(&self) -> Option<SocketAddr> {
        self.doors.address(&[Door::Anybody, Door::Clients])
    }

    /// Where it listens for operators, if it does.
    pub fn listens_for_operators_on(&self) -> Option<SocketAddr> {
        self.doors.address(&[Door::Operators])
    }

    #[inline]
    fn queue(&mut self, link: LinkId, frame: Bytes) {
        match self.links.get_mut(link).and_then(|link| Some((link.remote()?, link))) {
            Some((Remote::Replica(_), link)) => {
                push(link, frame, self.config.link_queue_bytes, &mut self.counters, &mut self.dirty);
            }
            Some((Remote::Operator(_), link)) => {
                push(link, frame, self.config.client_queue_bytes, &mut self.counters, &mut self.dirty);
            }
            Some((Remote::Client(_), link)) => {
                let id = link.id;
                push(link, frame, self.config.client_queue_bytes, &mut self.counters, &mut self.dirty);
                self.account_for(id);
            }
            None => self.counters.frames_dropped += 1,
        }
    }

    /// How long the next wait may be: not past the next timer, and not at all if something is left to do.
    fn wait(&self, timeout: Option<Duration>, has_events: bool) -> Option<Duration> {
        let accepts = self.doors.accepts_more() && self.accept_at.is_none();
        if has_events || accepts || !self.unread.is_empty() || !self.client_events.is_empty() {
            return Some(Duration::ZERO);
        }
        let until = self.next_timer.map(|next| next.saturating_duration_since(Instant::now()));
        [timeout, until].into_iter().flatten().min()
    }
}

impl Transport for TcpTransport {
    fn send_to(&mut self, to: ReplicaId, frame: Bytes) {
        assert_ne!(RemoteIdentity::Replica(to), self.me, "a replica hands itself its messages without a transport");
        let Some(peer) = self.peers.get_mut(to.index()) else {
            self.counters.frames_dropped += 1;
            return;
        };
        match peer.link {
            Some(link) => self.queue(link, frame),
            None => self.counters.frames_dropped += peer.park(frame, self.config.unconnected_queue_bytes),
        }
    }

    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.queue(link, frame);
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        if self.names.is_asking() {
            self.dial_resolved();
        }
        if self.next_timer.is_some() {
            self.run_timers(Instant::now(), events);
        }
        self.flush_dirty(events);
        self.resume();
        let wait = self.wait(timeout, events.len() > before);
        match self.poll.poll(&mut self.ready, wait) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.ready.clear(),
            Err(error) => return Err(error),
        }
        self.serve(events);
        events.append(&mut self.client_events);
        Ok(())
    }

    fn release(&mut self, link: LinkId, bytes: usize) {
        self.release_frame(link, bytes);
    }

    fn is_congested(&self, link: LinkId) -> bool {
        self.links.get(link).is_some_and(|link| link.queued_bytes() > self.config.client_queue_bytes / CONGESTED_SHARE)
    }

    fn vouch(&mut self, link: LinkId, genuine: bool) {
        if let Some(link) = self.links.get_mut(link) {
            link.share.genuine = genuine;
        }
    }

    fn crowd(&self, link: LinkId) -> u64 {
        self.links.get(link).map_or(0, |link| link.share.crowd())
    }

    fn close(&mut self, link: LinkId, why: String) {
        let Some(found) = self.links.get_mut(link) else { return };
        // What does not leave now is lost with the link, whatever the reason.
        let _ = found.flush(&mut self.counters);
        let found = self.links.take(links::index(link)).expect("the link was just there");
        let mut events = Vec::new();
        self.end(found, LinkError::Ended(why), &mut events);
        // A replica's end is told with the clients' events: it comes after its frames, too.
        self.client_events.append(&mut events);
    }

    fn is_connected(&self, replica: ReplicaId) -> bool {
        self.peers.get(replica.index()).is_some_and(|peer| peer.link.is_some())
    }

    fn counters(&self) -> Counters {
        Counters { client_memory_peak_bytes: self.memory.peak() as u64, ..self.counters }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.refusals.drain(..).collect()
    }

    fn stop_accepting(&mut self) {
        self.doors.close(self.poll.registry());
        self.hurry_clients(Instant::now());
    }

    fn has_unsent(&self) -> bool {
        self.links.iter().any(|link| link.remote().is_some() && link.has_unsent())
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = self.waker.clone();
        Arc::new(move || {
            // It can fail only when the descriptor is gone, and then there is no one to wake.
            let _ = waker.wake();
        })
    }
}

/// Queues a frame on an established link, which the next poll writes.
#[inline]
fn push(link: &mut Link, frame: Bytes, most_bytes: usize, counters: &mut Counters, dirty: &mut Vec<LinkId>) {
    if !link.push(frame, most_bytes) {
        counters.frames_dropped += 1;
    } else if !link.dirty && !link.blocked {
        link.dirty = true;
        dirty.push(link.id);
    }
}

/// Listens on an address: on the first one that its name has and that can be listened on.
///
/// # Errors
/// What the operating system says of the name, or of the last address.
pub fn listen(address: &Address) -> io::Result<std::net::TcpListener> {
    std::net::TcpListener::bind(&address.resolve()?[..])
}
