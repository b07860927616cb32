//! Retransmission timing: profiles, and the round-trip estimate that they bound.

use crate::transports::setting::{ConfigError, Setting, check_ranges};
use quorate_types::Fault;
use quorate_types::settings::{CLUSTER, Flag, With};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

quorate_types::choice! {
    /// Named bounds of the retransmission timeout (RTO) and the acknowledgement delay: those of table 2 in the
    /// transports paper, and one that follows the network.
    RetransmissionProfile, "retransmission profile",
    /// The smallest measured round trip plus a margin, as the paper recommends (section 7.5).
    Auto = "auto",
    /// The defaults of SCTP.
    Default = "default",
    /// The values of Linux's TCP.
    TcpMock = "tcp-mock",
    /// 100 ms on any network.
    S100 = "s100",
    /// 50 ms on any network.
    S50 = "s50",
}

/// Values of a profile, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub rto_initial_ms: u64,
    /// `None`: the smallest measured round trip plus [`MARGIN`] and the acknowledgement delay.
    pub rto_min_ms: Option<u64>,
    pub rto_max_ms: u64,
    pub ack_delay_ms: u64,
}

/// Margin that the minimum timeout of the profile `auto` adds to the smallest round trip and the acknowledgement delay:
/// time in which a busy remote may not answer.
pub const MARGIN: Duration = Duration::from_millis(2);

impl RetransmissionProfile {
    /// Returns the values, in milliseconds.
    pub fn bounds(self) -> Bounds {
        let (rto_initial_ms, rto_min_ms, rto_max_ms, ack_delay_ms) = match self {
            RetransmissionProfile::Auto => (200, None, 10_000, 1),
            RetransmissionProfile::Default => (3_000, Some(1_000), 60_000, 200),
            RetransmissionProfile::TcpMock => (200, Some(200), 120_000, 200),
            RetransmissionProfile::S100 => (100, Some(100), 100, 100),
            RetransmissionProfile::S50 => (50, Some(50), 50, 50),
        };
        Bounds { rto_initial_ms, rto_min_ms, rto_max_ms, ack_delay_ms }
    }
}

/// Retransmission settings, for transports that retransmit themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-with" = With::one("transport", &["rudp", "sctp", "sctp-kernel"])))]
pub struct RetransmissionConfig {
    /// Bounds of the timeout, and the acknowledgement delay.
    pub profile: RetransmissionProfile,
    /// Overrides the profile's timeout before the first measured round trip, in milliseconds.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_initial_ms: Option<u64>,
    /// Overrides the profile's minimum timeout, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min_ms: Option<u64>,
    /// Overrides the profile's maximum timeout, in milliseconds.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_max_ms: Option<u64>,
    /// Overrides the profile's delay of standalone acknowledgements, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_delay_ms: Option<u64>,
    /// Maximum unacknowledged bytes sent by one end of a link.
    #[schemars(range(min = 1), extend("x-with" = With::one("transport", &["rudp", "sctp"])))]
    pub window_bytes: usize,
    /// Whether a sender paces packets at the rate at which they arrive, instead of sending them in bursts.
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).rare()))]
    #[schemars(extend("x-with" = With::one("transport", &["rudp"])))]
    pub pacing: bool,
    /// Milliseconds after which a link is considered cut, and redialled, if packets are outstanding and nothing is
    /// received from the remote.
    #[schemars(range(min = 1), extend("x-with" = With::one("transport", &["rudp", "sctp"])))]
    pub unacknowledged_ms: u64,
}

impl Default for RetransmissionConfig {
    fn default() -> Self {
        RetransmissionConfig {
            profile: RetransmissionProfile::Auto,
            rto_initial_ms: None,
            rto_min_ms: None,
            rto_max_ms: None,
            ack_delay_ms: None,
            window_bytes: 4 << 20,
            pacing: false,
            unacknowledged_ms: 2_000,
        }
    }
}

impl RetransmissionConfig {
    /// Returns the profile's values with the overrides applied.
    pub fn bounds(&self) -> Bounds {
        let profile = self.profile.bounds();
        Bounds {
            rto_initial_ms: self.rto_initial_ms.unwrap_or(profile.rto_initial_ms),
            rto_min_ms: self.rto_min_ms.or(profile.rto_min_ms),
            rto_max_ms: self.rto_max_ms.unwrap_or(profile.rto_max_ms),
            ack_delay_ms: self.ack_delay_ms.unwrap_or(profile.ack_delay_ms),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let bounds = self.bounds();
        check_ranges("retransmission", self)?;
        match bounds.rto_min_ms {
            Some(min) if min > bounds.rto_max_ms => {
                let place = Setting { table: "retransmission", key: "rto_min_ms" };
                Err(Fault::new(place, format!("is {min}, over `rto_max_ms`, {}", bounds.rto_max_ms), "exchange them"))
            }
            _ => Ok(()),
        }
    }
}

/// Smoothed round-trip time and retransmission timeout (RFC 6298).
#[derive(Clone, Debug)]
pub struct RoundTrips {
    bounds: Bounds,
    smoothed: Option<Duration>,
    variation: Duration,
    smallest: Duration,
}

impl RoundTrips {
    /// Starts without a measurement.
    pub fn new(bounds: Bounds) -> RoundTrips {
        RoundTrips { bounds, smoothed: None, variation: Duration::ZERO, smallest: Duration::MAX }
    }

    /// Adds a round-trip measurement, of a packet that was sent only once (Karn's algorithm).
    pub fn measured(&mut self, trip: Duration) {
        self.smallest = self.smallest.min(trip);
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(trip), trip / 2),
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(trip)) / 4;
                self.smoothed = Some((7 * smoothed + trip) / 8);
            }
        }
    }

    /// Returns the smoothed round-trip time; `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the smallest round-trip time; `None` before the first measurement.
    pub fn smallest(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.smallest)
    }

    /// Returns the timeout after `backoff` consecutive timeouts.
    pub fn timeout(&self, backoff: u32) -> Duration {
        let bounds = &self.bounds;
        let base = match self.smoothed {
            None => Duration::from_millis(bounds.rto_initial_ms),
            Some(smoothed) => {
                let least = match bounds.rto_min_ms {
                    Some(ms) => Duration::from_millis(ms),
                    None => self.smallest + MARGIN + Duration::from_millis(bounds.ack_delay_ms),
                };
                (smoothed + 4 * self.variation).max(least)
            }
        };
        base.saturating_mul(1 << backoff.min(16)).min(Duration::from_millis(bounds.rto_max_ms))
    }

    /// Returns the maximum delay of an acknowledgement that waits for more packets.
    pub fn ack_delay(&self) -> Duration {
        Duration::from_millis(self.bounds.ack_delay_ms)
    }
}
