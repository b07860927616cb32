//! Course and result of a search for saturation, as part of a result.

use crate::record::{describe, record};
use serde::{Deserialize, Serialize};
use std::fmt;

record! {
    /// Course and result of a search.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct Search {
        /// The highest rate that passed; null if none did.
        pub rate: Option<u64> ["commands/s"],
        /// The runs in their order.
        pub probes: Vec<Probe>,
    }
}

record! {
    /// One run of a search.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct Probe {
        /// Offered rate.
        pub rate: u64 ["commands/s"],
        /// Completed commands per second.
        pub throughput: f64 ["commands/s"],
        /// 99th percentile of the latency, from the intended send time; null if no command was sent.
        pub p99_ms: Option<f64> ["ms"],
        /// Whether the cluster sustained the rate: it completed within 5 % of the rate, with a `p99_ms` of at most
        /// `search_p99_ms`.
        pub ok: bool,
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok { "sustained" } else { "too much" };
        write!(f, "{}: {verdict}", describe(self, "{rate} offered, {throughput:} completed, p99 {p99_ms}"))
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Some(_) => f.write_str(&describe(self, "{rate}")),
            None => write!(f, "none of {} rates was sustained", self.probes.len()),
        }
    }
}
