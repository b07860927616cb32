//! A replica's network: its transport, driven by the replica's own thread or by a dedicated network thread
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

/// Output for replies to clients, and properties of their links.
pub trait Outlet {
    /// Queues a frame on a link, like [`Transport::send`].
    fn send(&mut self, link: LinkId, frame: Bytes);
    /// Returns the source group of a link, like [`Transport::source_group`].
    fn source_group(&self, link: LinkId) -> u64;
    /// Returns whether another thread sends, and encodes [deferred frames](Outlet::send_deferred).
    fn has_io_thread(&self) -> bool;
    /// Queues a frame that the sending thread encodes. It may be sent after frames queued later.
    fn send_deferred(&mut self, frame: DeferredFrame);
}

/// Drives a replica's transport. Methods that also exist in [`Transport`] have the same meaning.
pub trait Driver<M: Message>: Outlet {
    /// Writes queued frames, waits for at most `timeout` (`None`: until something happens), and appends the arrivals.
    /// May return early without any.
    ///
    /// # Errors
    /// If polling fails.
    fn poll(&mut self, timeout: Option<Duration>, into: &mut Vec<Arrival<M>>) -> io::Result<()>;
    /// Writes frames queued for replicas, or passes everything to the network thread.
    fn flush_replicas(&mut self);
    /// Records whether the replica leads: stages are measured separately for leaders and backups.
    fn leads(&self, leads: bool);
    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane);
    fn defer_clients(&mut self, patience: Option<Duration>);
    fn release(&mut self, link: LinkId, bytes: usize);
    fn is_congested(&self, link: LinkId) -> bool;
    fn vouch(&mut self, link: LinkId, genuine: bool);
    fn close(&mut self, link: LinkId, why: String);
    fn is_connected(&self, replica: ReplicaId) -> bool;
    /// Returns the counters and round-trip times of the transport, and the work of its own thread, if it has one.
    fn report(&self) -> Report;
    fn take_refusals(&mut self) -> Vec<Refusal>;
    /// Returns whether a queued frame has not been passed to the operating system, or to the network thread.
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
    /// Creates a network driven by the calling thread. `wakeup` wakes that thread wherever it waits.
    pub fn new(transport: Box<dyn Transport>, wakeup: Wakeup) -> Network<M> {
        Network { drive: Drive::Inline(Inline::new(transport, wakeup.clone())), wakeup }
    }

    /// Moves the transport to a dedicated network thread. The replica is `me` of `replicas`. If `holds`, frames are
    /// buffered until the iteration ends.
    ///
    /// # Errors
    /// [`HostError::Thread`] if the thread cannot be started.
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

    /// Takes the transport back from its thread, which first executes all commands. Frames received by the thread but
    /// not by the replica are dropped, as in a crash.
    pub fn take_back(&mut self) {
        let Drive::Thread(thread) = &mut self.drive else { return };
        if let Some(transport) = thread.end() {
            self.wakeup.set_waker(transport.waker(), false);
            self.drive = Drive::Inline(Inline::new(transport, self.wakeup.clone()));
        }
    }

    /// Closes the listeners before shutdown, like [`Transport::stop_accepting`], on the calling thread.
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
