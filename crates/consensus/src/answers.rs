//! How much of a replica's time and links the questions of one peer may take.
//!
//! A question is small and often unsigned, and its answer may be megabytes, a file that is read, or a hundred messages. So each peer
//! has a budget of bytes in a second, whatever it asks, and the same question is answered again only so often. Whoever is honest asks
//! again after `fetch_retry_ms` or half of a view timeout, and goes on asking as it gets on: neither is delayed.

use crate::config::Config;
use crate::seam::Drop;
use crate::transfer::Part;
use quorate_types::{Digest, Height, Quorum, ReplicaId, Time, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a message of an answer counts as at least, in bytes: about what encoding and sending a small one costs.
pub const MIN_ANSWER_BYTES: usize = 4 << 10;
/// How many times a peer may repeat questions at once; afterwards once in an interval.
pub const MAX_REPEATS: u32 = 4;
/// Most different questions of one peer that are answered in an interval.
const MAX_QUESTIONS: usize = 2048;

/// What a peer asks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Question {
    /// What it lacks, being in this view and having executed up to this height. Whoever is further on than when it asked last asks
    /// something new.
    Place(View, Height),
    /// This block and its ancestors above a height.
    Blocks(Digest, Height),
    /// So many bundles, of which this is the first.
    Bundles(Option<Digest>, usize),
    /// A part of the state at a height.
    State(Height, Part),
    /// How far others are, by the number of its question.
    Standing(u64),
}

#[derive(Clone)]
struct Peer {
    /// Bytes that may still be sent; below zero after a large answer.
    budget: i64,
    /// Until when repeated questions have used up their turns.
    repeated_until: Time,
    /// When the budget was looked at last.
    at: Time,
    /// Where it was when it asked for what it lacks, and when.
    place: Option<(View, Height, Time)>,
    /// When it asked for other things.
    asked: BTreeMap<Question, Time>,
}

/// What each peer was answered lately.
pub struct Answers {
    bytes_per_second: i64,
    interval: Duration,
    peers: Vec<Peer>,
}

impl Answers {
    /// Nothing was asked.
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

    /// Whether a peer's question is to be answered now, and if not, why. What the answer comes to is to be
    /// [charged](Answers::charge).
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

    /// An answer of one message and so many bytes goes to a peer.
    pub fn charge(&mut self, peer: ReplicaId, bytes: usize) {
        let bytes = i64::try_from(bytes.max(MIN_ANSWER_BYTES)).unwrap_or(i64::MAX);
        let budget = &mut self.peers[peer.index()].budget;
        *budget = budget.saturating_sub(bytes);
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        let bounded = |peer: &Peer| peer.asked.len() <= MAX_QUESTIONS && peer.budget <= self.bytes_per_second;
        assert!(self.peers.iter().all(bounded), "what is remembered of questions is bounded");
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

    /// Uses up one of the turns for what was asked before; they come back one in an interval.
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
