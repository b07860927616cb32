//! A replica that fetches a state is struck down at every point from its first chunk until it votes again: each chunk before it is kept
//! and after, the state before it is taken over and after, and each record and message that follows. Whatever is left of its disk, it
//! comes back to what the others have.

use crate::common::{commands, spec};
use crate::transfers::{AWAY, judged};
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delivery, End};
use quorate_simulator::{Leaves, Point, SimSpec, run};
use std::time::Duration;

/// What is left of its disk; of nothing, it comes back without its memory.
const LEAVES: &[Leaves] = Leaves::ALL;
/// From then until then it is cut off, in milliseconds.
const CUT_MS: (f64, f64) = (10.0, 160.0);
/// How long it is down.
const DOWN_MS: f64 = 6.0;
/// Points after the state is taken over that are struck too: the records of it, and the next statements.
const POINTS_AFTER: Point = 24;

/// A few commands, one after the other; a disk takes a while, and blocks are kept as long as a window.
fn short(protocol: ProtocolKind) -> SimSpec {
    let mut spec = spec(protocol);
    spec.consensus.view_timeout_ms = 20;
    spec.consensus.least_view_timeout_ms = 10;
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

fn sweep(protocol: ProtocolKind) {
    // Whether anybody is struck decides what journals keep, and nothing else.
    let calm = run(&short(protocol), 1, &commands);
    let fetched = judged(&calm, &[AWAY], &format!("{protocol}: nobody is struck"));
    let points = fetched.iter().find_map(|fetched| Some((fetched.points.0, fetched.points.1?)));
    let (begun, adopted) = points.expect("a state was fetched");
    for point in begun + 1..=adopted + POINTS_AFTER {
        for journal in LEAVES {
            let mut spec = short(protocol);
            spec.network.faults.push(FaultSpec::Strike { point, for_ms: DOWN_MS, replica: AWAY, journal: *journal });
            let report = run(&spec, 1, &commands);
            let case = format!("{protocol}: struck at point {point} of {begun} to {adopted}, leaving {journal:?}");
            judged(&report, &[AWAY], &case);
            assert_eq!(report.restarts, 1, "{case}");
        }
    }
}

macro_rules! sweeps {
    ($($name:ident: $protocol:ident,)+) => {
        $(#[test] fn $name() { sweep(ProtocolKind::$protocol); })+
    };
}

quorate_consensus::each_protocol!(sweeps);
