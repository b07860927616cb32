//! What a client has asked for and not yet been answered: a pure state machine without a clock and without a socket.
//!
//! A bundle goes to all replicas, or to the one that is believed to lead. It is accepted when f+1 replicas gave the same reply,
//! since one of them is honest; the replicas' other replies are then late and are dropped. A bundle that is not accepted in time
//! is sent again to all replicas, bit by bit the same, so that it is executed at most once, and each time twice as much later.
//!
//! A bundle expires at a height ([`Session::expiry`]). Nobody signs a command a second time before f+1 replicas said that the first
//! bundle is void and that the command was not executed ([`Outcome::Expired`](quorate_types::Outcome::Expired)): it could be executed twice.

use crate::heights::Heights;
use crate::quorum_reply::ReplyQuorum;
use crate::retry::{Attempt, RetryTimers, Ticket};
use bytes::Bytes;
use quorate_types::{
    Bundle, ClientRequest, Digest, Dissemination, Height, Quorum, ReplicaId, ReplicaReply, ReplyMode, Results, Signers,
    Time, encode_message,
};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;
use thiserror::Error;

/// How long after the first attempt a bundle is sent again, in milliseconds.
pub const DEFAULT_RETRY_MS: u64 = 2_000;

/// What a session needs to know of its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionOptions {
    /// n and f.
    pub quorum: Quorum,
    /// Where bundles go first.
    pub dissemination: Dissemination,
    /// Who answers.
    pub reply: ReplyMode,
    /// The replica that acknowledges with [`ReplyMode::None`].
    pub observer: ReplicaId,
    /// How long after the first attempt a bundle is sent again; the wait doubles each time.
    pub retry: Duration,
    /// Most bundles without an answer at a time.
    pub most_outstanding: usize,
}

impl SessionOptions {
    /// Bundles to all replicas, f+1 equal replies, replica 0 as the observer, a retry after two seconds.
    pub fn new(quorum: Quorum) -> Self {
        SessionOptions {
            quorum,
            dissemination: Dissemination::Client,
            reply: ReplyMode::Each,
            observer: ReplicaId(0),
            retry: Duration::from_millis(DEFAULT_RETRY_MS),
            most_outstanding: DEFAULT_MOST_OUTSTANDING,
        }
    }

    /// Equal replies that make the truth.
    pub fn needed(&self) -> usize {
        match self.reply {
            ReplyMode::Each => self.quorum.weak(),
            ReplyMode::None => 1,
        }
    }
}

/// Most bundles without an answer, unless told otherwise.
pub const DEFAULT_MOST_OUTSTANDING: usize = 1 << 20;

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To every replica.
    All,
    /// To this one.
    One(ReplicaId),
}

/// A frame to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Where it goes.
    pub to: Destination,
    /// An encoded [`ClientRequest`], shared by all who get it.
    pub frame: Bytes,
}

/// A bundle that was answered; `T` is what the caller attached to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted<T> {
    /// The bundle.
    pub bundle: Digest,
    /// What the caller attached.
    pub attached: T,
    /// How many commands it has.
    pub commands: usize,
    /// The height of the block that carried it.
    pub height: Height,
    /// What became of each command. With [`ReplyMode::None`] the acknowledgement may cover no command at all.
    pub results: Results,
    /// How often it was sent again.
    pub retries: u32,
}

/// What a session counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SessionCounters {
    /// Bundles submitted.
    pub submitted: u64,
    /// Bundles accepted.
    pub accepted: u64,
    /// Times that a bundle was sent again.
    pub retries: u64,
    /// `Refused` replies to bundles that waited for an answer.
    pub refusals: u64,
    /// Replies to bundles that were answered before, or to none of ours.
    pub late: u64,
    /// Replies that cannot be true: a wrong number of results, or a replica that is not a member or not the observer.
    pub invalid: u64,
}

impl SessionCounters {
    /// What was counted between an earlier reading and this one.
    pub fn since(&self, earlier: &SessionCounters) -> SessionCounters {
        SessionCounters {
            submitted: self.submitted - earlier.submitted,
            accepted: self.accepted - earlier.accepted,
            retries: self.retries - earlier.retries,
            refusals: self.refusals - earlier.refusals,
            late: self.late - earlier.late,
            invalid: self.invalid - earlier.invalid,
        }
    }
}

/// Why a bundle was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SubmitError {
    /// Too many wait for an answer.
    #[error("{0} bundles wait for an answer, which is the most allowed: wait for answers, or raise the limit")]
    TooManyOutstanding(usize),
    /// The same bundle waits for an answer.
    #[error("bundle {0:?} waits for its answer already: a command's sequence number is used once")]
    Repeated(Digest),
}

/// The bundles that wait for an answer.
pub struct Session<T> {
    options: SessionOptions,
    leader: ReplicaId,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    names: HashMap<Digest, u32, BuildHasherDefault<PrefixHasher>>,
    timers: RetryTimers,
    counters: SessionCounters,
    last_refusal: Option<(ReplicaId, String)>,
    heights: Heights,
    /// What came back was void, so that the next is not signed for a height that is long gone.
    is_behind: bool,
}

/// Room for one bundle; it is used again and keeps its memory.
struct Slot<T> {
    generation: u32,
    waiting: Option<Waiting<T>>,
    replies: ReplyQuorum<(Height, Results)>,
}

struct Waiting<T> {
    frame: Bytes,
    commands: usize,
    attached: T,
    attempt: Attempt,
    /// The one replica it was sent to, if it was not sent to all.
    sent_to: Option<ReplicaId>,
    /// Who refused the present attempt.
    refused: Signers,
    /// Who refused the bundle for good.
    rejected: Signers,
}

impl<T> Session<T> {
    /// A session without any bundle. The observer must be a member and the retry wait longer than nothing.
    pub fn new(options: SessionOptions) -> Self {
        assert!(
            options.observer.index() < options.quorum.replicas(),
            "the observer {} is not a member",
            options.observer
        );
        Session {
            options,
            leader: ReplicaId(0),
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::default(),
            timers: RetryTimers::new(options.retry),
            counters: SessionCounters::default(),
            last_refusal: None,
            heights: Heights::new(options.quorum),
            is_behind: false,
        }
    }

    /// When a bundle that is signed now expires.
    pub fn expiry(&self) -> Height {
        self.heights.estimate().latest_expiry()
    }

    /// Asks all replicas where they are.
    pub fn ask_height(&mut self, out: &mut Vec<Outgoing>) {
        self.is_behind = false;
        self.heights.ask();
        self.ask_height_again(out);
    }

    /// Repeats the question. Who answered it stays known.
    pub fn ask_height_again(&self, out: &mut Vec<Outgoing>) {
        let frame = encode_message(&ClientRequest::Height { id: self.heights.asked() });
        out.push(Outgoing { to: Destination::All, frame });
    }

    /// Who said where it is since all were asked last. What f+1 said is not ahead of every honest replica, and what n-f said is not behind
    /// every one either.
    pub fn heights_told(&self) -> Signers {
        self.heights.answered()
    }

    /// What the session knows of its cluster.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Takes a bundle and says where it goes.
    pub fn submit(
        &mut self,
        now: Time,
        bundle: &Bundle,
        attached: T,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), SubmitError> {
        if self.names.len() >= self.options.most_outstanding {
            return Err(SubmitError::TooManyOutstanding(self.names.len()));
        }
        let at = self.free.last().copied().unwrap_or(u32::try_from(self.slots.len()).expect("fewer than 2^32 bundles"));
        match self.names.entry(bundle.digest()) {
            std::collections::hash_map::Entry::Occupied(_) => return Err(SubmitError::Repeated(bundle.digest())),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(at),
        };
        if self.free.pop().is_none() {
            self.slots.push(Slot { generation: 0, waiting: None, replies: ReplyQuorum::default() });
        }
        let frame = encode_message(&ClientRequest::Submit(bundle.clone()));
        let sent_to = (self.options.dissemination == Dissemination::Leader).then_some(self.leader);
        let slot = &mut self.slots[at as usize];
        slot.waiting = Some(Waiting {
            frame: frame.clone(),
            commands: bundle.len(),
            attached,
            attempt: Attempt::FIRST,
            sent_to,
            refused: Signers::empty(),
            rejected: Signers::empty(),
        });
        self.timers.arm(now, Ticket { slot: at, generation: slot.generation, attempt: Attempt::FIRST });
        self.counters.submitted += 1;
        out.push(Outgoing { to: sent_to.map_or(Destination::All, Destination::One), frame });
        Ok(())
    }

    /// Takes a replica's reply; hands out the bundle that it completes, if any. Replies that are not about bundles are left alone.
    #[inline]
    pub fn receive(&mut self, now: Time, from: ReplicaId, reply: ReplicaReply) -> Option<Accepted<T>> {
        match reply {
            ReplicaReply::Executed { bundle, height, results } => self.executed(from, bundle, height, results),
            ReplicaReply::Refused { bundle, why, again } => {
                self.refused(now, from, bundle, why, again);
                None
            }
            ReplicaReply::Height { id, height } => {
                self.heights.tell(from, id, height);
                None
            }
            ReplicaReply::Answer { .. } | ReplicaReply::Status { .. } => None,
        }
    }

    fn executed(&mut self, from: ReplicaId, bundle: Digest, height: Height, results: Results) -> Option<Accepted<T>> {
        let Some(at) = self.names.get(&bundle).copied() else {
            self.counters.late += 1;
            return None;
        };
        let slot = &mut self.slots[at as usize];
        let commands = slot.waiting.as_ref().expect("a named slot is in use").commands;
        let possible = match self.options.reply {
            ReplyMode::Each => from.index() < self.options.quorum.replicas() && results.len() == commands,
            ReplyMode::None => from == self.options.observer && (results.is_empty() || results.len() == commands),
        };
        if !possible {
            self.counters.invalid += 1;
            return None;
        }
        let (height, results) = slot.replies.add(from, (height, results), self.options.needed())?;
        let waiting = slot.waiting.take().expect("a named slot is in use");
        slot.generation = slot.generation.wrapping_add(1);
        slot.replies.clear();
        self.names.remove(&bundle);
        self.free.push(at);
        self.counters.accepted += 1;
        self.heights.prove(height);
        // A reply to what was not ordered, at height 0, does not tell where the cluster is.
        self.is_behind |= height == Height(0) && !results.outcomes().all(|outcome| outcome.is_executed());
        Some(Accepted {
            bundle,
            attached: waiting.attached,
            commands,
            height,
            results,
            retries: waiting.attempt.retries(),
        })
    }

    /// Counts a refusal. When so many refused that an honest replica is among them, the retry comes sooner than after silence.
    fn refused(&mut self, now: Time, from: ReplicaId, bundle: Digest, why: String, again: bool) {
        let Some(at) = self.names.get(&bundle).copied() else {
            self.counters.late += 1;
            return;
        };
        if from.index() >= self.options.quorum.replicas() {
            self.counters.invalid += 1;
            return;
        }
        self.counters.refusals += 1;
        self.last_refusal = Some((from, why));
        let slot = &mut self.slots[at as usize];
        let waiting = slot.waiting.as_mut().expect("a named slot is in use");
        if !again {
            waiting.rejected.insert(from);
        }
        let enough = if waiting.sent_to == Some(from) { 1 } else { self.options.quorum.weak() };
        let before = waiting.refused.len();
        let fresh = waiting.refused.insert(from);
        if fresh && before < enough && waiting.refused.len() >= enough {
            self.timers.arm_refused(now, Ticket { slot: at, generation: slot.generation, attempt: waiting.attempt });
        }
    }

    /// Whether so many replicas refused a bundle for good that an honest one is among them: it will never be executed for being sent
    /// again.
    pub fn is_rejected(&self, bundle: Digest) -> bool {
        let slot = self.names.get(&bundle).map(|at| &self.slots[*at as usize]);
        let waiting = slot.and_then(|slot| slot.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.rejected.len() >= self.options.quorum.weak())
    }

    /// Sends again what is due.
    pub fn poll(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if self.is_behind {
            self.ask_height(out);
        }
        while let Some(ticket) = self.timers.pop_due(now) {
            let slot = &mut self.slots[ticket.slot as usize];
            let Some(waiting) = slot.waiting.as_mut() else { continue };
            if slot.generation != ticket.generation || waiting.attempt != ticket.attempt {
                continue;
            }
            waiting.attempt = ticket.attempt.next();
            waiting.refused = Signers::empty();
            let sent_to = waiting.sent_to.take();
            out.push(Outgoing { to: Destination::All, frame: waiting.frame.clone() });
            self.timers.arm(now, Ticket { attempt: waiting.attempt, ..ticket });
            self.counters.retries += 1;
            if sent_to == Some(self.leader) {
                self.distrust_leader();
            }
        }
    }

    /// When [`Session::poll`] has something to do at the latest; it may turn out to be nothing.
    pub fn next_deadline(&mut self) -> Option<Time> {
        let slots = &self.slots;
        self.timers.next_deadline(|ticket| {
            let slot = &slots[ticket.slot as usize];
            let waiting = slot.waiting.as_ref().filter(|_| slot.generation == ticket.generation);
            waiting.is_some_and(|waiting| waiting.attempt == ticket.attempt)
        })
    }

    /// Says that a replica cannot be reached: if it was believed to lead, another one is.
    pub fn lost(&mut self, replica: ReplicaId) {
        if replica == self.leader {
            self.distrust_leader();
        }
    }

    fn distrust_leader(&mut self) {
        self.leader = ReplicaId((self.leader.0 + 1) % self.options.quorum.replicas() as u16);
    }

    /// Gives up on a bundle and hands back what was attached; late replies to it are dropped.
    pub fn abandon(&mut self, bundle: Digest) -> Option<T> {
        let at = self.names.remove(&bundle)?;
        let slot = &mut self.slots[at as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.replies.clear();
        self.free.push(at);
        slot.waiting.take().map(|waiting| waiting.attached)
    }

    /// What was attached to the bundles that still wait, at the end of the session.
    pub fn into_attached(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| slot.waiting.map(|waiting| waiting.attached))
    }

    /// Which replicas answered a bundle so far, and in how many different ways.
    pub fn answered(&self, bundle: Digest) -> (Signers, usize) {
        self.names.get(&bundle).map_or((Signers::empty(), 0), |at| {
            let replies = &self.slots[*at as usize].replies;
            (replies.replicas(), replies.distinct())
        })
    }

    /// Bundles that wait for an answer.
    pub fn outstanding(&self) -> usize {
        self.names.len()
    }

    /// Counters since the start.
    pub fn counters(&self) -> SessionCounters {
        self.counters
    }

    /// The last refusal, and whose it was.
    pub fn last_refusal(&self) -> Option<(ReplicaId, &str)> {
        self.last_refusal.as_ref().map(|(from, why)| (*from, why.as_str()))
    }
}

/// Hashes a digest by its first eight bytes: the digests in the table are those of our own bundles, so nobody can crowd it.
#[derive(Default)]
struct PrefixHasher(u64);

impl Hasher for PrefixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(prefix) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*prefix);
        }
    }

    /// The length of a digest says nothing.
    fn write_usize(&mut self, _: usize) {}
}
