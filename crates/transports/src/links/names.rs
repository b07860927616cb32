//! Host names on their way to addresses. A name server may take many seconds, so each question has a thread of its own,
//! and the transport is woken when the answer is there.

use quorate_types::{Address, ReplicaId};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A replica and the addresses of its host, at least one.
pub type Answer = (ReplicaId, io::Result<Vec<SocketAddr>>);

/// The names that are being resolved.
#[derive(Default)]
pub struct Names {
    answers: Arc<Mutex<Vec<Answer>>>,
    asked: usize,
}

impl Names {
    /// Has a replica's name resolved; `wake` is called when [`Names::take`] has the answer.
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

    /// Whether a question is open.
    pub fn is_asking(&self) -> bool {
        self.asked > 0
    }

    /// The answers that came.
    pub fn take(&mut self) -> Vec<Answer> {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        self.asked -= answers.len();
        answers
    }
}
