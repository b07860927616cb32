//! The replica's end of a network that another thread drives.

use super::arrival::Arrival;
use super::mail::{End, Mail, Order};
use quorate_consensus::Message;
use quorate_storage::Waker;
use quorate_transports::{LinkId, Refusal, Remote, Transport};
use quorate_types::stages;
use std::collections::{HashMap, HashSet};
use std::io;
use std::panic;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Orders that are handed over together in the middle of a turn, so that the network works meanwhile.
const ORDERS_AT_ONCE: usize = 64;
/// Bytes of orders that are handed over in the middle of a turn.
const BYTES_AT_ONCE: usize = 256 << 10;
/// Length of frames that count towards [`MAX_PENDING_BYTES`].
const LARGE_FRAME_BYTES: usize = 4 << 10;
/// Bytes of large frames for a client's link that the network has not taken, beyond which the link is congested. The
/// network notices later than a replica that drives it.
const MAX_PENDING_BYTES: usize = 256 << 10;

/// What the thread of a network returns: the transport, if it got one.
type Returned = Option<Box<dyn Transport>>;

/// A thread that drives the transport. Dropping it ends the thread.
pub(super) struct Apart<M: Message> {
    pub mail: Arc<Mail<M>>,
    thread: Option<JoinHandle<Returned>>,
    /// Wakes the thread.
    pub wake: Waker,
    /// Orders that are not handed over, and about how many bytes they hold.
    orders: Vec<Order>,
    bytes: usize,
    /// Nothing is handed over in the middle of a turn.
    holds: bool,
    /// Clients' links with too much unread, as the network says.
    congested: HashSet<LinkId>,
    /// Bytes of large frames for clients' links that the network has not taken.
    pending: HashMap<LinkId, usize>,
    /// Numbers of clients' addresses.
    pub crowds: HashMap<LinkId, u64>,
    pub refusals: Vec<Refusal>,
    /// The last patience that was ordered.
    pub patience: Option<Duration>,
}

impl<M: Message> Apart<M> {
    pub fn new(mail: Arc<Mail<M>>, thread: JoinHandle<Returned>, wake: Waker, holds: bool) -> Apart<M> {
        Apart {
            mail,
            thread: Some(thread),
            wake,
            orders: Vec::new(),
            bytes: 0,
            holds,
            congested: HashSet::new(),
            pending: HashMap::new(),
            crowds: HashMap::new(),
            refusals: Vec::new(),
            patience: None,
        }
    }

    /// Takes an order. The thread gets it with others, at the latest when the replica waits.
    #[inline]
    pub fn push(&mut self, order: Order) {
        let (link, bytes) = match &order {
            Order::Send(link, frame) => (*link, frame.len()),
            Order::Make(made) => (made.link, made.bytes),
            _ => (LinkId(0), 0),
        };
        if bytes >= LARGE_FRAME_BYTES {
            *self.pending.entry(link).or_default() += bytes;
        }
        self.bytes += order.bytes();
        self.orders.push(order);
        if !self.holds && (self.orders.len() >= ORDERS_AT_ONCE || self.bytes >= BYTES_AT_ONCE) {
            self.hand_over();
        }
    }

    /// Hands over all orders; waits for room if the thread has too many.
    pub fn hand_over(&mut self) {
        if !self.orders.is_empty() {
            self.bytes = 0;
            self.mail.order(&mut self.orders, &*self.wake);
        }
    }

    /// Returns whether there are orders that were not handed over.
    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    pub fn is_congested(&self, link: LinkId) -> bool {
        self.congested.contains(&link) || self.pending.get(&link).is_some_and(|bytes| *bytes >= MAX_PENDING_BYTES)
    }

    /// Hands over all orders, waits for at most `timeout`, and appends what has arrived. Continues a panic of the
    /// thread.
    pub fn poll(&mut self, timeout: Option<Duration>, into: &mut Vec<Arrival<M>>) -> io::Result<()> {
        if !self.mail.has_orders() {
            self.pending.clear();
        }
        self.hand_over();
        let before = into.len();
        let (refusals, congested) = (&mut self.refusals, &mut self.congested);
        let end = stages::wait(|| {
            self.mail.wait(timeout, |news| {
                into.append(&mut news.list);
                news.bytes = 0;
                refusals.append(&mut news.refusals);
                for (link, is_congested) in news.congested.drain(..) {
                    if is_congested {
                        congested.insert(link)
                    } else {
                        congested.remove(&link)
                    };
                }
                news.end.take()
            })
        });
        for arrival in &into[before..] {
            match arrival {
                Arrival::Connected { link, remote: Remote::Client(_), crowd } => {
                    self.crowds.insert(*link, *crowd);
                }
                Arrival::Disconnected { link, .. } => {
                    self.crowds.remove(link);
                    self.congested.remove(link);
                }
                _ => {}
            }
        }
        match end {
            None => Ok(()),
            Some(End::Failed(error)) => Err(error),
            Some(End::Panicked(panicked)) => panic::resume_unwind(panicked),
        }
    }

    /// Ends the thread after all orders so far, and returns its transport; `None` if it ended before.
    pub fn end(&mut self) -> Returned {
        let thread = self.thread.take()?;
        self.hand_over();
        self.mail.end(&*self.wake);
        thread.join().expect("panics are caught and passed on")
    }
}

impl<M: Message> Drop for Apart<M> {
    fn drop(&mut self) {
        self.end();
    }
}
