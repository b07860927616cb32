//! Threads that verify signatures for a replica ([`crypto_threads`](crate::NodeConfig::crypto_threads)).
//!
//! The replica's thread asks, and goes on; answers come back in any order. What the core asks goes before what clients
//! send, however much that is: agreement waits for it.

use crate::error::HostError;
use quorate_consensus::seam::Job;
use quorate_crypto::{AssembleTask, Assembled, BundleTask, CheckedBundles, Verified, VerifyTask};
use quorate_gateway::budget::MAX_BATCHES_PER_VERIFIER;
use quorate_storage::{CpuAccount, Waker, account};
use quorate_types::ThreadTimes;
use quorate_types::meter::{self, Tallies};
use quorate_types::stages::{self, Place, Stage};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Maximum number of unanswered questions of the core for each thread. Beyond it, the replica's thread verifies itself.
const MAX_OPEN_PER_THREAD: usize = 16;

/// What the replica asks of signatures.
pub(crate) enum Question {
    Verify(Job, VerifyTask),
    Assemble(Job, AssembleTask),
    /// A numbered batch of clients' bundles.
    Bundles(u64, BundleTask),
}

pub(crate) enum Answer {
    Verified(Job, Verified),
    Assembled(Job, Assembled),
    Bundles(u64, CheckedBundles),
}

impl Question {
    /// Answers on the calling thread.
    pub fn answer(self) -> Answer {
        match self {
            Question::Verify(job, task) => Answer::Verified(job, task.run()),
            Question::Assemble(job, task) => Answer::Assembled(job, task.run()),
            Question::Bundles(batch, task) => Answer::Bundles(batch, task.run()),
        }
    }
}

type Panic = Box<dyn Any + Send>;
/// An answer, what it took, and the work that it is for with the processor time, in nanoseconds.
type Answered = (Answer, Tallies, Option<(Place, u64)>);
/// A question, and the work that it is for.
type Asked = (Question, Option<Place>);

/// The questions that no thread works on yet.
#[derive(Default)]
struct Waiting {
    of_core: VecDeque<Asked>,
    of_clients: VecDeque<Asked>,
    /// Number of threads that wait for a question.
    idle: usize,
    /// The threads end.
    ended: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next question; `None` once the threads end.
    fn next(&self) -> Option<Asked> {
        let mut waiting = self.lock();
        loop {
            if waiting.ended {
                return None;
            }
            let next = waiting.of_core.pop_front().or_else(|| waiting.of_clients.pop_front());
            if next.is_some() {
                return next;
            }
            waiting.idle += 1;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }
}

/// The threads of one replica. Dropping it ends them, after the question that each works on.
pub(crate) struct Verifiers {
    queue: Arc<Queue>,
    answers: Receiver<Result<Answered, Panic>>,
    /// What the threads did for the answers so far.
    work: Tallies,
    /// Number of unanswered questions of the core.
    open: usize,
    /// Number of unanswered batches of clients.
    batches: usize,
    threads: Vec<JoinHandle<()>>,
    /// Their CPU time.
    account: CpuAccount,
}

impl Verifiers {
    /// Starts threads, at least one. `waker` is called after each answer.
    ///
    /// # Errors
    /// [`HostError::Thread`] if the system refuses one.
    pub fn start(threads: usize, waker: &Waker) -> Result<Verifiers, HostError> {
        assert!(threads > 0, "without threads there are no verifiers");
        let (answered, answers) = mpsc::channel();
        let queue = Arc::new(Queue::default());
        let (work, account) = (Tallies::default(), CpuAccount::default());
        let mut verifiers = Verifiers { queue, answers, work, open: 0, batches: 0, threads: Vec::new(), account };
        for _ in 0..threads {
            let (queue, answered, waker) = (verifiers.queue.clone(), answered.clone(), waker.clone());
            let account = verifiers.account.clone();
            let run = move || {
                let _counts = account.enter();
                self::work(&queue, &answered, &waker);
            };
            let thread = account::spawn(thread::Builder::new().name("crypto".to_owned()), run);
            verifiers
                .threads
                .push(thread.map_err(|source| HostError::Thread { purpose: "verify signatures on", source })?);
        }
        Ok(verifiers)
    }

    /// Returns whether another batch of clients may be asked about.
    pub fn takes_batches(&self) -> bool {
        self.batches < MAX_BATCHES_PER_VERIFIER * self.threads.len()
    }

    /// Asks, or returns the core's question if too many are unanswered.
    pub fn ask(&mut self, question: Question) -> Option<Question> {
        let is_batch = matches!(question, Question::Bundles(..));
        if !is_batch && self.open >= MAX_OPEN_PER_THREAD * self.threads.len() {
            return Some(question);
        }
        let asked = (question, stages::here());
        let mut waiting = self.queue.lock();
        match is_batch {
            true => waiting.of_clients.push_back(asked),
            false => waiting.of_core.push_back(asked),
        }
        let is_idle = waiting.idle > 0;
        drop(waiting);
        *self.count(is_batch) += 1;
        if is_idle {
            self.queue.changed.notify_one();
        }
        None
    }

    /// Returns the next answer, if there is one. Continues a panic of the thread that worked on it.
    pub fn next(&mut self) -> Option<Answer> {
        let answered = self.answers.try_recv().ok()?;
        let (answer, work, spent) = answered.unwrap_or_else(|panicked| panic::resume_unwind(panicked));
        self.work += work;
        if let Some((place, ns)) = spent {
            stages::add_elsewhere(place, Stage::Authenticate, ns);
        }
        *self.count(matches!(answer, Answer::Bundles(..))) -= 1;
        Some(answer)
    }

    /// Returns the cryptography of the answers so far.
    pub fn work(&self) -> Tallies {
        self.work
    }

    /// Returns the number of threads, and their CPU time.
    pub fn times(&self) -> ThreadTimes {
        let (verifiers, verifiers_ns) = (self.threads.len() as u16, self.account.spent_ns());
        ThreadTimes { verifiers_ns, verifiers, ..ThreadTimes::default() }
    }

    fn count(&mut self, is_batch: bool) -> &mut usize {
        if is_batch { &mut self.batches } else { &mut self.open }
    }
}

impl Drop for Verifiers {
    fn drop(&mut self) {
        self.queue.lock().ended = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().expect("panics are caught and passed on");
        }
    }
}

fn work(queue: &Queue, answered: &Sender<Result<Answered, Panic>>, waker: &Waker) {
    while let Some((question, place)) = queue.next() {
        let before = meter::of_this_thread();
        let (answer, ns) = stages::elsewhere(|| panic::catch_unwind(AssertUnwindSafe(|| question.answer())));
        let spent = place.map(|place| (place, ns));
        let answer = answer.map(|answer| (answer, meter::of_this_thread().since(&before), spent));
        if answered.send(answer).is_err() {
            return;
        }
        waker();
    }
}
