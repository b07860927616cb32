//! Threads that verify signatures for a replica ([`crypto_threads`](crate::NodeConfig::crypto_threads)).
//!
//! The replica's thread asks, and goes on; answers come back in any order, as inputs.

use crate::error::HostError;
use quorate_consensus::seam::Job;
use quorate_crypto::{AssembleTask, Assembled, Verified, VerifyTask};
use quorate_storage::{Waker, account};
use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Maximum number of unanswered questions for each thread. Beyond it, the replica's thread verifies itself.
const MAX_OPEN_PER_THREAD: usize = 16;

/// What the core asks of signatures.
pub(crate) enum Question {
    Verify(Job, VerifyTask),
    Assemble(Job, AssembleTask),
}

pub(crate) enum Answer {
    Verified(Job, Verified),
    Assembled(Job, Assembled),
}

impl Question {
    /// Answers on the calling thread.
    pub fn answer(self) -> Answer {
        match self {
            Question::Verify(job, task) => Answer::Verified(job, task.run()),
            Question::Assemble(job, task) => Answer::Assembled(job, task.run()),
        }
    }
}

type Panic = Box<dyn Any + Send>;

/// The threads of one replica. Dropping it ends them, after the question that each works on.
pub(crate) struct Verifiers {
    /// `None` while they end.
    questions: Option<Sender<Question>>,
    answers: Receiver<Result<Answer, Panic>>,
    /// Number of unanswered questions.
    open: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Verifiers {
    /// Starts threads, at least one. `waker` is called after each answer.
    ///
    /// # Errors
    /// [`HostError::Thread`] if the system refuses one.
    pub fn start(threads: usize, waker: &Waker) -> Result<Verifiers, HostError> {
        assert!(threads > 0, "without threads there are no verifiers");
        let (questions, asked) = mpsc::channel();
        let (answered, answers) = mpsc::channel();
        let asked = Arc::new(Mutex::new(asked));
        let mut verifiers = Verifiers { questions: Some(questions), answers, open: 0, threads: Vec::new() };
        for _ in 0..threads {
            let (asked, answered, waker) = (asked.clone(), answered.clone(), waker.clone());
            let run = move || work(&asked, &answered, &waker);
            let thread = account::spawn(thread::Builder::new().name("crypto".to_owned()), run);
            verifiers
                .threads
                .push(thread.map_err(|source| HostError::Thread { purpose: "verify signatures on", source })?);
        }
        Ok(verifiers)
    }

    /// Asks, or returns the question if too many are unanswered.
    pub fn ask(&mut self, question: Question) -> Option<Question> {
        if self.open >= MAX_OPEN_PER_THREAD * self.threads.len() {
            return Some(question);
        }
        let questions = self.questions.as_ref().expect("the threads run");
        questions.send(question).expect("a thread ends only when the replica does");
        self.open += 1;
        None
    }

    /// Returns the next answer, if there is one. Continues a panic of the thread that worked on it.
    pub fn next(&mut self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.open -= 1;
        Some(answer.unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
    }
}

impl Drop for Verifiers {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            thread.join().expect("panics are caught and passed on");
        }
    }
}

fn work(asked: &Mutex<Receiver<Question>>, answered: &Sender<Result<Answer, Panic>>, waker: &Waker) {
    loop {
        let question = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(question) = question else { return };
        let answer = panic::catch_unwind(AssertUnwindSafe(|| question.answer()));
        if answered.send(answer).is_err() {
            return;
        }
        waker();
    }
}
