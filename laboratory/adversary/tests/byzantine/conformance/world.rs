//! Four replicas, one of them misbehaving.

use quorate_adversary::byzantine::Fault;
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::Config;
use quorate_consensus::config::{Dissemination, LeaderKind, ProtocolKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delay, End, LinkSpec};
use quorate_simulator::{CostTable, NetworkSpec, SimSpec};
use quorate_types::Quorum;
use std::time::Duration;

/// The leader of the first view, and, under `fixed`, the only leader as long as its views succeed.
pub const LEADER: u16 = 0;
/// Another replica whose votes arrive before a quorum is complete: latencies are equal, so votes arrive in the
/// replicas' order.
pub const OTHER: u16 = 1;
/// Base of view timeouts.
pub const VIEW_TIMEOUT_MS: u64 = 50;
/// One-way latency to a nearby replica in milliseconds; it is 1 between all others.
const NEAR_MS: f64 = 0.2;
/// Duration of the first leader's partition, in milliseconds: three view timeouts.
const CUT_OFF_MS: f64 = 3.0 * VIEW_TIMEOUT_MS as f64;
/// Number of seeds per pair under network faults; `QUORATE_SIM_SEEDS=<count>` runs more.
const SEEDS: u64 = 1;

/// Returns a workload of 64-byte commands.
pub fn commands() -> Box<dyn Workload> {
    workload(&WorkloadKind::Fixed, 64, 1, 1, None).expect("a sound workload")
}

pub fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("QUORATE_SIM_SEEDS").map_or(SEEDS, |count| count.parse().expect("a number"))
}

/// Returns a cluster with a faulty replica, under a light load for 1.5 s.
pub fn spec(protocol: ProtocolKind, leader: LeaderKind, faulty: u16, fault: impl Into<Fault>) -> SimSpec {
    let fault = fault.into();
    let mut network = NetworkSpec { delay: Delay::Constant { mean_ms: 1.0 }, ..NetworkSpec::default() };
    network.faults.push(FaultSpec::misbehave(0.0, faulty, fault));
    SimSpec {
        consensus: Config {
            protocol,
            leader,
            dissemination: fault.facts().dissemination,
            view_timeout_ms: VIEW_TIMEOUT_MS,
            checkpoint_interval: 20,
            window: 80,
            ..Config::default()
        },
        network,
        costs: CostTable::free(),
        load: LoadOptions {
            clients: 2,
            mode: LoadMode::Closed { outstanding: 20 },
            bundle: 5,
            warmup: Duration::ZERO,
            duration: Duration::from_millis(1500),
            ..LoadOptions::default()
        },
        ..SimSpec::default()
    }
}

/// Returns a cluster whose replicas spread bundles.
pub fn spreading(mut spec: SimSpec, dissemination: Dissemination) -> SimSpec {
    assert!(dissemination.is_spread(), "replicas spread bundles");
    spec.consensus.dissemination = dissemination;
    spec
}

/// Returns a cluster of seven replicas with two faulty ones, for half a second.
pub fn two_of_seven(mut spec: SimSpec, other: Fault) -> SimSpec {
    spec.quorum = Quorum::of(7).expect("a sound size");
    spec.network.faults.push(FaultSpec::misbehave(0.0, OTHER, other));
    spec.load.duration = Duration::from_millis(500);
    spec
}

/// Returns a cluster in which the faulty replica is closer to the others than they are to each other, and the first
/// leader is initially partitioned from the other replicas: views time out before any command is ordered.
pub fn nearer(mut spec: SimSpec, faulty: u16) -> SimSpec {
    let others = || (0..spec.quorum.replicas() as u16).filter(move |other| *other != faulty).map(End::Replica);
    let near = |(from, to): (End, End)| LinkSpec { from, to, delay_ms: Some(NEAR_MS), loss: None };
    let links = others().flat_map(|other| [(End::Replica(faulty), other.clone()), (other, End::Replica(faulty))]);
    spec.network.links = links.map(near).collect();
    let cut = if faulty == LEADER { OTHER } else { LEADER };
    spec.network.faults.push(FaultSpec::Cut {
        at_ms: 0.0,
        for_ms: CUT_OFF_MS,
        from: vec![End::Replica(cut)],
        to: (0..spec.quorum.replicas() as u16).filter(|other| *other != cut).map(End::Replica).collect(),
        one_way: false,
    });
    spec
}

/// Returns a cluster with random network faults for one second, after which a core of replicas heals.
pub fn troubled(mut spec: SimSpec) -> SimSpec {
    spec.chaos = Some(Duration::from_secs(1));
    spec.load.duration = Duration::from_secs(3600);
    spec.load.drain = Duration::ZERO;
    spec.load.mode = LoadMode::Open { rate: 1000.0, max_outstanding: 100_000 };
    // A replica that is down for more than a moment has to fetch a state.
    (spec.consensus.retained_blocks, spec.consensus.retained_bytes) = (120, 1 << 20);
    spec
}
