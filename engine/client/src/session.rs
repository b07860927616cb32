//! Outstanding requests of a client, as a state machine without clock or sockets.
//!
//! A bundle is sent to all replicas, to the presumed leader, or to one replica that spreads it. It is accepted once f+1
//! replicas gave the same reply, since one of them is honest; later replies are dropped. A bundle that is not accepted
//! in time is resent to all replicas, or first to one more replica if replicas spread bundles; its timeout doubles each
//! time. It stays bit for bit the same, so it is executed at most once.
//!
//! Overloaded replicas answer that they are busy, with a retry delay. The session believes f+1 replicas, or the only
//! recipient. It resends the bundle after that delay and informs the caller, who may [abandon](Session::abandon) the
//! bundle instead. A recipient that is always busy is avoided like a silent one, so a liar can only delay its clients.
//!
//! A bundle expires at a height ([`Session::expiry`]). A client must not sign a command again before f+1 replicas have
//! reported that the first bundle is void and the command was not executed
//! ([`Outcome::Expired`](quorate_types::Outcome::Expired)). Otherwise it could be executed twice.

mod refusals;

pub(crate) use refusals::frame_too_long;

use crate::asked::Asked;
use crate::comparison::{self, Comparison};
use crate::heights::Heights;
use crate::homes::Homes;
use crate::outgoing::{Destination, Outgoing};
use crate::quorum_reply::ReplyQuorum;
use crate::retry::{Attempt, RetryTimers, Ticket};
use bytes::Bytes;
use quorate_crypto::ClientIdentity;
use quorate_types::{
    Bundle, ClientRequest, Difference, Digest, Dissemination, Height, Parameters, Quorum, ReplicaId, ReplicaReply,
    ReplyMode, Results, Signers, Time, encode_message,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;
use thiserror::Error;

/// Default timeout of a bundle's first attempt, in milliseconds.
pub const DEFAULT_RETRY_MS: u64 = 2_000;

/// Number of timeouts of a bundle at one replica before it is sent to all, if replicas spread bundles.
const TIMEOUTS_AT_HOMES: u32 = 1;

/// Settings of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionOptions {
    pub quorum: Quorum,
    pub dissemination: Dissemination,
    /// If replicas spread bundles ([`Dissemination::is_spread`]), the replica that receives all bundles as long as it
    /// serves them. With `None`, bundles go to the replicas in rotation.
    pub home: Option<ReplicaId>,
    pub reply: ReplyMode,
    /// The replica that acknowledges with [`ReplyMode::None`].
    pub observer: ReplicaId,
    /// Timeout of a bundle's first attempt, which doubles with each retry.
    pub retry: Duration,
    /// Maximum number of unanswered bundles.
    pub max_outstanding: usize,
}

impl SessionOptions {
    /// Returns the defaults: bundles to all replicas, f+1 equal replies, observer 0, retry after two seconds.
    pub fn new(quorum: Quorum) -> Self {
        SessionOptions {
            quorum,
            dissemination: Dissemination::Client,
            home: None,
            reply: ReplyMode::Each,
            observer: ReplicaId(0),
            retry: Duration::from_millis(DEFAULT_RETRY_MS),
            max_outstanding: DEFAULT_MAX_OUTSTANDING,
        }
    }

    /// Returns how many equal replies complete a bundle.
    pub fn needed(&self) -> usize {
        match self.reply {
            ReplyMode::Each => self.quorum.weak(),
            ReplyMode::None => 1,
        }
    }
}

/// Default maximum number of unanswered bundles.
pub const DEFAULT_MAX_OUTSTANDING: usize = 1 << 20;

/// Answered bundle, with the data that the caller attached to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted<T> {
    pub bundle: Digest,
    pub attached: T,
    /// Number of commands in the bundle.
    pub commands: usize,
    /// Height of the block that carried the bundle; 0 if it was not ordered.
    pub height: Height,
    /// Outcome of each command. With [`ReplyMode::None`] it may be empty.
    pub results: Results,
    /// Number of times that the bundle was resent.
    pub retries: u32,
}

/// Counters of a session since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionCounters {
    pub submitted: u64,
    pub accepted: u64,
    /// Resent bundles.
    pub retries: u64,
    /// `Refused` replies to outstanding bundles.
    pub refusals: u64,
    /// Bundles refused by overloaded replicas, counted once per attempt.
    pub busy: u64,
    /// Replies to bundles that are not outstanding.
    pub late: u64,
    /// Impossible replies: a wrong number of results, or a sender that is not a member or not the observer.
    pub invalid: u64,
}

impl SessionCounters {
    /// Returns the counts since an earlier reading.
    pub fn since(&self, earlier: &SessionCounters) -> SessionCounters {
        SessionCounters {
            submitted: self.submitted - earlier.submitted,
            accepted: self.accepted - earlier.accepted,
            retries: self.retries - earlier.retries,
            refusals: self.refusals - earlier.refusals,
            busy: self.busy - earlier.busy,
            late: self.late - earlier.late,
            invalid: self.invalid - earlier.invalid,
        }
    }
}

/// Reason why a session refused a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SubmitError {
    #[error("{0} bundles are unanswered, the limit; help: wait for answers, or raise the limit")]
    TooManyOutstanding(usize),
    #[error("bundle {0:?} is already outstanding; help: use each sequence number once")]
    Repeated(Digest),
}

/// Outstanding bundles, each with data of type `T` that the caller attached.
pub struct Session<T> {
    options: SessionOptions,
    leader: ReplicaId,
    homes: Homes,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    names: HashMap<Digest, u32, BuildHasherDefault<PrefixHasher>>,
    timers: RetryTimers,
    counters: SessionCounters,
    last_refusal: Option<(ReplicaId, String)>,
    /// Reason for which f+1 replicas refused a bundle permanently.
    rejection: Option<String>,
    /// Bundles refused because of load since the caller last took them.
    turned_away: Vec<TurnedAway>,
    heights: Heights,
    /// Whether all replicas were sent a signed bundle since one was last disconnected. A replica that authenticates
    /// clients replies on a link only after a signed bundle arrived on it, even if the leader has forwarded other
    /// bundles.
    is_introduced: bool,
    /// Whether a bundle was returned as expired, so that the session must request the height before the next one is
    /// signed.
    is_behind: bool,
    /// Message to send before each query.
    introduction: Option<Bytes>,
    asked: Asked,
    comparison: Option<Comparison>,
}

/// Bundle refused by overloaded replicas. It is resent after the wait, unless it is abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnedAway {
    pub bundle: Digest,
    pub wait: Duration,
}

/// Reusable slot for one bundle.
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
    /// The only recipient; `None` if the bundle was sent to all replicas.
    sent_to: Option<ReplicaId>,
    /// Number of attempts that ended with neither an answer nor a refusal.
    timeouts: u32,
    /// Replicas that refused the current attempt.
    refused: Signers,
    /// Replicas that refused the bundle permanently.
    rejected: Signers,
    /// The shortest wait requested by a replica in the current attempt; `None` if none was requested.
    wait: Option<Duration>,
}

impl<T> Session<T> {
    /// Returns a session without bundles. The observer must be a member, and the retry timeout positive.
    pub fn new(options: SessionOptions) -> Self {
        assert!(
            options.observer.index() < options.quorum.replicas(),
            "the observer {} is not a member",
            options.observer
        );
        Session {
            options,
            leader: ReplicaId(0),
            homes: Homes::new(options.home, options.quorum, options.retry),
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::default(),
            timers: RetryTimers::new(options.retry),
            counters: SessionCounters::default(),
            last_refusal: None,
            rejection: None,
            turned_away: Vec::new(),
            heights: Heights::new(options.quorum),
            is_introduced: false,
            is_behind: false,
            introduction: None,
            asked: Asked::default(),
            comparison: None,
        }
    }

    /// Returns the expiry height of a bundle signed now.
    pub fn expiry(&self) -> Height {
        self.heights.estimate().latest_expiry()
    }

    /// Sends this message before each query from now on.
    pub fn introduce_with(&mut self, introduction: Option<Bytes>) {
        self.introduction = introduction;
    }

    /// Compares these values of the client with the replicas', before the first queries.
    pub fn compare(&mut self, own: &Parameters) {
        self.comparison = Some(Comparison::new(own, self.options.quorum));
    }

    /// Returns the keys with different values that prevent the client from working.
    pub fn differences(&self) -> Vec<Difference> {
        self.comparison.as_ref().map_or_else(Vec::new, Comparison::fatal)
    }

    /// Returns a warning about the configuration key that makes the client slow, with the remedy.
    pub fn warning(&self) -> Option<String> {
        comparison::warning(&self.comparison.as_ref()?.slow())
    }

    /// Returns the maximum length of a frame, in bytes, if it is known. An honest replica closes the link of a client
    /// that sends a longer one.
    pub fn frame_limit(&self) -> Option<usize> {
        self.comparison.as_ref()?.frame_limit()
    }

    /// Returns whether a reply can have an effect: it is about an outstanding bundle, or about a query.
    pub fn awaits(&self, reply: &ReplicaReply) -> bool {
        match reply {
            ReplicaReply::Executed { bundle, .. }
            | ReplicaReply::Refused { bundle, .. }
            | ReplicaReply::Busy { bundle, .. } => self.names.contains_key(bundle),
            ReplicaReply::Answer { .. }
            | ReplicaReply::Height { .. }
            | ReplicaReply::Status { .. }
            | ReplicaReply::Challenge { .. }
            | ReplicaReply::Unanswered { .. }
            | ReplicaReply::Compared { .. }
            | ReplicaReply::FrameTooLong { .. } => true,
            ReplicaReply::Supports { .. } => false,
        }
    }

    /// Requests the heights of all replicas.
    pub fn ask_height(&mut self, out: &mut Vec<Outgoing>) {
        self.is_behind = false;
        self.heights.ask();
        self.ask_height_again(out);
    }

    /// Repeats the last height query. Answers received so far still count.
    pub fn ask_height_again(&mut self, out: &mut Vec<Outgoing>) {
        let id = self.heights.asked();
        self.ask(id, encode_message(&ClientRequest::Height { id }), out);
    }

    /// Sends all replicas a query. Replicas may answer it only after [`Session::prove`].
    pub fn ask(&mut self, id: u64, question: Bytes, out: &mut Vec<Outgoing>) {
        let comparison = self.comparison.as_ref().and_then(Comparison::question);
        let frames = self.introduction.iter().chain(comparison).cloned().chain([question]).collect();
        self.asked.ask(id, frames, out);
    }

    /// Proves the client's key to the replicas that require it, and repeats the last query to them.
    pub fn prove(&mut self, identity: &ClientIdentity, out: &mut Vec<Outgoing>) {
        self.asked.prove(identity, out);
    }

    /// Returns why no quorum will answer the last query: f+1 replicas, at least one of them honest, have refused.
    pub fn unanswered(&self) -> Option<&str> {
        let is_over = self.asked.refused().len() >= self.options.quorum.weak();
        self.asked.refusal().filter(|_| is_over).map(|(_, why)| why)
    }

    /// Returns the last replica that refused to answer the last query, and its reason.
    pub fn last_unanswered(&self) -> Option<(ReplicaId, &str)> {
        self.asked.refusal()
    }

    /// Returns the replicas that answered the last [`Session::ask_height`]. After f+1 answers the estimate is not ahead
    /// of all honest replicas, and after n-f answers not behind all of them.
    pub fn answered_height(&self) -> Signers {
        self.heights.answered()
    }

    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Accepts a bundle and appends the frame to send.
    pub fn submit(
        &mut self,
        now: Time,
        bundle: &Bundle,
        attached: T,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), SubmitError> {
        if self.names.len() >= self.options.max_outstanding {
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
        let introduces = bundle.authenticator().is_some() && !std::mem::replace(&mut self.is_introduced, true);
        let sent_to = match self.options.dissemination {
            _ if introduces => None,
            Dissemination::Client => None,
            Dissemination::Leader => Some(self.leader),
            Dissemination::Replicas | Dissemination::ReplicasCertified => Some(self.homes.choose(now)),
        };
        let slot = &mut self.slots[at as usize];
        slot.waiting = Some(Waiting {
            frame: frame.clone(),
            commands: bundle.len(),
            attached,
            attempt: Attempt::FIRST,
            sent_to,
            timeouts: 0,
            refused: Signers::empty(),
            rejected: Signers::empty(),
            wait: None,
        });
        self.timers.arm(now, Ticket { slot: at, generation: slot.generation, attempt: Attempt::FIRST });
        self.counters.submitted += 1;
        out.push(Outgoing { to: sent_to.map_or(Destination::All, Destination::One), frame });
        Ok(())
    }

    /// Handles a replica's reply, and returns the bundle that it completes, if any. Ignores answers to queries.
    #[inline]
    pub fn receive(&mut self, now: Time, from: ReplicaId, reply: ReplicaReply) -> Option<Accepted<T>> {
        match reply {
            ReplicaReply::Executed { bundle, height, results } => self.on_executed(from, bundle, height, results),
            ReplicaReply::Refused { bundle, why, again } => {
                self.on_refused(now, from, bundle, why, again);
                None
            }
            ReplicaReply::Busy { bundle, retry_after_ms } => {
                self.on_busy(now, from, bundle, Duration::from_millis(u64::from(retry_after_ms)));
                None
            }
            ReplicaReply::Height { id, height } => {
                self.heights.on_answer(from, id, height);
                None
            }
            ReplicaReply::Challenge { challenge } => {
                self.asked.on_challenge(from, challenge);
                None
            }
            ReplicaReply::Unanswered { id, why, again } => {
                self.asked.on_unanswered(from, id, why, again);
                None
            }
            ReplicaReply::Compared { differing, max_frame_bytes, .. } => {
                if let Some(comparison) = &mut self.comparison {
                    comparison.on_answer(from, &differing, max_frame_bytes);
                }
                None
            }
            ReplicaReply::FrameTooLong { bytes, max_bytes } => {
                self.on_frame_too_long(now, from, bytes, max_bytes);
                None
            }
            ReplicaReply::Answer { .. } | ReplicaReply::Status { .. } | ReplicaReply::Supports { .. } => None,
        }
    }

    fn on_executed(
        &mut self,
        from: ReplicaId,
        bundle: Digest,
        height: Height,
        results: Results,
    ) -> Option<Accepted<T>> {
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
        let waiting = self.take(bundle).expect("a named slot is in use");
        self.counters.accepted += 1;
        waiting.sent_to.into_iter().for_each(|home| self.homes.on_success(home));
        self.heights.on_proven(height);
        // Height 0 marks a bundle that was not ordered.
        self.is_behind |= height == Height(0) && !results.outcomes().all(|outcome| outcome.is_executed());
        let retries = waiting.attempt.retries();
        Some(Accepted { bundle, attached: waiting.attached, commands, height, results, retries })
    }

    /// Resends bundles that have timed out.
    pub fn poll(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if self.is_behind {
            self.ask_height(out);
        }
        self.homes.on_time(now);
        while let Some(ticket) = self.timers.pop_due(now) {
            let slot = &mut self.slots[ticket.slot as usize];
            let Some(waiting) = slot.waiting.as_mut() else { continue };
            if slot.generation != ticket.generation || waiting.attempt != ticket.attempt {
                continue;
            }
            waiting.attempt = ticket.attempt.next();
            let refused = std::mem::take(&mut waiting.refused);
            let was_busy = waiting.wait.take().is_some();
            let sent_to = waiting.sent_to.take();
            self.timers.arm(now, Ticket { attempt: waiting.attempt, ..ticket });
            self.counters.retries += 1;
            match self.options.dissemination {
                Dissemination::Replicas | Dissemination::ReplicasCertified => {
                    let was_refused = sent_to.is_some_and(|home| refused.contains(home));
                    waiting.timeouts += u32::from(!was_refused);
                    sent_to.filter(|_| !was_refused).into_iter().for_each(|home| self.homes.on_failure(home));
                    let retries = waiting.attempt.retries();
                    let to_one =
                        waiting.timeouts <= TIMEOUTS_AT_HOMES && retries < self.options.quorum.replicas() as u32;
                    waiting.sent_to = match sent_to {
                        // Either all replicas are overloaded, or one replica lies: try each twice, and never all of
                        // them at once.
                        Some(home) if was_busy && !retries.is_multiple_of(2) => Some(self.homes.again(home)),
                        Some(home) if was_busy || to_one => Some(self.homes.after(home)),
                        _ => None,
                    };
                }
                _ if sent_to == Some(self.leader) => self.leader = after(self.leader, self.options.quorum),
                _ => {}
            }
            let to = waiting.sent_to.map_or(Destination::All, Destination::One);
            out.push(Outgoing { to, frame: waiting.frame.clone() });
        }
    }

    /// Returns when to call [`Session::poll`] next.
    pub fn next_deadline(&mut self) -> Option<Time> {
        let slots = &self.slots;
        self.timers.next_deadline(|ticket| {
            let slot = &slots[ticket.slot as usize];
            let waiting = slot.waiting.as_ref().filter(|_| slot.generation == ticket.generation);
            waiting.is_some_and(|waiting| waiting.attempt == ticket.attempt)
        })
    }

    /// Presumes another leader if the current one is disconnected.
    pub fn on_disconnected(&mut self, replica: ReplicaId) {
        self.is_introduced = false;
        self.homes.on_failure(replica);
        if replica == self.leader {
            self.leader = after(self.leader, self.options.quorum);
        }
    }

    /// Stops waiting for a bundle and returns the attached data.
    pub fn abandon(&mut self, bundle: Digest) -> Option<T> {
        self.take(bundle).map(|waiting| waiting.attached)
    }

    /// Removes a bundle and frees its slot.
    fn take(&mut self, bundle: Digest) -> Option<Waiting<T>> {
        let at = self.names.remove(&bundle)?;
        let slot = &mut self.slots[at as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.replies.clear();
        self.free.push(at);
        slot.waiting.take()
    }

    /// Returns the data attached to outstanding bundles.
    pub fn into_attached(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| slot.waiting.map(|waiting| waiting.attached))
    }

    /// Returns the replicas that answered a bundle, and the number of distinct answers.
    pub fn answered(&self, bundle: Digest) -> (Signers, usize) {
        self.names.get(&bundle).map_or((Signers::empty(), 0), |at| {
            let replies = &self.slots[*at as usize].replies;
            (replies.replicas(), replies.distinct())
        })
    }

    /// Returns whether a bundle has no result yet.
    pub fn is_outstanding(&self, bundle: Digest) -> bool {
        self.names.contains_key(&bundle)
    }

    /// Returns the number of outstanding bundles.
    pub fn outstanding(&self) -> usize {
        self.names.len()
    }

    pub fn counters(&self) -> SessionCounters {
        self.counters
    }
}

fn after(replica: ReplicaId, quorum: Quorum) -> ReplicaId {
    ReplicaId((replica.0 + 1) % quorum.replicas() as u16)
}

/// Hasher that uses the first eight bytes of a digest. Only digests of our own bundles are hashed, so an attacker
/// cannot cause collisions.
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

    /// Ignores the length, which is the same for all digests.
    fn write_usize(&mut self, _: usize) {}
}
