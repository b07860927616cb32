//! Sums over the bundles of a replica, mostly those sent by its own clients. Its host uses them to decide whether to
//! admit more.

use super::Held;

/// Commands and bytes of bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    pub commands: u64,
    pub bytes: u64,
}

impl Amount {
    pub(super) fn of(entry: &Held) -> Amount {
        Amount { commands: entry.commands() as u64, bytes: entry.bundle.body().len() as u64 }
    }

    pub(super) fn add(&mut self, other: Amount) {
        (self.commands, self.bytes) = (self.commands + other.commands, self.bytes + other.bytes);
    }

    fn remove(&mut self, other: Amount) {
        (self.commands, self.bytes) = (self.commands - other.commands, self.bytes - other.bytes);
    }
}

/// Sums by which a host admits bundles. "Own" bundles are those that clients sent to this replica before it received
/// them from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Own bundles that are not executed, proposed or not.
    pub open: Amount,
    /// Own bundles executed since the start.
    pub executed: Amount,
    /// All bundles executed since the start, from all clients.
    pub executed_of_all: Amount,
}

impl Totals {
    /// Subtracts a bundle that is dropped without having been executed.
    pub(super) fn discard(&mut self, entry: &Held) {
        if entry.is_own {
            self.open.remove(Amount::of(entry));
        }
    }

    /// Counts a bundle as executed.
    pub(super) fn execute(&mut self, entry: &Held) {
        self.executed_of_all.add(Amount::of(entry));
        if entry.is_own {
            self.discard(entry);
            self.executed.add(Amount::of(entry));
        }
    }
}
