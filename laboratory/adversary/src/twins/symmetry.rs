//! Symmetries of a cast: permutations of honest replicas, permutations of twins, and swaps of a twin's two instances.

use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use quorate_types::ReplicaId;

/// A renaming: maps each instance to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renaming {
    to: Vec<u8>,
}

impl Renaming {
    /// Returns the new name of an identity.
    pub fn identity(&self, participants: &Participants, identity: ReplicaId) -> ReplicaId {
        participants.identity(InstanceId(self.to[identity.index()].into()))
    }

    /// Returns the new names of a set of instances.
    pub fn set(&self, set: InstanceSet) -> InstanceSet {
        self.to.iter().enumerate().fold(0, |renamed, (from, to)| renamed | (set >> from & 1) << to)
    }
}

/// Returns the number of renamings: h! t! 2^t for h honest replicas and t twins, or `None` on overflow.
pub fn order(participants: &Participants) -> Option<u64> {
    let factorial = |n: usize| (1..=n as u64).try_fold(1u64, u64::checked_mul);
    let twins = participants.twins();
    factorial(participants.replicas() - twins)?
        .checked_mul(factorial(twins)?)?
        .checked_mul(1u64.checked_shl(twins as u32)?)
}

/// Returns all renamings, the identity first.
pub fn all(participants: &Participants) -> Vec<Renaming> {
    let (twins, replicas) = (participants.twins(), participants.replicas());
    let honest: Vec<u8> = (twins as u8..replicas as u8).collect();
    let mut renamings = Vec::new();
    for of_honest in permutations(&honest) {
        for of_twins in permutations(&(0..twins as u8).collect::<Vec<u8>>()) {
            for swapped in 0..1u32 << twins {
                let second = |twin: u8| replicas as u8 + twin;
                let instance = |twin: u8, swap: bool| if swap { second(twin) } else { twin };
                let is_swapped = |twin: usize| swapped >> twin & 1 == 1;
                let first = (0..twins).map(|twin| instance(of_twins[twin], is_swapped(twin)));
                let others = (0..twins).map(|twin| instance(of_twins[twin], !is_swapped(twin)));
                let to = first.chain(of_honest.iter().copied()).chain(others).collect();
                renamings.push(Renaming { to });
            }
        }
    }
    renamings
}

/// Returns the identity.
pub fn nothing(participants: &Participants) -> Renaming {
    Renaming { to: (0..participants.len() as u8).collect() }
}

/// Returns all permutations of the items, the given order first.
fn permutations(items: &[u8]) -> Vec<Vec<u8>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for mut tail in permutations(&rest) {
            tail.insert(0, first);
            all.push(tail);
        }
    }
    all
}
