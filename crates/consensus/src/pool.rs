//! Bundles: waiting for a proposal, proposed, or executed and kept for those who lag behind.

use crate::config::Config;
use crate::digest_map::{DigestMap, Salt};
pub use crate::lanes::Source;
use crate::lanes::{Lanes, Place};
use quorate_types::{Bundle, Digest, Height, Quorum, ReplicaId};
use std::collections::hash_map::Entry;

/// Most pending bundles that a backup relays to its leader at a time.
pub const MAX_RELAYED_BUNDLES: usize = 256;
/// Most bytes of them, if they are more than one.
const MAX_RELAYED_BYTES: usize = 8 << 20;
/// A bundle that expires so few heights above the last committed one is not taken in, and goes if it waits: the blocks that are proposed
/// and not committed yet are fewer, so nothing expires on its way, and no leader is waited for that has no use for it any more.
pub const EXPIRY_MARGIN_BLOCKS: u64 = 4096;
/// After how many heights the pool looks what is about to expire: well within the margin.
const EXPIRY_INTERVAL_BLOCKS: u64 = EXPIRY_MARGIN_BLOCKS / 4;
/// The relays of all peers together may take one part in so many of the pool.
const RELAYS_PART: usize = 2;
/// How many void tickets the queues may hold, besides as many as there are good ones.
const QUEUE_SLACK: usize = 1024;

struct Held {
    bundle: Bundle,
    /// How many blocks of the tree refer to it.
    proposals: u32,
    /// How many of these lie on branches that were left for another.
    aside: u32,
    executed: bool,
    /// The peer in whose share it is, until it is executed.
    relayer: Option<ReplicaId>,
    /// Where it waits while it does.
    place: Option<Place>,
    /// Whether it came over a client's link.
    has_crowd: bool,
    /// The address of that link.
    crowd: u64,
}

impl Held {
    fn is_pending(&self) -> bool {
        self.proposals == self.aside && !self.executed
    }

    fn has_ticket(&self, ticket: u64) -> bool {
        self.place.is_some_and(|place| place.ticket() == ticket)
    }
}

/// What became of a bundle that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// It is new.
    New,
    /// It was there.
    Known,
    /// There is no room; the client tries again later.
    Full,
    /// It is about to expire.
    Late,
}

/// All bundles that a replica holds.
pub struct Pool {
    entries: DigestMap<Held>,
    /// What is pending, in the order in which it is to be proposed.
    lanes: Lanes,
    pending_bundles: usize,
    pending_commands: usize,
    pending_bytes: usize,
    /// Bytes of all that is not executed, proposed or not.
    open_bytes: usize,
    max_bundles: usize,
    max_bytes: usize,
    /// What is committed.
    height: Height,
    /// Bundles that are not executed, and their bytes, in the share of each peer.
    relayed: Vec<(usize, usize)>,
}

/// Why a bundle is taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A client wants it ordered: there may be no room, for all or for its source.
    Offered(Source),
    /// A peer passes it on: of all room its relays may take a share, so that no one peer crowds clients out.
    Relayed(ReplicaId),
    /// f+1 replicas have relayed it as what waited longest there: there has to be room.
    Owed,
    /// A proposal names it. It is refused only when twice as much as may be offered waits for execution, proposed or not: no flood of
    /// commands keeps a proposal from becoming whole, and no flood of proposals fills the memory.
    Proposed,
    /// A quorum has spoken for a block that names it, or it is one's own: it is never refused.
    Certified,
}

impl Pool {
    /// An empty pool.
    pub fn new(config: &Config, quorum: Quorum, salt: Salt) -> Self {
        Pool {
            entries: DigestMap::with_hasher(salt),
            lanes: Lanes::new(config),
            pending_bundles: 0,
            pending_commands: 0,
            pending_bytes: 0,
            open_bytes: 0,
            max_bundles: config.pool_bundles,
            max_bytes: config.pool_bytes,
            height: Height(0),
            relayed: vec![(0, 0); quorum.replicas()],
        }
    }

    /// Takes a bundle in, if there is room for what it is needed for, and it is not about to expire.
    pub fn offer(&mut self, bundle: Bundle, need: Need) -> Offered {
        let is_late = self.is_late(&bundle);
        let (digest, commands, size) = (bundle.digest(), bundle.len(), bundle.body().len());
        let place = match self.entries.entry(digest) {
            Entry::Vacant(place) => place,
            Entry::Occupied(known) => {
                if let Need::Offered(source) = need {
                    let known = known.into_mut();
                    release(&mut self.relayed, known);
                    hasten(&mut self.lanes, known, source);
                    if self.lanes.queued() > 2 * self.pending_bundles + QUEUE_SLACK {
                        self.compact();
                    }
                }
                return Offered::Known;
            }
        };
        if is_late && matches!(need, Need::Offered(_) | Need::Relayed(_) | Need::Owed) {
            return Offered::Late;
        }
        let crowded = self.pending_bundles >= self.max_bundles || self.pending_bytes + size > self.max_bytes;
        let full = match need {
            Need::Offered(source) => {
                crowded
                    || source.crowd().is_some() && {
                        let free = (self.max_bundles - self.pending_bundles, self.max_bytes - self.pending_bytes);
                        !self.lanes.have_room(source, size, free)
                    }
            }
            Need::Relayed(peer) => {
                let (bundles, bytes) = self.relayed[peer.index()];
                let parts = RELAYS_PART * self.relayed.len();
                let used_up = bundles >= self.max_bundles.div_ceil(parts) || bytes + size > self.max_bytes / parts;
                crowded || (used_up && bundles > 0 && !bug!(RelaysUnbounded))
            }
            Need::Proposed => self.open_bytes + size > self.max_bytes.saturating_mul(2),
            Need::Owed | Need::Certified => false,
        };
        if full {
            return match need {
                Need::Offered(source) if !crowded && self.make_room(source, size) => self.squeeze_in(bundle, source),
                _ => Offered::Full,
            };
        }
        self.pending_bundles += 1;
        self.pending_commands += commands;
        self.pending_bytes += size;
        self.open_bytes += size;
        let (source, relayer) = match need {
            Need::Offered(source) => (source, None),
            Need::Relayed(peer) => (Source::Peer(peer), Some(peer)),
            Need::Owed | Need::Proposed | Need::Certified => (Source::Unnamed, None),
        };
        if let Some(peer) = relayer {
            let (bundles, bytes) = &mut self.relayed[peer.index()];
            (*bundles, *bytes) = (*bundles + 1, *bytes + size);
        }
        let waits = Some(self.lanes.push(source, digest, commands, size));
        let (has_crowd, crowd) = (source.crowd().is_some(), source.crowd().unwrap_or_default());
        place.insert(Held { bundle, proposals: 0, aside: 0, executed: false, relayer, place: waits, has_crowd, crowd });
        Offered::New
    }

    /// Drops the newest of what waits for the largest lane of a source's crowd, if that has much more waiting than the source. Its client
    /// sends it again later, if there still is one.
    fn make_room(&mut self, source: Source, size: usize) -> bool {
        let Some(lane) = self.lanes.larger(source, size) else { return false };
        while let Some((ticket, digest)) = self.lanes.newest(lane) {
            if self.entries.get(&digest).is_some_and(|entry| entry.has_ticket(ticket)) {
                self.discard(&digest);
                return true;
            }
            self.lanes.drop_newest(lane);
        }
        false
    }

    fn squeeze_in(&mut self, bundle: Bundle, source: Source) -> Offered {
        let digest = bundle.digest();
        self.offer(bundle, Need::Owed);
        move_to(&mut self.lanes, self.entries.get_mut(&digest).expect("it was just taken in"), source);
        Offered::New
    }

    /// Forgets a bundle that waits, and that no block refers to.
    fn discard(&mut self, digest: &Digest) {
        let mut entry = self.entries.remove(digest).expect("the caller has found it");
        release(&mut self.relayed, &mut entry);
        let size = entry.bundle.body().len();
        self.lanes.take(entry.place.expect("it waits"), size);
        self.pending_bundles -= 1;
        self.pending_commands -= entry.bundle.len();
        self.pending_bytes -= size;
        self.open_bytes -= size;
    }

    /// A client's link is gone. What came over it goes on waiting, with all else that came from its address over links that are gone.
    pub fn leave(&mut self, source: Source) {
        let Some((joined, tickets)) = self.lanes.leave(source) else { return };
        for (ticket, digest) in tickets {
            let Some(entry) = self.entries.get_mut(&digest).filter(|entry| entry.has_ticket(ticket)) else { continue };
            move_to(&mut self.lanes, entry, joined);
        }
    }

    /// The address of the client's link that a bundle came over, if it is here and came over one.
    pub fn crowd_of(&self, digest: &Digest) -> Option<u64> {
        self.entries.get(digest).filter(|entry| entry.has_crowd).map(|entry| entry.crowd)
    }

    /// Whether a bundle has expired, or will before it can be ordered.
    pub fn is_late(&self, bundle: &Bundle) -> bool {
        bundle.expires().0 <= self.height.0.saturating_add(EXPIRY_MARGIN_BLOCKS)
    }

    /// The block of this height is committed. Now and then what waits and is about to expire goes.
    pub fn committed(&mut self, height: Height) {
        self.height = height;
        if height.0.is_multiple_of(EXPIRY_INTERVAL_BLOCKS) {
            self.drop_late();
        }
    }

    fn drop_late(&mut self) {
        let waits = |(ticket, digest): (u64, &Digest)| {
            self.entries.get(digest).filter(|entry| entry.has_ticket(ticket) && entry.proposals == 0)
        };
        let pending = self.lanes.in_order().filter_map(waits);
        let late = pending.map(|entry| &entry.bundle).filter(|bundle| self.is_late(bundle));
        for digest in late.map(Bundle::digest).collect::<Vec<_>>() {
            self.discard(&digest);
        }
        self.compact();
    }

    /// A bundle, in whatever state.
    pub fn get(&self, digest: &Digest) -> Option<&Bundle> {
        self.entries.get(digest).map(|entry| &entry.bundle)
    }

    /// Whether a bundle is here and executed.
    pub fn is_executed(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(|entry| entry.executed)
    }

    /// Whether a bundle is here and not executed.
    pub fn is_waiting(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(|entry| !entry.executed)
    }

    /// Whether a bundle is here, and no block of the branch refers to it yet.
    pub fn is_pending(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(Held::is_pending)
    }

    /// Whether a bundle is here.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.entries.contains_key(digest)
    }

    /// Commands that no block of the branch refers to yet.
    pub fn pending_commands(&self) -> usize {
        self.pending_commands
    }

    /// The next bundles to propose, in the order of the [lanes](crate::lanes): at most so many commands and bytes, but at least one
    /// bundle if there is any. They wait until a block refers to them.
    pub fn select(&mut self, max_commands: usize, max_bytes: usize) -> Vec<Digest> {
        let (mut selected, mut commands, mut bytes) = (Vec::new(), 0, 0);
        self.trim();
        for (ticket, digest) in self.lanes.in_order() {
            let Some(entry) = self.entries.get(digest).filter(|entry| entry.has_ticket(ticket)) else { continue };
            commands += entry.bundle.len();
            bytes += entry.bundle.body().len();
            if !selected.is_empty() && (commands > max_commands || bytes > max_bytes) {
                break;
            }
            selected.push(*digest);
            if commands >= max_commands {
                break;
            }
        }
        selected
    }

    fn trim(&mut self) {
        let entries = &self.entries;
        self.lanes.trim(|digest, ticket| entries.get(digest).is_some_and(|entry| entry.has_ticket(ticket)));
    }

    /// The pending bundles that would be proposed next, as many as one message holds, without taking them.
    pub fn oldest_pending(&self, most: usize) -> Vec<Bundle> {
        let waits =
            |(ticket, digest): (u64, &Digest)| self.entries.get(digest).filter(|entry| entry.has_ticket(ticket));
        let mut bytes = 0;
        let fitting = self.lanes.in_order().filter_map(waits).take(most).take_while(|entry| {
            let fits = bytes == 0 || bytes + entry.bundle.body().len() <= MAX_RELAYED_BYTES;
            bytes += entry.bundle.body().len();
            fits
        });
        fitting.map(|entry| entry.bundle.clone()).collect()
    }

    /// The same, with `first` before the others if it is pending.
    pub fn oldest_pending_after(&self, first: &Digest, most: usize) -> Vec<Bundle> {
        let first = self.entries.get(first).filter(|entry| entry.is_pending()).map(|entry| entry.bundle.clone());
        let mut bundles = self.oldest_pending(most);
        if let Some(first) = first {
            bundles.retain(|bundle| bundle.digest() != first.digest());
            bundles.truncate(most - 1);
            bundles.insert(0, first);
        }
        bundles
    }

    /// Puts a bundle that waits before all others.
    pub fn promote(&mut self, digest: &Digest) {
        let first = self.oldest();
        let Some(entry) = self.entries.get_mut(digest).filter(|entry| entry.is_pending()) else { return };
        if first != Some(*digest) {
            self.lanes.take(entry.place.take().expect("it waits"), entry.bundle.body().len());
            entry.place = Some(self.lanes.push_ahead(*digest));
            if self.lanes.queued() > 2 * self.pending_bundles + QUEUE_SLACK {
                self.compact();
            }
        }
    }

    /// The bundle that would be proposed next.
    pub fn oldest(&mut self) -> Option<Digest> {
        self.trim();
        self.lanes.first()
    }

    /// A block of the tree refers to the bundle, which is here.
    pub fn proposed(&mut self, digest: &Digest) {
        self.claim(digest).proposals += 1;
    }

    /// A block that refers to the bundle lies on a branch that was left for another: the bundle waits again, ahead of the rest,
    /// unless the other branch refers to it too.
    pub fn set_aside(&mut self, digest: &Digest) {
        let entry = self.entries.get_mut(digest).expect("a block's bundles are kept as long as the block");
        entry.aside += 1;
        self.wait_again(digest);
    }

    /// A block that refers to the bundle and was set aside lies on the branch again.
    pub fn taken_up(&mut self, digest: &Digest) {
        self.claim(digest).aside -= 1;
    }

    /// The bundle waits no more, if it did.
    fn claim(&mut self, digest: &Digest) -> &mut Held {
        if self.lanes.queued() > 2 * self.pending_bundles.saturating_sub(1) + QUEUE_SLACK {
            self.compact();
        }
        let entry = self.entries.get_mut(digest).expect("a block enters the tree with its bundles");
        if let Some(place) = entry.place.take() {
            let size = entry.bundle.body().len();
            self.pending_bundles -= 1;
            self.pending_commands -= entry.bundle.len();
            self.pending_bytes -= size;
            self.lanes.take(place, size);
        }
        entry
    }

    /// Puts the bundle at the head of the queue if nothing keeps it from waiting.
    fn wait_again(&mut self, digest: &Digest) {
        let entry = self.entries.get_mut(digest).expect("the caller has just used it");
        if entry.is_pending() {
            self.pending_bundles += 1;
            self.pending_commands += entry.bundle.len();
            self.pending_bytes += entry.bundle.body().len();
            entry.place = Some(self.lanes.push_ahead(*digest));
        }
    }

    /// Takes the void tickets out of the queues. A backup never selects, so that its queues would grow for ever.
    fn compact(&mut self) {
        let entries = &self.entries;
        self.lanes.compact(|digest, ticket| entries.get(digest).is_some_and(|entry| entry.has_ticket(ticket)));
    }

    /// A block that referred to the bundle and was set aside is no longer kept.
    pub fn dropped(&mut self, digest: &Digest) {
        let entry = self.entries.get_mut(digest).expect("a block's bundles are kept as long as the block");
        entry.aside -= 1;
        entry.proposals -= 1;
        if entry.executed && entry.proposals == 0 {
            self.entries.remove(digest);
        }
    }

    /// A block of the branch that referred to the bundle is no longer kept. If no other does, the bundle goes with it when it was
    /// executed, and else waits again, ahead of the rest.
    pub fn released(&mut self, digest: &Digest) {
        let entry = self.entries.get_mut(digest).expect("a block's bundles are kept as long as the block");
        assert!(entry.proposals > entry.aside, "the block was not set aside");
        entry.proposals -= 1;
        if entry.executed && entry.proposals == 0 {
            self.entries.remove(digest);
        } else {
            self.wait_again(digest);
        }
    }

    /// The bundle is part of a committed block; returns it.
    pub fn executed(&mut self, digest: &Digest) -> Bundle {
        let entry = self.entries.get_mut(digest).expect("a committed block has its bundles");
        assert!(entry.proposals > entry.aside, "a committed block refers to it");
        if !std::mem::replace(&mut entry.executed, true) {
            self.open_bytes -= entry.bundle.body().len();
            release(&mut self.relayed, entry);
        }
        entry.bundle.clone()
    }

    /// Forgets all but these bundles, which wait from now on: what the others have executed meanwhile is not known one by one. Whoever
    /// had the rest ordered has an answer by now, or sends it again.
    pub fn begin_again<'a>(&mut self, needed: impl IntoIterator<Item = &'a Digest>) {
        let kept: Vec<Bundle> = needed.into_iter().filter_map(|digest| self.get(digest).cloned()).collect();
        self.entries.clear();
        self.lanes.clear();
        (self.pending_bundles, self.pending_commands, self.pending_bytes, self.open_bytes) = (0, 0, 0, 0);
        self.relayed.fill((0, 0));
        for bundle in kept {
            self.offer(bundle, Need::Certified);
        }
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        assert!(self.pending_bundles <= self.entries.len(), "a pending bundle is in the pool");
        assert!(self.pending_bundles <= self.pending_commands, "a bundle carries a command");
        assert!(self.pending_commands <= self.pending_bytes, "a command has bytes");
        assert!(self.pending_bytes <= self.open_bytes, "what is pending is not executed");
        assert!(self.pending_bundles <= self.lanes.queued(), "a pending bundle is queued");
        if cfg!(debug_assertions) {
            self.lanes.invariants();
        }
        assert!(self.lanes.queued() <= 2 * self.pending_bundles + QUEUE_SLACK, "the queue is compacted");
    }
}

/// A bundle is in the share of no peer any more.
fn release(relayed: &mut [(usize, usize)], entry: &mut Held) {
    if let Some(peer) = entry.relayer.take() {
        let (bundles, bytes) = &mut relayed[peer.index()];
        (*bundles, *bytes) = (*bundles - 1, *bytes - entry.bundle.body().len());
    }
}

/// A client has sent a bundle that waits: over a link of which it would be proposed earlier, it waits there.
fn hasten(lanes: &mut Lanes, entry: &mut Held, source: Source) {
    if source != Source::Unnamed && entry.place.is_some_and(|place| lanes.would_gain(place, source)) {
        move_to(lanes, entry, source);
    }
}

/// A bundle that waits does so in another lane from now on.
fn move_to(lanes: &mut Lanes, entry: &mut Held, source: Source) {
    let (commands, size) = (entry.bundle.len(), entry.bundle.body().len());
    lanes.take(entry.place.take().expect("it waits"), size);
    entry.place = Some(lanes.push(source, entry.bundle.digest(), commands, size));
    (entry.has_crowd, entry.crowd) = (source.crowd().is_some(), source.crowd().unwrap_or_default());
}
