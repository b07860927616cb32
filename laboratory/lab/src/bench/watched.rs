//! Interfaces through which the course of a benchmark watches the load and the replicas' statuses, in this process or
//! on other hosts.

use quorate_client::StatusProbe;
use quorate_client::load::{LoadHandle, LoadProgress, LoadReport};
use quorate_types::Status;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

/// A load in progress, in this process or on other hosts.
pub trait Loading {
    fn progress(&self) -> LoadProgress;
    /// Ends the load soon. Its report covers the time until then.
    fn stop(&self);
    fn is_finished(&self) -> bool;
}

/// Load in a thread of this process.
pub struct LoadThread<E> {
    pub handle: LoadHandle,
    pub thread: JoinHandle<Result<LoadReport, E>>,
}

impl<E> Loading for LoadThread<E> {
    fn progress(&self) -> LoadProgress {
        self.handle.progress()
    }

    fn stop(&self) {
        self.handle.stop();
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Reader of the replicas' statuses, which are indexed by replica id. A replica that does not answer in time has none.
pub trait Probe {
    /// Reads the statuses without histories.
    fn read(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>>;
    /// Reads the statuses with histories.
    fn read_histories(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>>;
}

impl Probe for StatusProbe {
    fn read(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        StatusProbe::read(self, timeout)
    }

    fn read_histories(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        StatusProbe::read_histories(self, timeout)
    }
}
