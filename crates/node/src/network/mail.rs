//! Mail between a replica's thread and the thread of its network: two bounded boxes, and who waits for which.
//!
//! Only the replica's thread ever waits for the other one: for arrivals if it has nothing else to do, and for room in
//! the box of orders, which the thread of the network empties whatever else is full. So the two cannot wait for each
//! other.

use super::arrival::Arrival;
use bytes::Bytes;
use quorate_consensus::Message;
use quorate_transports::{Counters, LinkId, Refusal};
use quorate_types::meter::Tallies;
use quorate_types::stages::StageCounts;
use quorate_types::{Encoder, ReplicaId};
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of arrivals that the replica has not taken; beyond them, the network is not read.
pub const MAX_ARRIVED_BYTES: usize = 16 << 20;
/// Bytes of orders that the network has not taken; beyond them, the replica waits.
pub const MAX_ORDERED_BYTES: usize = 16 << 20;

/// Encodes a frame, on whichever thread sends it.
pub type Make = Box<dyn FnOnce(&mut Encoder) -> Bytes + Send>;

/// A frame for a client that the network encodes and sends.
pub struct Made {
    pub link: LinkId,
    /// About how many bytes it will have.
    pub bytes: usize,
    /// How often it is sent.
    pub times: usize,
    pub make: Make,
}

/// What the replica wants of the network.
pub(crate) enum Order {
    SendTo(ReplicaId, Bytes),
    SendBulkTo(ReplicaId, Bytes),
    SendVoteTo(ReplicaId, Bytes),
    Send(LinkId, Bytes),
    Make(Made),
    Release(LinkId, usize),
    Vouch(LinkId, bool),
    Close(LinkId, String),
    Defer(Option<Duration>),
    Report,
}

impl Order {
    /// Returns about how many bytes it holds.
    pub fn bytes(&self) -> usize {
        let frame = match self {
            Order::SendTo(_, frame)
            | Order::SendBulkTo(_, frame)
            | Order::SendVoteTo(_, frame)
            | Order::Send(_, frame) => frame.len(),
            Order::Make(made) => made.bytes,
            _ => 0,
        };
        frame + size_of::<Order>()
    }
}

/// What the thread of the network says of itself.
#[derive(Clone, Default)]
pub struct Report {
    pub counters: Counters,
    pub round_trips: Vec<(ReplicaId, Duration)>,
    /// The cryptography of its thread: hashes, and what channels do.
    pub work: Tallies,
    pub stages: Option<StageCounts>,
    /// CPU time of its thread, in nanoseconds; `None` if it has none.
    pub cpu_ns: Option<u64>,
}

/// How the thread of the network ended.
pub(crate) enum End {
    Failed(io::Error),
    Panicked(Box<dyn Any + Send>),
}

/// For the replica.
pub(crate) struct Arrivals<M: Message> {
    pub list: Vec<Arrival<M>>,
    pub bytes: usize,
    pub refusals: Vec<Refusal>,
    /// Clients' links that have become congested, or are not any more.
    pub congested: Vec<(LinkId, bool)>,
    /// Replicas that are connected.
    pub connected: Vec<ReplicaId>,
    pub report: Report,
    /// Number of reports so far.
    pub reports: u64,
    pub end: Option<End>,
    /// The thread of the network has ended, and makes no report any more.
    pub has_ended: bool,
    /// The replica is to look for work elsewhere.
    is_woken: bool,
    /// The replica waits.
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

/// For the network.
#[derive(Default)]
struct Orders {
    list: Vec<Order>,
    bytes: usize,
    /// The replica waits for room.
    is_awaited: bool,
    /// The replica has no further orders, and wants its transport back.
    ends: bool,
}

/// The boxes of one replica.
pub(crate) struct Mail<M: Message> {
    arrivals: Mutex<Arrivals<M>>,
    arrived: Condvar,
    orders: Mutex<Orders>,
    taken: Condvar,
    /// There are orders, or the end.
    has_orders: AtomicBool,
    /// The thread of the network sleeps, or is about to.
    sleeps: AtomicBool,
    /// The replica leads, as far as stages are concerned.
    pub leads: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Message> Mail<M> {
    pub fn new(connected: Vec<ReplicaId>) -> Mail<M> {
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
        Mail {
            arrivals: Mutex::new(arrivals),
            arrived: Condvar::new(),
            orders: Mutex::default(),
            taken: Condvar::new(),
            has_orders: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            leads: AtomicBool::new(false),
        }
    }

    /// Ends the replica's wait.
    pub fn wake(&self) {
        self.deliver(|arrivals| arrivals.is_woken = true);
    }

    /// Adds to what has arrived, and wakes the replica if it waits for news.
    pub fn deliver(&self, add: impl FnOnce(&mut Arrivals<M>)) {
        let mut arrivals = lock(&self.arrivals);
        add(&mut arrivals);
        if arrivals.is_awaited && arrivals.has_news() {
            arrivals.is_awaited = false;
            drop(arrivals);
            self.arrived.notify_all();
        }
    }

    /// Returns whether the replica has more to take than the network may read.
    pub fn is_full(&self) -> bool {
        lock(&self.arrivals).bytes >= MAX_ARRIVED_BYTES
    }

    /// Waits for news for at most `timeout` (`None`: until there are some), and then looks at them.
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

    /// Returns a report that the network made after this call, or the last one if it has ended. `wake` wakes the
    /// network.
    pub fn report(&self, wake: &dyn Fn()) -> Report {
        let before = lock(&self.arrivals).reports;
        self.order(&mut vec![Order::Report], wake);
        let mut arrivals = lock(&self.arrivals);
        while arrivals.reports == before && !arrivals.has_ended {
            arrivals = self.arrived.wait(arrivals).unwrap_or_else(PoisonError::into_inner);
        }
        arrivals.report.clone()
    }

    /// Publishes a report.
    pub fn publish(&self, report: Report) {
        let mut arrivals = lock(&self.arrivals);
        (arrivals.report, arrivals.reports) = (report, arrivals.reports + 1);
        drop(arrivals);
        self.arrived.notify_all();
    }

    /// Returns what `figure` says of what has arrived.
    pub fn look<T>(&self, figure: impl FnOnce(&Arrivals<M>) -> T) -> T {
        figure(&lock(&self.arrivals))
    }

    /// Hands orders over, once there is room for them. `wake` wakes the network if it sleeps.
    pub fn order(&self, list: &mut Vec<Order>, wake: &dyn Fn()) {
        let mut orders = lock(&self.orders);
        while orders.bytes >= MAX_ORDERED_BYTES && !orders.ends {
            // Its box is not empty, so it was woken.
            orders.is_awaited = true;
            orders = self.taken.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        orders.bytes += list.iter().map(Order::bytes).sum::<usize>();
        orders.list.append(list);
        drop(orders);
        self.announce(wake);
    }

    /// Tells the network to end, after the orders so far.
    pub fn end(&self, wake: &dyn Fn()) {
        lock(&self.orders).ends = true;
        self.announce(wake);
    }

    fn announce(&self, wake: &dyn Fn()) {
        self.has_orders.store(true, Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::SeqCst) {
            wake();
        }
    }

    /// Takes all orders, in exchange for an empty list whose memory is used again. Returns whether the replica wants its
    /// transport back.
    pub fn take_orders(&self, list: &mut Vec<Order>) -> bool {
        assert!(list.is_empty(), "the orders before were carried out");
        if !self.has_orders() {
            return false;
        }
        let mut orders = lock(&self.orders);
        self.has_orders.store(false, Ordering::SeqCst);
        orders.bytes = 0;
        std::mem::swap(&mut orders.list, list);
        let (ends, is_awaited) = (orders.ends, std::mem::take(&mut orders.is_awaited));
        drop(orders);
        if is_awaited {
            self.taken.notify_all();
        }
        ends
    }

    /// Returns whether the network has orders to take.
    pub fn has_orders(&self) -> bool {
        self.has_orders.load(Ordering::SeqCst)
    }

    /// Notes that the network goes to sleep, or does not any more. Orders that were given before are seen after.
    pub fn sleep(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::SeqCst);
    }

    /// Refuses to wait for a network that has ended.
    pub fn closed(&self) {
        lock(&self.orders).ends = true;
        self.taken.notify_all();
        self.arrived.notify_all();
    }
}
