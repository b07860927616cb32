//! Progress of a running benchmark.

use crate::result::Event;
use crate::search::Probe;
use quorate_client::load::LoadProgress;
use quorate_types::Status;

/// Snapshot of a running benchmark.
pub struct Progress<'a> {
    pub load: &'a LoadProgress,
    /// Last status of the replica with the highest height.
    pub replica: Option<&'a Status>,
}

/// Observer of a benchmark.
pub trait Watcher {
    /// Reports the progress, several times per second.
    fn progress(&mut self, progress: &Progress<'_>);
    /// Reports an injected fault or an observation. Ignored by default.
    fn event(&mut self, _event: &Event) {}
    /// Reports one run of a rate search. Ignored by default.
    fn probe(&mut self, _probe: &Probe) {}
    /// Reports a caveat for the reader of the result.
    fn warn(&mut self, text: &str);
}
