//! Adapters for libraries that need instants and a remote address, which a machine does not have.

use quorate_types::Time;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Placeholder address of the other end. The driver demultiplexes by address, so a machine knows only one remote.
pub const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// The instant that represents time zero of every machine: libraries take instants, but use only differences.
fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

/// Returns the instant that represents a time.
pub fn instant(now: Time) -> Instant {
    zero() + Duration::from_nanos(now.0)
}

/// Returns the time that an instant represents; zero for an earlier one.
pub fn time(instant: Instant) -> Time {
    Time(0) + instant.saturating_duration_since(zero())
}
