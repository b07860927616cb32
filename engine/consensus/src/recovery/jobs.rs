//! Jobs at one of the host's devices, in the order in which they were issued.
//!
//! Hosts answer jobs nearly in that order, so a queue suffices: an entry stays in the queue, empty, until all earlier
//! jobs are answered.

use crate::ids::Job;
use std::collections::VecDeque;

/// Continuations that wait for the results of jobs.
pub struct Jobs<T> {
    /// Number of jobs that have left the queue.
    answered: u64,
    waiting: VecDeque<Option<T>>,
}

impl<T> Jobs<T> {
    pub fn new() -> Jobs<T> {
        Jobs { answered: 0, waiting: VecDeque::new() }
    }

    /// Issues a job and stores the continuation that waits for its result.
    pub fn ask(&mut self, waiting: T) -> Job {
        self.waiting.push_back(Some(waiting));
        Job(self.answered + self.waiting.len() as u64)
    }

    /// Returns the continuation that waits for a job's result, once; `None` if there is no such job.
    pub fn take(&mut self, job: Job) -> Option<T> {
        let place = job.0.checked_sub(self.answered + 1)?;
        let taken = self.waiting.get_mut(usize::try_from(place).ok()?)?.take();
        while self.waiting.front().is_some_and(Option::is_none) {
            self.waiting.pop_front();
            self.answered += 1;
        }
        taken
    }
}
