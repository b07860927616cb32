//! The rules of a signer: which statements it may still sign, by those that it has signed.
//!
//! They are the rules of [`Safety`](quorate_consensus::voting::safety) that need nothing but statements. A signer has
//! no blocks and no certificates, so it does not know whether a vote respects a lock.

use super::protocol::Unsigned;
use quorate_consensus::config::MAX_WINDOW;
use quorate_types::{Domain, Height, Subject, View};
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum number of votes on slots in the record: two for each slot of the largest window. Beyond it, the lowest slots
/// are forgotten, and nothing is signed for them any more.
pub const MAX_SLOT_VOTES: usize = 2 * MAX_WINDOW;

/// Whether a statement that may be signed has to be recorded first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It restricts later statements.
    Binds,
    /// It is in the record, or restricts nothing.
    Free,
}

/// Reason why a statement is not signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    #[error(
        "{:?} of view {}, height {}: it has signed a different one of view {}, height {}",
        asked.domain, asked.view, asked.height, signed.view, signed.height
    )]
    Contradicts { asked: Subject, signed: Subject },
    #[error(
        "{:?} of view {}, height {}: it has timed out of view {timed_out}", .asked.domain, .asked.view, .asked.height
    )]
    TimedOut { asked: Subject, timed_out: View },
    #[error("{:?} of view {}, height {}: it has asked for view {moved_to}", .asked.domain, .asked.view, .asked.height)]
    Moved { asked: Subject, moved_to: View },
    #[error(
        "{:?} of view {}, height {}: its record begins after view {}, height {}",
        asked.domain, asked.view, asked.height, floor.view, floor.height
    )]
    Forgotten { asked: Subject, floor: Floor },
}

/// Highest view and slot below the record: nothing is signed for them any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Floor {
    pub view: View,
    pub height: Height,
}

quorate_types::wire! { struct Floor { view, height } }

/// The statements that a signer has signed, as far as they restrict others.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Whether votes are on slots, several in a view.
    by_slot: bool,
    /// Last statement of each domain with one statement per view, or per height.
    last: BTreeMap<Domain, Unsigned>,
    /// Last vote on each slot, by domain.
    slots: BTreeMap<(Height, Domain), Unsigned>,
    floor: Floor,
}

impl Judge {
    /// Returns a judge without a record, for a protocol with slots or without.
    pub fn new(by_slot: bool) -> Judge {
        Judge { by_slot, last: BTreeMap::new(), slots: BTreeMap::new(), floor: Floor::default() }
    }

    fn is_on_slot(&self, domain: Domain) -> bool {
        self.by_slot && is_vote(domain)
    }

    /// Returns the last statement that restricts one with this subject most directly.
    fn known(&self, subject: &Subject) -> Option<&Unsigned> {
        match self.is_on_slot(subject.domain) {
            true => self.slots.get(&(subject.height, subject.domain)),
            false => self.last.get(&subject.domain),
        }
    }

    fn view_of(&self, domain: Domain) -> View {
        self.last.get(&domain).map_or(View(0), |last| last.subject.view)
    }

    /// Judges a statement.
    ///
    /// # Errors
    /// [`Refusal`] if it contradicts the record, or could.
    pub fn judge(&self, unsigned: &Unsigned) -> Result<Verdict, Refusal> {
        let asked = unsigned.subject;
        if matches!(asked.domain, Domain::Stored | Domain::Absent) {
            return Ok(Verdict::Free);
        }
        if let Some(known) = self.known(&asked) {
            if known == unsigned {
                return Ok(Verdict::Free);
            }
            if !is_later(&asked, &known.subject) {
                return Err(Refusal::Contradicts { asked, signed: known.subject });
            }
        }
        if asked.domain == Domain::Checkpoint {
            return Ok(Verdict::Binds);
        }
        let on_slot = self.is_on_slot(asked.domain);
        if asked.view <= self.floor.view || on_slot && asked.height <= self.floor.height {
            return Err(Refusal::Forgotten { asked, floor: self.floor });
        }
        let (timed_out, moved_to) = (self.view_of(Domain::Timeout), self.view_of(Domain::ViewChange));
        if self.by_slot && (on_slot || asked.domain.is_proposal()) && asked.view < moved_to {
            return Err(Refusal::Moved { asked, moved_to });
        }
        if !self.by_slot && (is_vote(asked.domain) || asked.domain.is_proposal()) && asked.view <= timed_out {
            return Err(Refusal::TimedOut { asked, timed_out });
        }
        Ok(Verdict::Binds)
    }

    /// Records a statement, in any order.
    pub fn remember(&mut self, unsigned: &Unsigned) {
        let subject = unsigned.subject;
        if matches!(subject.domain, Domain::Stored | Domain::Absent)
            || self.known(&subject).is_some_and(|known| !is_later(&subject, &known.subject))
        {
            return;
        }
        if !self.is_on_slot(subject.domain) {
            self.last.insert(subject.domain, *unsigned);
            return;
        }
        self.slots.insert((subject.height, subject.domain), *unsigned);
        while self.slots.len() > MAX_SLOT_VOTES {
            let ((height, _), _) = self.slots.pop_first().expect("there are many");
            self.floor.height = self.floor.height.max(height);
        }
    }

    /// Forbids everything at and below a floor.
    pub fn rise(&mut self, floor: Floor) {
        self.floor = Floor { view: self.floor.view.max(floor.view), height: self.floor.height.max(floor.height) };
    }

    /// Returns the highest view and slot below the record.
    pub fn floor(&self) -> Floor {
        self.floor
    }

    /// Returns all recorded statements.
    pub fn statements(&self) -> impl Iterator<Item = &Unsigned> {
        self.last.values().chain(self.slots.values())
    }
}

/// Returns whether a statement of the same place comes after another: in a later view, or at a greater height.
fn is_later(one: &Subject, other: &Subject) -> bool {
    match one.domain {
        Domain::Checkpoint => one.height > other.height,
        _ => one.view > other.view,
    }
}

/// Returns whether a statement is a vote on a block, of any phase.
pub fn is_vote(domain: Domain) -> bool {
    matches!(domain, Domain::Vote | Domain::Prepare | Domain::PreCommit | Domain::Commit)
}
