//! Sums over the bundles that a replica's own clients sent to it. Its host decides by them whether to admit more.

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

/// Bundles that clients sent to this replica before it had them from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Those that are here and not executed, proposed or not.
    pub open: Amount,
    /// Those executed since the start.
    pub executed: Amount,
}

impl Totals {
    /// Uncounts a bundle that is dropped without having been executed.
    pub(super) fn discard(&mut self, entry: &Held) {
        if entry.is_own {
            self.open.remove(Amount::of(entry));
        }
    }

    /// Counts a bundle as executed that was not so far.
    pub(super) fn execute(&mut self, entry: &Held) {
        if entry.is_own {
            self.discard(entry);
            self.executed.add(Amount::of(entry));
        }
    }
}
