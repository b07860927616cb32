//! Pool of bundles: pending, proposed, or executed and kept for lagging replicas.

mod certification;
mod held;
mod totals;

use crate::config::Config;
use crate::data::batching::Room;
use crate::data::block_limits::Load;
use crate::data::digest_map::{DigestMap, Salt};
use crate::data::digest_table::{DigestTable, Keyed};
pub use crate::data::lanes::Source;
use crate::data::lanes::{Exit, Lanes};
pub use crate::data::shares::Need;
use crate::data::shares::{Share, Shares};
use certification::{Absent, Uncertified};
use held::Held;
use quorate_types::{Bundle, Digest, Height, Quorum, ReplicaId};
use std::collections::BTreeMap;
pub use totals::{Amount, Totals};

/// Maximum number of pending bundles that a backup relays to its leader at a time.
pub const MAX_RELAYED_BUNDLES: usize = 256;
/// Maximum bytes of a relay with more than one bundle.
const MAX_RELAYED_BYTES: usize = 8 << 20;
/// Number of heights after the last committed one within which an expiring bundle is refused, and dropped if it is
/// pending. Fewer blocks than this are proposed and uncommitted, so no bundle expires in flight, and no backup waits
/// for a leader that can no longer use a bundle.
pub const EXPIRY_MARGIN_BLOCKS: u64 = 4096;
/// Number of heights between two scans for bundles about to expire: well within the margin.
const EXPIRY_INTERVAL_BLOCKS: u64 = EXPIRY_MARGIN_BLOCKS / 4;

const IS_HERE: &str = "a pending bundle is in the pool";

/// Outcome of offering a bundle to the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    New,
    /// The pool already contains it.
    Known,
    /// The pool is full; the client retries later.
    Full,
    /// The bundle is about to expire.
    Late,
}

/// All bundles held by a replica.
pub struct Pool {
    entries: DigestTable<Held>,
    /// The pending bundles, in proposal order.
    lanes: Lanes,
    pending_bundles: usize,
    pending_commands: usize,
    pending_bytes: usize,
    /// Bytes of all bundles that are not executed, proposed or not.
    open_bytes: usize,
    /// Number of these bundles.
    open_bundles: usize,
    totals: Totals,
    max_bundles: usize,
    max_bytes: usize,
    /// Height committed last, by which bundles expire.
    height: Height,
    shares: Shares,
    /// Whether leaders propose only bundles whose storage is certified.
    certifies: bool,
    /// Bundles that are not executed and need a certificate before they are pending.
    uncertified: DigestMap<Uncertified>,
    uncertified_bytes: usize,
    /// Bytes of the uncertified bundles from each address.
    uncertified_of: BTreeMap<u64, usize>,
    /// Number of sweeps so far.
    sweeps: u64,
    /// Missing bundles named by blocks in the tree.
    absent: DigestMap<Absent>,
}

impl Pool {
    pub fn new(config: &Config, quorum: Quorum, salt: Salt) -> Self {
        Pool {
            entries: DigestTable::new(salt),
            lanes: Lanes::new(config),
            pending_bundles: 0,
            pending_commands: 0,
            pending_bytes: 0,
            open_bytes: 0,
            open_bundles: 0,
            totals: Totals::default(),
            max_bundles: config.pool_bundles,
            max_bytes: config.pool_bytes,
            height: Height(0),
            shares: Shares::new(config, quorum),
            certifies: config.dissemination.is_certified(),
            uncertified: DigestMap::with_hasher(salt),
            uncertified_bytes: 0,
            uncertified_of: BTreeMap::new(),
            sweeps: 0,
            absent: DigestMap::with_hasher(salt),
        }
    }

    /// Accepts a bundle, unless it is about to expire or the limit of its need is reached.
    pub fn offer(&mut self, bundle: Bundle, need: Need) -> Offered {
        let is_late = self.is_late(&bundle);
        let (digest, commands, size) = (bundle.digest(), bundle.len(), bundle.body().len());
        if let Some(slot) = self.entries.find(&digest) {
            if let Need::Offered(source) = need {
                let known = self.entries.at_mut(slot).expect("a bundle is in the slot where it was found");
                release(&mut self.shares, known);
                hasten(&mut self.lanes, known, slot, source);
                self.adopt_source(&digest, source);
            }
            return Offered::Known;
        }
        if is_late && need.refuses_late() {
            return Offered::Late;
        }
        if !self.has_room(need, size) {
            return match need {
                // The other replicas keep spread bundles, so dropping one would free no space there.
                Need::Offered(source)
                    if !self.is_crowded(size) && !self.shares.spreads && self.make_room(source, size) =>
                {
                    self.squeeze_in(bundle, source)
                }
                _ => Offered::Full,
            };
        }
        self.open_bytes += size;
        self.open_bundles += 1;
        let source = need.source();
        let share = self.shares.of(need);
        share.into_iter().for_each(|share| self.shares.add(share, size));
        let named = self.absent.remove(&digest);
        let mut held = Held::new(bundle, source, share, named);
        held.certified = !self.certifies;
        if let Need::Offered(_) = need {
            held.is_own = true;
            self.totals.open.add(Amount::of(&held));
        }
        let slot = self.entries.insert(held);
        if !self.certifies {
            let place = self.lanes.push(source, slot, commands, size);
            self.entries.at_mut(slot).expect("the bundle was just inserted").place = Some(place);
            self.pending_bundles += 1;
            self.pending_commands += commands;
            self.pending_bytes += size;
        } else {
            self.hold_back(digest, source, size);
        }
        Offered::New
    }

    /// Returns the number and bytes of the bundles that wait to be proposed or certified.
    fn waiting(&self) -> (usize, usize) {
        (self.pending_bundles + self.uncertified.len(), self.pending_bytes + self.uncertified_bytes)
    }

    /// Returns whether the pool as a whole has no space for a bundle of this size.
    fn is_crowded(&self, size: usize) -> bool {
        let (bundles, bytes) = self.waiting();
        bundles >= self.max_bundles || bytes + size > self.max_bytes
    }

    /// Returns whether there is space for a bundle of this size for its need.
    fn has_room(&mut self, need: Need, size: usize) -> bool {
        match need {
            Need::Offered(source) => {
                !self.is_crowded(size)
                    && !self.shares.is_used_up(need, size)
                    && (source.source_group().is_none() || self.has_room_for(source, size))
            }
            Need::Relayed(_) | Need::Spread(_) => {
                !self.is_crowded(size) && (!self.shares.is_used_up(need, size) || bug!(RelaysUnbounded))
            }
            Need::Proposed => self.open_bytes + size <= self.max_bytes.saturating_mul(2),
            Need::Owed | Need::Certified => true,
        }
    }

    /// Returns whether a client's source may add a bundle of this size, in a pool that is not full.
    fn has_room_for(&mut self, source: Source, size: usize) -> bool {
        let (bundles, bytes) = self.waiting();
        let unplaced = if self.certifies { self.uncertified_of(source) } else { 0 };
        self.lanes.have_room(source, size + unplaced, (self.max_bundles - bundles, self.max_bytes - bytes))
    }

    /// Drops the newest pending bundle of the largest lane in a source's group, if far more is pending there than for
    /// the source. The client of that bundle resends it later if it is still connected.
    fn make_room(&mut self, source: Source, size: usize) -> bool {
        let Some(lane) = self.lanes.larger(source, size) else { return false };
        let Some(slot) = self.lanes.newest(lane) else { return false };
        self.discard(slot);
        true
    }

    fn squeeze_in(&mut self, bundle: Bundle, source: Source) -> Offered {
        let digest = bundle.digest();
        self.offer(bundle, Need::Owed);
        let slot = self.entries.find(&digest).expect("the bundle was just inserted");
        let entry = self.entries.at_mut(slot).expect("the bundle was just found");
        entry.is_own = true;
        self.totals.open.add(Amount::of(entry));
        move_to(&mut self.lanes, entry, slot, source);
        Offered::New
    }

    /// Removes a pending bundle that no block refers to.
    fn discard(&mut self, slot: u32) {
        let mut entry = self.entries.remove_at(slot).expect("the caller has found the bundle in the pool");
        release(&mut self.shares, &mut entry);
        let size = entry.bundle.body().len();
        self.lanes.take(entry.place.expect("a pending bundle has a place"), size, Exit::Free);
        self.pending_bundles -= 1;
        self.pending_commands -= entry.commands();
        self.pending_bytes -= size;
        self.open_bytes -= size;
        self.open_bundles -= 1;
        self.totals.discard(&entry);
    }

    /// Forgets a pending bundle to which no block refers: its agreement failed, and nothing repeats it.
    pub fn forget(&mut self, digest: &Digest) {
        let is_free = |entry: &Held| entry.is_pending() && entry.proposals == 0;
        if let Some(slot) = self.entries.find(digest).filter(|slot| self.entries.at(*slot).is_some_and(is_free)) {
            self.discard(slot);
        }
    }

    /// Handles the loss of a client's link. Its bundles stay pending, in its address's lane for closed links.
    pub fn leave(&mut self, source: Source) {
        self.leave_uncertified(source);
        let Some((joined, slots)) = self.lanes.leave(source) else { return };
        for slot in slots {
            let entry = self.entries.at_mut(slot).expect("a pending bundle is in the pool");
            move_to(&mut self.lanes, entry, slot, joined);
        }
    }

    /// Returns the address of the client's link on which a bundle arrived, if any.
    pub fn source_group_of(&self, digest: &Digest) -> Option<u64> {
        self.entries.get(digest)?.source.source_group()
    }

    /// Returns the peer that spread or relayed a bundle, if replicas spread bundles.
    pub fn spreader_of(&self, digest: &Digest) -> Option<ReplicaId> {
        let share = self.entries.get(digest).filter(|_| self.shares.spreads)?.share?;
        self.shares.peer(share)
    }

    /// Returns whether a bundle has expired, or will before it can be ordered.
    pub fn is_late(&self, bundle: &Bundle) -> bool {
        bundle.expires().0 <= self.height.0.saturating_add(EXPIRY_MARGIN_BLOCKS)
    }

    /// Records the committed height. At intervals, drops the pending bundles that are about to expire.
    pub fn on_commit(&mut self, height: Height) {
        self.height = height;
        if height.0.is_multiple_of(EXPIRY_INTERVAL_BLOCKS) {
            self.drop_late();
        }
    }

    fn drop_late(&mut self) {
        let is_late = |slot: &u32| {
            let entry = self.entries.at(*slot).filter(|entry| entry.proposals == 0);
            entry.is_some_and(|entry| self.is_late(&entry.bundle))
        };
        for slot in self.lanes.in_order().filter(is_late).collect::<Vec<_>>() {
            self.discard(slot);
        }
        let late = self.unnamed_uncertified().filter(|bundle| self.is_late(bundle));
        for digest in late.map(Bundle::digest).collect::<Vec<_>>() {
            self.discard_uncertified(&digest);
        }
    }

    /// Prefetches the entries of these bundles. Without this, each lookup would wait for memory.
    pub fn warm(&self, digests: impl IntoIterator<Item = Digest>) {
        self.entries.warm(digests);
    }

    /// Returns the load of a bundle in any state.
    pub fn load_of(&self, digest: &Digest) -> Option<Load> {
        self.entries.get(digest).map(|entry| Load::new(entry.commands(), entry.bundle.body().len()))
    }

    /// Returns a bundle in any state.
    pub fn get(&self, digest: &Digest) -> Option<&Bundle> {
        self.entries.get(digest).map(|entry| &entry.bundle)
    }

    /// Returns whether a bundle is in the pool and executed.
    pub fn is_executed(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(|entry| entry.executed)
    }

    /// Returns whether a bundle is in the pool and not executed.
    pub fn is_waiting(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(|entry| !entry.executed)
    }

    /// Returns whether a bundle is in the pool and no block of the current branch refers to it yet.
    pub fn is_pending(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(Held::is_pending)
    }

    pub fn contains(&self, digest: &Digest) -> bool {
        self.entries.contains(digest)
    }

    /// Returns the number of commands in pending bundles.
    pub fn pending_commands(&self) -> usize {
        self.pending_commands
    }

    /// Returns the totals of bundles from this replica's clients that are in the pool and not executed, and of executed
    /// bundles.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the bytes of pending bundles.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Returns the number of bundles that are not executed, proposed or not.
    pub fn open_bundles(&self) -> usize {
        self.open_bundles
    }

    /// Selects the next bundles to propose, in the order of the [lanes](crate::data::lanes): as many as fit, but at
    /// least one if any is pending and the block may contain a command. They stay pending until a block refers to them.
    pub fn select(&self, room: Room) -> Vec<Digest> {
        let (mut selected, mut commands, mut bytes) = (Vec::new(), 0, 0);
        if room.commands == 0 {
            return selected;
        }
        for slot in self.lanes.in_order() {
            let entry = self.entries.at(slot).expect(IS_HERE);
            commands += entry.commands();
            bytes += entry.bundle.body().len();
            if !selected.is_empty() && (commands > room.commands || bytes > room.bytes) {
                break;
            }
            selected.push(entry.key());
            if commands >= room.commands || selected.len() >= room.bundles {
                break;
            }
        }
        selected
    }

    /// Returns the pending bundles to be proposed next, at most `most` and at most as many as fit into one message.
    /// They stay pending.
    pub fn oldest_pending(&self, most: usize) -> Vec<Bundle> {
        let mut bytes = 0;
        let in_order = self.lanes.in_order().map(|slot| self.entries.at(slot).expect(IS_HERE));
        let fitting = in_order.take(most).take_while(|entry| {
            let fits = bytes == 0 || bytes + entry.bundle.body().len() <= MAX_RELAYED_BYTES;
            bytes += entry.bundle.body().len();
            fits
        });
        fitting.map(|entry| entry.bundle.clone()).collect()
    }

    /// Returns the bundles of [`Pool::oldest_pending`], with `first` ahead of the others if it is pending.
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

    /// Moves a pending bundle ahead of all lanes.
    pub fn promote(&mut self, digest: &Digest) {
        let Some(slot) = self.entries.find(digest) else { return };
        let entry = self.entries.at_mut(slot).expect("a bundle is in the slot where it was found");
        if let Some(place) = entry.place.filter(|place| !place.is_ahead()) {
            entry.place = Some(self.lanes.promote(place, slot, entry.bundle.body().len()));
        }
    }

    /// Returns the bundle to be proposed next.
    pub fn oldest(&self) -> Option<Digest> {
        self.entries.at(self.lanes.first()?).map(Keyed::key)
    }

    /// Records that another leader's block in the tree refers to the bundle, which must be in the pool unless storage
    /// is certified.
    pub fn on_proposal(&mut self, digest: &Digest) {
        self.refer_to(digest, Exit::Free);
    }

    /// Records that this replica's block in the tree refers to the bundle. The lane of its source pays for it.
    pub fn on_own_proposal(&mut self, digest: &Digest) {
        self.refer_to(digest, Exit::Proposed);
    }

    fn refer_to(&mut self, digest: &Digest, exit: Exit) {
        match self.claim(digest, exit) {
            Some(entry) => entry.proposals += 1,
            None => self.count_absent(digest, |absent| absent.proposals += 1),
        }
    }

    /// Records that a block that refers to the bundle is on an abandoned branch. The bundle is pending again, at the
    /// head of its lane, unless the current branch refers to it too.
    pub fn set_aside(&mut self, digest: &Digest) {
        let Some(slot) = self.entries.find(digest) else {
            return self.count_absent(digest, |absent| absent.aside += 1);
        };
        let entry = self.entries.at_mut(slot).expect("a bundle is in the slot where it was found");
        entry.aside += 1;
        if !bug!(AbandonedLost) {
            self.wait_again(slot);
        }
    }

    /// Records that a block that refers to the bundle and was set aside is on the current branch again.
    pub fn taken_up(&mut self, digest: &Digest) {
        match self.claim(digest, Exit::Free) {
            Some(entry) => entry.aside -= 1,
            None => self.count_absent(digest, |absent| absent.aside -= 1),
        }
    }

    /// Removes the bundle from the pending ones, if it is pending. `None` if it is not in the pool.
    fn claim(&mut self, digest: &Digest, exit: Exit) -> Option<&mut Held> {
        let entry = self.entries.get_mut(digest)?;
        if let Some(place) = entry.place.take() {
            let size = entry.bundle.body().len();
            self.pending_bundles -= 1;
            self.pending_commands -= entry.commands();
            self.pending_bytes -= size;
            self.lanes.take(place, size, exit);
        }
        Some(entry)
    }

    /// Puts the bundle at the head of its lane if it is pending again.
    fn wait_again(&mut self, slot: u32) {
        let entry = self.entries.at_mut(slot).expect("the caller has just used this bundle");
        if entry.is_pending() {
            let (commands, size) = (entry.commands(), entry.bundle.body().len());
            self.pending_bundles += 1;
            self.pending_commands += commands;
            self.pending_bytes += size;
            entry.place = Some(self.lanes.put_back(entry.source, slot, commands, size));
        }
    }

    /// Records that a block that refers to the bundle and was set aside is no longer kept.
    pub fn on_drop(&mut self, digest: &Digest) {
        let Some(entry) = self.entries.get_mut(digest) else {
            return self.count_absent(digest, |absent| {
                (absent.aside, absent.proposals) = (absent.aside - 1, absent.proposals - 1);
            });
        };
        entry.aside -= 1;
        entry.proposals -= 1;
        if entry.executed && entry.proposals == 0 {
            self.entries.remove(digest);
        }
    }

    /// Records that a block of the current branch that refers to the bundle is no longer kept. If no other block refers
    /// to the bundle, an executed bundle is removed and any other is pending again, at the head of its lane.
    pub fn release(&mut self, digest: &Digest) {
        let slot = self.entries.find(digest).expect("a block's bundles are kept as long as the block");
        let entry = self.entries.at_mut(slot).expect("a bundle is in the slot where it was found");
        assert!(entry.proposals > entry.aside, "a block that is not set aside refers to the bundle");
        entry.proposals -= 1;
        if entry.executed && entry.proposals == 0 {
            self.entries.remove_at(slot);
        } else {
            self.wait_again(slot);
        }
    }

    /// Marks the bundle as executed by a committed block, and returns it.
    pub fn on_execution(&mut self, digest: &Digest) -> Bundle {
        let entry = self.entries.get_mut(digest).expect("the bundles of a committed block are in the pool");
        assert!(entry.proposals > entry.aside, "a committed block refers to the bundle");
        let bundle = entry.bundle.clone();
        if !std::mem::replace(&mut entry.executed, true) {
            self.open_bytes -= bundle.body().len();
            self.open_bundles -= 1;
            self.totals.execute(entry);
            release(&mut self.shares, entry);
            if !entry.certified {
                entry.certified = true;
                self.let_go(digest, bundle.body().len());
            }
        }
        bundle
    }

    /// Records that a block of the current branch is executed without the bundle. If the bundle is in the pool, it is
    /// pending again unless another block refers to it.
    pub fn on_void(&mut self, digest: &Digest) {
        match self.entries.contains(digest) {
            true => self.release(digest),
            false => self.count_absent(digest, |absent| absent.proposals -= 1),
        }
    }

    /// Forgets all bundles except `needed`, which are pending afterwards. It is unknown which of the others were
    /// executed meanwhile; their clients have an answer by now, or resend them.
    pub fn begin_again<'a>(&mut self, needed: impl IntoIterator<Item = &'a Digest>) {
        let kept: Vec<Bundle> = needed.into_iter().filter_map(|digest| self.get(digest).cloned()).collect();
        self.entries.clear();
        self.lanes.clear();
        (self.pending_bundles, self.pending_commands, self.pending_bytes) = (0, 0, 0);
        (self.open_bundles, self.open_bytes) = (0, 0);
        self.totals.open = Amount::default();
        self.shares.clear();
        self.uncertified.clear();
        self.absent.clear();
        self.uncertified_of.clear();
        self.uncertified_bytes = 0;
        for bundle in kept {
            self.offer(bundle, Need::Certified);
        }
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        assert!(self.pending_bundles <= self.entries.len(), "a pending bundle is in the pool");
        assert!(self.pending_bundles <= self.pending_commands, "a bundle has at least one command");
        assert!(self.pending_commands <= self.pending_bytes, "a command has at least one byte");
        assert!(
            self.certifies || self.uncertified.is_empty() && self.absent.is_empty(),
            "bundles need a certificate, or are missing in a block, only if storage is certified"
        );
        assert!(self.totals.open.bytes <= self.open_bytes as u64, "the clients' own bundles are among the open ones");
        assert!(self.pending_bytes + self.uncertified_bytes <= self.open_bytes, "waiting bundles are not executed");
        assert!(self.pending_bundles <= self.open_bundles, "pending bundles are not executed");
        if cfg!(debug_assertions) {
            self.lanes.invariants();
        }
    }
}

/// Removes a bundle from its share.
fn release(shares: &mut Shares, entry: &mut Held) {
    if let Some(share) = entry.share.take() {
        shares.remove(share, entry.bundle.body().len());
    }
}

/// Records that a client sent a bundle that is already in the pool. A pending bundle moves to the lane of that client's
/// link if it would be proposed earlier there. Otherwise it will use that lane if it becomes pending again, unless a
/// client sent it before.
fn hasten(lanes: &mut Lanes, entry: &mut Held, slot: u32, source: Source) {
    match entry.place {
        _ if source == Source::Unnamed => {}
        Some(place) if lanes.would_gain(place, source) => move_to(lanes, entry, slot, source),
        None if entry.source.source_group().is_none() => entry.source = source,
        _ => {}
    }
}

/// Moves a pending bundle to the lane of `source`.
fn move_to(lanes: &mut Lanes, entry: &mut Held, slot: u32, source: Source) {
    let (commands, size) = (entry.commands(), entry.bundle.body().len());
    lanes.take(entry.place.take().expect("a pending bundle has a place"), size, Exit::Free);
    entry.place = Some(lanes.push(source, slot, commands, size));
    entry.source = source;
}
