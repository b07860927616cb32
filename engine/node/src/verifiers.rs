//! Threads that verify signatures for a replica ([`replica_threads`](crate::NodeConfig::replica_threads)).
//!
//! The replica's thread submits questions and continues; answers are returned in any order. The core's questions
//! precede those about client bundles, however many these are, because agreement waits for the answers.
//!
//! A handover costs as much as the verification of a signature, so handovers are minimized: a thread is woken for
//! several questions, takes several certificates at a time, verifies all their votes in one batch, and wakes the
//! replica once.

use crate::error::HostError;
use quorate_consensus::seam::Job;
use quorate_crypto::{AssembleTask, Assembled, BundleTask, CheckedBundles, Verified, VerifyTask};
use quorate_network::gateway::budget::MAX_BATCHES_PER_VERIFIER;
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

/// Maximum number of unanswered questions of the core per thread. Beyond it, the replica's thread verifies itself.
const MAX_OPEN_PER_THREAD: usize = 64;
/// Maximum number of certificates whose votes are verified together: with three votes each, they keep a thread busy for
/// 0.2 ms.
const MAX_TOGETHER: usize = 16;
/// Number of questions for which an idle thread is woken in the middle of an iteration.
const QUESTIONS_PER_WAKE: usize = 4;

/// Question of the replica about signatures.
pub(crate) enum Question {
    Verify(Job, VerifyTask),
    Assemble(Job, AssembleTask),
    /// A numbered batch of client bundles.
    Bundles(u64, BundleTask),
}

pub(crate) enum Answer {
    Verified(Job, Verified),
    Assembled(Job, Assembled),
    Bundles(u64, CheckedBundles),
}

impl Question {
    /// Returns whether it is cheaper to answer it together with others.
    fn gains_from_others(&self) -> bool {
        matches!(self, Question::Assemble(_, task) if task.gains_from_others())
    }

    /// Returns whether a handover would take longer than the answer.
    fn is_quick(&self) -> bool {
        match self {
            Question::Verify(_, task) => task.is_quick(),
            Question::Assemble(_, task) => task.is_quick(),
            Question::Bundles(..) => false,
        }
    }

    /// Returns whether a thread with idle time answers faster than another thread could.
    pub fn is_small(&self) -> bool {
        match self {
            Question::Verify(_, task) => task.is_small(),
            Question::Assemble(_, task) => task.is_small(),
            Question::Bundles(..) => false,
        }
    }

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
/// A question, and the work that it belongs to.
type Asked = (Question, Option<Place>);

/// Answers to the questions that a thread took together.
struct Answered {
    /// Each with the work that it belongs to.
    answers: Vec<(Answer, Option<Place>)>,
    /// Cryptographic work for all of them.
    work: Tallies,
    /// CPU time for each, in nanoseconds.
    ns_each: u64,
}

/// Answers questions; certificates among them are verified together.
fn answer(asked: Vec<Asked>) -> Vec<(Answer, Option<Place>)> {
    let (mut answers, mut jobs, mut tasks) = (Vec::with_capacity(asked.len()), Vec::new(), Vec::new());
    for (question, place) in asked {
        match question {
            Question::Assemble(job, task) => {
                jobs.push((job, place));
                tasks.push(task);
            }
            other => answers.push((other.answer(), place)),
        }
    }
    let assembled = AssembleTask::run_together(tasks);
    answers.extend(jobs.into_iter().zip(assembled).map(|((job, place), done)| (Answer::Assembled(job, done), place)));
    answers
}

/// The questions that no thread has taken yet.
#[derive(Default)]
struct Waiting {
    of_core: VecDeque<Asked>,
    of_clients: VecDeque<Asked>,
    /// Number of threads waiting for a question.
    idle: usize,
    /// Whether the threads must end.
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

    /// Waits for the next question, or for several that are answered together; `None` if the threads must end.
    fn next(&self) -> Option<Vec<Asked>> {
        let mut waiting = self.lock();
        loop {
            if waiting.ended {
                return None;
            }
            if let Some(first) = waiting.of_core.pop_front().or_else(|| waiting.of_clients.pop_front()) {
                let taken = waiting.with_others(first);
                if waiting.need_another() {
                    self.changed.notify_one();
                }
                return Some(taken);
            }
            waiting.idle += 1;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }
}

impl Waiting {
    /// Returns a question with a fair share of the questions that are cheaper to answer together with it.
    fn with_others(&mut self, first: Asked) -> Vec<Asked> {
        if !first.0.gains_from_others() {
            return vec![first];
        }
        let fair = (self.of_core.len() + 1).div_ceil(self.idle + 1);
        let most = fair.clamp(QUESTIONS_PER_WAKE, MAX_TOGETHER) - 1;
        let others = self.of_core.iter().take(most).take_while(|(next, _)| next.gains_from_others()).count();
        std::iter::once(first).chain(self.of_core.drain(..others)).collect()
    }

    /// Returns whether another thread is idle and has work to begin.
    fn need_another(&self) -> bool {
        let are_due = |(next, _): &Asked| !next.gains_from_others() || self.of_core.len() >= QUESTIONS_PER_WAKE;
        self.idle > 0 && (self.of_core.front().is_some_and(are_due) || !self.of_clients.is_empty())
    }
}

/// The verifier threads of one replica. Dropping it ends them after their current questions.
pub(crate) struct Verifiers {
    queue: Arc<Queue>,
    answered: Receiver<Result<Answered, Panic>>,
    /// Answers received from the threads and not taken by the core yet.
    answers: VecDeque<Answer>,
    /// Number of questions since a thread was last woken.
    unannounced: usize,
    /// Cryptographic work of the threads for the answers so far.
    work: Tallies,
    /// Number of unanswered questions of the core.
    open: usize,
    /// Number of unanswered client batches.
    batches: usize,
    threads: Vec<JoinHandle<()>>,
    /// Their CPU time.
    account: CpuAccount,
}

impl Verifiers {
    /// Starts `threads` threads, at least one. `waker` is called after each answer.
    ///
    /// # Errors
    /// [`HostError::Thread`] if a thread cannot be started.
    pub fn start(threads: usize, waker: &Waker) -> Result<Verifiers, HostError> {
        assert!(threads > 0, "without threads there are no verifiers");
        let (answering, answered) = mpsc::channel();
        let mut verifiers = Verifiers {
            queue: Arc::new(Queue::default()),
            answered,
            answers: VecDeque::new(),
            unannounced: 0,
            work: Tallies::default(),
            open: 0,
            batches: 0,
            threads: Vec::new(),
            account: CpuAccount::default(),
        };
        for _ in 0..threads {
            let (queue, answers, waker) = (verifiers.queue.clone(), answering.clone(), waker.clone());
            let account = verifiers.account.clone();
            let run = move || {
                let _counts = account.enter();
                self::work(&queue, &answers, &waker);
            };
            let thread = account::spawn(thread::Builder::new().name("crypto".to_owned()), run);
            verifiers
                .threads
                .push(thread.map_err(|source| HostError::Thread { purpose: "verify signatures on", source })?);
        }
        Ok(verifiers)
    }

    /// Returns whether another client batch may be submitted.
    pub fn takes_batches(&self) -> bool {
        self.batches < MAX_BATCHES_PER_VERIFIER * self.threads.len()
    }

    /// Submits a question, or returns the core's question if too many are unanswered, or if the answer is quick. An
    /// idle thread begins with it no later than the next [`Verifiers::announce`].
    pub fn ask(&mut self, question: Question) -> Option<Question> {
        let (is_batch, waits) = (matches!(question, Question::Bundles(..)), question.gains_from_others());
        if question.is_quick() || !is_batch && self.open >= MAX_OPEN_PER_THREAD * self.threads.len() {
            return Some(question);
        }
        let asked = (question, stages::here());
        let mut waiting = self.queue.lock();
        match is_batch {
            true => waiting.of_clients.push_back(asked),
            false => waiting.of_core.push_back(asked),
        }
        drop(waiting);
        *self.count(is_batch) += 1;
        self.unannounced += 1;
        if !waits || self.unannounced >= QUESTIONS_PER_WAKE {
            self.announce();
        }
        None
    }

    /// Wakes a thread if there are new questions and one is idle.
    pub fn announce(&mut self) {
        if self.unannounced == 0 {
            return;
        }
        self.unannounced = 0;
        let waiting = self.queue.lock();
        let is_needed = waiting.idle > 0 && !(waiting.of_core.is_empty() && waiting.of_clients.is_empty());
        drop(waiting);
        if is_needed {
            self.queue.changed.notify_one();
        }
    }

    /// Returns the next answer, if there is one. Continues a panic of the thread that worked on it.
    pub fn next(&mut self) -> Option<Answer> {
        if self.answers.is_empty() {
            let answered = self.answered.try_recv().ok()?;
            let Answered { answers, work, ns_each } = answered.unwrap_or_else(|panic| panic::resume_unwind(panic));
            self.work += work;
            for (answer, place) in answers {
                if let Some(place) = place {
                    stages::add_elsewhere(place, Stage::Authenticate, ns_each);
                }
                self.answers.push_back(answer);
            }
        }
        let answer = self.answers.pop_front()?;
        *self.count(matches!(answer, Answer::Bundles(..))) -= 1;
        Some(answer)
    }

    /// Returns the cryptographic work for the answers so far.
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

fn work(queue: &Queue, answering: &Sender<Result<Answered, Panic>>, waker: &Waker) {
    while let Some(asked) = queue.next() {
        let (before, number) = (meter::of_this_thread(), asked.len() as u64);
        let (answers, ns) = stages::elsewhere(|| panic::catch_unwind(AssertUnwindSafe(|| answer(asked))));
        let work = meter::of_this_thread().since(&before);
        let answered = answers.map(|answers| Answered { answers, work, ns_each: ns / number });
        if answering.send(answered).is_err() {
            return;
        }
        waker();
    }
}
