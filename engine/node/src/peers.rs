//! Round-robin queue of frames from peers.
//!
//! One iteration of the host may receive thousands of small frames from one peer. If links were served one after the
//! other, the votes of all other peers would wait behind them.

use quorate_types::ReplicaId;
use std::collections::VecDeque;

/// Frames received from peers in this iteration of the host.
pub struct PeerFrames<F> {
    queues: Vec<VecDeque<F>>,
    waiting: usize,
    /// Peer to be served next.
    next: usize,
}

impl<F> PeerFrames<F> {
    /// Creates empty queues for `replicas` replicas.
    pub fn new(replicas: usize) -> PeerFrames<F> {
        PeerFrames { queues: (0..replicas).map(|_| VecDeque::new()).collect(), waiting: 0, next: 0 }
    }

    /// Queues a frame.
    ///
    /// # Panics
    /// If the sender is not a member, which the channel's authentication rules out.
    #[inline]
    pub fn push(&mut self, from: ReplicaId, frame: F) {
        self.queues[from.index()].push_back(frame);
        self.waiting += 1;
    }

    /// Returns the oldest frame of the next peer that has one, with its sender.
    pub fn pop(&mut self) -> Option<(ReplicaId, F)> {
        if self.waiting == 0 {
            return None;
        }
        let replicas = self.queues.len();
        for peer in (self.next..replicas).chain(0..self.next) {
            if let Some(frame) = self.queues[peer].pop_front() {
                self.waiting -= 1;
                self.next = (peer + 1) % replicas;
                return Some((ReplicaId(peer as u16), frame));
            }
        }
        unreachable!("{} frames wait", self.waiting)
    }
}
