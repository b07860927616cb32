//! Marks are purely informative: a run in which the hosts receive none is otherwise the same.

use crate::common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{Leaves, SimReport, SimSpec, run, run_without_marks};
use std::time::Duration;

/// The pools are too small for the load, and three replicas restart one after the other, two of them without their
/// journal.
fn hard(protocol: ProtocolKind) -> SimSpec {
    let mut spec = spec(protocol);
    spec.consensus.pool_bundles = 8;
    spec.consensus.view_timeout_ms = 20;
    spec.load.mode = LoadMode::Open { rate: 20_000.0, max_outstanding: 2_000 };
    (spec.load.warmup, spec.load.drain) = (Duration::ZERO, Duration::from_secs(1));
    let down = |replica, at_ms, journal| FaultSpec::Restart { at_ms, for_ms: 30.0, replica, journal };
    spec.network.faults =
        vec![down(1, 50.0, Leaves::Nothing), down(2, 150.0, Leaves::Flushed), down(3, 250.0, Leaves::Nothing)];
    spec
}

/// Returns everything in the report that marks must not change.
fn outcome(report: &SimReport) -> (&str, u64, u64, &[u64], String) {
    let ends = format!("{:?} {:?} {:?}", report.violation, report.load, report.end);
    (&report.trace_hash, report.events, report.delivered, &report.points, ends)
}

#[test]
fn marks_change_no_decision_and_no_answer() {
    for protocol in ProtocolKind::ALL {
        let spec = hard(*protocol);
        let marked = run(&spec, 1, &commands);
        assert_eq!(marked.violation, None, "{protocol}: {}", marked.transcript.join("\n"));
        assert_eq!(marked.restarts, 3, "{protocol}");
        let load = marked.load.as_ref().expect("the load is over");
        assert!(load.completed > 0 && load.bundles.refusals > 0, "{protocol}: {:?}", load.bundles);
        assert_eq!(outcome(&run_without_marks(&spec, 1, &commands)), outcome(&marked), "{protocol}");
    }
}
