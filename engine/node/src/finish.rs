//! Graceful shutdown: the replica stops accepting connections, writes its last record, makes its votes durable, sends
//! the messages that waited for them, and stops. The transport disconnects clients that do not read. Safety does not
//! depend on this, since a replica may be killed at any moment, but it saves peers from retransmitting, and the replica
//! a view in which it would not know whether it has proposed.

use crate::error::HostError;
use crate::host::Host;
use quorate_consensus::{Action, Protocol};
use std::time::{Duration, Instant};

/// Upper bound on the wait for the disk, and for peers to receive the sent messages.
const MAX_FINISH: Duration = Duration::from_secs(5);
/// Longest wait in one poll during shutdown.
const SLICE: Duration = Duration::from_millis(20);

impl<P: Protocol> Host<P> {
    /// Shuts the replica down gracefully.
    pub(crate) fn finish(&mut self) -> Result<(), HostError> {
        self.devices.network.stop_accepting();
        let start = Instant::now();
        if let Some((id, record)) = self.replica.stop() {
            self.devices.perform(self.now, Action::Persist { id, record })?;
        }
        let mut is_durable = self.devices.finish_journal()?;
        while (!is_durable || self.devices.network.has_unsent()) && start.elapsed() < MAX_FINISH {
            // Messages received now are dropped as in a crash: peers resend them.
            self.devices.network.poll(Some(SLICE), &mut self.events)?;
            self.events.clear();
            is_durable = self.devices.finish_journal()?;
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.finish(None)?;
        }
        Ok(())
    }
}
