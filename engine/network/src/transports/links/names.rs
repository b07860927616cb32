//! Resolution of host names. A name server may take many seconds, so each query runs on its own thread and wakes the
//! transport when it completes.

use quorate_types::{Address, ReplicaId};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A replica and the addresses of its host, at least one.
pub type Answer = (ReplicaId, io::Result<Vec<SocketAddr>>);

/// Names being resolved.
#[derive(Default)]
pub struct Names {
    answers: Arc<Mutex<Vec<Answer>>>,
    asked: usize,
}

impl Names {
    /// Starts resolving a replica's name; calls `wake` once [`Names::take`] has the answer.
    pub fn ask(&mut self, replica: ReplicaId, address: Address, wake: impl Fn() + Send + 'static) {
        let answers = self.answers.clone();
        let resolve = move || {
            let answer = address.resolve();
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((replica, answer));
            wake();
        };
        self.asked += 1;
        if let Err(error) = thread::Builder::new().name("resolver".into()).spawn(resolve) {
            self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((replica, Err(error)));
        }
    }

    /// Returns whether a query is in progress.
    pub fn is_asking(&self) -> bool {
        self.asked > 0
    }

    /// Removes and returns the finished answers.
    pub fn take(&mut self) -> Vec<Answer> {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        self.asked -= answers.len();
        answers
    }
}
