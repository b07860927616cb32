//! Course and result of a search for saturation, as results hold them.

use super::{count, figure, optional};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Course and result of a search.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Search {
    /// The highest rate that passed, in commands per second; `None` if none did.
    pub rate: Option<u64>,
    /// In the order of the runs.
    pub probes: Vec<Probe>,
}

/// One run of a search.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// Offered rate, in commands per second.
    pub rate: u64,
    /// Completed commands per second.
    pub throughput: f64,
    /// 99th percentile of the latency, from the intended send time; `None` if no command was sent.
    pub p99_ms: Option<f64>,
    /// The cluster sustained the rate: see [`MAX_RATE_ERROR`](crate::search::MAX_RATE_ERROR) and the key
    /// `search_p99_ms`.
    pub ok: bool,
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok { "sustained" } else { "too much" };
        let (rate, completed, p99) = (count(self.rate), figure(self.throughput), optional(self.p99_ms));
        write!(f, "{rate} commands/s offered, {completed} completed, p99 {p99} ms: {verdict}")
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Some(rate) => write!(f, "{} commands/s", count(rate)),
            None => write!(f, "none of {} rates was sustained", self.probes.len()),
        }
    }
}
