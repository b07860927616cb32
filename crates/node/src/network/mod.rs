//! A replica's network: its transport, driven by the replica's own thread or by a thread for the network alone
//! ([`replica_threads`](crate::NodeConfig::replica_threads)).

mod apart;
mod arrival;
mod mail;
mod worker;

pub(crate) use arrival::kind_of_request;
pub use arrival::{Arrival, Frame};
pub use mail::{MAX_ARRIVED_BYTES, MAX_ORDERED_BYTES, Made, Report};

use crate::error::HostError;
use apart::Apart;
use bytes::Bytes;
use mail::{Mail, Order};
use quorate_consensus::Message;
use quorate_storage::{Waker, account};
use quorate_transports::{Event, LinkId, Refusal, Transport};
use quorate_types::{Encoder, PayloadPath, ReplicaId};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use worker::Worker;

/// Wakes a replica's thread wherever it waits, now or later. A thread that is at work is not disturbed: it hears the
/// bell before it waits again.
#[derive(Clone)]
pub struct Bell(Arc<Rings>);

struct Rings {
    waker: Mutex<Waker>,
    /// It rang, and the replica has not looked for work since.
    has_rung: AtomicBool,
    /// The replica waits, or is about to.
    is_awaited: AtomicBool,
    /// Whoever waits is woken by each ring.
    is_direct: AtomicBool,
}

impl Bell {
    pub fn new(waker: Waker) -> Bell {
        let flag = || AtomicBool::new(false);
        Bell(Arc::new(Rings { waker: Mutex::new(waker), has_rung: flag(), is_awaited: flag(), is_direct: flag() }))
    }

    /// Returns a function that wakes the replica.
    pub fn waker(&self) -> Waker {
        let Bell(rings) = self.clone();
        Arc::new(move || {
            rings.has_rung.store(true, Ordering::SeqCst);
            if rings.is_awaited.swap(false, Ordering::SeqCst) || rings.is_direct.load(Ordering::SeqCst) {
                let waker = rings.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
                waker();
            }
        })
    }

    /// Waits by `wait`, with this timeout at most, and not at all if the bell has rung.
    fn while_awaited<T>(&self, timeout: Option<Duration>, wait: impl FnOnce(Option<Duration>) -> T) -> T {
        let Bell(rings) = self;
        // A ring between the two is seen by the second; one after it sees the first.
        rings.is_awaited.store(true, Ordering::SeqCst);
        let timeout = if rings.has_rung.load(Ordering::SeqCst) { Some(Duration::ZERO) } else { timeout };
        let waited = wait(timeout);
        rings.is_awaited.store(false, Ordering::SeqCst);
        // Whatever it rang for is there, and the replica looks for it now.
        rings.has_rung.store(false, Ordering::SeqCst);
        waited
    }

    /// Wakes by `waker` from now on; always, or only while the replica is in [`Bell::while_awaited`].
    fn rings(&self, waker: Waker, is_direct: bool) {
        let Bell(rings) = self;
        *rings.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
        rings.is_direct.store(is_direct, Ordering::SeqCst);
    }
}

/// Where replies to clients leave, and what is known of their links.
pub trait Outlet {
    /// Queues a frame on a link, as [`Transport::send`].
    fn send(&mut self, link: LinkId, frame: Bytes);
    /// Returns the number of the remote's address, as [`Transport::crowd`].
    fn crowd(&self, link: LinkId) -> u64;
    /// Returns whether another thread sends, and encodes [frames](Outlet::make) if asked.
    fn is_apart(&self) -> bool;
    /// Has a frame encoded by the thread that sends it. It may leave after frames that are sent later.
    fn make(&mut self, made: Made);
}

enum Drive<M: Message> {
    Inline(Box<dyn Transport>),
    Apart(Box<Apart<M>>),
}

/// The network of a replica.
pub struct Network<M: Message> {
    drive: Drive<M>,
    bell: Bell,
    events: Vec<Event>,
}

impl<M: Message> Network<M> {
    /// Makes a network that the calling thread drives. `bell` rings where that thread waits.
    pub fn new(transport: Box<dyn Transport>, bell: Bell) -> Network<M> {
        Network { drive: Drive::Inline(transport), bell, events: Vec::new() }
    }

    /// Has a thread of its own drive the transport from now on. The replica is `me` of `replicas`. If `holds`, nothing
    /// leaves in the middle of a turn.
    ///
    /// # Errors
    /// [`HostError::Thread`] if the system refuses one.
    pub fn start(&mut self, me: ReplicaId, replicas: u16, path: PayloadPath, holds: bool) -> Result<(), HostError> {
        let Drive::Inline(transport) = &self.drive else { return Ok(()) };
        let connected = (0..replicas).map(ReplicaId).filter(|other| *other != me && transport.is_connected(*other));
        let (mail, wake) = (Arc::new(Mail::new(connected.collect())), transport.waker());
        let (give, given) = mpsc::channel();
        let theirs = mail.clone();
        let run = move || given.recv().ok().map(|transport| Worker::new(transport, theirs, path, me, replicas).run());
        let thread = account::spawn(thread::Builder::new().name("network".to_owned()), run);
        let thread = thread.map_err(|source| HostError::Thread { purpose: "drive the network on", source })?;
        let woken = mail.clone();
        self.bell.rings(Arc::new(move || woken.wake()), true);
        if let Drive::Inline(transport) =
            std::mem::replace(&mut self.drive, Drive::Apart(Box::new(Apart::new(mail, thread, wake, holds))))
        {
            give.send(transport).expect("the thread waits for its transport");
        }
        Ok(())
    }

    /// Takes the transport back from its thread, which carries out all orders first. Frames that it has received and
    /// the replica has not are dropped, as in a crash.
    pub fn take_back(&mut self) {
        let Drive::Apart(apart) = &mut self.drive else { return };
        if let Some(transport) = apart.end() {
            self.bell.rings(transport.waker(), false);
            self.drive = Drive::Inline(transport);
        }
    }

    /// Writes what is queued, waits for at most `timeout` (`None`: until something happens), and appends what has
    /// arrived. May return early without anything.
    ///
    /// # Errors
    /// If the operating system refuses to poll.
    pub fn poll(&mut self, timeout: Option<Duration>, into: &mut Vec<Arrival<M>>) -> io::Result<()> {
        match &mut self.drive {
            Drive::Inline(transport) => {
                self.bell.while_awaited(timeout, |timeout| transport.poll(timeout, &mut self.events))?;
                into.extend(self.events.drain(..).map(|event| Arrival::of(event, &**transport)));
                Ok(())
            }
            Drive::Apart(apart) => apart.poll(timeout, into),
        }
    }

    /// Writes what is queued for replicas, or hands everything over.
    pub fn flush_replicas(&mut self) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.flush_replicas(),
            Drive::Apart(apart) => apart.hand_over(),
        }
    }

    /// Notes whether the replica leads, which stages are told apart by.
    pub fn leads(&self, leads: bool) {
        if let Drive::Apart(apart) = &self.drive {
            apart.mail.leads.store(leads, Ordering::Relaxed);
        }
    }

    pub fn send_to(&mut self, to: ReplicaId, frame: Bytes) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.send_to(to, frame),
            Drive::Apart(apart) => apart.push(Order::SendTo(to, frame)),
        }
    }

    pub fn send_bulk_to(&mut self, to: ReplicaId, frame: Bytes) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.send_bulk_to(to, frame),
            Drive::Apart(apart) => apart.push(Order::SendBulkTo(to, frame)),
        }
    }

    pub fn send_vote_to(&mut self, to: ReplicaId, frame: Bytes) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.send_vote_to(to, frame),
            Drive::Apart(apart) => apart.push(Order::SendVoteTo(to, frame)),
        }
    }

    pub fn defer_clients(&mut self, patience: Option<Duration>) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.defer_clients(patience),
            Drive::Apart(apart) if apart.patience == patience => {}
            Drive::Apart(apart) => {
                apart.patience = patience;
                apart.push(Order::Defer(patience));
            }
        }
    }

    pub fn release(&mut self, link: LinkId, bytes: usize) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.release(link, bytes),
            Drive::Apart(apart) => apart.push(Order::Release(link, bytes)),
        }
    }

    pub fn is_congested(&self, link: LinkId) -> bool {
        match &self.drive {
            Drive::Inline(transport) => transport.is_congested(link),
            Drive::Apart(apart) => apart.is_congested(link),
        }
    }

    pub fn vouch(&mut self, link: LinkId, genuine: bool) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.vouch(link, genuine),
            Drive::Apart(apart) => apart.push(Order::Vouch(link, genuine)),
        }
    }

    pub fn close(&mut self, link: LinkId, why: String) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.close(link, why),
            Drive::Apart(apart) => apart.push(Order::Close(link, why)),
        }
    }

    pub fn is_connected(&self, replica: ReplicaId) -> bool {
        match &self.drive {
            Drive::Inline(transport) => transport.is_connected(replica),
            Drive::Apart(apart) => apart.mail.look(|arrivals| arrivals.connected.contains(&replica)),
        }
    }

    /// Returns the counters and round trips of the transport, and what its own thread did, if it has one.
    pub fn report(&self) -> Report {
        match &self.drive {
            Drive::Inline(transport) => {
                Report { counters: transport.counters(), round_trips: transport.round_trips(), ..Report::default() }
            }
            Drive::Apart(apart) => apart.mail.report(&*apart.wake),
        }
    }

    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        match &mut self.drive {
            Drive::Inline(transport) => transport.take_refusals(),
            Drive::Apart(apart) => std::mem::take(&mut apart.refusals),
        }
    }

    /// Closes the listeners before shutdown, as [`Transport::stop_accepting`], on the calling thread.
    pub fn stop_accepting(&mut self) {
        self.take_back();
        if let Drive::Inline(transport) = &mut self.drive {
            transport.stop_accepting();
        }
    }

    /// Returns whether a queued frame has not been given to the operating system yet.
    pub fn has_unsent(&self) -> bool {
        match &self.drive {
            Drive::Inline(transport) => transport.has_unsent(),
            Drive::Apart(apart) => apart.has_orders(),
        }
    }
}

impl<M: Message> Outlet for Network<M> {
    #[inline]
    fn send(&mut self, link: LinkId, frame: Bytes) {
        match &mut self.drive {
            Drive::Inline(transport) => transport.send(link, frame),
            Drive::Apart(apart) => apart.push(Order::Send(link, frame)),
        }
    }

    fn crowd(&self, link: LinkId) -> u64 {
        match &self.drive {
            Drive::Inline(transport) => transport.crowd(link),
            Drive::Apart(apart) => apart.crowds.get(&link).copied().unwrap_or_default(),
        }
    }

    fn is_apart(&self) -> bool {
        matches!(self.drive, Drive::Apart(_))
    }

    fn make(&mut self, made: Made) {
        match &mut self.drive {
            Drive::Inline(transport) => {
                let frame = (made.make)(&mut Encoder::default());
                std::iter::repeat_n(frame, made.times).for_each(|frame| transport.send(made.link, frame));
            }
            Drive::Apart(apart) => apart.push(Order::Make(made)),
        }
    }
}
