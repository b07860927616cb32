//! Checks histories while they grow, so that hours of them fit into memory. Clients move on to fresh keys after a
//! while; a key is checked and dropped once no client uses it.

use super::history::{Operation, is_linearizable};
use std::collections::BTreeMap;

/// Number of keys in use at the same time.
pub const KEYS: u64 = 16;
/// Number of operations after which all clients move on to fresh keys. The checker needs memory quadratic in the
/// operations per key.
pub const OPERATIONS_PER_GENERATION: u64 = KEYS * 500;

/// Key whose history is not linearizable.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    pub key: u64,
    /// The whole history of the key, ordered by call time.
    pub operations: Vec<Operation>,
}

/// Collects operations by key, and checks each key once no client uses it.
pub struct HistoryChecker {
    /// Current generation of keys of each client.
    generations: Vec<u64>,
    open: BTreeMap<u64, Vec<Operation>>,
    operations: u64,
    unknown: u64,
    keys: u64,
    violations: Vec<Violation>,
}

impl HistoryChecker {
    pub fn new(clients: usize) -> HistoryChecker {
        assert!(clients > 0, "at least one client is needed");
        HistoryChecker {
            generations: vec![0; clients],
            open: BTreeMap::new(),
            operations: 0,
            unknown: 0,
            keys: 0,
            violations: Vec::new(),
        }
    }

    pub fn add(&mut self, operation: Operation) {
        self.operations += 1;
        self.unknown += u64::from(operation.answer == super::history::Answer::Unknown);
        self.open.entry(operation.key).or_default().push(operation);
    }

    /// Records that a client has reported all its operations on keys of earlier generations. Checks the keys that no
    /// client uses any more.
    pub fn on_reached(&mut self, client: usize, generation: u64) {
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

    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the number of operations that were never answered.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the keys whose history is not linearizable.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}
