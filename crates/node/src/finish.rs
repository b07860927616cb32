//! Ending in order: a replica that is asked to stop takes no more connections, makes durable what it has said, sends what waits for
//! that, and leaves. Clients that do not read are not waited for: the transport cuts them. Nothing depends on it (a replica may be killed at any moment), but its peers need not repeat what it has sent.

use crate::error::HostError;
use crate::host::Host;
use quorate_consensus::Protocol;
use std::time::{Duration, Instant};

/// How long a replica that ends waits at most for its disk and for its peers to take what it has sent.
const FINISH_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait in one poll meanwhile.
const SLICE: Duration = Duration::from_millis(20);

impl<P: Protocol> Host<P> {
    /// Ends in order.
    pub(crate) fn finish(&mut self) -> Result<(), HostError> {
        self.devices.transport.stop_accepting();
        let start = Instant::now();
        let mut is_durable = self.devices.finish_journal()?;
        while (!is_durable || self.devices.transport.has_unsent()) && start.elapsed() < FINISH_LIMIT {
            // What the others still say is lost to them as it would be after a crash: they say it again.
            self.devices.transport.poll(Some(SLICE), &mut self.events)?;
            self.events.clear();
            is_durable = self.devices.finish_journal()?;
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.finish(None)?;
        }
        Ok(())
    }
}
