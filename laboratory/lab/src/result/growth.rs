//! Growth of the replicas' counters, summed over restarts, since a restarted replica counts from zero.

use super::per;
use quorate_crypto::SchemeKind;
use quorate_types::meter::Tallies;
use quorate_types::stages::StageCounts;
use quorate_types::{ReplicaId, Status};
use std::collections::BTreeMap;

/// Counters at the start and the end of each replica process, in chronological order per replica.
pub(crate) struct Growth<'a>(Vec<(&'a Status, &'a Status)>);

impl<'a> Growth<'a> {
    pub fn of(lives: impl IntoIterator<Item = (&'a Status, &'a Status)>) -> Growth<'a> {
        Growth(lives.into_iter().collect())
    }

    /// Returns the growth of a counter, over all replicas.
    pub fn sum(&self, counter: impl Fn(&Status) -> u64) -> u64 {
        self.by_replica(counter).into_values().sum()
    }

    /// Returns a counter's last values, over all replicas.
    pub fn total(&self, counter: impl Fn(&Status) -> u64) -> u64 {
        self.0.iter().map(|(_, last)| counter(last)).sum()
    }

    /// Returns whether a property holds for any replica's last status.
    pub fn any(&self, property: impl Fn(&Status) -> bool) -> bool {
        self.0.iter().any(|(_, last)| property(last))
    }

    /// Returns the last status of each replica.
    pub fn last(&self) -> BTreeMap<ReplicaId, &'a Status> {
        self.0.iter().map(|(_, last)| (last.replica, *last)).collect()
    }

    /// Returns the growth of a counter at the replica with the largest growth.
    pub fn most(&self, counter: impl Fn(&Status) -> u64) -> u64 {
        self.by_replica(counter).into_values().max().unwrap_or(0)
    }

    /// Returns the growth of a counter by replica.
    pub fn by_replica(&self, counter: impl Fn(&Status) -> u64) -> BTreeMap<ReplicaId, u64> {
        let mut grown = BTreeMap::new();
        for (first, last) in &self.0 {
            *grown.entry(last.replica).or_insert(0) += counter(last).saturating_sub(counter(first));
        }
        grown
    }

    /// Returns the mean number of keys added or subtracted to verify a peer's certificate; `None` if none was verified,
    /// or the scheme has no aggregates.
    pub fn key_additions_per_certificate(&self, scheme: SchemeKind) -> Option<f64> {
        let certificates = self.sum(|status| status.certificates_verified);
        let additions = self.sum(|status| status.key_additions);
        per(additions as f64, certificates).filter(|_| scheme.profile().aggregatable)
    }

    /// Returns the cryptographic work of all replicas.
    pub fn crypto(&self) -> Tallies {
        let mut sum = Tallies::default();
        self.0.iter().for_each(|(first, last)| sum += last.crypto.since(&first.crypto));
        sum
    }

    /// Returns the counts and times of the stages over all replicas; `None` if no replica measured them.
    pub fn stages(&self) -> Option<StageCounts> {
        let mut sum: Option<StageCounts> = None;
        for (first, last) in &self.0 {
            let Some(last) = &last.stages else { continue };
            let grown = first.stages.as_ref().map_or_else(|| last.clone(), |first| last.since(first));
            sum.get_or_insert_default().add(&grown);
        }
        sum
    }

    /// Returns the largest number of views entered by one replica. Views are positions, not counters: a replica that
    /// lost its journal starts at 0, but does not re-enter the earlier views.
    pub fn views(&self) -> u64 {
        let mut reached: BTreeMap<ReplicaId, (u64, u64)> = BTreeMap::new();
        for (first, last) in &self.0 {
            let (_, highest) = reached.entry(last.replica).or_insert((first.view.0, last.view.0));
            *highest = (*highest).max(last.view.0);
        }
        reached.into_values().map(|(from, to)| to.saturating_sub(from)).max().unwrap_or(0)
    }
}
