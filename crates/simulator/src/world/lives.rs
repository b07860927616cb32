//! The replicas' counters over the measured time, life by life: a replica that comes back counts from zero.

use quorate_types::Status;

/// A replica's counters at the beginning and at the end of a life, or of the part of it that is measured.
#[derive(Clone, Debug)]
pub struct Life {
    /// At the start of the measured time, or when the replica had recalled its journal.
    pub first: Status,
    /// At the end of the measured time, or when the replica crashed.
    pub last: Status,
}

/// Collects lives.
#[derive(Default)]
pub struct Lives {
    /// By replica, the counters of those who were alive when the measured time began and have not crashed since.
    first: Vec<Option<Status>>,
    over: Vec<Life>,
    measures: bool,
    is_complete: bool,
}

impl Lives {
    /// The measured time begins. `statuses` has an entry for each replica, none for those that are not alive.
    pub fn begin(&mut self, statuses: Vec<Option<Status>>) {
        (self.first, self.measures) = (statuses, true);
    }

    /// Whether the measured time has begun.
    pub fn has_begun(&self) -> bool {
        self.measures || self.is_complete
    }

    /// A life ends that began with counters `born`, none if the replica never ran.
    pub fn ended(&mut self, replica: usize, born: Option<&Status>, last: impl FnOnce() -> Status) {
        if !self.measures {
            return;
        }
        if let Some(first) = self.first[replica].take().or_else(|| born.cloned()) {
            self.over.push(Life { first, last: last() });
        }
    }

    /// The measured time is over; the lives that go on were told to [`Lives::ended`].
    pub fn close(&mut self) {
        (self.measures, self.is_complete) = (false, true);
    }

    /// Every life, if the measured time came to its end.
    pub fn take(self) -> Vec<Life> {
        if self.is_complete { self.over } else { Vec::new() }
    }
}
