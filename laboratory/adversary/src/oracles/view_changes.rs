//! Blocks that a PBFT view change must carry over, derived from the statements named in the NEW-VIEW.

use crate::oracles::property::{Property, Violation};
use crate::oracles::tallies::Tallies;
use quorate_consensus::protocols::pbft::message::NewView;
use quorate_consensus::protocols::pbft::sets::Sets;
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_types::{Digest, Domain, Height, Quorum, ReplicaId, Subject, View};
use std::collections::{BTreeMap, BTreeSet};

/// Number of new views that are remembered.
const MAX_REMEMBERED: usize = 64;

/// Blocks that new views carry over, by view and slot.
#[derive(Default)]
pub struct Carried {
    views: BTreeMap<View, BTreeMap<Height, Digest>>,
    /// The quorum, if view changes claim prepared blocks without proofs.
    by_claims: Option<Quorum>,
}

impl Carried {
    /// Expects claims without proofs in view changes.
    pub fn by_claims(quorum: Quorum) -> Carried {
        Carried { by_claims: Some(quorum), ..Carried::default() }
    }

    pub fn are_by_claims(&self) -> bool {
        self.by_claims.is_some()
    }

    pub fn clear(&mut self) {
        self.views.clear();
    }

    /// Checks an honest primary's NEW-VIEW: it must carry over the latest prepared block of each slot.
    pub fn on_new_view(&mut self, primary: ReplicaId, new_view: &NewView, tallies: &Tallies) -> Result<(), Violation> {
        let view = new_view.view();
        let voters: BTreeSet<ReplicaId> = new_view.voters().collect();
        let breach = |property: Property, what: String| {
            Err(Violation { property, what: format!("replica {primary} opens view {view}: {what}") })
        };
        if voters.len() < tallies.quorum() {
            return breach(Property::Backing, format!("only {} replicas asked for it", voters.len()));
        }
        let slots = match self.by_claims {
            Some(quorum) => by_claims(new_view, quorum, tallies),
            None => by_proofs(new_view),
        };
        let slots = slots.or_else(|(property, why)| breach(property, why).map(|()| BTreeMap::new()))?;
        if self.views.len() == MAX_REMEMBERED {
            self.views.pop_first();
        }
        self.views.insert(view, slots);
        Ok(())
    }

    /// Returns the block that a view carries over for a slot.
    pub fn block(&self, view: View, slot: Height) -> Option<Digest> {
        self.views.get(&view)?.get(&slot).copied()
    }
}

/// A violated property, and its description.
type Breach = (Property, String);

/// Returns the latest block of each slot proved by the view changes, which the new view must contain.
fn by_proofs(new_view: &NewView) -> Result<BTreeMap<Height, Digest>, Breach> {
    let stable = new_view.changes.iter().map(|change| change.checkpoint.height).max().unwrap_or_default();
    let mut highest: BTreeMap<Height, Subject> = BTreeMap::new();
    for reported in
        new_view.changes.iter().flat_map(|change| &change.prepared).filter(|reported| reported.height > stable)
    {
        let best = highest.entry(reported.height).or_insert(*reported);
        if reported.view > best.view {
            *best = *reported;
        }
    }
    let shown: BTreeMap<Height, Subject> =
        new_view.prepared.iter().map(|proof| (proof.subject.height, proof.subject)).collect();
    for (slot, best) in &highest {
        let of = shown.get(slot).map(|subject| subject.view);
        if of != Some(best.view) {
            let why = format!("slot {slot} was prepared in view {}, but it carries over {of:?}", best.view);
            return Err((Property::Order, why));
        }
    }
    Ok(highest.into_iter().map(|(slot, subject)| (slot, subject.digest)).collect())
}

/// Returns the blocks that follow from claims without proofs. A decided block must be among them.
fn by_claims(new_view: &NewView, quorum: Quorum, tallies: &Tallies) -> Result<BTreeMap<Height, Digest>, Breach> {
    let Some(selection) = Sets::select(&new_view.changes, quorum) else {
        return Err((Property::Backing, "its view changes do not determine what it carries over".into()));
    };
    let carried: BTreeMap<Height, Digest> =
        selection.iter().filter_map(|(slot, chosen)| chosen.map(|subject| (slot, subject.digest))).collect();
    let claims = new_view.changes.iter().flat_map(|change| &change.prepared);
    for claim in claims.filter(|claim| claim.height > selection.stable.height) {
        let decided = tallies.is_agreed(&Subject { domain: Domain::Commit, ..*claim });
        if decided && carried.get(&claim.height) != Some(&claim.digest) {
            let (slot, instead) = (claim.height, carried.get(&claim.height));
            let why = format!("{:?} was decided in slot {slot}, but it carries over {instead:?}", claim.digest);
            return Err((Property::Agreement, why));
        }
    }
    Ok(carried)
}
