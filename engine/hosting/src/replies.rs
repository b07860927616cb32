//! Replies to clients: their format, a cache for clients that retry, and reasons for refusals.

use quorate_consensus::Refusal;
use quorate_consensus::data::pool::EXPIRY_MARGIN_BLOCKS;
use quorate_types::digest_index::DigestIndex;
use quorate_types::limits::MAX_BUNDLE_LIFETIME_BLOCKS;
use quorate_types::{Bundle, Digest, Height, ReplicaId, ReplyMode, Results};
use std::collections::VecDeque;

/// A replica's report about executed bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// The outcome of every command.
    Outcomes,
    /// Only that the bundle was executed.
    Bare,
    Nothing,
}

impl Answers {
    /// Returns the report of replica `me`.
    pub fn of(me: ReplicaId, mode: ReplyMode) -> Answers {
        match mode {
            ReplyMode::Each => Answers::Outcomes,
            ReplyMode::None if me == ReplicaId(0) => Answers::Bare,
            ReplyMode::None => Answers::Nothing,
        }
    }

    /// Returns the part of these results to report, if any.
    pub fn form(self, results: Results) -> Option<Results> {
        match self {
            Answers::Outcomes => Some(results),
            Answers::Bare => Some(Results::bare()),
            Answers::Nothing => None,
        }
    }
}

/// Returns why a new bundle's expiry is invalid at this height; `None` if it is valid. The upper limit is twice the
/// lifetime, so that a lagging replica does not refuse a bundle that others accept; execution checks against the
/// block's height.
pub fn bad_expiry(bundle: &Bundle, height: Height) -> Option<String> {
    let (expires, earliest, latest) = (bundle.expires(), height.0 + EXPIRY_MARGIN_BLOCKS, height.latest_expiry());
    if expires.0 <= earliest {
        return Some(format!(
            "the bundle expires at height {expires}, and it is {height} now: it may come too late; \
             help: sign bundles to expire {EXPIRY_MARGIN_BLOCKS} to {MAX_BUNDLE_LIFETIME_BLOCKS} heights ahead"
        ));
    }
    (expires > latest.latest_expiry()).then(|| {
        format!(
            "the bundle expires at height {expires}, and it is {height} now: it would have no effect; \
             help: sign bundles to expire at most {MAX_BUNDLE_LIFETIME_BLOCKS} heights ahead"
        )
    })
}

/// Returns the message for the client of a refused bundle; the client may resend it. `None` if the bundle was executed
/// and `is_answered`, so that its reply is cached and about to be sent, or if no replies are given.
pub fn refusal(why: Refusal, is_answered: bool) -> Option<&'static str> {
    Some(match why {
        Refusal::Executed if is_answered => return None,
        Refusal::PoolFull => {
            "too many commands wait to be ordered; help: send the bundle again later, or raise `pool_bundles` and \
             `pool_bytes`"
        }
        Refusal::Expired => {
            "the bundle has expired, or may before it can be ordered; help: sign its commands again with a later expiry"
        }
        Refusal::Executed => {
            "the bundle was ordered before, some of its commands were refused, and its reply is no longer cached; \
             help: wait until the bundle has expired, when the outcome of each command is reported, or raise \
             `reply_cache_bytes`"
        }
    })
}

/// Bytes per entry in addition to the reply: digest, handle, and its share of the table.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// Number of distinct positions in the cache.
const POSITIONS: u32 = 1 << 31;
/// Maximum number of cached replies, regardless of the capacity in bytes.
const MAX_REPLIES: usize = 1 << 30;

/// Cache of replies by bundle; evicts the oldest ones if they exceed its capacity in bytes.
///
/// Usually nobody requests a reply again before it is evicted, so replies are indexed lazily, at the next lookup.
pub struct ReplyCache<R> {
    positions: DigestIndex,
    /// Number of replies in the index, counted from the oldest.
    indexed: usize,
    replies: VecDeque<(Digest, usize, R)>,
    /// Position of the first reply. Positions wrap around; far fewer replies are cached than positions exist.
    first: u32,
    bytes: usize,
    capacity: usize,
}

impl<R: Clone> ReplyCache<R> {
    /// Creates a cache of at most `capacity` bytes. A random `salt` keeps clients from choosing bundles that collide.
    pub fn new(capacity: usize, salt: u64) -> ReplyCache<R> {
        let positions = DigestIndex::new(salt);
        ReplyCache { positions, indexed: 0, replies: VecDeque::new(), first: 0, bytes: 0, capacity }
    }

    /// Returns the reply to a bundle, if it is cached.
    pub fn get(&mut self, bundle: &Digest) -> Option<&R> {
        for at in self.indexed..self.replies.len() {
            self.positions.insert(&self.replies[at].0, self.position_of(at));
        }
        self.indexed = self.replies.len();
        let reply = |position| &self.replies[self.index_of(position)];
        self.positions.find(bundle, |position| reply(position).0 == *bundle).map(|position| &reply(position).2)
    }

    fn index_of(&self, position: u32) -> usize {
        ((position + POSITIONS - self.first) % POSITIONS) as usize
    }

    fn position_of(&self, index: usize) -> u32 {
        ((u64::from(self.first) + index as u64) % u64::from(POSITIONS)) as u32
    }

    /// Returns the cached reply to a bundle. Otherwise calls `make`, which returns a reply and its size in bytes, and
    /// caches the reply if it fits. A new bundle has no cached reply.
    pub fn get_or_keep(&mut self, bundle: Digest, is_new: bool, make: impl FnOnce() -> (R, usize)) -> R {
        if let Some(kept) = if is_new { None } else { self.get(&bundle) } {
            return kept.clone();
        }
        let (fresh, bytes) = make();
        self.insert(bundle, fresh.clone(), bytes);
        fresh
    }

    fn insert(&mut self, bundle: Digest, reply: R, bytes: usize) {
        let size = bytes + ENTRY_OVERHEAD_BYTES;
        if size > self.capacity {
            return;
        }
        while self.bytes + size > self.capacity || self.replies.len() == MAX_REPLIES {
            self.forget_first();
        }
        self.bytes += size;
        self.replies.push_back((bundle, size, reply));
    }

    fn forget_first(&mut self) {
        let (oldest, size, _) = self.replies.pop_front().expect("cached bytes belong to a cached reply");
        self.bytes -= size;
        if self.indexed > 0 {
            self.positions.remove(&oldest, self.first);
            self.indexed -= 1;
        }
        self.first = (self.first + 1) % POSITIONS;
    }
}

/// Default capacity of the reply cache, in bytes.
pub const DEFAULT_REPLY_CACHE_BYTES: usize = 16 << 20;
