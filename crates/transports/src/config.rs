//! The settings of a TCP transport.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// How a [`crate::TcpTransport`] treats its links. Nagle's algorithm is always off (`TCP_NODELAY`): what is to travel together is
/// already written together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpConfig {
    /// Most bytes queued on one link, framing included. A frame that does not fit is dropped and counted, the frames before it
    /// stay; only an empty queue takes a frame that is larger than this.
    pub link_queue_bytes: usize,
    /// Most bytes that wait for a replica which is not connected, as at the start or while it is away: the newest stay, the others
    /// are dropped and counted. 0 keeps nothing.
    pub unconnected_queue_bytes: usize,
    /// Most bytes read from one link in one poll, give or take one read, so that no link starves the others.
    pub read_budget_bytes: usize,
    /// The first wait before a lost or failed connection is dialled again, in milliseconds; it doubles with each failure.
    pub reconnect_min_ms: u64,
    /// The longest wait before dialling again, in milliseconds. Each wait is shortened at random by up to half.
    pub reconnect_max_ms: u64,
    /// How long dialling and the handshake may take together, in milliseconds.
    pub handshake_timeout_ms: u64,
    /// After how many milliseconds a remote that does not answer at all (its host lost power, its cable is cut) or
    /// takes nothing of what waits for it (it is stopped) counts as gone.
    pub silent_remote_ms: u64,
    /// Most clients connected at a time; one more is refused.
    pub most_client_links: usize,
    /// The kernel's send buffer per link in bytes; 0 leaves its size to the kernel.
    pub send_buffer_bytes: usize,
    /// The kernel's receive buffer per link in bytes; 0 leaves its size to the kernel.
    pub receive_buffer_bytes: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            link_queue_bytes: 64 << 20,
            unconnected_queue_bytes: 1 << 20,
            read_budget_bytes: 256 << 10,
            reconnect_min_ms: 20,
            reconnect_max_ms: 1_000,
            handshake_timeout_ms: 5_000,
            silent_remote_ms: 20_000,
            most_client_links: 1_024,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// A setting has to be positive.
    #[error("`{0}` is 0: set it to at least 1, or leave it out for its default")]
    Zero(&'static str),
    /// The waits are the wrong way round.
    #[error("`reconnect_min_ms` is {min}, over `reconnect_max_ms`, which is {max}: exchange them")]
    Reconnect {
        /// The shortest wait.
        min: u64,
        /// The longest wait.
        max: u64,
    },
}

impl TcpConfig {
    /// Names the first setting that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("link_queue_bytes", self.link_queue_bytes as u64),
            ("read_budget_bytes", self.read_budget_bytes as u64),
            ("reconnect_min_ms", self.reconnect_min_ms),
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("silent_remote_ms", self.silent_remote_ms),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero(name));
        }
        if self.reconnect_min_ms > self.reconnect_max_ms {
            return Err(ConfigError::Reconnect { min: self.reconnect_min_ms, max: self.reconnect_max_ms });
        }
        Ok(())
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }
}
