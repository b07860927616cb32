//! Limits on the time and bandwidth for one peer's requests.
//!
//! A request is small and often unsigned, but its answer may be megabytes, a file read, or a hundred messages. So each
//! peer has a budget of bytes per second for all its requests, and the rate of answers to a repeated request is
//! limited. An honest peer asks again after `fetch_retry_ms` or half a view timeout, and keeps asking as it progresses:
//! neither is delayed.

use crate::config::Config;
use crate::drops::Drop;
use crate::ids::Part;
use quorate_types::{Digest, Height, Quorum, ReplicaId, Subject, Time, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum cost of each message of an answer, in bytes: about the cost of encoding and sending a small message.
pub const MIN_ANSWER_BYTES: usize = 4 << 10;
/// Maximum burst of repeated requests of a peer; afterwards, one per interval is answered.
pub const MAX_REPEATS: u32 = 4;
/// Maximum number of different requests of one peer that are answered per interval.
const MAX_QUESTIONS: usize = 2048;

/// Request of a peer, to the extent needed to recognize repetitions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Question {
    /// Everything above its view and executed height. After the peer has advanced, this is a new request.
    Place(View, Height),
    /// This block and its ancestors above a height.
    Blocks(Digest, Height),
    /// First bundle and number of bundles.
    Bundles(Option<Digest>, usize),
    /// A bundle of a final block whose absence the peer has signed.
    Absent(Subject),
    /// A part of the state at a height.
    State(Height, Part),
    /// The recipient's NEW-VIEW of this view, because it refutes the claims of the peer's view change.
    Claims(View),
    /// The recipient's standing, with the nonce of the request.
    Standing(u64),
}

#[derive(Clone)]
struct Peer {
    /// Bytes that may still be sent; negative after a large answer.
    budget: i64,
    /// Time at which all tokens for repeated requests are available again.
    repeated_until: Time,
    /// When the budget was last refilled.
    at: Time,
    /// Its view and height in its last [`Question::Place`], and the time.
    place: Option<(View, Height, Time)>,
    /// Times of its other requests.
    asked: BTreeMap<Question, Time>,
}

/// Recent requests and remaining budget of each peer.
pub struct Answers {
    bytes_per_second: i64,
    interval: Duration,
    peers: Vec<Peer>,
}

impl Answers {
    pub fn new(config: &Config, quorum: Quorum) -> Answers {
        let bytes_per_second = i64::try_from(config.answer_bytes_per_second).unwrap_or(i64::MAX);
        let shortest = config.fetch_retry_ms.min(config.min_view_timeout_ms).min(config.view_timeout_ms);
        let peer = Peer {
            budget: bytes_per_second,
            repeated_until: Time(0),
            at: Time(0),
            place: None,
            asked: BTreeMap::new(),
        };
        Answers {
            bytes_per_second,
            interval: Duration::from_millis(shortest) / 2,
            peers: vec![peer; quorum.replicas()],
        }
    }

    /// Returns whether to answer a peer's request now, or the reason for not answering. The caller must
    /// [charge](Answers::charge) the answer.
    pub fn admit(&mut self, now: Time, peer: ReplicaId, question: Question) -> Result<(), Drop> {
        if bug!(AnswersUnlimited) {
            return Ok(());
        }
        let (interval, bytes_per_second) = (self.interval, self.bytes_per_second);
        let peer = &mut self.peers[peer.index()];
        peer.refill(now, bytes_per_second);
        if peer.budget <= 0 {
            return Err(Drop::Overload);
        }
        if peer.is_repeated(now, interval, &question) && !peer.may_repeat(now, interval) {
            return Err(Drop::Repeated);
        }
        peer.remember(now, interval, question)
    }

    /// Charges a peer for an answer of one message with `bytes` bytes.
    pub fn charge(&mut self, peer: ReplicaId, bytes: usize) {
        let bytes = i64::try_from(bytes.max(MIN_ANSWER_BYTES)).unwrap_or(i64::MAX);
        let budget = &mut self.peers[peer.index()].budget;
        *budget = budget.saturating_sub(bytes);
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        let bounded = |peer: &Peer| peer.asked.len() <= MAX_QUESTIONS && peer.budget <= self.bytes_per_second;
        assert!(self.peers.iter().all(bounded), "the record of a peer's requests is bounded");
    }
}

impl Peer {
    fn refill(&mut self, now: Time, bytes_per_second: i64) {
        let elapsed = now.since(self.at).min(Duration::from_secs(3600));
        let bytes = i128::from(bytes_per_second) * elapsed.as_nanos() as i128 / 1_000_000_000;
        if bytes > 0 {
            let budget = (i128::from(self.budget) + bytes).min(i128::from(bytes_per_second));
            self.budget = i64::try_from(budget).unwrap_or(bytes_per_second);
            self.at = now;
        }
    }

    fn is_repeated(&self, now: Time, interval: Duration, question: &Question) -> bool {
        let lately = |asked: Time| now < asked + interval;
        match (question, self.place) {
            (Question::Place(view, height), Some((last_view, last_height, asked))) => {
                *view <= last_view && *height <= last_height && lately(asked)
            }
            (Question::Place(..), None) => false,
            _ => self.asked.get(question).is_some_and(|asked| lately(*asked)),
        }
    }

    /// Uses up one token for a repeated request. One token is restored per interval.
    fn may_repeat(&mut self, now: Time, interval: Duration) -> bool {
        let until = self.repeated_until.max(now) + interval;
        let may = until <= now + interval * MAX_REPEATS;
        if may {
            self.repeated_until = until;
        }
        may
    }

    fn remember(&mut self, now: Time, interval: Duration, question: Question) -> Result<(), Drop> {
        if let Question::Place(view, height) = question {
            self.place = Some((view, height, now));
            return Ok(());
        }
        if self.asked.len() >= MAX_QUESTIONS {
            self.asked.retain(|_, asked| now < *asked + interval);
            if self.asked.len() >= MAX_QUESTIONS {
                return Err(Drop::Overload);
            }
        }
        self.asked.insert(question, now);
        Ok(())
    }
}
