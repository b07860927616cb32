//! Judges histories while they grow, so that hours of them fit into memory: keys are used for a while and then left, and a key that
//! nobody uses any more is judged and forgotten.

use super::history::{Operation, is_linearizable};
use std::collections::BTreeMap;

/// Keys in use at a time.
pub const KEYS: u64 = 16;
/// Operations after which all clients go on to fresh keys. The checker's memory grows with the square of a key's share of them.
pub const OPERATIONS_PER_GENERATION: u64 = KEYS * 500;

/// A key whose history has no explanation.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// The key.
    pub key: u64,
    /// Everything that clients saw of it, by the time of the call.
    pub operations: Vec<Operation>,
}

/// Collects operations by key and judges the keys that are over.
pub struct Judge {
    /// The generation of keys that each client uses.
    generations: Vec<u64>,
    open: BTreeMap<u64, Vec<Operation>>,
    operations: u64,
    unknown: u64,
    keys: u64,
    violations: Vec<Violation>,
}

impl Judge {
    /// Has heard nothing of so many clients.
    pub fn new(clients: usize) -> Judge {
        assert!(clients > 0, "without clients there is nothing to judge");
        Judge {
            generations: vec![0; clients],
            open: BTreeMap::new(),
            operations: 0,
            unknown: 0,
            keys: 0,
            violations: Vec::new(),
        }
    }

    /// Takes an operation in.
    pub fn hear(&mut self, operation: Operation) {
        self.operations += 1;
        self.unknown += u64::from(operation.answer == super::history::Answer::Unknown);
        self.open.entry(operation.key).or_default().push(operation);
    }

    /// A client uses no key of the generations before this any more, and all it saw of them was heard. What nobody uses is judged.
    pub fn reached(&mut self, client: usize, generation: u64) {
        self.generations[client] = generation;
        let oldest = self.generations.iter().copied().min().expect("there are clients");
        let rest = self.open.split_off(&oldest.saturating_mul(KEYS));
        for (key, mut operations) in std::mem::replace(&mut self.open, rest) {
            self.keys += 1;
            operations.sort_unstable_by_key(|operation| operation.called_ns);
            if !is_linearizable(&operations) {
                self.violations.push(Violation { key, operations });
            }
        }
    }

    /// Operations heard so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Of these, how many were never answered.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Keys judged so far.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The keys without explanation.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}
