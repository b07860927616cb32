//! Replies to clients: their form, a cache for clients that retry, and reasons for refusals.

use quorate_consensus::Refusal;
use quorate_consensus::data::pool::EXPIRY_MARGIN_BLOCKS;
use quorate_types::limits::MAX_BUNDLE_LIFETIME_BLOCKS;
use quorate_types::{Bundle, Digest, Height, ReplicaId, ReplyMode, Results};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};

/// What a replica reports about executed bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// The outcome of every command.
    Outcomes,
    /// Only that the bundle was executed.
    Bare,
    Nothing,
}

impl Answers {
    /// Returns what replica `me` reports.
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

/// Returns why a new bundle's expiry is invalid at this height, if it is. The upper limit is twice the lifetime, so
/// that a lagging replica does not refuse a bundle that others accept; execution checks against the block's height.
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
/// and `is_answered`: its reply is cached and on its way, or no replies are given.
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

/// Bytes per entry in addition to the reply: digest, handle, and share of the table.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// Cache of replies by bundle; evicts the oldest ones if they exceed its capacity in bytes.
///
/// Every bundle is looked up and inserted once, so the table holds only eight bytes of each digest and a position, and
/// most of it stays in the processor's caches. Of two bundles with the same eight bytes, only the later is found.
pub struct ReplyCache<R> {
    positions: HashMap<u64, u64, Salt>,
    replies: VecDeque<(Digest, usize, R)>,
    /// Position of the first reply; positions are never reused.
    first: u64,
    bytes: usize,
    capacity: usize,
}

impl<R: Clone> ReplyCache<R> {
    /// Creates a cache of at most `capacity` bytes. A random `salt` keeps clients from choosing bundles that collide.
    pub fn new(capacity: usize, salt: u64) -> ReplyCache<R> {
        let positions = HashMap::with_hasher(Salt(salt));
        ReplyCache { positions, replies: VecDeque::new(), first: 0, bytes: 0, capacity }
    }

    /// Returns the reply to a bundle, if it is cached.
    pub fn get(&self, bundle: &Digest) -> Option<&R> {
        let position = self.positions.get(&bundle.prefix())?;
        let (kept, _, reply) = &self.replies[(position - self.first) as usize];
        (kept == bundle).then_some(reply)
    }

    /// Returns the cached reply to a bundle. Otherwise returns the reply that `make` gives with its size in bytes, and
    /// caches it if it fits.
    pub fn get_or_keep(&mut self, bundle: Digest, make: impl FnOnce() -> (R, usize)) -> R {
        if let Some(kept) = self.get(&bundle) {
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
        while self.bytes + size > self.capacity {
            self.forget_first();
        }
        self.bytes += size;
        self.positions.insert(bundle.prefix(), self.first + self.replies.len() as u64);
        self.replies.push_back((bundle, size, reply));
    }

    fn forget_first(&mut self) {
        let (oldest, size, _) = self.replies.pop_front().expect("cached bytes belong to a cached reply");
        self.bytes -= size;
        if self.positions.get(&oldest.prefix()) == Some(&self.first) {
            self.positions.remove(&oldest.prefix());
        }
        self.first += 1;
    }
}

/// Default for the maximum number of bytes of cached replies.
pub const DEFAULT_REPLY_CACHE_BYTES: usize = 16 << 20;

/// Hasher that adds a salt to already hashed bytes, so that clients cannot choose bundles that collide.
#[derive(Clone, Copy)]
struct Salt(u64);

struct Mixed(u64);

impl BuildHasher for Salt {
    type Hasher = Mixed;
    fn build_hasher(&self) -> Mixed {
        Mixed(self.0)
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the table's keys are numbers");
    }

    fn write_u64(&mut self, prefix: u64) {
        let product = u128::from(prefix ^ self.0) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
