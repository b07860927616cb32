//! Detection of livelocks in a healed core.
//!
//! Once all honest replicas have entered a view, their states on entry are compared with the states in earlier views:
//! view, last votes, lock, certificates, committed height. Views and heights only grow, so the comparison uses only
//! their order and adjacency, since protocol rules depend on nothing else. With rotating leaders it also uses the
//! position in the rotation. A state that recurs without a commit in between is a lasso (in the sense of model
//! checking): the same steps can repeat forever. Messages in flight and clocks are not compared, so a lasso explains a
//! liveness violation but is not a violation by itself.

use super::World;
use crate::chronicle::Landmarks;
use quorate_consensus::Protocol;
use std::collections::{BTreeMap, BTreeSet};

/// Distance from which on distances between numbers count as equal.
const FAR: u64 = 2;

/// States of a core since its last commit.
#[derive(Default)]
pub(super) struct Lasso {
    /// State of each replica at its entry into a view, by replica and view.
    stood: BTreeMap<usize, BTreeMap<u64, Landmarks>>,
    /// First view with each state.
    seen: BTreeMap<Vec<u64>, u64>,
    committed: u64,
    view: u64,
    /// Two views with equal states.
    pub found: Option<(u64, u64)>,
}

impl Lasso {
    /// Compares states once all replicas have entered `view`. `turn` identifies the leader of a rotation, and
    /// `committed` grows with every commit.
    fn compare(&mut self, view: u64, turn: u64, committed: u64) {
        if view <= self.view {
            return;
        }
        self.view = view;
        if std::mem::replace(&mut self.committed, committed) != committed {
            self.seen.clear();
            self.found = None;
        }
        self.stood.values_mut().for_each(|views| *views = views.split_off(&view));
        let core = || self.stood.values().filter_map(|views| views.values().next());
        let views = shape(core().flat_map(|one| &one.views));
        let heights = shape(core().flat_map(|one| &one.heights));
        let state = std::iter::once(turn).chain(views).chain(heights).collect();
        let first = *self.seen.entry(state).or_insert(view);
        if first < view {
            self.found.get_or_insert((first, view));
        }
    }
}

/// Reduces numbers to their order, and their distances up to [`FAR`].
fn shape<'a>(numbers: impl Iterator<Item = &'a u64> + Clone) -> Vec<u64> {
    let distinct: BTreeSet<u64> = numbers.clone().copied().collect();
    let mut places = BTreeMap::new();
    let mut place = 0;
    let mut last = distinct.first().copied().unwrap_or(0);
    for number in distinct {
        place += (number - last).min(FAR);
        last = number;
        places.insert(number, place);
    }
    numbers.map(|number| places[number]).collect()
}

impl<P: Protocol> World<'_, P> {
    /// Observes that a replica enters another view.
    pub(super) fn on_view_entered(&mut self, replica: usize) {
        let Some(probe) = self.probe.as_mut().filter(|_| !self.oracle.is_faulty(replica)) else { return };
        let node = &self.nodes[replica];
        probe.lasso.stood.entry(replica).or_default().insert(node.view(), node.landmarks());
        let honest = (0..self.nodes.len()).filter(|at| self.nodes[*at].alive && !self.oracle.is_faulty(*at));
        let view = honest.clone().map(|at| self.nodes[at].view()).min().unwrap_or(0);
        let committed = honest.map(|at| self.oracle.height(at)).sum();
        probe.lasso.compare(view, view % self.nodes.len() as u64, committed);
    }
}
