//! Whether a healed core goes round in circles.
//!
//! When all who are honest have come to a view, how each of them stood when it came there is held against the views before: its view,
//! its last votes, its lock, the certificates on which it stands, its committed height. Views and heights only grow, so what is compared
//! is their order and which of them follow each other directly, which is all that rules ask for; and, for leaders that take turns,
//! whose turn it is. A state that was there before, with nothing committed since, is a lasso: what led from the one to the other can do
//! so for ever. Messages on their way and clocks are not compared, so a lasso explains why the liveness oracle spoke, and is no complaint
//! by itself.

use super::World;
use crate::chronicle::Landmarks;
use quorate_consensus::Protocol;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers this far apart are as good as any further apart.
const FAR: u64 = 2;

/// The states of a core since it committed something.
#[derive(Default)]
pub(super) struct Lasso {
    /// How a replica stood when it came to a view.
    stood: BTreeMap<usize, BTreeMap<u64, Landmarks>>,
    /// By state, the view in which it was first seen.
    seen: BTreeMap<Vec<u64>, u64>,
    committed: u64,
    view: u64,
    /// Two views of equal states.
    pub found: Option<(u64, u64)>,
}

impl Lasso {
    /// All have come to `view`, where `turn` tells leaders apart that take turns, and `committed` grows with every commit.
    fn look(&mut self, view: u64, turn: u64, committed: u64) {
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

/// The order of numbers, and which of them follow each other directly.
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
    /// A replica has come to another view.
    pub(super) fn watch_for_lasso(&mut self, replica: usize) {
        let Some(probe) = self.probe.as_mut().filter(|_| !self.oracle.is_faulty(replica)) else { return };
        let node = &self.nodes[replica];
        probe.lasso.stood.entry(replica).or_default().insert(node.view(), node.landmarks());
        let honest = (0..self.nodes.len()).filter(|at| self.nodes[*at].alive && !self.oracle.is_faulty(*at));
        let view = honest.clone().map(|at| self.nodes[at].view()).min().unwrap_or(0);
        let committed = honest.map(|at| self.oracle.height(at)).sum();
        probe.lasso.look(view, view % self.nodes.len() as u64, committed);
    }
}
