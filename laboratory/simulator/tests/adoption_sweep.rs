//! A replica that fetches a state crashes at every point from its first chunk until it votes again: before and after
//! each chunk is stored and the state is adopted, and at each subsequent record and message. It catches up with the
//! others, regardless of how much of its disk survives the crash.

use crate::common::{commands, spec};
use crate::transfers::{AWAY, judged};
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delivery, End};
use quorate_simulator::{Leaves, Point, SimSpec, run};
use std::ops::Range;
use std::time::Duration;

/// Start and end of the cut that makes the replica fall behind, in milliseconds.
const CUT_MS: (f64, f64) = (10.0, 160.0);
/// Time until the restart, in milliseconds.
const DOWN_MS: f64 = 6.0;
/// Tested points after the adoption: its records, and the next statements.
const POINTS_AFTER: Point = 24;

/// Seeds of the runs. PBFT has more of them: its cluster is idle at the end, and a replica that has just restarted then
/// learns of the last slots only from answers to its own requests.
fn seeds(protocol: ProtocolKind) -> Range<u64> {
    1..if protocol.has_slots() { 6 } else { 2 }
}

/// A light load, a slow disk, and blocks retained for one window.
fn short(protocol: ProtocolKind) -> SimSpec {
    let mut spec = spec(protocol);
    spec.consensus.view_timeout_ms = 20;
    spec.consensus.min_view_timeout_ms = 10;
    spec.consensus.fetch_delay_ms = 1;
    spec.consensus.fetch_retry_ms = 2;
    spec.consensus.checkpoint_interval = 4;
    spec.consensus.window = 8;
    spec.consensus.retained_blocks = 8;
    spec.consensus.retained_bytes = 64 << 10;
    spec.costs.journal.flush_us = 300.0;
    spec.network.transport.kind = Delivery::Datagram;
    let to = (0..AWAY).map(End::Replica).collect();
    let from = vec![End::Replica(AWAY)];
    spec.network.faults =
        vec![FaultSpec::Cut { at_ms: CUT_MS.0, for_ms: CUT_MS.1 - CUT_MS.0, from, to, one_way: false }];
    spec.load = LoadOptions {
        clients: 2,
        mode: LoadMode::Closed { outstanding: 8 },
        bundle: 1,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(200),
        drain: Duration::from_secs(20),
        ..LoadOptions::default()
    };
    spec
}

fn sweep(protocol: ProtocolKind, seed: u64) {
    // A strike has no effect before its point, except that journals are kept.
    let calm = run(&short(protocol), seed, &commands);
    let fetched = judged(&calm, &[AWAY], &format!("{protocol}, seed {seed}: no crash"));
    let points = fetched.iter().find_map(|fetched| Some((fetched.points.0, fetched.points.1?)));
    let (begun, adopted) = points.expect("a state was fetched");
    for point in begun + 1..=adopted + POINTS_AFTER {
        for journal in &Leaves::CRASHES {
            let mut spec = short(protocol);
            spec.network.faults.push(FaultSpec::Strike { point, for_ms: DOWN_MS, replica: AWAY, journal: *journal });
            let report = run(&spec, seed, &commands);
            let case = format!("{protocol}, seed {seed}: crash at point {point} of {begun} to {adopted}, {journal:?}");
            judged(&report, &[AWAY], &case);
            assert_eq!(report.restarts, 1, "{case}");
        }
    }
}

macro_rules! sweeps {
    ($($name:ident: $protocol:ident,)+) => {
        $(#[test] fn $name() { seeds(ProtocolKind::$protocol).for_each(|seed| sweep(ProtocolKind::$protocol, seed)); })+
    };
}

quorate_consensus::each_protocol!(sweeps);
