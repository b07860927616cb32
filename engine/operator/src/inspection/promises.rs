//! Checks that no two promises in a journal contradict each other.

use super::overview::kind_of;
use quorate_consensus::voting::safety::Promise;
use quorate_types::{Attachment, Domain, EpochId, Height, Statement, Subject, View};
use std::collections::BTreeMap;

/// Promises read so far.
pub(super) struct Promises {
    epoch: EpochId,
    /// Whether votes are per slot rather than per view.
    by_slot: bool,
    /// Signed bytes by kind and view, and also by slot if there are slots.
    said: BTreeMap<(Domain, View, Height), Vec<u8>>,
    /// Last view that timed out. Without slots, no new statements are allowed up to this view.
    given_up: View,
    /// First view in which new statements on slots are allowed.
    moved_to: View,
}

impl Promises {
    pub fn new(epoch: EpochId, by_slot: bool) -> Promises {
        Promises { epoch, by_slot, said: BTreeMap::new(), given_up: View(0), moved_to: View(0) }
    }

    pub fn count(&self) -> u64 {
        self.said.len() as u64
    }

    /// Checks the next promise. A summary may repeat an earlier one (`repeated`).
    pub fn take(&mut self, promise: &Promise, repeated: bool) -> Result<(), String> {
        let Subject { domain, view, height, .. } = promise.subject;
        let votes = matches!(domain, Domain::Vote | Domain::Prepare | Domain::PreCommit | Domain::Commit);
        let on_slot = self.by_slot && votes;
        // The proof that accompanies a vote on a slot is recorded with it, but not signed.
        let attachment = if on_slot { &Attachment::None } else { &promise.attachment };
        let statement = Statement::new(&self.epoch, &promise.subject, attachment).as_bytes().to_vec();
        let by_height = on_slot || matches!(domain, Domain::Checkpoint | Domain::Absent);
        let place = (domain, view, if by_height { height } else { Height(0) });
        let kind = kind_of(domain);
        let known = self.said.get(&place);
        if known.is_some_and(|known| *known != statement) {
            let of_slot = if by_height { format!(", height {height}") } else { String::new() };
            return Err(format!("the replica contradicts itself: a second {kind} of view {view}{of_slot}"));
        }
        let is_new = known.is_none() && !repeated;
        self.said.insert(place, statement);
        if is_new && on_slot && view < self.moved_to {
            return Err(format!("a {kind} of view {view} after the replica asked for view {}", self.moved_to));
        }
        if is_new && !self.by_slot && (votes || domain.is_proposal()) && view <= self.given_up {
            return Err(format!("a {kind} of view {view} after the replica timed out of view {}", self.given_up));
        }
        match domain {
            Domain::Timeout => self.given_up = self.given_up.max(view),
            Domain::ViewChange => self.moved_to = self.moved_to.max(view),
            _ => {}
        }
        Ok(())
    }
}
