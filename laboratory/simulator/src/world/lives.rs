//! Counters of the replicas over the measured time, one entry per life, since a restart resets them.

use quorate_types::Status;

/// Counters of a replica at the start and the end of the measured part of a life.
#[derive(Clone, Debug)]
pub struct Life {
    /// At the start of the measured time, or after the replica replayed its journal.
    pub first: Status,
    /// At the end of the measured time, or when the replica crashed.
    pub last: Status,
}

/// Lives of all replicas.
#[derive(Default)]
pub struct Lives {
    /// Counters at the start of the measured time, for each replica that has been alive since.
    first: Vec<Option<Status>>,
    over: Vec<Life>,
    measures: bool,
    is_complete: bool,
}

impl Lives {
    /// Starts the measured time. `statuses` has an entry per replica, `None` if it is down.
    pub fn begin(&mut self, statuses: Vec<Option<Status>>) {
        (self.first, self.measures) = (statuses, true);
    }

    /// Returns whether the measured time has started.
    pub fn has_begun(&self) -> bool {
        self.measures || self.is_complete
    }

    /// Ends a life. `born` are its counters at the start; `None` if it never ran.
    pub fn end(&mut self, replica: usize, born: Option<&Status>, last: impl FnOnce() -> Status) {
        if !self.measures {
            return;
        }
        if let Some(first) = self.first[replica].take().or_else(|| born.cloned()) {
            self.over.push(Life { first, last: last() });
        }
    }

    /// Ends the measured time, after a call of [`Lives::end`] for each live replica.
    pub fn close(&mut self) {
        (self.measures, self.is_complete) = (false, true);
    }

    /// Returns all lives, or none if the measured time has not ended.
    pub fn take(self) -> Vec<Life> {
        if self.is_complete { self.over } else { Vec::new() }
    }
}
