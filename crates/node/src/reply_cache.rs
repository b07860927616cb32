//! The latest replies, for clients that ask again.

use bytes::Bytes;
use quorate_types::Digest;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};

/// What an entry takes besides the reply: its digest, its handle, and its share of the table.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// Encoded replies by bundle; the earliest give way when there are too many bytes of them.
///
/// The table holds no more than eight bytes of each digest and a position, so that most of it stays near the processor: every
/// bundle is looked up and entered once. Of two bundles with the same eight bytes only the later is found.
pub(crate) struct ReplyCache {
    positions: HashMap<u64, u64, Salt>,
    replies: VecDeque<(Digest, Bytes)>,
    /// The position of the first reply; positions are never used twice.
    first: u64,
    bytes: usize,
    capacity: usize,
}

impl ReplyCache {
    pub fn new(capacity: usize, salt: u64) -> ReplyCache {
        let positions = HashMap::with_hasher(Salt(salt));
        ReplyCache { positions, replies: VecDeque::new(), first: 0, bytes: 0, capacity }
    }

    pub fn get(&self, bundle: &Digest) -> Option<&Bytes> {
        let position = self.positions.get(&bundle.prefix())?;
        let (kept, reply) = &self.replies[(position - self.first) as usize];
        (kept == bundle).then_some(reply)
    }

    /// Keeps the reply to a bundle that has none kept, if it fits at all.
    pub fn insert(&mut self, bundle: Digest, reply: Bytes) {
        let size = reply.len() + ENTRY_OVERHEAD_BYTES;
        if size > self.capacity {
            return;
        }
        while self.bytes + size > self.capacity {
            self.forget_first();
        }
        self.bytes += size;
        self.positions.insert(bundle.prefix(), self.first + self.replies.len() as u64);
        self.replies.push_back((bundle, reply));
    }

    fn forget_first(&mut self) {
        let (oldest, gone) = self.replies.pop_front().expect("bytes are counted for a reply that is kept");
        self.bytes -= gone.len() + ENTRY_OVERHEAD_BYTES;
        if self.positions.get(&oldest.prefix()) == Some(&self.first) {
            self.positions.remove(&oldest.prefix());
        }
        self.first += 1;
    }
}

/// Mixes a number that keeps strangers from choosing bundles that collide into what is hashed already.
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
