//! A client with many commands outstanding, for any number of threads and asynchronous tasks.
//!
//! A dedicated thread drives the connection. Commands submitted while it is busy are sent together in one bundle,
//! signed once. A caller awaits the result on any runtime, or blocks on it.

use crate::client_error::ClientError;
use crate::config::ClientConfig;
use crate::connection::{Connection, MAX_WAIT};
use crate::session::Accepted;
use quorate_types::limits::{MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES};
use quorate_types::{BundleBuilder, Digest, Height, Outcome, ReplyMode, Signers, Time};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

/// Default of [`PipelineOptions::max_bundle_commands`].
pub const DEFAULT_BUNDLE_COMMANDS: usize = 100;
/// Default of [`PipelineOptions::max_bundle_bytes`].
pub const DEFAULT_BUNDLE_BYTES: usize = 1 << 16;
/// Default of [`PipelineOptions::max_outstanding_bundles`].
pub const DEFAULT_OUTSTANDING_BUNDLES: usize = 1 << 10;

/// Limits of a [`Pipeline`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipelineOptions {
    /// Maximum number of commands in one bundle, from 1 to [`MAX_BUNDLE_COMMANDS`].
    pub max_bundle_commands: usize,
    /// Maximum bytes of payloads in one bundle; a single larger command gets a separate bundle.
    pub max_bundle_bytes: usize,
    /// Maximum number of bundles without a result. Further commands are queued in this process.
    pub max_outstanding_bundles: usize,
}

impl Default for PipelineOptions {
    fn default() -> PipelineOptions {
        PipelineOptions {
            max_bundle_commands: DEFAULT_BUNDLE_COMMANDS,
            max_bundle_bytes: DEFAULT_BUNDLE_BYTES,
            max_outstanding_bundles: DEFAULT_OUTSTANDING_BUNDLES,
        }
    }
}

/// A command, and the channel for its result.
struct Request {
    payload: Vec<u8>,
    answer: oneshot::Sender<Result<Vec<u8>, ClientError>>,
}

impl Request {
    /// Sends the result to the caller, who may no longer wait for it.
    fn answer(self, result: Result<Vec<u8>, ClientError>) {
        let _ = self.answer.send(result);
    }
}

/// Commands sent together in one bundle.
struct Batch {
    requests: Vec<Request>,
    expires: Height,
}

/// A future result: `await` it on any runtime, or block on it with [`wait`](Pending::wait). Dropping it does not cancel
/// the command.
#[derive(Debug)]
#[must_use = "the command is sent anyway, but nobody sees its result"]
pub struct Pending(oneshot::Receiver<Result<Vec<u8>, ClientError>>);

impl Pending {
    /// Waits for the result.
    ///
    /// # Errors
    /// The errors of [`Client::execute`](crate::Client::execute).
    pub fn wait(self) -> Result<Vec<u8>, ClientError> {
        self.0.recv().unwrap_or_else(|_| Err(dropped()))
    }
}

impl IntoFuture for Pending {
    type Output = Result<Vec<u8>, ClientError>;
    type IntoFuture = Awaited;

    fn into_future(self) -> Awaited {
        Awaited(self.0.into_future())
    }
}

/// Future of a [`Pending`] result.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Awaited(oneshot::AsyncReceiver<Result<Vec<u8>, ClientError>>);

impl Future for Awaited {
    type Output = Result<Vec<u8>, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|received| received.unwrap_or_else(|_| Err(dropped())))
    }
}

fn dropped() -> ClientError {
    ClientError::Ended("its thread is gone".to_owned())
}

/// A client with many commands outstanding. Dropping it stops its thread; commands without a result fail with
/// [`ClientError::Ended`].
pub struct Pipeline {
    requests: Option<Sender<Request>>,
    waker: Arc<dyn Fn() + Send + Sync>,
    must_wake: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pipeline {
    /// Connects to a cluster under a new, unique id, and starts a thread.
    ///
    /// # Errors
    /// [`ClientError`] if f+1 replicas cannot be reached, or the system cannot start a thread.
    ///
    /// # Panics
    /// If an option is 0, or a bundle would have more than [`MAX_BUNDLE_COMMANDS`] commands.
    pub fn connect(config: &ClientConfig, options: PipelineOptions) -> Result<Pipeline, ClientError> {
        assert!((1..=MAX_BUNDLE_COMMANDS).contains(&options.max_bundle_commands), "{options:?}");
        assert!(options.max_bundle_bytes > 0 && options.max_outstanding_bundles > 0, "{options:?}");
        let connection = Connection::open(config)?;
        if connection.session.options().reply == ReplyMode::None {
            return Err(ClientError::NoReplies);
        }
        let (waker, sequence) = (connection.waker(), connection.identity.sequence_base());
        let (requests, incoming) = channel();
        let must_wake = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            connection,
            must_wake: must_wake.clone(),
            options,
            sequence,
            incoming,
            is_closed: false,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            refusals: 0,
        };
        let thread = thread::Builder::new().name("client".to_owned()).spawn(move || worker.run())?;
        Ok(Pipeline { requests: Some(requests), waker, must_wake, thread: Some(thread) })
    }

    /// Submits a command, which is executed at most once. Its result is the one given by f+1 replicas.
    pub fn execute(&self, payload: impl Into<Vec<u8>>) -> Pending {
        let (answer, pending) = oneshot::channel();
        let request = Request { payload: payload.into(), answer };
        if request.payload.len() > MAX_PAYLOAD_BYTES {
            let bytes = request.payload.len();
            request.answer(Err(ClientError::PayloadTooLarge(bytes)));
        } else if let Some(requests) = &self.requests
            && requests.send(request).is_ok()
            && self.must_wake.swap(false, Ordering::SeqCst)
        {
            (self.waker)();
        }
        Pending(pending)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.requests = None;
        (self.waker)();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed, and every caller has received an error.
            let _ = thread.join();
        }
    }
}

/// The thread behind a pipeline.
struct Worker {
    connection: Connection<Batch>,
    /// The next caller wakes this thread, which may be waiting. Later ones need not: the waker is a system call.
    must_wake: Arc<AtomicBool>,
    options: PipelineOptions,
    /// Number of the last command.
    sequence: u64,
    incoming: Receiver<Request>,
    is_closed: bool,
    /// Commands that are not sent yet.
    waiting: VecDeque<Request>,
    /// Sent bundles, starting from the oldest one without a result, with their timeouts.
    sent: VecDeque<(Time, Digest)>,
    /// Number of refusals when the outstanding bundles were last checked for rejections.
    refusals: u64,
}

impl Worker {
    fn run(mut self) {
        let end = loop {
            match self.turn() {
                Ok(()) if self.is_closed => break "it was dropped".to_owned(),
                Ok(()) => {}
                Err(error) => break error.to_string(),
            }
        };
        self.waiting.extend(self.incoming.try_iter());
        let Worker { connection, waiting, .. } = self;
        let open = connection.session.into_attached().flat_map(|batch| batch.requests).chain(waiting);
        open.for_each(|request| request.answer(Err(ClientError::Ended(end.clone()))));
    }

    /// Sends queued commands, and handles replies until something is due or the waker is called.
    fn turn(&mut self) -> Result<(), ClientError> {
        // Before the requests are taken: a later one ends the wait below.
        self.must_wake.store(true, Ordering::SeqCst);
        self.take_requests();
        if !self.waiting.is_empty() && self.has_room() {
            self.send_waiting()?;
        }
        let mut accepted = Vec::new();
        let deadline = self.connection.now() + MAX_WAIT;
        self.connection.pump(deadline, |incoming| accepted.extend(incoming.accepted()))?;
        accepted.into_iter().for_each(|bundle| self.answer(bundle));
        self.give_up();
        Ok(())
    }

    /// Sends the queued commands, in as many bundles as the limit allows.
    fn send_waiting(&mut self) -> Result<(), ClientError> {
        let deadline = self.connection.now() + self.connection.request_timeout;
        // Earlier bundles may be accepted while the heights are being requested.
        let mut accepted = Vec::new();
        let located = self.connection.locate(deadline, |incoming| accepted.extend(incoming.accepted()));
        accepted.into_iter().for_each(|bundle| self.answer(bundle));
        if let Err(error) = located {
            return self.fail_waiting(error);
        }
        while !self.waiting.is_empty() && self.has_room() {
            self.submit();
        }
        Ok(())
    }

    fn take_requests(&mut self) {
        loop {
            match self.incoming.try_recv() {
                Ok(request) => self.waiting.push_back(request),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.connection.session.outstanding() < self.options.max_outstanding_bundles
    }

    /// Fails the queued commands, because the cluster's height is not known. Stops the client if the error is
    /// permanent.
    fn fail_waiting(&mut self, error: ClientError) -> Result<(), ClientError> {
        match error {
            ClientError::Timeout(why) => {
                let fail = |request: Request| request.answer(Err(ClientError::Timeout(why.clone())));
                self.waiting.drain(..).for_each(fail);
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Sends the queued commands that fit into one bundle.
    fn submit(&mut self) {
        let id = self.connection.id();
        let mut builder = BundleBuilder::new(id, self.connection.session.expiry());
        let (mut requests, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            bytes += next.payload.len();
            let is_full = requests.len() >= self.options.max_bundle_commands || bytes > self.options.max_bundle_bytes;
            if is_full && !requests.is_empty() {
                break;
            }
            self.sequence += 1;
            builder.push(id, self.sequence, &next.payload);
            requests.extend(self.waiting.pop_front());
        }
        let bundle = self.connection.identity.finish(builder);
        if let Err(error) = self.connection.check_length(&bundle) {
            let why = error.to_string();
            return requests.into_iter().for_each(|request| request.answer(Err(ClientError::Rejected(why.clone()))));
        }
        let now = self.connection.now();
        let Connection { session, outgoing, .. } = &mut self.connection;
        let batch = Batch { requests, expires: bundle.expires() };
        session.submit(now, &bundle, batch, outgoing).expect("each bundle has new sequence numbers, and has room");
        self.sent.push_back((now + self.connection.request_timeout, bundle.digest()));
    }

    fn answer(&mut self, accepted: Accepted<Batch>) {
        let Accepted { attached: Batch { requests, expires }, height, results, .. } = accepted;
        // Height 0 marks a bundle that was not ordered.
        if height > Height(0) {
            self.connection.located = Some(self.connection.now());
        }
        for (request, outcome) in requests.into_iter().zip(results.outcomes()) {
            match outcome {
                Outcome::Executed(result) => request.answer(Ok(result.to_vec())),
                Outcome::Duplicate => request.answer(Err(ClientError::ResultForgotten)),
                Outcome::Refused => request.answer(Err(ClientError::Refused { until: expires })),
                Outcome::Forgotten => request.answer(Err(ClientError::OutcomeUnknown)),
                // An honest replica states that it was not and never will be executed. Only now is it safe to sign the
                // command again.
                Outcome::Expired => {
                    self.connection.located = None;
                    self.waiting.push_back(request);
                }
            }
        }
    }

    /// Fails the commands of bundles that timed out, or that f+1 replicas refused permanently.
    fn give_up(&mut self) {
        let now = self.connection.now();
        while let Some((until, bundle)) = self.sent.front().copied() {
            let is_open = self.connection.session.is_outstanding(bundle);
            if is_open && until > now {
                break;
            }
            self.sent.pop_front();
            self.fail(bundle, |worker, answered, distinct| worker.connection.timeout(true, answered, distinct));
        }
        let refusals = self.connection.session.counters().refusals;
        if std::mem::replace(&mut self.refusals, refusals) == refusals {
            return;
        }
        let session = &self.connection.session;
        let rejected: Vec<Digest> =
            self.sent.iter().map(|(_, bundle)| *bundle).filter(|bundle| session.is_rejected(*bundle)).collect();
        for bundle in rejected {
            self.fail(bundle, |worker, _, _| {
                let why = worker.connection.session.last_refusal().map_or(String::new(), |(_, why)| why.to_owned());
                ClientError::Rejected(why)
            });
        }
    }

    fn fail(&mut self, bundle: Digest, error: impl Fn(&mut Worker, Signers, usize) -> ClientError) {
        let (answered, distinct) = self.connection.session.answered(bundle);
        let batch = self.connection.session.abandon(bundle);
        for request in batch.into_iter().flat_map(|batch| batch.requests) {
            let error = error(self, answered, distinct);
            request.answer(Err(error));
        }
    }
}
