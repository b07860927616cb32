//! The replica's end of a network driven by another thread.

use super::arrival::Arrival;
use super::mailbox::{DeferredFrame, End, IoCommand, Mailbox, Report};
use super::worker::Worker;
use super::{Driver, Outlet};
use crate::error::HostError;
use bytes::Bytes;
use quorate_consensus::Message;
use quorate_network::transports::{LinkId, Refusal, Remote, Transport};
use quorate_storage::{Waker, account};
use quorate_types::{Lane, PayloadPath, ReplicaId, stages};
use std::collections::{HashMap, HashSet};
use std::io;
use std::panic;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Number of commands after which they are passed on in the middle of an iteration, so that the network works in
/// parallel.
const COMMANDS_AT_ONCE: usize = 64;
/// Bytes of commands after which they are passed on in the middle of an iteration.
const BYTES_AT_ONCE: usize = 256 << 10;
/// Minimum length of frames that count towards [`MAX_PENDING_BYTES`], in bytes.
const LARGE_FRAME_BYTES: usize = 4 << 10;
/// Maximum bytes of large frames for a client's link that the network thread has not taken; beyond it the link is
/// congested. The network thread detects congestion later than a replica that drives the network itself.
const MAX_PENDING_BYTES: usize = 256 << 10;

/// Channel that passes the transport to the thread that drives it.
type Give = mpsc::Sender<Box<dyn Transport>>;
/// Return value of the network thread: the transport, if it received one.
type Returned = Option<Box<dyn Transport>>;

/// A thread that drives the transport. Dropping it ends the thread.
pub(super) struct IoThread<M: Message> {
    mailbox: Arc<Mailbox<M>>,
    thread: Option<JoinHandle<Returned>>,
    /// Interrupts the wait for the network after a command is queued.
    wake: Waker,
    /// Commands not passed on yet, and their approximate size in bytes.
    commands: Vec<IoCommand>,
    bytes: usize,
    /// Whether nothing is passed on in the middle of an iteration.
    holds: bool,
    /// Client links with too much unread, as reported by the network thread.
    congested: HashSet<LinkId>,
    /// Bytes of large frames for client links that the network thread has not taken.
    pending: HashMap<LinkId, usize>,
    /// Source groups of client links.
    source_groups: HashMap<LinkId, u64>,
    refusals: Vec<Refusal>,
    /// The last patience passed to the network thread.
    patience: Option<Duration>,
}

impl<M: Message> IoThread<M> {
    /// Starts a thread that drives a transport, which it receives over the returned channel. `connected` are the
    /// connected replicas.
    ///
    /// # Errors
    /// [`HostError::Thread`] if the thread cannot be started.
    pub fn start(
        transport: &dyn Transport,
        connected: Vec<ReplicaId>,
        holds: bool,
        path: PayloadPath,
        me: ReplicaId,
        replicas: u16,
    ) -> Result<(IoThread<M>, Give), HostError> {
        let (mailbox, wake) = (Arc::new(Mailbox::new(connected)), transport.waker());
        let (give, given) = mpsc::channel();
        let theirs = mailbox.clone();
        let run = move || given.recv().ok().map(|transport| Worker::new(transport, theirs, path, me, replicas).run());
        let thread = account::spawn(thread::Builder::new().name("network".to_owned()), run);
        let thread = thread.map_err(|source| HostError::Thread { purpose: "drive the network on", source })?;
        let io = IoThread {
            mailbox,
            thread: Some(thread),
            wake,
            commands: Vec::new(),
            bytes: 0,
            holds,
            congested: HashSet::new(),
            pending: HashMap::new(),
            source_groups: HashMap::new(),
            refusals: Vec::new(),
            patience: None,
        };
        Ok((io, give))
    }

    /// Returns a function that ends the replica's wait.
    pub fn waker(&self) -> Waker {
        let mailbox = self.mailbox.clone();
        Arc::new(move || mailbox.wake())
    }

    /// Queues a command. The thread gets it together with others, at the latest when the replica waits.
    #[inline]
    fn push(&mut self, command: IoCommand) {
        let (link, bytes) = match &command {
            IoCommand::Send(link, frame) => (*link, frame.len()),
            IoCommand::SendDeferred(frame) => (frame.link, frame.bytes),
            _ => (LinkId(0), 0),
        };
        if bytes >= LARGE_FRAME_BYTES {
            *self.pending.entry(link).or_default() += bytes;
        }
        self.bytes += command.bytes();
        self.commands.push(command);
        if !self.holds && (self.commands.len() >= COMMANDS_AT_ONCE || self.bytes >= BYTES_AT_ONCE) {
            self.hand_over();
        }
    }

    /// Passes on all commands; blocks while the queue is full.
    fn hand_over(&mut self) {
        if !self.commands.is_empty() {
            self.bytes = 0;
            self.mailbox.give(&mut self.commands, &*self.wake);
        }
    }

    /// Ends the thread after all commands so far, and returns its transport; `None` if it ended before.
    pub fn end(&mut self) -> Returned {
        let thread = self.thread.take()?;
        self.hand_over();
        self.mailbox.end(&*self.wake);
        thread.join().expect("panics are caught and passed on")
    }
}

impl<M: Message> Outlet for IoThread<M> {
    #[inline]
    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.push(IoCommand::Send(link, frame));
    }

    fn source_group(&self, link: LinkId) -> u64 {
        self.source_groups.get(&link).copied().unwrap_or_default()
    }

    fn has_io_thread(&self) -> bool {
        true
    }

    fn send_deferred(&mut self, frame: DeferredFrame) {
        self.push(IoCommand::SendDeferred(frame));
    }
}

impl<M: Message> Driver<M> for IoThread<M> {
    /// Continues a panic of the thread.
    fn poll(&mut self, timeout: Option<Duration>, into: &mut Vec<Arrival<M>>) -> io::Result<()> {
        if !self.mailbox.has_commands() {
            self.pending.clear();
        }
        self.hand_over();
        let before = into.len();
        let (refusals, congested) = (&mut self.refusals, &mut self.congested);
        let end = stages::wait(|| {
            self.mailbox.wait(timeout, |news| {
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
                Arrival::Connected { link, remote: Remote::Client(_), source_group } => {
                    self.source_groups.insert(*link, *source_group);
                }
                Arrival::Disconnected { link, .. } => {
                    self.source_groups.remove(link);
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

    fn flush_replicas(&mut self) {
        self.hand_over();
    }

    fn leads(&self, leads: bool) {
        self.mailbox.leads.store(leads, Ordering::Relaxed);
    }

    fn send_to(&mut self, to: ReplicaId, frame: Bytes, lane: Lane) {
        self.push(IoCommand::SendTo(to, frame, lane));
    }

    fn defer_clients(&mut self, patience: Option<Duration>) {
        if self.patience != patience {
            self.patience = patience;
            self.push(IoCommand::Defer(patience));
        }
    }

    fn release(&mut self, link: LinkId, bytes: usize) {
        self.push(IoCommand::Release(link, bytes));
    }

    fn is_congested(&self, link: LinkId) -> bool {
        self.congested.contains(&link) || self.pending.get(&link).is_some_and(|bytes| *bytes >= MAX_PENDING_BYTES)
    }

    fn vouch(&mut self, link: LinkId, genuine: bool) {
        self.push(IoCommand::Vouch(link, genuine));
    }

    fn close(&mut self, link: LinkId, why: String) {
        self.push(IoCommand::Close(link, why));
    }

    fn is_connected(&self, replica: ReplicaId) -> bool {
        self.mailbox.look(|arrivals| arrivals.connected.contains(&replica))
    }

    fn report(&self) -> Report {
        self.mailbox.report(&*self.wake)
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    fn has_unsent(&self) -> bool {
        !self.commands.is_empty()
    }
}

impl<M: Message> Drop for IoThread<M> {
    fn drop(&mut self) {
        self.end();
    }
}
