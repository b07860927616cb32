//! Wrong wall clocks, and leaders that lie about the time.

use crate::common::{commands, spec};
use quorate_adversary::byzantine::behaviours::Misdate;
use quorate_client::load::LoadMode;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{Leaves, SimSpec, run};
use quorate_types::ReplicaId;
use std::time::Duration;

const VIEW_TIMEOUT_MS: u64 = 20;
/// The largest difference that replicas accept at once.
const SKEW_MS: u64 = 50;
const SEEDS: u64 = 3;

fn light(protocol: ProtocolKind, leader: LeaderKind) -> SimSpec {
    let mut spec = spec(protocol);
    (spec.consensus.leader, spec.consensus.view_timeout_ms) = (leader, VIEW_TIMEOUT_MS);
    spec.consensus.max_clock_skew_ms = SKEW_MS;
    spec.load.clients = 1;
    spec.load.mode = LoadMode::Closed { outstanding: 10 };
    (spec.load.warmup, spec.load.duration) = (Duration::ZERO, Duration::from_millis(800));
    spec
}

/// Runs it under each protocol with each leader election, and expects that commands are executed to the end. Elections
/// under which nothing is committed without the replica whose blocks are refused are left out.
fn all_go_on(case: &str, refused: u16, seeds: u64, set: impl Fn(&mut SimSpec)) {
    for protocol in ProtocolKind::ALL {
        for leader in protocol.leaders() {
            for seed in 0..seeds {
                let mut spec = light(*protocol, *leader);
                if spec.consensus.stalls_with_silent(spec.quorum, &[ReplicaId(refused)]).is_some() {
                    continue;
                }
                set(&mut spec);
                let report = run(&spec, seed, &commands);
                let case = format!("{case}: {protocol}, {leader}, seed {seed}");
                assert_eq!(report.violation, None, "{case}\n{}", report.transcript.join("\n"));
                let load = report.load.expect("the run ended");
                assert!(load.completed > 0, "{case}");
                let last = load.intervals.iter().rposition(|completed| *completed > 0);
                assert!(last.is_some_and(|last| last + 3 > load.intervals.len() / 2), "{case}: {:?}", load.intervals);
            }
        }
    }
}

fn skew(replica: u16, skew_ms: f64) -> FaultSpec {
    FaultSpec::Skew { at_ms: 0.0, for_ms: 10_000.0, replica, skew_ms }
}

/// The first leader's clock is wrong, or another replica's, within the tolerance, beyond it or by an hour.
#[test]
fn one_wrong_clock_does_not_stop_the_cluster() {
    for skew_ms in [SKEW_MS as f64 / 2.0, -200.0, 3_600_000.0, -3_600_000.0] {
        for replica in [0, 2] {
            all_go_on(&format!("replica {replica} is {skew_ms} ms ahead"), replica, 1, |spec| {
                spec.network.faults = vec![skew(replica, skew_ms)];
            });
        }
    }
}

/// A clock is set while its replica leads, and set back.
#[test]
fn a_clock_that_jumps_is_survived() {
    all_go_on("a clock jumps", 0, SEEDS, |spec| {
        let jump = |at_ms, skew_ms| FaultSpec::Skew { at_ms, for_ms: 60.0, replica: 0, skew_ms };
        spec.network.faults = vec![jump(100.0, 5000.0), jump(300.0, -5000.0)];
    });
}

/// The oracles see every time that commands are executed at, also after a restart and a state transfer.
#[test]
fn leaders_that_lie_about_the_time_do_not_set_it() {
    for by_ms in [SKEW_MS - 10, 2 * SKEW_MS, 3_600_000] {
        all_go_on(&format!("misdate={by_ms}"), 0, SEEDS, |spec| {
            let journal = Leaves::Flushed;
            let restart = FaultSpec::Restart { at_ms: 150.0, for_ms: 150.0, replica: 2, journal };
            spec.network.faults = vec![FaultSpec::misbehave(0.0, 0, Misdate { by_ms }), restart];
            (spec.consensus.checkpoint_interval, spec.consensus.window) = (10, 40);
            (spec.consensus.retained_blocks, spec.consensus.retained_bytes) = (60, 1 << 16);
        });
    }
}

/// Clocks influence the outcome of a run, and equal ones give equal runs.
#[test]
fn runs_with_wrong_clocks_repeat() {
    let mut spec = light(ProtocolKind::Jolteon, LeaderKind::RoundRobin);
    let drift = FaultSpec::Drift { at_ms: 50.0, for_ms: 500.0, replica: 1, ppm: 300_000.0 };
    spec.network.faults = vec![skew(3, 170.0), drift];
    let first = run(&spec, 1, &commands);
    assert_eq!(first.violation, None);
    assert_eq!(first.trace_hash, run(&spec, 1, &commands).trace_hash);
    spec.network.faults.clear();
    assert_ne!(first.trace_hash, run(&spec, 1, &commands).trace_hash);
}
