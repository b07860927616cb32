//! By how much the replicas' counters grew, life by life: a replica that was started again counts from zero.

use quorate_types::{ReplicaId, Status};
use std::collections::BTreeMap;

/// The counters of replicas at the beginning and at the end of each life, in the order of time for each replica.
pub(crate) struct Growth<'a>(Vec<(&'a Status, &'a Status)>);

impl<'a> Growth<'a> {
    pub fn of(lives: impl IntoIterator<Item = (&'a Status, &'a Status)>) -> Growth<'a> {
        Growth(lives.into_iter().collect())
    }

    /// By how much a counter grew, over all replicas.
    pub fn sum(&self, counter: impl Fn(&Status) -> u64) -> u64 {
        self.by_replica(counter).into_values().sum()
    }

    /// By how much a counter grew at the replica where it grew most.
    pub fn most(&self, counter: impl Fn(&Status) -> u64) -> u64 {
        self.by_replica(counter).into_values().max().unwrap_or(0)
    }

    /// By how much a counter grew at each replica.
    pub fn by_replica(&self, counter: impl Fn(&Status) -> u64) -> BTreeMap<ReplicaId, u64> {
        let mut grown = BTreeMap::new();
        for (first, last) in &self.0 {
            *grown.entry(last.replica).or_insert(0) += counter(last).saturating_sub(counter(first));
        }
        grown
    }

    /// Views that the replica went through that went through most. A view is a position: one that lost its journal begins at 0 and
    /// has not entered again what it went through before.
    pub fn views(&self) -> u64 {
        let mut reached: BTreeMap<ReplicaId, (u64, u64)> = BTreeMap::new();
        for (first, last) in &self.0 {
            let (_, highest) = reached.entry(last.replica).or_insert((first.view.0, last.view.0));
            *highest = (*highest).max(last.view.0);
        }
        reached.into_values().map(|(from, to)| to.saturating_sub(from)).max().unwrap_or(0)
    }
}
