//! Clients' use of their quotas.

use quorate_types::Time;
use std::collections::HashMap;
use std::hash::Hash;

/// Maximum burst of a client, in nanoseconds of its quota.
pub(super) const BURST_NS: u64 = 1_000_000_000;
/// Maximum number of tracked clients. Beyond it, those without debt are forgotten, or else all.
const MAX_QUOTAS: usize = 65_536;

/// The time when each client's debt is paid off.
pub(super) struct Debts<K> {
    paid_off: HashMap<K, Time>,
}

impl<K> Default for Debts<K> {
    fn default() -> Self {
        Debts { paid_off: HashMap::new() }
    }
}

impl<K: Eq + Hash> Debts<K> {
    /// Returns whether a client owes at least one second.
    pub fn exceed_a_second(&self, client: &K, now: Time) -> bool {
        self.paid_off.get(client).is_some_and(|paid_off| paid_off.since(now).as_nanos() >= u128::from(BURST_NS))
    }

    /// Adds to the debt of a client.
    pub fn add(&mut self, client: K, cost_ns: u64, now: Time) {
        if self.paid_off.len() >= MAX_QUOTAS {
            self.paid_off.retain(|_, paid_off| *paid_off > now);
            // Otherwise many clients in debt would cause this work repeatedly.
            if self.paid_off.len() > MAX_QUOTAS / 2 {
                self.paid_off.clear();
            }
        }
        let paid_off = self.paid_off.entry(client).or_insert(now);
        *paid_off = Time((*paid_off).max(now).0.saturating_add(cost_ns));
    }
}
