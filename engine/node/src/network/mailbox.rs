//! The mailbox between a replica's thread and its network thread: two bounded queues, and the rules of blocking.
//!
//! Only the replica's thread ever waits for the other one: for arrivals if it has nothing else to do, and for space in
//! the command queue, which the network thread empties even if all other queues are full. So the two cannot deadlock.

use super::arrival::Arrival;
use bytes::Bytes;
use quorate_consensus::Message;
use quorate_network::channels::Agreed;
use quorate_network::transports::{Counters, LinkId, Refusal};
use quorate_types::meter::Tallies;
use quorate_types::stages::StageCounts;
use quorate_types::{Encoder, Lane, ReplicaId};
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum bytes of arrivals that the replica has not taken; beyond it, the network is not read.
pub const MAX_ARRIVED_BYTES: usize = 16 << 20;
/// Maximum bytes of commands that the network thread has not taken; beyond it, the replica waits.
pub const MAX_COMMANDED_BYTES: usize = 16 << 20;

/// Encodes a frame, on the sending thread.
pub type EncodeFrame = Box<dyn FnOnce(&mut Encoder) -> Bytes + Send>;

/// A frame for a client that the network thread encodes and sends.
pub struct DeferredFrame {
    pub link: LinkId,
    /// Its approximate length in bytes.
    pub bytes: usize,
    /// Number of times that it is sent.
    pub times: usize,
    pub encode: EncodeFrame,
}

/// Command from the replica to its network thread.
pub(crate) enum IoCommand {
    SendTo(ReplicaId, Bytes, Lane),
    Send(LinkId, Bytes),
    SendDeferred(DeferredFrame),
    Release(LinkId, usize),
    Vouch(LinkId, bool),
    Close(LinkId, String),
    Defer(Option<Duration>),
    Report,
}

impl IoCommand {
    /// Returns its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let frame = match self {
            IoCommand::SendTo(_, frame, _) | IoCommand::Send(_, frame) => frame.len(),
            IoCommand::SendDeferred(deferred) => deferred.bytes,
            _ => 0,
        };
        frame + size_of::<IoCommand>()
    }
}

/// Report of the network thread about itself.
#[derive(Clone, Default)]
pub struct Report {
    pub counters: Counters,
    pub round_trips: Vec<(ReplicaId, Duration)>,
    /// Wire versions of the links to other replicas.
    pub agreed: Vec<(ReplicaId, Agreed)>,
    /// Cryptographic work of its thread: hashes and channel encryption.
    pub work: Tallies,
    pub stages: Option<StageCounts>,
    /// CPU time of its thread, in nanoseconds; `None` without a separate thread.
    pub cpu_ns: Option<u64>,
}

/// How the network thread ended.
pub(crate) enum End {
    Failed(io::Error),
    Panicked(Box<dyn Any + Send>),
}

/// Queue for the replica.
pub(crate) struct Arrivals<M: Message> {
    pub list: Vec<Arrival<M>>,
    pub bytes: usize,
    pub refusals: Vec<Refusal>,
    /// Client links whose congestion has begun or ended.
    pub congested: Vec<(LinkId, bool)>,
    pub connected: Vec<ReplicaId>,
    pub report: Report,
    /// Number of reports so far.
    pub reports: u64,
    pub end: Option<End>,
    /// Whether the network thread has ended and sends no more reports.
    pub has_ended: bool,
    /// Whether the replica must look for work elsewhere.
    is_woken: bool,
    /// Whether the replica is waiting.
    is_awaited: bool,
}

impl<M: Message> Arrivals<M> {
    fn has_news(&self) -> bool {
        !self.list.is_empty()
            || !self.refusals.is_empty()
            || !self.congested.is_empty()
            || self.end.is_some()
            || self.is_woken
    }
}

/// Queue for the network thread.
#[derive(Default)]
struct Commands {
    list: Vec<IoCommand>,
    bytes: usize,
    /// Whether the replica is waiting for space.
    is_awaited: bool,
    /// Whether the replica has no further commands, and requests its transport back.
    ends: bool,
}

/// The queues of one replica.
pub(crate) struct Mailbox<M: Message> {
    arrivals: Mutex<Arrivals<M>>,
    arrived: Condvar,
    commands: Mutex<Commands>,
    taken: Condvar,
    /// Whether there are commands, or the end was requested.
    has_commands: AtomicBool,
    /// Whether the network thread sleeps, or is about to.
    sleeps: AtomicBool,
    /// Whether the replica leads, for the measurement of stages.
    pub leads: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Message> Mailbox<M> {
    pub fn new(connected: Vec<ReplicaId>) -> Mailbox<M> {
        let arrivals = Arrivals {
            list: Vec::new(),
            bytes: 0,
            refusals: Vec::new(),
            congested: Vec::new(),
            connected,
            report: Report::default(),
            reports: 0,
            end: None,
            has_ended: false,
            is_woken: false,
            is_awaited: false,
        };
        Mailbox {
            arrivals: Mutex::new(arrivals),
            arrived: Condvar::new(),
            commands: Mutex::default(),
            taken: Condvar::new(),
            has_commands: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            leads: AtomicBool::new(false),
        }
    }

    /// Ends the replica's wait.
    pub fn wake(&self) {
        self.deliver(|arrivals| arrivals.is_woken = true);
    }

    /// Adds arrivals, and wakes the replica if it is waiting for them.
    pub fn deliver(&self, add: impl FnOnce(&mut Arrivals<M>)) {
        let mut arrivals = lock(&self.arrivals);
        add(&mut arrivals);
        if arrivals.is_awaited && arrivals.has_news() {
            arrivals.is_awaited = false;
            drop(arrivals);
            self.arrived.notify_all();
        }
    }

    /// Returns whether the replica's queue is so full that the network must not be read.
    pub fn is_full(&self) -> bool {
        lock(&self.arrivals).bytes >= MAX_ARRIVED_BYTES
    }

    /// Waits for arrivals for at most `timeout` (`None`: until there are some), and then passes them to `take`.
    pub fn wait<T>(&self, timeout: Option<Duration>, take: impl FnOnce(&mut Arrivals<M>) -> T) -> T {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut arrivals = lock(&self.arrivals);
        while !arrivals.has_news() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            arrivals.is_awaited = true;
            arrivals = match left {
                Some(left) => self.arrived.wait_timeout(arrivals, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.arrived.wait(arrivals).unwrap_or_else(PoisonError::into_inner),
            };
        }
        (arrivals.is_awaited, arrivals.is_woken) = (false, false);
        take(&mut arrivals)
    }

    /// Returns a report made by the network thread after this call, or the last one if the thread has ended. `wake`
    /// wakes the network thread.
    pub fn report(&self, wake: &dyn Fn()) -> Report {
        let before = lock(&self.arrivals).reports;
        self.give(&mut vec![IoCommand::Report], wake);
        let mut arrivals = lock(&self.arrivals);
        while arrivals.reports == before && !arrivals.has_ended {
            arrivals = self.arrived.wait(arrivals).unwrap_or_else(PoisonError::into_inner);
        }
        arrivals.report.clone()
    }

    /// Replaces the last report and wakes a core that waits for one.
    pub fn publish(&self, report: Report) {
        let mut arrivals = lock(&self.arrivals);
        (arrivals.report, arrivals.reports) = (report, arrivals.reports + 1);
        drop(arrivals);
        self.arrived.notify_all();
    }

    /// Returns a figure of the arrivals.
    pub fn look<T>(&self, figure: impl FnOnce(&Arrivals<M>) -> T) -> T {
        figure(&lock(&self.arrivals))
    }

    /// Queues commands, after waiting for space. `wake` wakes the network thread if it sleeps.
    pub fn give(&self, list: &mut Vec<IoCommand>, wake: &dyn Fn()) {
        let mut commands = lock(&self.commands);
        while commands.bytes >= MAX_COMMANDED_BYTES && !commands.ends {
            // Its queue is not empty, so it was woken.
            commands.is_awaited = true;
            commands = self.taken.wait(commands).unwrap_or_else(PoisonError::into_inner);
        }
        commands.bytes += list.iter().map(IoCommand::bytes).sum::<usize>();
        commands.list.append(list);
        drop(commands);
        self.announce(wake);
    }

    /// Requests the network thread to end, after the commands so far.
    pub fn end(&self, wake: &dyn Fn()) {
        lock(&self.commands).ends = true;
        self.announce(wake);
    }

    fn announce(&self, wake: &dyn Fn()) {
        self.has_commands.store(true, Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::SeqCst) {
            wake();
        }
    }

    /// Takes all commands, in exchange for an empty list whose memory is reused. Returns whether the replica requests
    /// its transport back.
    pub fn take_commands(&self, list: &mut Vec<IoCommand>) -> bool {
        assert!(list.is_empty(), "the last commands were carried out");
        if !self.has_commands() {
            return false;
        }
        let mut commands = lock(&self.commands);
        self.has_commands.store(false, Ordering::SeqCst);
        commands.bytes = 0;
        std::mem::swap(&mut commands.list, list);
        let (ends, is_awaited) = (commands.ends, std::mem::take(&mut commands.is_awaited));
        drop(commands);
        if is_awaited {
            self.taken.notify_all();
        }
        ends
    }

    /// Returns whether there are commands for the network thread.
    pub fn has_commands(&self) -> bool {
        self.has_commands.load(Ordering::SeqCst)
    }

    /// Records that the network thread is about to sleep, or is awake. Commands queued before are visible afterwards.
    pub fn sleep(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::SeqCst);
    }

    /// Refuses to wait for a network thread that has ended.
    pub fn closed(&self) {
        lock(&self.commands).ends = true;
        self.taken.notify_all();
        self.arrived.notify_all();
    }
}
