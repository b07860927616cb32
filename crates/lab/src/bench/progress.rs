//! How a running benchmark is told.

use crate::result::Event;
use quorate_client::load::LoadProgress;
use quorate_types::Status;

/// One look at a running benchmark.
pub struct Progress<'a> {
    /// The load.
    pub load: &'a LoadProgress,
    /// The furthest replica, as it last reported.
    pub replica: Option<&'a Status>,
}

/// Hears how a benchmark goes.
pub trait Watcher {
    /// Told several times a second.
    fn progress(&mut self, progress: &Progress<'_>);
    /// Something happened on purpose, or was noticed. A watcher need not care.
    fn event(&mut self, _event: &Event) {}
    /// Something that the reader of the result should know.
    fn warn(&mut self, text: &str);
}
