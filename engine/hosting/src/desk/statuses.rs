//! The latest statuses, cached because many clients may request them.

use super::{ClientVerifier, Desk};
use bytes::Bytes;
use quorate_network::gateway::budget::{STATUS_SAVED_NS, STATUS_SHARE};
use quorate_types::Time;
use std::hash::Hash;

/// The latest statuses, without and with the history.
pub(super) struct Statuses {
    json: [Option<Bytes>; 2],
    /// Time budget saved up for new statuses, in nanoseconds.
    saved_ns: u64,
    saved_at: Time,
}

impl Default for Statuses {
    fn default() -> Self {
        Statuses { json: [None, None], saved_ns: STATUS_SAVED_NS, saved_at: Time(0) }
    }
}

impl<K: Copy + Eq + Hash, F, R: Clone, V: ClientVerifier> Desk<K, F, R, V> {
    /// Returns the last status if new ones have recently taken too much time: many clients may request it, and it is
    /// large. Otherwise the host creates a new one and [keeps](Desk::keep_status) it.
    pub fn kept_status(&mut self, now: Time, history: bool) -> Option<Bytes> {
        let Statuses { json, saved_ns, saved_at } = &mut self.statuses;
        let earned = now.since(*saved_at).as_nanos() as u64 / STATUS_SHARE;
        (*saved_ns, *saved_at) = ((*saved_ns + earned).min(STATUS_SAVED_NS), now);
        json[usize::from(history)].clone().filter(|_| *saved_ns == 0)
    }

    /// Keeps a new status, which took `spent_ns` to create.
    pub fn keep_status(&mut self, history: bool, json: Bytes, spent_ns: u64) {
        self.statuses.saved_ns = self.statuses.saved_ns.saturating_sub(spent_ns);
        self.statuses.json[usize::from(history)] = Some(json);
    }
}
