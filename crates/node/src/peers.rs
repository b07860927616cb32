//! Whose frame is next among peers: one of each in turn.
//!
//! A turn of the host may bring thousands of small frames of one peer. Were they heard link by link, the votes of the others would wait
//! behind all of them.

use bytes::Bytes;
use quorate_types::ReplicaId;
use std::collections::VecDeque;

/// The frames of peers that came in this turn of the host and wait to be heard.
pub struct PeerFrames {
    queues: Vec<VecDeque<Bytes>>,
    waiting: usize,
    /// Whose turn it is.
    next: usize,
}

impl PeerFrames {
    /// No frames of so many replicas.
    pub fn new(replicas: usize) -> PeerFrames {
        PeerFrames { queues: vec![VecDeque::new(); replicas], waiting: 0, next: 0 }
    }

    /// Takes a frame in.
    ///
    /// # Panics
    /// If the sender is no member: the channel has authenticated it.
    #[inline]
    pub fn push(&mut self, from: ReplicaId, frame: Bytes) {
        self.queues[from.index()].push_back(frame);
        self.waiting += 1;
    }

    /// The next frame, and whose it is: the oldest of the next peer that has one.
    pub fn pop(&mut self) -> Option<(ReplicaId, Bytes)> {
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
