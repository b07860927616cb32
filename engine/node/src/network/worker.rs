//! The thread of a replica's network: reads, decodes, hashes and writes.

use super::arrival::Arrival;
use super::mailbox::{DeferredFrame, End, IoCommand, Mailbox, Report};
use quorate_consensus::Message;
use quorate_network::transports::{Event, LinkId, Remote, Transport};
use quorate_storage::account::thread_cpu_ns;
use quorate_types::meter;
use quorate_types::{Encoder, PayloadPath, ReplicaId, stages};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Number of events decoded before the replica gets them and before its commands are executed.
const EVENTS_AT_ONCE: usize = 32;
/// Pause while the replica's queue of arrivals is full. Commands are executed meanwhile.
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// Time after which the network is polled again before further frames are encoded. Signing a reply takes 7 us to a
/// millisecond, and replicas' messages must not wait for many of them.
const ENCODING_AT_ONCE: Duration = Duration::from_micros(100);
/// Maximum number of frames waiting to be encoded; beyond it, no further commands are executed.
const MAX_DEFERRED: usize = 4096;

/// State of the network thread.
pub(super) struct Worker<M: Message> {
    transport: Box<dyn Transport>,
    mailbox: Arc<Mailbox<M>>,
    path: PayloadPath,
    me: ReplicaId,
    replicas: u16,
    /// Client links with too much unread.
    congested: BTreeSet<LinkId>,
    /// Client links written since the last check of congestion.
    written: BTreeSet<LinkId>,
    /// Reused buffer for the commands being executed.
    commands: Vec<IoCommand>,
    /// Reused buffer for the arrivals being passed on.
    arrivals: Vec<Arrival<M>>,
    /// Frames for clients that are not encoded yet.
    deferred: VecDeque<DeferredFrame>,
    encoder: Encoder,
    /// Whether the replica requests its transport back.
    ends: bool,
}

impl<M: Message> Worker<M> {
    /// Creates the worker of the thread of replica `me` of `replicas`.
    pub fn new(
        transport: Box<dyn Transport>,
        mailbox: Arc<Mailbox<M>>,
        path: PayloadPath,
        me: ReplicaId,
        replicas: u16,
    ) -> Worker<M> {
        Worker {
            transport,
            mailbox,
            path,
            me,
            replicas,
            congested: BTreeSet::new(),
            written: BTreeSet::new(),
            commands: Vec::new(),
            arrivals: Vec::new(),
            deferred: VecDeque::new(),
            encoder: Encoder::default(),
            ends: false,
        }
    }

    /// Works until the replica requests its transport back.
    pub fn run(mut self) -> Box<dyn Transport> {
        meter::time_with(thread_cpu_ns);
        stages::begin_thread();
        let mailbox = self.mailbox.clone();
        let worked = panic::catch_unwind(AssertUnwindSafe(|| self.work()));
        let end = match worked {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(End::Failed(error)),
            Err(panicked) => Some(End::Panicked(panicked)),
        };
        if end.is_some() {
            mailbox.deliver(|arrivals| (arrivals.end, arrivals.has_ended) = (end, true));
            mailbox.closed();
        }
        self.transport
    }

    fn work(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            stages::begin_turn(self.mailbox.leads.load(Ordering::Relaxed));
            self.carry_out();
            if self.ends {
                self.encode(Duration::MAX);
                return Ok(());
            }
            self.encode(ENCODING_AT_ONCE);
            match self.mailbox.is_full() {
                true => {
                    self.transport.flush_replicas();
                    if self.deferred.is_empty() {
                        thread::sleep(FULL_PAUSE);
                    }
                }
                false => {
                    self.poll(&mut events)?;
                    self.deliver(&mut events);
                }
            }
            stages::end_turn();
        }
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.mailbox.sleep(true);
        let wait = (self.mailbox.has_commands() || !self.deferred.is_empty()).then_some(Duration::ZERO);
        let polled = self.transport.poll(wait, events);
        self.mailbox.sleep(false);
        polled
    }

    /// Executes the replica's commands.
    fn carry_out(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        self.ends |= self.mailbox.take_commands(&mut commands);
        for command in commands.drain(..) {
            match command {
                IoCommand::SendTo(to, frame, lane) => self.transport.send_to(to, frame, lane),
                IoCommand::Send(link, frame) => {
                    self.written.insert(link);
                    self.transport.send(link, frame);
                }
                IoCommand::SendDeferred(frame) => {
                    self.deferred.push_back(frame);
                    if self.deferred.len() > MAX_DEFERRED {
                        self.encode(ENCODING_AT_ONCE);
                    }
                }
                IoCommand::Release(link, bytes) => self.transport.release(link, bytes),
                IoCommand::Vouch(link, genuine) => self.transport.vouch(link, genuine),
                IoCommand::Close(link, why) => self.transport.close(link, why),
                IoCommand::Defer(patience) => self.transport.defer_clients(patience),
                IoCommand::Report => self.mailbox.publish(self.report()),
            }
        }
        self.commands = commands;
    }

    /// Encodes and sends deferred frames; begins with none after a time of `most`.
    fn encode(&mut self, most: Duration) {
        if self.deferred.is_empty() {
            return;
        }
        let begun = Instant::now();
        while begun.elapsed() < most
            && let Some(DeferredFrame { link, times, encode, .. }) = self.deferred.pop_front()
        {
            let frame = encode(&mut self.encoder);
            self.written.insert(link);
            std::iter::repeat_n(frame, times).for_each(|frame| self.transport.send(link, frame));
        }
    }

    fn report(&self) -> Report {
        Report {
            counters: self.transport.counters(),
            round_trips: self.transport.round_trips(),
            agreed: self.transport.agreed(),
            work: meter::of_this_thread(),
            stages: stages::of_this_thread(),
            cpu_ns: Some(thread_cpu_ns()),
        }
    }

    /// Decodes events and passes them on, a few at a time; in between, sends the replica's messages.
    fn deliver(&mut self, events: &mut Vec<Event>) {
        let changes_links = |event: &Event| match event {
            Event::Connected { remote, .. } | Event::Disconnected { remote, .. } => {
                matches!(remote, Remote::Replica(_))
            }
            Event::Received { .. } | Event::Path { .. } => false,
        };
        let connected = events.iter().any(changes_links).then(|| self.connected());
        let (congested, refusals) = (self.congestion(), self.transport.take_refusals());
        if connected.is_some() || !congested.is_empty() || !refusals.is_empty() {
            self.mailbox.deliver(|arrivals| {
                arrivals.congested.extend(congested);
                arrivals.refusals.extend(refusals);
                arrivals.connected = connected.unwrap_or_else(|| std::mem::take(&mut arrivals.connected));
            });
        }
        let mut events = events.drain(..).peekable();
        while events.peek().is_some() {
            let some = events.by_ref().take(EVENTS_AT_ONCE);
            let some = some.map(|event| Arrival::<M>::of(event, &*self.transport).decoded(self.path));
            self.arrivals.extend(some);
            let bytes = self.arrivals.iter().map(Arrival::bytes).sum::<usize>();
            let list = &mut self.arrivals;
            self.mailbox.deliver(|arrivals| {
                arrivals.bytes += bytes;
                arrivals.list.append(list);
            });
            if self.mailbox.has_commands() {
                self.carry_out();
                self.transport.flush_replicas();
            }
        }
    }

    /// Returns the client links whose congestion has begun or ended since the last check.
    fn congestion(&mut self) -> Vec<(LinkId, bool)> {
        let mut changes = Vec::new();
        for link in std::mem::take(&mut self.written) {
            if self.transport.is_congested(link) && self.congested.insert(link) {
                changes.push((link, true));
            }
        }
        let transport = &self.transport;
        self.congested.retain(|link| {
            let stays = transport.is_congested(*link);
            if !stays {
                changes.push((*link, false));
            }
            stays
        });
        changes
    }

    fn connected(&self) -> Vec<ReplicaId> {
        let others = (0..self.replicas).map(ReplicaId).filter(|other| *other != self.me);
        others.filter(|other| self.transport.is_connected(*other)).collect()
    }
}
