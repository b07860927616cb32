//! Number of replicas that reply to each request, for loads that give a request up.

use quorate_types::{Digest, ReplicaId, Signers, Time};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Requests of the last moments, and the counts of those before. A request is a bundle.
pub struct RepliesCount {
    give_up_after: Duration,
    /// The measured window.
    window: Option<(Time, Time)>,
    replied: HashMap<Digest, Signers>,
    /// Times of sending.
    order: VecDeque<(Time, Digest)>,
    /// Requests sent in the window, by the number of replicas that replied in time.
    by_replies: Vec<u64>,
}

impl RepliesCount {
    pub fn new(replicas: usize, give_up_after: Duration) -> RepliesCount {
        RepliesCount {
            give_up_after,
            window: None,
            replied: HashMap::new(),
            order: VecDeque::new(),
            by_replies: vec![0; replicas + 1],
        }
    }

    pub fn on_sent(&mut self, now: Time, request: Digest) {
        self.replied.insert(request, Signers::empty());
        self.order.push_back((now, request));
    }

    /// Handles a replica's reply. Returns false if the request is not open.
    pub fn on_reply(&mut self, from: ReplicaId, request: &Digest) -> bool {
        let is_member = from.index() + 1 < self.by_replies.len();
        let replied = self.replied.get_mut(request).filter(|_| is_member);
        replied.map(|replied| replied.insert(from)).is_some()
    }

    pub fn is_open(&self, request: &Digest) -> bool {
        self.replied.contains_key(request)
    }

    /// Returns whether replies to any request still count.
    pub fn is_counting(&self) -> bool {
        !self.order.is_empty()
    }

    /// Returns when the time of the oldest request is over.
    pub fn next_deadline(&self) -> Option<Time> {
        self.order.front().map(|(sent, _)| *sent + self.give_up_after)
    }

    /// Sets the measured window, which may be cut short.
    pub fn measure(&mut self, window: (Time, Time)) {
        self.window = Some(window);
    }

    /// Counts the oldest request, and returns it, if its time is over.
    pub fn close(&mut self, now: Time) -> Option<Digest> {
        let (sent, request) = self.order.front().copied()?;
        if sent + self.give_up_after > now {
            return None;
        }
        self.order.pop_front();
        let replied = self.replied.remove(&request).unwrap_or(Signers::empty());
        if self.window.is_some_and(|(start, end)| start <= sent && sent < end) {
            self.by_replies[replied.len()] += 1;
        }
        Some(request)
    }

    pub fn into_counts(self) -> Vec<u64> {
        self.by_replies
    }
}
