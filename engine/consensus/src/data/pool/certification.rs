//! Bundles whose storage is not certified yet, and missing bundles named by blocks.
//!
//! Both exist only if leaders propose certified bundles. Uncertified bundles are not pending: a leader must not propose
//! them. Missing bundles are covered by a certificate; the pool counts the blocks that name them.

use super::{Pool, release};
use crate::data::lanes::Source;
use quorate_types::{Bundle, Digest};

const IS_HERE: &str = "an uncertified bundle is in the pool";

/// A bundle for which n-f replicas have not signed yet that they hold it.
pub(super) struct Uncertified {
    /// Source from which it will be proposed.
    source: Source,
    /// Sweep count of the pool when it arrived.
    sweeps: u64,
}

/// Missing bundle: the number of blocks that name it, and of those on abandoned branches.
#[derive(Clone, Copy, Default)]
pub(super) struct Absent {
    pub proposals: u32,
    pub aside: u32,
}

impl Pool {
    /// Records a new bundle that a leader must not propose yet.
    pub(super) fn hold_back(&mut self, digest: Digest, source: Source, size: usize) {
        self.uncertified_bytes += size;
        self.count_in_source_group(source, size, 0);
        self.uncertified.insert(digest, Uncertified { source, sweeps: self.sweeps });
    }

    /// Removes a bundle from the uncertified ones, if it is one of them.
    pub(super) fn let_go(&mut self, digest: &Digest, size: usize) -> Option<Source> {
        let found = self.uncertified.remove(digest)?;
        self.uncertified_bytes -= size;
        self.count_in_source_group(found.source, 0, size);
        Some(found.source)
    }

    fn count_in_source_group(&mut self, source: Source, more: usize, less: usize) {
        let Some(source_group) = source.source_group() else { return };
        let bytes = self.uncertified_of.entry(source_group).or_default();
        *bytes = *bytes + more - less;
        if *bytes == 0 {
            self.uncertified_of.remove(&source_group);
        }
    }

    /// Returns the bytes of uncertified bundles from a source's address. They count against its limit.
    pub(super) fn uncertified_of(&self, source: Source) -> usize {
        source.source_group().and_then(|source_group| self.uncertified_of.get(&source_group)).copied().unwrap_or(0)
    }

    /// Records that the storage of a bundle is certified. Returns the number of its commands if this makes it pending.
    pub fn certify(&mut self, digest: &Digest) -> usize {
        let Some(slot) = self.entries.find(digest) else { return 0 };
        let Some(entry) = self.entries.at(slot).filter(|entry| !entry.certified) else { return 0 };
        let (commands, size) = (entry.commands(), entry.bundle.body().len());
        let source = self.let_go(digest, size).unwrap_or_default();
        let entry = self.entries.at_mut(slot).expect("the bundle was found just now");
        entry.certified = true;
        if !entry.is_pending() {
            return 0;
        }
        self.pending_bundles += 1;
        self.pending_commands += commands;
        self.pending_bytes += size;
        entry.source = source;
        entry.place = Some(self.lanes.push(source, slot, commands, size));
        commands
    }

    /// Returns whether a bundle is in the pool, is not executed, and still needs a certificate.
    pub fn is_uncertified(&self, digest: &Digest) -> bool {
        self.uncertified.contains_key(digest)
    }

    /// Returns whether a block names a bundle that is missing.
    pub fn is_absent(&self, digest: &Digest) -> bool {
        self.absent.contains_key(digest)
    }

    /// Returns whether a bundle arrived after a block that names it.
    pub fn came_late(&self, digest: &Digest) -> bool {
        self.entries.get(digest).is_some_and(|entry| entry.came_late)
    }

    /// Changes the counts of blocks that name a missing bundle.
    pub(super) fn count_absent(&mut self, digest: &Digest, change: impl FnOnce(&mut Absent)) {
        assert!(self.certifies, "the bundles of a block in the tree are in the pool");
        let absent = self.absent.entry(*digest).or_default();
        change(absent);
        assert!(absent.aside <= absent.proposals, "a block set aside is one of those that name the bundle");
        if absent.proposals == 0 {
            self.absent.remove(digest);
        }
    }

    /// Sets the source of an uncertified bundle to a client that sends it too.
    pub(super) fn adopt_source(&mut self, digest: &Digest, source: Source) {
        if source.source_group().is_none() {
            return;
        }
        let Some(found) = self.uncertified.get_mut(digest) else { return };
        let size = self.entries.get(digest).expect(IS_HERE).bundle.body().len();
        let before = std::mem::replace(&mut found.source, source);
        self.count_in_source_group(before, 0, size);
        self.count_in_source_group(source, size, 0);
    }

    /// Moves the uncertified bundles of a closed link to the lane for closed links.
    pub(super) fn leave_uncertified(&mut self, source: Source) {
        let gone = source.closed();
        for found in self.uncertified.values_mut().filter(|found| found.source == source) {
            found.source = gone;
        }
    }

    /// Drops the bundles that have not been certified for `most` sweeps, and that no block names.
    pub fn sweep(&mut self, most: u64) {
        self.sweeps += 1;
        let old = |found: &Uncertified| found.sweeps + most < self.sweeps;
        let named = |digest| self.entries.get(digest).is_some_and(|entry| entry.proposals > 0);
        let old = self.uncertified.iter().filter(|(digest, found)| old(found) && !named(digest));
        for digest in old.map(|(digest, _)| *digest).collect::<Vec<_>>() {
            self.discard_uncertified(&digest);
        }
    }

    /// Returns the uncertified bundles that no block names.
    pub(super) fn unnamed_uncertified(&self) -> impl Iterator<Item = &Bundle> {
        let entries = self.uncertified.keys().map(|digest| self.entries.get(digest).expect(IS_HERE));
        entries.filter(|entry| entry.proposals == 0).map(|entry| &entry.bundle)
    }

    pub(super) fn discard_uncertified(&mut self, digest: &Digest) {
        let mut entry = self.entries.remove(digest).expect(IS_HERE);
        let size = entry.bundle.body().len();
        release(&mut self.shares, &mut entry);
        self.let_go(digest, size);
        self.open_bytes -= size;
        self.totals.discard(&entry);
    }

    /// Returns the number and bytes of uncertified bundles.
    pub fn uncertified(&self) -> (usize, usize) {
        (self.uncertified.len(), self.uncertified_bytes)
    }
}
