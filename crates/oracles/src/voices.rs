//! The order of one replica's statements, over all its lives.

use crate::tallies::Tallies;
use quorate_consensus::config::ProtocolKind;
use quorate_types::{Digest, Domain, Height, Subject, View};
use std::collections::BTreeMap;

/// Slots of which a COMMIT is remembered, for the VIEW-CHANGE after it.
const REMEMBERED_SLOTS: usize = 1 << 12;

/// What a replica has bound itself to by what it has signed.
#[derive(Clone, Default)]
pub struct Voice {
    /// The last view that it gave up.
    timed_out: View,
    /// The last view to which it asked to move.
    changed: View,
    /// The last view in which it voted, by kind.
    voted: [View; Domain::ALL.len() + 1],
    /// A certificate of this view is known to it, by what it has signed.
    knows: View,
    /// What it is locked on by what it has signed, where a protocol locks.
    lock: Option<(View, Digest)>,
    /// What it said COMMIT of, by slot: the highest view.
    committed: BTreeMap<Height, (View, Digest)>,
}

impl Voice {
    /// It has lost its memory, and knows it: what it knew is gone, and what it gave up is not.
    pub fn forgets(&mut self) {
        (self.knows, self.lock) = (View(0), None);
        self.committed.clear();
    }

    /// It signs a vote for a block, or a proposal, for the first time: what is wrong with that.
    pub fn votes(&mut self, subject: &Subject, protocol: ProtocolKind, tallies: &Tallies) -> Option<String> {
        let Subject { domain, view, .. } = *subject;
        if protocol == ProtocolKind::Pbft {
            return self.votes_on_slot(subject);
        }
        if view <= self.timed_out {
            return Some(format!("it gave view {} up before", self.timed_out));
        }
        let last = std::mem::replace(&mut self.voted[domain as usize], view);
        if view <= last {
            return Some(format!("it did so in view {last} before"));
        }
        match (protocol, domain) {
            (ProtocolKind::BasicHotStuff, Domain::PreCommit) => self.knows = self.knows.max(view),
            (ProtocolKind::BasicHotStuff, Domain::Commit) => {
                self.knows = self.knows.max(view);
                self.lock = Some((view, subject.digest));
            }
            (_, Domain::Vote | Domain::Prepare) => return self.accepts(subject, protocol, tallies),
            _ => {}
        }
        None
    }

    /// It accepts what a leader proposed.
    fn accepts(&mut self, subject: &Subject, protocol: ProtocolKind, tallies: &Tallies) -> Option<String> {
        let block = tallies.block(&subject.digest)?;
        let base = block.base.view;
        self.knows = self.knows.max(base);
        let wrong = match protocol {
            ProtocolKind::FastHotStuff | ProtocolKind::Jolteon => (base.next() != subject.view && !block.allowed)
                .then(|| format!("its base is of view {base}, which no timeouts shown with it allow")),
            ProtocolKind::SimpleHotStuff => self
                .lock
                .filter(|(lock, _)| base < *lock)
                .map(|(lock, _)| format!("its base is of view {base}, and the voter is locked on view {lock}")),
            ProtocolKind::ChainedHotStuff | ProtocolKind::BasicHotStuff => self
                .lock
                .filter(|lock| base <= lock.0 && tallies.extends(&subject.digest, *lock) == Some(false))
                .map(|(lock, _)| {
                    format!("its base is of view {base}, and it leaves out the block of view {lock} that the voter is locked on")
                }),
            ProtocolKind::Pbft => None,
        };
        if matches!(protocol, ProtocolKind::ChainedHotStuff | ProtocolKind::SimpleHotStuff)
            && let Some(parent) = tallies.block(&block.base.digest)
            && self.lock.is_none_or(|(lock, _)| parent.base.view > lock)
        {
            self.lock = Some((parent.base.view, parent.base.digest));
        }
        wrong
    }

    fn votes_on_slot(&mut self, subject: &Subject) -> Option<String> {
        let Subject { domain, view, height, digest } = *subject;
        if view < self.changed && matches!(domain, Domain::Prepare | Domain::Commit) {
            return Some(format!("it asked to move to view {} before", self.changed));
        }
        if domain == Domain::Commit {
            if self.committed.len() == REMEMBERED_SLOTS {
                self.committed.pop_first();
            }
            self.committed.insert(height, (view, digest));
        }
        None
    }

    /// It gives a view up for the first time, and tells of the highest certificate that it knows.
    pub fn gives_up(&mut self, view: View, told: Option<View>) -> Option<String> {
        let last = self.timed_out;
        self.timed_out = view.max(last);
        if view <= last {
            return Some(format!("it gave view {last} up before"));
        }
        let told = told.unwrap_or_default();
        if told < self.knows {
            return Some(format!(
                "it tells of a certificate of view {told}, and has stood on one of view {}",
                self.knows
            ));
        }
        self.knows = told;
        None
    }

    /// It asks to move to a view, and tells what is prepared above a stable checkpoint.
    pub fn changes_view(&mut self, view: View, stable: Height, prepared: &[Subject]) -> Option<String> {
        let last = self.changed;
        self.changed = view.max(last);
        if view < last {
            return Some(format!("it asked for view {last} before"));
        }
        self.committed = self.committed.split_off(&stable.next());
        let told = |slot: &Height, at: (View, Digest)| {
            let tells = prepared.iter().find(|subject| subject.height == *slot);
            tells.is_some_and(|tells| tells.view > at.0 || (tells.view, tells.digest) == at)
        };
        let hidden = self.committed.iter().find(|(slot, at)| !told(slot, **at));
        hidden.map(|(slot, (at, _))| {
            format!("it hides that slot {slot} was prepared in view {at}, of which it said COMMIT")
        })
    }
}
