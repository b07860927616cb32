//! Times of clients' bundles at recorded replicas, as `quorate replay --requests` reports them.

use crate::result::count;
use quorate_hosting::recording::{Request, Requests};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

/// Times of the bundles in a recording, at the recorded replicas.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RequestTimes {
    /// Bundles that arrived and committed; each counts once per recorded replica.
    pub bundles: usize,
    /// Commands in these bundles.
    pub commands: usize,
    /// Bundles that arrived, but did not commit before the end of the replay.
    pub open: usize,
    /// Bundles that arrived at a replica before it proposed them itself; only these have the first two parts of the
    /// time.
    pub proposed: usize,
    /// From arrival to the proposal of the block with the bundle.
    pub until_proposal: Option<Quantiles>,
    /// From this proposal to the block's commit.
    pub until_commit: Option<Quantiles>,
    /// From arrival to commit.
    pub together: Option<Quantiles>,
    /// Longest time between the starts of two consecutive iterations between arrival and commit.
    pub longest_pause: Option<Quantiles>,
    /// Slowest bundles, one per block, in descending order.
    pub slowest: Vec<SlowRequest>,
}

/// Quantiles of a time over all bundles, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Quantiles {
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// Slowest bundle of a block.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SlowRequest {
    pub replica: u16,
    /// First bytes of the bundle's digest, as in transcripts.
    pub bundle: String,
    pub commands: usize,
    pub view: u64,
    pub height: u64,
    /// Arrival, in milliseconds since the replica's start.
    pub received_ms: f64,
    /// From arrival to the proposal, if this replica made it.
    pub until_proposal_ms: Option<f64>,
    /// From arrival to commit.
    pub latency_ms: f64,
    pub longest_pause_ms: f64,
}

impl RequestTimes {
    /// Summarizes the times of a replay, with the `slowest` bundles in full.
    pub fn of(requests: &Requests, slowest: usize) -> RequestTimes {
        let all = requests.committed();
        let proposed: Vec<(&Request, Duration)> =
            all.iter().filter_map(|request| Some((request, request.proposed?.since(request.received)))).collect();
        let mut order: Vec<&Request> = all.iter().collect();
        order.sort_by_key(|request| std::cmp::Reverse(request.latency()));
        let mut blocks = HashSet::new();
        order.retain(|request| blocks.insert((request.replica, request.block)));
        RequestTimes {
            bundles: all.len(),
            commands: all.iter().map(|request| request.commands).sum(),
            open: requests.open(),
            proposed: proposed.len(),
            until_proposal: Quantiles::of(proposed.iter().map(|(_, wait)| *wait)),
            until_commit: Quantiles::of(proposed.iter().map(|(request, wait)| request.latency() - *wait)),
            together: Quantiles::of(all.iter().map(Request::latency)),
            longest_pause: Quantiles::of(all.iter().map(|request| request.longest_pause)),
            slowest: order.into_iter().take(slowest).map(SlowRequest::of).collect(),
        }
    }

    pub(crate) fn write(&self, text: &mut String) -> std::fmt::Result {
        let [bundles, commands, open, proposed] =
            [self.bundles, self.commands, self.open, self.proposed].map(|number| count(number as u64));
        writeln!(text, "requests    {bundles} bundles with {commands} commands committed, {open} open at the end")?;
        writeln!(text, "            {proposed} of them in blocks that the replica proposed itself")?;
        let rows = [
            ("arrival to proposal", self.until_proposal),
            ("proposal to commit", self.until_commit),
            ("arrival to commit", self.together),
            ("longest pause within", self.longest_pause),
        ];
        writeln!(text, "            {:<22}{:>9}{:>9}{:>9}{:>10}", "", "p50", "p90", "p99", "max ms")?;
        for (name, quantiles) in rows {
            let Some(Quantiles { p50_ms, p90_ms, p99_ms, max_ms }) = quantiles else { continue };
            writeln!(text, "            {name:<22}{p50_ms:>9.2}{p90_ms:>9.2}{p99_ms:>9.2}{max_ms:>10.2}")?;
        }
        for (position, request) in self.slowest.iter().enumerate() {
            let head = if position == 0 { "slowest     " } else { "            " };
            let SlowRequest { replica, bundle, commands, view, height, received_ms, latency_ms, .. } = request;
            write!(text, "{head}{bundle} at R{replica}, {commands} commands: arrived at {received_ms:.2} ms, ")?;
            if let Some(wait) = request.until_proposal_ms {
                write!(text, "proposed after {wait:.2}, ")?;
            }
            let pause = request.longest_pause_ms;
            writeln!(text, "committed after {latency_ms:.2} in v{view} h{height}; longest pause {pause:.2}")?;
        }
        Ok(())
    }
}

impl Quantiles {
    /// Returns nearest-rank quantiles; `None` without values.
    fn of(times: impl Iterator<Item = Duration>) -> Option<Quantiles> {
        let mut times: Vec<Duration> = times.collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |quantile: f64| milliseconds(times[(last as f64 * quantile).round() as usize]);
        Some(Quantiles { p50_ms: at(0.5), p90_ms: at(0.9), p99_ms: at(0.99), max_ms: at(1.0) })
    }
}

impl SlowRequest {
    fn of(request: &Request) -> SlowRequest {
        SlowRequest {
            replica: request.replica.0,
            bundle: format!("{:?}", request.bundle),
            commands: request.commands,
            view: request.block.0.0,
            height: request.block.1.0,
            received_ms: request.received.0 as f64 / 1e6,
            until_proposal_ms: request.proposed.map(|proposed| milliseconds(proposed.since(request.received))),
            latency_ms: milliseconds(request.latency()),
            longest_pause_ms: milliseconds(request.longest_pause),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
