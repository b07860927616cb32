//! Number of replicas that reply to each request, for loads that abandon requests.

use crate::load::histogram::{AsCounts, microseconds};
use hdrhistogram::Histogram;
use quorate_types::{Digest, Quorum, ReplicaId, Signers, Time};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The latest requests, and the counts of earlier ones. A request is a bundle.
pub struct RepliesCount {
    give_up_after: Duration,
    /// Number of replies of a successful request: 2f+1.
    strong: usize,
    /// Start and end of the measurement. Requests sent outside of it are not counted.
    window: Option<(Time, Time)>,
    open: HashMap<Digest, Open>,
    /// Requests in the order of their send times.
    order: VecDeque<(Time, Digest)>,
    counts: ReplyCounts,
}

/// Replies to the requests sent in the measured window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplyCounts {
    /// Number of requests by the number of replicas that replied before the request was abandoned, from 0 to n.
    pub by_replies: Vec<u64>,
    /// Time from sending a successful request to the (2f+1)-th reply, in microseconds.
    #[serde(with = "AsCounts")]
    pub success_us: Histogram<u64>,
}

/// A request that is not abandoned yet.
struct Open {
    replied: Signers,
    /// Time of the (2f+1)-th reply.
    succeeded: Option<Time>,
}

impl RepliesCount {
    pub fn new(quorum: Quorum, give_up_after: Duration) -> RepliesCount {
        let by_replies = vec![0; quorum.replicas() + 1];
        RepliesCount {
            give_up_after,
            strong: 2 * quorum.faults() + 1,
            window: None,
            open: HashMap::new(),
            order: VecDeque::new(),
            counts: ReplyCounts { by_replies, success_us: microseconds() },
        }
    }

    pub fn on_sent(&mut self, now: Time, request: Digest) {
        self.open.insert(request, Open { replied: Signers::empty(), succeeded: None });
        self.order.push_back((now, request));
    }

    /// Handles a replica's reply. Returns false if the request is not open.
    pub fn on_reply(&mut self, now: Time, from: ReplicaId, request: &Digest) -> bool {
        let is_member = from.index() + 1 < self.counts.by_replies.len();
        let Some(open) = self.open.get_mut(request).filter(|_| is_member) else { return false };
        open.replied.insert(from);
        if open.replied.len() >= self.strong {
            open.succeeded.get_or_insert(now);
        }
        true
    }

    pub fn is_open(&self, request: &Digest) -> bool {
        self.open.contains_key(request)
    }

    /// Returns whether replies to any request still count.
    pub fn is_counting(&self) -> bool {
        !self.order.is_empty()
    }

    /// Returns the timeout of the oldest request.
    pub fn next_deadline(&self) -> Option<Time> {
        self.order.front().map(|(sent, _)| *sent + self.give_up_after)
    }

    /// Sets the measured window, which may be cut short.
    pub fn measure(&mut self, window: (Time, Time)) {
        self.window = Some(window);
    }

    /// Counts and returns the oldest request, if it has timed out.
    pub fn close(&mut self, now: Time) -> Option<Digest> {
        let (sent, request) = self.order.front().copied()?;
        if sent + self.give_up_after > now {
            return None;
        }
        self.order.pop_front();
        let open = self.open.remove(&request).expect("a request is open until its time is over");
        if self.window.is_some_and(|(start, end)| start <= sent && sent < end) {
            self.counts.by_replies[open.replied.len()] += 1;
            let took = open.succeeded.map(|at| at.since(sent).as_micros() as u64);
            took.into_iter().for_each(|us| self.counts.success_us.saturating_record(us));
        }
        Some(request)
    }

    pub fn into_counts(self) -> ReplyCounts {
        self.counts
    }
}

impl ReplyCounts {
    /// Adds the counts of another part of the load.
    pub(crate) fn add(&mut self, other: &ReplyCounts) {
        self.by_replies.iter_mut().zip(&other.by_replies).for_each(|(one, other)| *one += other);
        self.success_us.add(&other.success_us).expect("all histograms of a load have the same bounds");
    }
}
