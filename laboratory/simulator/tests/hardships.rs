//! Hardships without misbehaviour: a network slower than the first view timeout, a very slow clock, and replicas that
//! lose their journals at a bad time.

use crate::common::{commands, spec};
use quorate_adversary::byzantine::Fault;
use quorate_adversary::byzantine::behaviours::{Silent, Slow};
use quorate_client::load::LoadMode;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delay, Delivery, End, LinkSpec};
use quorate_simulator::{Leaves, NetworkSpec, SimSpec, run};
use std::time::Duration;

const VIEW_TIMEOUT_MS: u64 = 20;

/// A light load.
fn light(protocol: ProtocolKind, leader: LeaderKind, duration: Duration) -> SimSpec {
    let mut spec = spec(protocol);
    (spec.consensus.leader, spec.consensus.view_timeout_ms) = (leader, VIEW_TIMEOUT_MS);
    spec.load.clients = 1;
    spec.load.mode = LoadMode::Closed { outstanding: 10 };
    (spec.load.warmup, spec.load.duration, spec.load.drain) = (Duration::ZERO, duration, Duration::ZERO);
    spec
}

/// Each message takes four times the first view timeout. Partial synchrony has no known bound, so the timeout must grow
/// until it is long enough.
#[test]
fn the_view_timeout_grows_until_it_fits_a_slow_network() {
    for protocol in ProtocolKind::ALL {
        for leader in protocol.leaders() {
            let mut spec = light(*protocol, *leader, Duration::from_secs(3600));
            spec.network = NetworkSpec::default();
            spec.network.delay = Delay::Constant { mean_ms: (4 * VIEW_TIMEOUT_MS) as f64 };
            spec.network.heal_at_ms = Some(1.0);
            let report = run(&spec, 1, &commands);
            assert_eq!(report.violation, None, "{protocol}, {leader}: {}", report.transcript.join("\n"));
        }
    }
}

/// A replica's clock runs at a hundredth of its rate, and its timeout is needed because another replica is silent. It
/// joins the timeouts of replicas with exact clocks, so no wait exceeds an eighth of its own timeout.
#[test]
fn one_slow_clock_does_not_delay_the_cluster() {
    const SLOWER: u64 = 100;
    for protocol in ProtocolKind::ALL {
        let mut spec = light(*protocol, LeaderKind::Fixed, Duration::from_secs(1));
        let loss_ppm = 1e6 - 1e6 / SLOWER as f64;
        spec.network.faults = vec![
            FaultSpec::misbehave(50.0, 0, Silent),
            FaultSpec::Drift { at_ms: 0.0, for_ms: 20_000.0, replica: 3, ppm: -loss_ppm },
        ];
        let report = run(&spec, 1, &commands);
        assert_eq!(report.violation, None, "{protocol}: {}", report.transcript.join("\n"));
        let load = report.load.expect("the run ended");
        let most = Duration::from_millis(SLOWER * VIEW_TIMEOUT_MS / 8);
        assert!(load.completed > 0 && load.longest_gap < most, "{protocol}: no answer for {:?}", load.longest_gap);
    }
}

/// A leader is slow or silent for 300 ms of every 600 ms. The throughput drops and recovers each time.
#[test]
fn the_throughput_recovers_whenever_a_recurring_fault_stops() {
    const INTERVALS_PER_PHASE: usize = 3;
    for fault in [Fault::from(Slow { percent: 200 }), Silent.into()] {
        let mut spec = light(ProtocolKind::Jolteon, LeaderKind::RoundRobin, Duration::from_millis(1800));
        spec.consensus.view_timeout_ms = 50;
        let (for_ms, every_ms) = (Some(300.0), Some(600.0));
        spec.network.faults = vec![FaultSpec::Misbehave { at_ms: 300.0, for_ms, every_ms, replica: 0, fault }];
        let report = run(&spec, 1, &commands);
        assert_eq!(report.violation, None, "{fault}");
        assert_eq!(report.trace_hash, run(&spec, 1, &commands).trace_hash, "{fault}");
        let load = report.load.expect("the run ended");
        let phases: Vec<u64> =
            load.intervals[..18].chunks(INTERVALS_PER_PHASE).map(|phase| phase.iter().sum()).collect();
        for pair in phases.chunks(2) {
            assert!(pair[0] > 10 * pair[1] && pair[1] > 0, "{fault}: {phases:?}");
        }
    }
}

/// Time of the crash in the first run, number of runs, and increment of the crash time between runs.
const FORGETS_FROM_MS: f64 = 3.0;
const FORGETS_TIMES: u32 = 6;
const FORGETS_STEP_MS: f64 = 0.37;
/// Time until the restart.
const DOWN_MS: f64 = 1.0;
/// Drift of a fast clock, in ppm.
const FAST_PPM: f64 = 400_000.0;
/// One-way delay to the nearby replica, in milliseconds.
const NEAR_MS: f64 = 0.01;

/// f replicas including the leader lose their journals at the same time, and restart before the others time out. The
/// first replica to answer them was partitioned and knows none of their statements. They must not contradict those
/// statements.
fn forgets(protocol: ProtocolKind) {
    for number in 0..FORGETS_TIMES {
        let at_ms = FORGETS_FROM_MS + FORGETS_STEP_MS * f64::from(number);
        for (replicas, forgetful) in [(4, &[0][..]), (7, &[0, 1])] {
            let near = replicas - 1;
            let mut spec = light(protocol, LeaderKind::Fixed, Duration::from_millis(400));
            spec.quorum = quorate_types::Quorum::of(usize::from(replicas)).expect("a sound size");
            spec.load.mode = LoadMode::Open { rate: 20_000.0, max_outstanding: 10_000 };
            spec.consensus.fetch_delay_ms = 0;
            // The others wait for the restart.
            spec.consensus.min_view_timeout_ms = VIEW_TIMEOUT_MS;
            spec.network.transport.kind = Delivery::Datagram;
            let down = |replica: &u16| FaultSpec::Restart {
                at_ms,
                for_ms: DOWN_MS,
                replica: *replica,
                journal: Leaves::Nothing,
            };
            spec.network.faults = forgetful.iter().map(down).collect();
            let others = || (0..near).map(End::Replica);
            if number % 2 == 0 {
                spec.network.faults.push(FaultSpec::Cut {
                    at_ms: 1.0,
                    for_ms: at_ms + DOWN_MS - 1.0,
                    from: vec![End::Replica(near)],
                    to: others().collect(),
                    one_way: false,
                });
            }
            // One clock is fast: its replica's timeout brings the leader back to its view before the others time out.
            spec.network.faults.push(FaultSpec::Drift { at_ms: 0.0, for_ms: 1000.0, replica: 2, ppm: FAST_PPM });
            let close = |(from, to)| LinkSpec { from, to, delay_ms: Some(NEAR_MS), loss: None };
            let near = End::Replica(near);
            spec.network.links =
                others().flat_map(|other| [(near.clone(), other.clone()), (other, near.clone())]).map(close).collect();
            spec.network.heal_at_ms = Some(80.0);
            let report = run(&spec, 1, &commands);
            let case = format!("{protocol}: {forgetful:?} of {replicas} lose their journal at {at_ms} ms");
            assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
            assert_eq!(report.restarts, forgetful.len() as u64, "{case}");
        }
    }
}

macro_rules! for_every_protocol {
    ($($name:ident: $kind:ident,)+) => {
        mod replicas_without_their_journal_contradict_nothing {
            use super::*;
            $(#[test] fn $name() { forgets(ProtocolKind::$kind); })+
        }
    };
}

quorate_consensus::each_protocol!(for_every_protocol);
