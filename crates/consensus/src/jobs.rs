//! Questions that are with a device of the host, in the order in which they were asked.
//!
//! Hosts answer nearly in that order, so a queue does in which a place stays empty until all before it are answered.

use crate::seam::Job;
use std::collections::VecDeque;

/// What waits for the answers to jobs.
pub struct Jobs<T> {
    /// How many of the first jobs are no longer in the queue.
    answered: u64,
    waiting: VecDeque<Option<T>>,
}

impl<T> Jobs<T> {
    /// Nothing was asked.
    pub fn new() -> Jobs<T> {
        Jobs { answered: 0, waiting: VecDeque::new() }
    }

    /// Asks; what waits for the answer is kept.
    pub fn ask(&mut self, waiting: T) -> Job {
        self.waiting.push_back(Some(waiting));
        Job(self.answered + self.waiting.len() as u64)
    }

    /// What waits for the answer to a job, once; none if there is no such job.
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
