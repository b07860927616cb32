//! Verification on this thread, or on verifier threads.

use super::Devices;
use crate::verifiers::{Answer, Question, Verifiers};
use quorate_consensus::{Input, Message};
use quorate_crypto::{BundleTask, CheckedBundles};
use quorate_types::ThreadTimes;
use quorate_types::meter::{self, Tallies};

impl<M: Message> Devices<M> {
    /// Submits a question to the verifiers. Answers it here if there are none, if they have too much to do, or if that
    /// is faster.
    pub(super) fn ask(&mut self, question: Question) {
        let here = match &mut self.verifiers {
            Some(_) if question.is_small() && self.headroom.exists() => Some(question),
            Some(verifiers) => verifiers.ask(question),
            None => Some(question),
        };
        if let Some(question) = here {
            self.take_answer(question.answer());
        }
    }

    /// Returns the cryptographic work of this thread and of the verifiers.
    pub fn crypto_work(&self) -> Tallies {
        let mut work = meter::of_this_thread();
        work += self.verifiers.as_ref().map(Verifiers::work).unwrap_or_default();
        work
    }

    /// Returns the number of verifier threads, and their CPU time.
    pub fn verifiers_times(&self) -> ThreadTimes {
        self.verifiers.as_ref().map(Verifiers::times).unwrap_or_default()
    }

    /// Returns whether other threads verify client bundles.
    pub fn has_verifiers(&self) -> bool {
        self.verifiers.is_some()
    }

    /// Returns whether no further batches of client bundles may be submitted now.
    pub fn has_batches_enough(&self) -> bool {
        self.verifiers.as_ref().is_some_and(|verifiers| !verifiers.takes_batches())
    }

    /// Submits a batch of client bundles to the verifiers, for the desk. Without verifiers, returns the outcome.
    pub fn check_batch(&mut self, batch: u64, task: BundleTask) -> Option<CheckedBundles> {
        match &mut self.verifiers {
            Some(verifiers) => {
                let unasked = verifiers.ask(Question::Bundles(batch, task));
                assert!(unasked.is_none(), "batches are never sent back");
                None
            }
            None => Some(task.run()),
        }
    }

    /// Makes idle verifiers begin with the submitted questions.
    pub fn announce_questions(&mut self) {
        if let Some(verifiers) = &mut self.verifiers {
            verifiers.announce();
        }
    }

    /// Passes the verifiers' answers to the replica.
    pub fn take_answers(&mut self) {
        while let Some(answer) = self.verifiers.as_mut().and_then(Verifiers::next) {
            self.take_answer(answer);
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        let input = match answer {
            Answer::Verified(job, verified) => {
                Input::Verdict { job, genuine: self.crypto.finish_verification(verified) }
            }
            Answer::Assembled(job, assembled) => {
                Input::Assembled { job, result: self.crypto.finish_assembly(assembled) }
            }
            Answer::Bundles(batch, checked) => return self.desk.settle(batch, checked),
        };
        self.local.push_back(input);
    }
}
