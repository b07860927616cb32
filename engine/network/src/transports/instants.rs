//! What the libraries want of the world and a machine does not have: instants, and an address of the other end.

use quorate_types::Time;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The other end for a library. The driver demultiplexes by address, so that a machine knows only one.
pub const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// The instant that stands for the zero of every machine's time: libraries take instants, and use differences.
fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

/// Returns the instant that stands for a time.
pub fn instant(now: Time) -> Instant {
    zero() + Duration::from_nanos(now.0)
}

/// Returns the time that an instant stands for; zero for an earlier one.
pub fn time(instant: Instant) -> Time {
    Time(0) + instant.saturating_duration_since(zero())
}
