//! Order of a replica's statements, across restarts.

use crate::oracles::tallies::Tallies;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::facts::{Bond, Facts, Shape};
use quorate_types::{Digest, Domain, Height, Subject, View};
use std::collections::BTreeMap;

/// Maximum number of slots with a COMMIT remembered for the next VIEW-CHANGE.
const MAX_REMEMBERED_SLOTS: usize = 1 << 12;

/// Obligations of a replica that follow from its signed statements.
#[derive(Clone, Default)]
pub struct Voice {
    /// Highest view that it has timed out of.
    timed_out: View,
    /// Highest view that it has requested.
    changed: View,
    /// The last view in which it voted, by kind.
    voted: [View; Domain::ALL.len() + 1],
    /// Highest view of a certificate that it must know.
    knows: View,
    /// The block it is locked on, in protocols with locks.
    lock: Option<(View, Digest)>,
    /// Its COMMIT with the highest view, by slot.
    committed: BTreeMap<Height, (View, Digest)>,
}

impl Voice {
    /// Drops certificates and locks, but not timeouts, because the replica has lost its journal and has detected that.
    pub fn on_memory_lost(&mut self) {
        (self.knows, self.lock) = (View(0), None);
        self.committed.clear();
    }

    /// Checks a vote or proposal that it signs for the first time. Returns the violation.
    pub fn on_vote(&mut self, subject: &Subject, protocol: ProtocolKind, tallies: &Tallies) -> Option<String> {
        let Subject { domain, view, .. } = *subject;
        if protocol.has_slots() {
            return self.on_slot_vote(subject);
        }
        if view <= self.timed_out {
            return Some(format!("it timed out of view {} before", self.timed_out));
        }
        let last = std::mem::replace(&mut self.voted[domain as usize], view);
        if view <= last {
            return Some(format!("it did so in view {last} before"));
        }
        match (protocol.facts().shape, domain) {
            (Shape::Phases, Domain::PreCommit) => self.knows = self.knows.max(view),
            (Shape::Phases, Domain::Commit) => {
                self.knows = self.knows.max(view);
                self.lock = Some((view, subject.digest));
            }
            (_, Domain::Vote | Domain::Prepare) => return self.on_accepted(subject, protocol, tallies),
            _ => {}
        }
        None
    }

    /// Checks its vote for a leader's proposal.
    fn on_accepted(&mut self, subject: &Subject, protocol: ProtocolKind, tallies: &Tallies) -> Option<String> {
        let block = tallies.block(&subject.digest)?;
        let base = block.base.view;
        self.knows = self.knows.max(base);
        let Facts { bound_by, shape, .. } = protocol.facts();
        let wrong = match bound_by {
            Bond::Timeouts => (base.next() != subject.view && !block.allowed)
                .then(|| format!("its base is from view {base}, which the timeouts shown with it do not allow")),
            Bond::LockedView => self
                .lock
                .filter(|(lock, _)| base < *lock)
                .map(|(lock, _)| format!("its base is from view {base}, but the voter is locked on view {lock}")),
            Bond::LockedBlock => self
                .lock
                .filter(|lock| base <= lock.0 && tallies.extends(&subject.digest, *lock) == Some(false))
                .map(|(lock, _)| {
                    format!(
                        "its base is from view {base}, and it does not extend the block of view {lock} \
                         that the voter is locked on"
                    )
                }),
            Bond::Slot => None,
        };
        // A two-chain locks on the base of the block it votes for, a three-chain on the base of that base.
        let locked = match shape {
            Shape::Chain(2) => Some(block.base),
            Shape::Chain(_) => tallies.block(&block.base.digest).map(|parent| parent.base),
            Shape::Phases | Shape::Slots => None,
        };
        if let Some(locked) = locked.filter(|locked| self.lock.is_none_or(|(lock, _)| locked.view > lock)) {
            self.lock = Some((locked.view, locked.digest));
        }
        wrong
    }

    fn on_slot_vote(&mut self, subject: &Subject) -> Option<String> {
        let Subject { domain, view, height, digest } = *subject;
        if view < self.changed && matches!(domain, Domain::Prepare | Domain::Commit) {
            return Some(format!("it asked to move to view {} before", self.changed));
        }
        if domain == Domain::Commit {
            if self.committed.len() == MAX_REMEMBERED_SLOTS {
                self.committed.pop_first();
            }
            self.committed.insert(height, (view, digest));
        }
        None
    }

    /// Checks its first timeout of a view, which reports its highest certificate. Returns the violation.
    pub fn on_timeout(&mut self, view: View, reported: Option<View>) -> Option<String> {
        let last = self.timed_out;
        self.timed_out = view.max(last);
        if view <= last {
            return Some(format!("it timed out of view {last} before"));
        }
        let reported = reported.unwrap_or_default();
        if reported < self.knows {
            return Some(format!("it reports a certificate of view {reported}, but knows one of view {}", self.knows));
        }
        self.knows = reported;
        None
    }

    /// Checks its VIEW-CHANGE, which reports the prepared blocks above a stable checkpoint. A claim without proof may
    /// be missing if it `ends`: a NEW-VIEW of a later view can have refuted it, and the block cannot have been decided
    /// (ADR 094). Returns the violation.
    pub fn on_view_change(
        &mut self,
        view: View,
        stable: Height,
        prepared: &[Subject],
        ends: impl Fn(Height, (View, Digest)) -> bool,
    ) -> Option<String> {
        let last = self.changed;
        self.changed = view.max(last);
        if view < last {
            return Some(format!("it asked for view {last} before"));
        }
        self.committed = self.committed.split_off(&stable.next());
        let reported = |slot: &Height, at: (View, Digest)| {
            let tells = prepared.iter().find(|subject| subject.height == *slot);
            tells.is_some_and(|tells| tells.view > at.0 || (tells.view, tells.digest) == at)
        };
        let hidden = self.committed.iter().find(|(slot, at)| !reported(slot, **at) && !ends(**slot, **at));
        hidden.map(|(slot, (at, _))| {
            format!("it hides that slot {slot} was prepared in view {at}, for which it sent a COMMIT")
        })
    }
}
