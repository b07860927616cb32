//! Settings of transports: those of all links, and those of TCP.

use quorate_gateway::places::{MAX_LINKS, MAX_LINKS_PER_ADDRESS};
use quorate_types::limits::MAX_FRAME_BYTES;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Maximum number of operators connected at a time; further ones are refused.
pub(crate) const MAX_OPERATORS: usize = 16;
/// This file: configuration files and their documentation take the text of the settings from it.
pub const SOURCE: &str = include_str!("config.rs");

/// How a transport treats its links, whatever carries them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Most bytes queued on one link, framing included. A frame that does not fit is dropped and counted, the frames before it
    /// stay; only an empty queue takes a frame that is larger than this.
    pub link_queue_bytes: usize,
    /// Most bytes that wait for a replica which is not connected, as at the start or while it is away: the newest stay, the others
    /// are dropped and counted. 0 keeps nothing.
    pub unconnected_queue_bytes: usize,
    /// Most bytes queued for one client, framing included. A frame that does not fit is dropped and counted, unless
    /// nothing else is queued; a client that takes none of what is queued is cut after
    /// [`client_stall_ms`](LinkConfig::client_stall_ms).
    pub client_queue_bytes: usize,
    /// Most bytes of one client's frames that may have been received and not yet served: its socket is not read meanwhile.
    pub client_window_bytes: usize,
    /// Most bytes of one client's frame; a client that announces a longer one is cut. 0 (default): what a bundle of `batch_bytes` needs.
    pub client_frame_bytes: usize,
    /// Most bytes of memory for all clients' links together: what is received and not yet served, and what is queued for them. Short
    /// of an eighth of it, the links that have shown nothing genuine are cut, the one that holds the most first.
    pub client_memory_bytes: usize,
    /// After how many milliseconds a client is cut that has begun a frame and not finished it.
    pub client_frame_timeout_ms: u64,
    /// After how many milliseconds a client is cut that takes nothing of what is queued for it.
    pub client_stall_ms: u64,
    /// Most bytes read from one link in one poll, give or take one read, so that no link starves the others.
    pub read_budget_bytes: usize,
    /// The first wait before a lost or failed connection is dialled again, in milliseconds; it doubles with each failure.
    pub reconnect_min_ms: u64,
    /// The longest wait before dialling again, in milliseconds. Each wait is shortened at random by up to half.
    pub reconnect_max_ms: u64,
    /// How long dialling and the handshake may take together, in milliseconds.
    pub handshake_timeout_ms: u64,
    /// How long connecting to a replica may take before it is tried anew, in milliseconds.
    pub dial_timeout_ms: u64,
    /// Most clients connected at a time. For one more the link that has shown nothing genuine and was idle for longest is cut; if
    /// there is none, the newcomer is refused.
    pub max_client_links: usize,
    /// Most clients connected at a time from one address (IPv6: from one /64 network).
    pub max_client_links_per_address: usize,
    /// Most accepted links that have yet to authenticate; the oldest is cut for one more.
    pub max_unauthenticated_links: usize,
    /// The same for one address (IPv6: for one /64 network).
    pub max_unauthenticated_links_per_address: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            link_queue_bytes: 64 << 20,
            unconnected_queue_bytes: 1 << 20,
            client_queue_bytes: 4 << 20,
            client_window_bytes: 1 << 20,
            client_frame_bytes: 0,
            client_memory_bytes: 128 << 20,
            client_frame_timeout_ms: 10_000,
            client_stall_ms: 5_000,
            read_budget_bytes: 256 << 10,
            reconnect_min_ms: 20,
            reconnect_max_ms: 1_000,
            handshake_timeout_ms: 5_000,
            dial_timeout_ms: 1_000,
            max_client_links: MAX_LINKS,
            max_client_links_per_address: MAX_LINKS_PER_ADDRESS,
            max_unauthenticated_links: 128,
            max_unauthenticated_links_per_address: 96,
        }
    }
}

/// What TCP alone has. Nagle's algorithm is always off (`TCP_NODELAY`): what is to travel together is already written
/// together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpConfig {
    /// After how many milliseconds a remote that does not answer at all (its host lost power, its cable is cut) or
    /// takes nothing of what waits for it (it is stopped) counts as gone.
    pub silent_remote_ms: u64,
    /// After how many milliseconds without an acknowledgement of what was sent to a replica the link counts as cut and
    /// is dialled again: TCP itself would try ever less often.
    pub unacknowledged_ms: u64,
    /// The kernel's send buffer per link in bytes; 0 leaves its size to the kernel.
    pub send_buffer_bytes: usize,
    /// The kernel's receive buffer per link in bytes; 0 leaves its size to the kernel.
    pub receive_buffer_bytes: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig { silent_remote_ms: 20_000, unacknowledged_ms: 2_000, send_buffer_bytes: 0, receive_buffer_bytes: 0 }
    }
}

/// Settings of all transports; each reads those of links and its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WireSettings {
    pub links: LinkConfig,
    pub tcp: TcpConfig,
}

impl From<LinkConfig> for WireSettings {
    fn from(links: LinkConfig) -> WireSettings {
        WireSettings { links, tcp: TcpConfig::default() }
    }
}

impl From<TcpConfig> for WireSettings {
    fn from(tcp: TcpConfig) -> WireSettings {
        WireSettings { links: LinkConfig::default(), tcp }
    }
}

/// Invalid setting.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// A setting must be positive.
    #[error("`{table}.{key}` is 0; set at least 1, or leave it out for its default")]
    Zero { table: &'static str, key: &'static str },
    /// The shortest reconnect delay exceeds the longest.
    #[error("`reconnect_min_ms` is {min}, over `reconnect_max_ms`, which is {max}; exchange them")]
    Reconnect {
        /// Shortest delay, in milliseconds.
        min: u64,
        /// Longest delay, in milliseconds.
        max: u64,
    },
}

impl LinkConfig {
    /// Returns an error for the first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("link_queue_bytes", self.link_queue_bytes as u64),
            ("client_queue_bytes", self.client_queue_bytes as u64),
            ("client_window_bytes", self.client_window_bytes as u64),
            ("client_memory_bytes", self.client_memory_bytes as u64),
            ("client_frame_timeout_ms", self.client_frame_timeout_ms),
            ("client_stall_ms", self.client_stall_ms),
            ("read_budget_bytes", self.read_budget_bytes as u64),
            ("reconnect_min_ms", self.reconnect_min_ms),
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("dial_timeout_ms", self.dial_timeout_ms),
            ("max_unauthenticated_links", self.max_unauthenticated_links as u64),
            ("max_unauthenticated_links_per_address", self.max_unauthenticated_links_per_address as u64),
        ];
        refuse_zeros("links", &positive)?;
        if self.reconnect_min_ms > self.reconnect_max_ms {
            return Err(ConfigError::Reconnect { min: self.reconnect_min_ms, max: self.reconnect_max_ms });
        }
        Ok(())
    }

    /// Returns the maximum number of links at a time: clients, operators, links that are not authenticated yet, and up
    /// to two for each of `replicas`, while one is replaced. Each takes a descriptor.
    pub fn max_links(&self, replicas: usize) -> usize {
        self.max_client_links + MAX_OPERATORS + self.max_unauthenticated_links + 2 * replicas
    }

    /// Returns the maximum length of one client's frame, in bytes.
    pub(crate) fn client_frame_limit(&self) -> usize {
        match self.client_frame_bytes {
            0 => MAX_FRAME_BYTES,
            bytes => bytes.min(MAX_FRAME_BYTES),
        }
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }
}

impl WireSettings {
    /// Returns an error for the first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let TcpConfig { silent_remote_ms, unacknowledged_ms, .. } = self.tcp;
        self.links.validate()?;
        refuse_zeros("tcp", &[("silent_remote_ms", silent_remote_ms), ("unacknowledged_ms", unacknowledged_ms)])
    }
}

fn refuse_zeros(table: &'static str, settings: &[(&'static str, u64)]) -> Result<(), ConfigError> {
    match settings.iter().find(|(_, value)| *value == 0) {
        Some((key, _)) => Err(ConfigError::Zero { table, key }),
        None => Ok(()),
    }
}
