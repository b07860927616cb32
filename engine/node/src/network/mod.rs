//! A replica's network: its transport, driven by the replica's own thread or by a thread for the network alone
//! ([`replica_threads`](crate::NodeConfig::replica_threads)).

mod arrival;
mod inline;
mod io_thread;
mod mailbox;
mod wakeup;
mod worker;

pub(crate) use arrival::kind_of_request;
pub use arrival::{Arrival, Frame};
pub use mailbox::{DeferredFrame, EncodeFrame, MAX_ARRIVED_BYTES, MAX_COMMANDED_BYTES, Report};
pub use wakeup::Wakeup;

use crate::error::HostError;
use bytes::Bytes;
use inline::Inline;
use io_thread::IoThread;
use quorate_consensus::Message;
use quorate_network::transports::{LinkId, Refusal, Transport};
use quorate_types::{Lane, PayloadPath, ReplicaId};
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Where replies to clients leave, and what is known of their links.
pub trait Outlet {
    /// Queues a frame on a link, as [`Transport::send`].
    fn send(&mut self, link: LinkId, frame: Bytes);
    /// Returns the number of the remote's address, as [`Transport::crowd`].
    fn crowd(&self, link: LinkId) -> u64;
    /// Returns whether another thread sends, and encodes [frames](Outlet::send_deferred) if asked.
    fn has_io_thread(&self) -> bool;
    /// Has a frame encoded by the thread that sends it. It may leave after frames that are sent later.
    fn send_deferred(&mut self, frame: DeferredFrame);
}

/// Drives a replica's transport. Methods that [`Transport`] has as well do the same.
pub trait Driver<M: Message>: Outlet {
    /// Writes what is queued, waits for at most `timeout` (`None`: until something happens), and appends what has
    /// arrived. May return early without anything.
    ///
    /// # Errors
    /// If the operating system refuses to poll.
    fn poll(&mut self, timeout: Option<Duration>, into: &mut Vec<Arrival<M>>) -> io::Result<()>;
    /// Writes what is queued for replicas, or hands everything over.
    fn flush_replicas(&mut self);
    /// Notes whether the replica leads: stages are measured separately for leaders and backups.
    fn leads(&self, leads: bool);
    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane);
    fn defer_clients(&mut self, patience: Option<Duration>);
    fn release(&mut self, link: LinkId, bytes: usize);
    fn is_congested(&self, link: LinkId) -> bool;
    fn vouch(&mut self, link: LinkId, genuine: bool);
    fn close(&mut self, link: LinkId, why: String);
    fn is_connected(&self, replica: ReplicaId) -> bool;
    /// Returns the counters and round trips of the transport, and what its own thread did, if it has one.
    fn report(&self) -> Report;
    fn take_refusals(&mut self) -> Vec<Refusal>;
    /// Returns whether a queued frame has not been given to the operating system, or to the thread that does so.
    fn has_unsent(&self) -> bool;
}

enum Drive<M: Message> {
    Inline(Inline),
    Thread(Box<IoThread<M>>),
}

/// The network of a replica: a [`Driver`] that can change between the two kinds.
pub struct Network<M: Message> {
    drive: Drive<M>,
    wakeup: Wakeup,
}

impl<M: Message> Network<M> {
    /// Makes a network that the calling thread drives. `wakeup` wakes that thread where it waits.
    pub fn new(transport: Box<dyn Transport>, wakeup: Wakeup) -> Network<M> {
        Network { drive: Drive::Inline(Inline::new(transport, wakeup.clone())), wakeup }
    }

    /// Has a thread of its own drive the transport from now on. The replica is `me` of `replicas`. If `holds`, nothing
    /// leaves in the middle of a turn.
    ///
    /// # Errors
    /// [`HostError::Thread`] if the system refuses one.
    pub fn start(&mut self, me: ReplicaId, replicas: u16, path: PayloadPath, holds: bool) -> Result<(), HostError> {
        let Drive::Inline(inline) = &self.drive else { return Ok(()) };
        let others = (0..replicas).map(ReplicaId).filter(|other| *other != me);
        let connected = others.filter(|other| inline.transport.is_connected(*other)).collect();
        let (thread, give) = IoThread::start(&*inline.transport, connected, holds, path, me, replicas)?;
        self.wakeup.set_waker(thread.waker(), true);
        if let Drive::Inline(inline) = std::mem::replace(&mut self.drive, Drive::Thread(Box::new(thread))) {
            give.send(inline.transport).expect("the thread waits for its transport");
        }
        Ok(())
    }

    /// Takes the transport back from its thread, which carries out all commands first. Frames that it has received and
    /// the replica has not are dropped, as in a crash.
    pub fn take_back(&mut self) {
        let Drive::Thread(thread) = &mut self.drive else { return };
        if let Some(transport) = thread.end() {
            self.wakeup.set_waker(transport.waker(), false);
            self.drive = Drive::Inline(Inline::new(transport, self.wakeup.clone()));
        }
    }

    /// Closes the listeners before shutdown, as [`Transport::stop_accepting`], on the calling thread.
    pub fn stop_accepting(&mut self) {
        self.take_back();
        if let Drive::Inline(inline) = &mut self.drive {
            inline.transport.stop_accepting();
        }
    }
}

impl<M: Message> Deref for Network<M> {
    type Target = dyn Driver<M>;

    #[inline]
    fn deref(&self) -> &(dyn Driver<M> + 'static) {
        match &self.drive {
            Drive::Inline(inline) => inline,
            Drive::Thread(thread) => &**thread,
        }
    }
}

impl<M: Message> DerefMut for Network<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut (dyn Driver<M> + 'static) {
        match &mut self.drive {
            Drive::Inline(inline) => inline,
            Drive::Thread(thread) => &mut **thread,
        }
    }
}
