//! Replicas whose frames did not count.

use quorate_types::ReplicaId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Replicas with a frame that did not count because it was no reply or not authentic, with the reason of the first such
/// frame.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Distrusted(BTreeMap<ReplicaId, String>);

impl Distrusted {
    /// Records a frame. Returns whether it is the replica's first one.
    pub fn note(&mut self, from: ReplicaId, why: &dyn fmt::Display) -> bool {
        let is_first = !self.0.contains_key(&from);
        if is_first {
            self.0.insert(from, why.to_string());
        }
        is_first
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the replicas with their first reasons.
    pub fn iter(&self) -> impl Iterator<Item = (ReplicaId, &str)> {
        self.0.iter().map(|(replica, why)| (*replica, why.as_str()))
    }
}

impl fmt::Display for Distrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (replica, why)) in self.0.iter().enumerate() {
            let begin = if at == 0 { "" } else { "; " };
            write!(f, "{begin}frames of replica {replica} did not count: {why}")?;
        }
        Ok(())
    }
}
