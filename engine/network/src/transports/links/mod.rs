//! Common parts of all transports: the table of links, peers and redials, and the places and memory of client links.
//!
//! A transport keeps its links here and reports their events; it does the reading and writing itself.

mod audience;
mod budgets;
mod names;
mod peers;
mod sweep;
mod table;

pub use audience::Audience;
pub use budgets::Share;
pub use sweep::Stuck;
pub use table::{Table, index};

use crate::channels::RemoteIdentity;
use crate::transports::config::{LinkConfig, MAX_OPERATORS};
use crate::transports::error::{LinkError, Refusal};
use crate::transports::{Counters, Event, LinkId, Remote};
use budgets::Memory;
use bytes::Bytes;
use names::Names;
use peers::Peer;
use quorate_types::{Address, Committee, Lane, ReplicaId};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client is not served while more than 1/N of `client_queue_bytes` is unread.
const CONGESTED_SHARE: usize = 4;
/// A stranger is not served while more than this is unread, in bytes. It allows many ordinary answers, but only one
/// long one.
const STRANGER_UNREAD_BYTES: usize = 64 << 10;
/// Maximum number of simultaneous attempts to reach a replica.
const MAX_ATTEMPTS: usize = 3;
/// Refusals kept for [`Transport::take_refusals`](crate::transports::Transport::take_refusals); older ones are dropped.
const MAX_REFUSALS: usize = 64;

/// Phase of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The connection is being established.
    Dialling,
    /// The channel's handshake is in progress.
    Handshake,
    /// Frames can pass.
    Established(Remote),
}

/// Transport-independent state of a link.
pub struct LinkState {
    pub id: LinkId,
    pub address: SocketAddr,
    /// Replica that this end dialled; `None` if it accepted.
    pub dialled: Option<ReplicaId>,
    /// Audience through which it arrived, if this end accepted.
    pub audience: Audience,
    pub phase: Phase,
    /// Start of the connection attempt.
    pub began: Instant,
    /// Deadline of the handshake.
    pub deadline: Instant,
    /// Time at which the link was established.
    pub since: Instant,
    pub frames_received: u64,
    /// Bytes passed to the operating system.
    pub bytes_written: u64,
    /// A client's share of the common budgets.
    pub share: Share,
    /// Time for which an incomplete frame has made no progress.
    pub partial: Stuck,
    /// Time for which the queue has made no progress.
    pub stalled: Stuck,
    /// Whether it is in the list of links with something to write.
    pub dirty: bool,
    /// Whether it is in the list of links with more to read, because their read budget is spent.
    pub unread: bool,
}

impl LinkState {
    /// Creates the state of a new link: dialling if it was `dialled`, otherwise in its handshake.
    pub fn new(
        id: LinkId,
        address: SocketAddr,
        dialled: Option<ReplicaId>,
        audience: Audience,
        now: Instant,
        deadline: Instant,
    ) -> LinkState {
        LinkState {
            id,
            address,
            dialled,
            audience,
            phase: if dialled.is_some() { Phase::Dialling } else { Phase::Handshake },
            began: now,
            deadline,
            since: now,
            frames_received: 0,
            bytes_written: 0,
            share: Share::new(address, now),
            partial: Stuck::default(),
            stalled: Stuck::default(),
            dirty: false,
            unread: false,
        }
    }

    /// Returns the remote's identity, once it is proved.
    pub fn remote(&self) -> Option<Remote> {
        match self.phase {
            Phase::Established(remote) => Some(remote),
            _ => None,
        }
    }
}

/// A link of a transport. Dropping it closes it.
pub trait Linked: DerefMut<Target = LinkState> {
    /// Returns the bytes of an incomplete frame.
    fn partial_bytes(&self) -> usize;

    /// Returns the queued bytes, framing included, encrypted or not.
    fn queued_bytes(&self) -> usize;

    /// Queues a frame unless that would exceed `max_bytes`. Returns whether it was queued.
    fn push(&mut self, frame: Bytes, lane: Lane, max_bytes: usize) -> bool;

    /// Rejects frames with a body of more than `bytes` bytes from now on.
    fn set_frame_limit(&mut self, bytes: usize);

    /// Returns whether an event will report that it is writable again.
    fn is_blocked(&self) -> bool;

    /// Returns a failure of a link to a replica that no event reports; called in every sweep.
    fn trouble(&mut self, _now: Instant) -> Option<LinkError> {
        None
    }

    /// Returns the bytes of its buffers: incomplete frames and data to be written.
    fn held_bytes(&self) -> usize {
        self.partial_bytes() + self.queued_bytes()
    }
}

/// Links of one transport, with its peers and budgets.
pub struct Links<L> {
    pub table: Table<L>,
    pub config: LinkConfig,
    pub counters: Counters,
    pub memory: Memory,
    /// Links with something to write.
    pub dirty: Vec<LinkId>,
    /// Links with more to read.
    pub unread: Vec<LinkId>,
    /// Events of client links, reported after all others.
    pub client_events: Vec<Event>,
    me: RemoteIdentity,
    peers: Vec<Peer>,
    names: Names,
    wake: Arc<dyn Fn() + Send + Sync>,
    unauthenticated: usize,
    clients: usize,
    operators: usize,
    /// Client links that are not read until memory is available.
    paused: Vec<LinkId>,
    refusals: VecDeque<Refusal>,
    /// Shortest time limit of [`Linked::trouble`], in milliseconds.
    trouble_ms: u64,
    /// Time of the next sweep; `None` while there are no links.
    sweep_at: Option<Instant>,
    /// Lower bound on the time of the next dial or deadline; `None` while every link is established.
    next_timer: Option<Instant>,
}

impl<L: Linked> Links<L> {
    /// Creates an empty set of links; all dials are due now. `wake` ends the transport's wait from another thread.
    pub fn new(
        committee: &Committee,
        me: RemoteIdentity,
        config: LinkConfig,
        trouble_ms: u64,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Links<L> {
        let now = Instant::now();
        let dials = |replica: ReplicaId| match me {
            RemoteIdentity::Replica(me) => me < replica,
            RemoteIdentity::Client(_) => true,
        };
        let peers = committee.replicas().zip(&committee.members);
        let peers = peers.map(|(replica, member)| Peer::new(member.address.clone(), dials(replica), now)).collect();
        Links {
            table: Table::default(),
            memory: Memory::new(&config),
            config,
            counters: Counters::default(),
            dirty: Vec::new(),
            unread: Vec::new(),
            client_events: Vec::new(),
            me,
            peers,
            names: Names::default(),
            wake,
            unauthenticated: 0,
            clients: 0,
            operators: 0,
            paused: Vec::new(),
            refusals: VecDeque::new(),
            trouble_ms,
            sweep_at: None,
            next_timer: Some(now),
        }
    }

    /// Queues a frame for a replica, or keeps it for the next link to that replica.
    pub fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane) {
        assert_ne!(RemoteIdentity::Replica(to), self.me, "a replica needs no transport for messages to itself");
        let Some(peer) = self.peers.get_mut(to.index()) else {
            self.counters.frames_dropped += 1;
            return;
        };
        match peer.link {
            Some(link) if lane == Lane::Ordinary => self.send(link, frame),
            Some(link) => self.send_apart(link, frame, lane),
            None => self.counters.frames_dropped += peer.park(frame, self.config.unconnected_queue_bytes),
        }
    }

    /// Queues a frame on a link.
    #[inline]
    pub fn send(&mut self, link: LinkId, frame: Bytes) {
        match self.table.get_mut(link).and_then(|link| Some((link.remote()?, link))) {
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

    /// Queues a frame on a link to a replica.
    fn send_apart(&mut self, link: LinkId, frame: Bytes, lane: Lane) {
        let Some(link) = self.table.get_mut(link).filter(|link| link.remote().is_some()) else {
            self.counters.frames_dropped += 1;
            return;
        };
        let is_queued = link.push(frame, lane, self.config.link_queue_bytes);
        queued(link, is_queued, &mut self.counters, &mut self.dirty);
    }

    pub fn is_congested(&self, link: LinkId) -> bool {
        let most = self.config.client_queue_bytes / CONGESTED_SHARE;
        self.table.get(link).is_some_and(|link| {
            link.queued_bytes() > if link.share.genuine { most } else { most.min(STRANGER_UNREAD_BYTES) }
        })
    }

    pub fn vouch(&mut self, link: LinkId, genuine: bool) {
        if let Some(link) = self.table.get_mut(link) {
            link.share.genuine = genuine;
        }
    }

    pub fn source_group(&self, link: LinkId) -> u64 {
        self.table.get(link).map_or(0, |link| link.share.source_group())
    }

    /// Ends a link at the request of the transport's owner.
    pub fn close(&mut self, link: LinkId, why: String) {
        if self.table.get(link).is_none() {
            return;
        }
        let link = self.table.take(index(link)).expect("the link was just there");
        let mut events = Vec::new();
        self.end(&link, LinkError::Ended(why), &mut events);
        // Report a replica's end with the clients' events, so that the event follows its frames.
        self.client_events.append(&mut events);
    }

    pub fn is_connected(&self, replica: ReplicaId) -> bool {
        self.peers.get(replica.index()).is_some_and(|peer| peer.link.is_some())
    }

    /// Returns `figure` for each link to a replica that has it.
    pub fn of_replicas<F>(&self, figure: impl Fn(&L) -> Option<F>) -> Vec<(ReplicaId, F)> {
        let links = self.peers.iter().enumerate().filter_map(|(at, peer)| Some((at, self.table.get(peer.link?)?)));
        links.filter_map(|(at, link)| Some((ReplicaId(at as u16), figure(link)?))).collect()
    }

    pub fn counters(&self) -> Counters {
        Counters { client_memory_peak_bytes: self.memory.peak() as u64, ..self.counters }
    }

    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        self.refusals.drain(..).collect()
    }

    pub fn has_unsent(&self) -> bool {
        self.table.iter().any(|link| link.remote().is_some() && link.queued_bytes() > 0)
    }

    /// Returns how long to wait: until the next timer at most, and zero if work is left.
    pub fn wait(&self, timeout: Option<Duration>, is_busy: bool) -> Option<Duration> {
        if is_busy || !self.unread.is_empty() || !self.client_events.is_empty() {
            return Some(Duration::ZERO);
        }
        let until = self.next_timer.map(|next| next.saturating_duration_since(Instant::now()));
        [timeout, until].into_iter().flatten().min()
    }

    /// Admits an authenticated link, if allowed, and queues the frames kept for it.
    pub fn admit(&mut self, link: &mut L, remote: Remote, events: &mut Vec<Event>) -> Result<(), LinkError> {
        match remote {
            Remote::Client(_) => {
                self.make_place(link)?;
                link.set_frame_limit(self.config.client_frame_limit());
                self.clients += 1;
                self.client_events.push(Event::Connected { link: link.id, remote });
            }
            Remote::Operator(_) => {
                if self.operators >= MAX_OPERATORS {
                    return Err(LinkError::TooManyOperators(self.operators));
                }
                self.operators += 1;
                link.set_frame_limit(self.config.client_frame_limit());
                events.push(Event::Connected { link: link.id, remote });
            }
            Remote::Replica(replica) => {
                let Some(peer) = self.peers.get(replica.index()) else {
                    return Err(LinkError::NotMember(replica));
                };
                if link.dialled.is_none() && peer.dials {
                    return Err(LinkError::WrongDirection(replica));
                }
                if let Some(older) = peer.link {
                    let older = self.table.take(index(older)).expect("a peer's link is in the table");
                    self.end(&older, LinkError::Replaced, events);
                }
                self.peers[replica.index()].link = Some(link.id);
                self.peers[replica.index()].dial_at = None;
                self.end_attempts(replica);
                events.push(Event::Connected { link: link.id, remote });
            }
        }
        self.unauthenticated -= usize::from(link.dialled.is_none());
        link.phase = Phase::Established(remote);
        link.since = Instant::now();
        self.counters.handshakes += 1;
        self.counters.handshakes_us += link.since.duration_since(link.began).as_micros() as u64;
        link.share.active = link.since;
        if self.sweep_at.is_none() {
            self.sweep_at = Some(link.since + self.sweep_period());
            self.due(self.sweep_at);
        }
        if let Remote::Replica(replica) = remote {
            for frame in self.peers[replica.index()].unpark() {
                push(link, frame, self.config.link_queue_bytes, &mut self.counters, &mut self.dirty);
            }
        }
        Ok(())
    }

    /// Ends the other attempts to reach a replica that is now connected.
    fn end_attempts(&mut self, replica: ReplicaId) {
        let attempts = self.table.iter().filter(|link| link.dialled == Some(replica) && link.remote().is_none());
        let attempts: Vec<LinkId> = attempts.map(|link| link.id).collect();
        for id in attempts {
            drop(self.table.take(index(id)));
            self.table.release(id);
        }
    }

    /// Schedules another attempt to reach a replica in parallel with the one just begun, in case that one takes long.
    pub fn dial_beside(&mut self, replica: ReplicaId, now: Instant) {
        let attempts = self.table.iter().filter(|link| link.dialled == Some(replica)).count();
        let peer = &mut self.peers[replica.index()];
        if attempts < MAX_ATTEMPTS && peer.link.is_none() && peer.dial_at.is_none() {
            peer.dial_at = Some(now + Duration::from_millis(self.config.dial_timeout_ms));
            let due = peer.dial_at;
            self.due(due);
        }
    }

    /// Ends a link that was taken out of the table; the caller then drops it.
    pub fn end(&mut self, link: &L, why: LinkError, events: &mut Vec<Event>) {
        let now = Instant::now();
        match link.phase {
            Phase::Established(remote) => {
                let gone = Event::Disconnected { link: link.id, remote, why: why.to_string() };
                match remote {
                    Remote::Replica(replica) => {
                        let peer = &mut self.peers[replica.index()];
                        peer.link = None;
                        let proved = Duration::from_millis(self.config.max_reconnect_ms);
                        if link.frames_received > 0 || now.duration_since(link.since) > proved {
                            peer.worked();
                        }
                        events.push(gone);
                    }
                    Remote::Operator(_) => {
                        self.operators -= 1;
                        events.push(gone);
                    }
                    Remote::Client(_) => {
                        self.clients -= 1;
                        self.memory.settle(link);
                        self.counters.clients_cut += u64::from(why.is_cut());
                        self.client_events.push(gone);
                    }
                }
            }
            Phase::Dialling | Phase::Handshake => {
                self.unauthenticated -= usize::from(link.dialled.is_none());
                let address = link.dialled.map_or(link.address.into(), |peer| self.peers[peer.index()].address.clone());
                self.refuse(address, link.dialled, why);
            }
        }
        if let Some(replica) = link.dialled {
            self.dial_later(replica, now);
        }
        self.table.release(link.id);
    }

    /// Notes that an unauthenticated link arrived at a listener, and evicts others to admit it if necessary.
    pub fn on_unauthenticated(&mut self, address: SocketAddr, audience: Audience) {
        self.make_room_for_newcomer(address, audience);
        self.unauthenticated += 1;
    }

    /// Records that a remote was refused before it had a link.
    pub fn turned_away(&mut self, address: SocketAddr, why: LinkError) {
        self.unauthenticated -= 1;
        self.refuse(address.into(), None, why);
    }

    pub fn refuse(&mut self, address: Address, dialled: Option<ReplicaId>, why: LinkError) {
        if self.refusals.len() == MAX_REFUSALS {
            self.refusals.pop_front();
        }
        self.refusals.push_back(Refusal { address, dialled, why });
    }

    fn dial_later(&mut self, replica: ReplicaId, now: Instant) {
        let peer = &mut self.peers[replica.index()];
        peer.dial_later(now, &self.config);
        let due = peer.dial_at;
        self.due(due);
    }

    /// Records that dialling failed before there was a link.
    pub fn dial_failed(&mut self, replica: ReplicaId, why: LinkError, now: Instant) {
        self.refuse(self.peers[replica.index()].address.clone(), Some(replica), why);
        self.dial_later(replica, now);
    }

    /// Schedules the timers to run no later than `at`.
    pub fn due(&mut self, at: Option<Instant>) {
        self.next_timer = [self.next_timer, at].into_iter().flatten().min();
    }

    /// Returns whether timers are due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next_timer.is_some_and(|due| due <= now)
    }

    /// Returns whether any timer is set.
    pub fn has_timer(&self) -> bool {
        self.next_timer.is_some()
    }

    /// Times out handshakes, sweeps the links, and schedules the next run. Returns the replicas to dial, with their
    /// addresses.
    pub fn run_timers(&mut self, now: Instant, events: &mut Vec<Event>) -> Vec<(ReplicaId, SocketAddr)> {
        self.next_timer = None;
        let is_late = |link: &&L| link.remote().is_none() && link.deadline <= now;
        let late: Vec<usize> = self.table.iter().filter(is_late).map(|link| index(link.id)).collect();
        for index in late {
            let link = self.table.take(index).expect("the link was just there");
            let why = match link.phase {
                Phase::Dialling => LinkError::DialTimeout(self.config.dial_timeout_ms),
                _ => LinkError::HandshakeTimeout(self.config.handshake_timeout_ms),
            };
            self.end(&link, why, events);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now, events);
            let has_links = self.table.iter().any(|link| link.remote().is_some());
            self.sweep_at = has_links.then(|| now + self.sweep_period());
        }
        let mut dials = Vec::new();
        for (replica, peer) in (0..).map(ReplicaId).zip(&mut self.peers) {
            if peer.dial_at.is_some_and(|due| due <= now) {
                peer.dial_at = None;
                match peer.address.socket() {
                    Some(socket) => dials.push((replica, socket)),
                    None => {
                        let wake = self.wake.clone();
                        self.names.ask(replica, peer.address.clone(), move || wake());
                    }
                }
            }
        }
        let deadlines = self.table.iter().filter(|link| link.remote().is_none()).map(|link| link.deadline);
        let redials = self.peers.iter().filter_map(|peer| peer.dial_at);
        let next = deadlines.chain(redials).chain(self.sweep_at).min();
        self.due(next);
        dials
    }

    /// Returns whether names are being resolved.
    pub fn is_asking(&self) -> bool {
        self.names.is_asking()
    }

    /// Returns the replicas to dial after their names were resolved, with their addresses. If name resolution fails,
    /// uses the last known addresses.
    pub fn resolved(&mut self, now: Instant) -> Vec<(ReplicaId, SocketAddr)> {
        let mut dials = Vec::new();
        for (replica, answer) in self.names.take() {
            let peer = &mut self.peers[replica.index()];
            if peer.link.is_some() {
                continue;
            }
            let failure = answer.map(|found| peer.known = found).err();
            match (peer.next_known(), failure) {
                (Some(socket), _) => dials.push((replica, socket)),
                (None, failure) => {
                    let why = failure.unwrap_or_else(|| io::ErrorKind::NotFound.into());
                    self.dial_failed(replica, LinkError::Name(why), now);
                }
            }
        }
        dials
    }
}

/// Queues a frame on an established link, for the next poll to write.
#[inline]
fn push<L: Linked>(link: &mut L, frame: Bytes, max_bytes: usize, counters: &mut Counters, dirty: &mut Vec<LinkId>) {
    let is_queued = link.push(frame, Lane::Ordinary, max_bytes);
    queued(link, is_queued, counters, dirty);
}

/// Counts a frame as dropped unless it `is_queued`, and ensures that its link is written.
#[inline]
fn queued<L: Linked>(link: &mut L, is_queued: bool, counters: &mut Counters, dirty: &mut Vec<LinkId>) {
    if !is_queued {
        counters.frames_dropped += 1;
    } else if !link.dirty && !link.is_blocked() {
        link.dirty = true;
        dirty.push(link.id);
    }
}
