//! More than f disks are lost one after the other, while a slow replica lacks bundles of final blocks: execution
//! continues without the bundles. A replica that had executed them stops.

use crate::common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::{Dissemination, LeaderKind, ProtocolKind};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delivery, End};
use quorate_simulator::{Leaves, SimReport, SimSpec, run};
use quorate_types::ReplicaId;
use std::collections::BTreeSet;
use std::time::Duration;

const SEEDS: u64 = 2;
/// Replica that receives no bundles for a while.
const SLOW: u16 = 3;
/// Interval that places the first checkpoint, which would prove the execution before the losses, after them.
const CHECKPOINT_INTERVAL: u64 = 400;

fn cut(replica: u16, at_ms: f64, for_ms: f64) -> FaultSpec {
    let others = (0..4).filter(|other| *other != replica).map(End::Replica);
    let to = others.chain([End::Named("clients".to_owned())]).collect();
    FaultSpec::Cut { at_ms, for_ms, from: vec![End::Replica(replica)], to, one_way: false }
}

fn loses_disk(replica: u16, at_ms: f64) -> FaultSpec {
    FaultSpec::Restart { at_ms, for_ms: 5.0, replica, journal: Leaves::Nothing }
}

/// Cuts off the slow replica for 0.1 s. It requests the missing bundles three seconds later.
fn lossy(protocol: ProtocolKind, seed: u64) -> SimSpec {
    let mut spec = spec(protocol);
    spec.consensus.dissemination = Dissemination::ReplicasCertified;
    spec.consensus.leader = protocol.leaders()[seed as usize % protocol.leaders().len()];
    spec.consensus.view_timeout_ms = 50;
    (spec.consensus.fetch_delay_ms, spec.consensus.fetch_retry_ms) = (200, 25);
    (spec.consensus.checkpoint_interval, spec.consensus.window) = (CHECKPOINT_INTERVAL, 2 * CHECKPOINT_INTERVAL);
    // Messages lost to the cut are not retransmitted.
    spec.network.transport.kind = Delivery::Datagram;
    spec.load.bundle = 1;
    spec.load.mode = LoadMode::Open { rate: 50.0, max_outstanding: 100_000 };
    (spec.load.warmup, spec.load.drain) = (Duration::ZERO, Duration::ZERO);
    spec.load.duration = Duration::from_secs(3600);
    spec.network.faults = vec![cut(SLOW, 100.0 + 13.0 * seed as f64, 100.0)];
    spec.network.heal_at_ms = Some(26_000.0);
    spec
}

fn sound(spec: &SimSpec, seed: u64) -> SimReport {
    let report = run(spec, seed, &commands);
    let (protocol, leader) = (spec.consensus.protocol, spec.consensus.leader);
    assert_eq!(report.violation, None, "{protocol} seed {seed} ({leader})\n{}", report.transcript.join("\n"));
    report
}

/// Returns the replicas that executed a block without a bundle.
fn voiding(report: &SimReport) -> BTreeSet<u16> {
    report.chronicle.voided.iter().map(|(replica, _)| replica.0).collect()
}

#[test]
fn execution_goes_on_without_bundles_that_no_disk_has() {
    for protocol in ProtocolKind::ALL {
        for seed in 0..SEEDS {
            let mut spec = lossy(*protocol, seed);
            let losses = [(0, 500.0), (1, 1_100.0), (2, 1_700.0)];
            spec.network.faults.extend(losses.map(|(replica, at_ms)| loses_disk(replica, at_ms)));
            let report = sound(&spec, seed);
            let case = format!("{protocol} seed {seed}");
            assert_eq!(voiding(&report), BTreeSet::from([0, 1, 2, 3]), "{case}: all execute the blocks without them");
            assert_eq!(report.chronicle.halted, [], "{case}");
            let heights = report.end.iter().flatten().map(|status| status.height.0);
            assert!(heights.min() > Some(CHECKPOINT_INTERVAL), "{case}: a checkpoint compares the states");
        }
    }
}

#[test]
fn a_replica_that_executed_void_bundles_stops() {
    for protocol in ProtocolKind::ALL {
        for seed in 0..SEEDS {
            let mut spec = lossy(*protocol, seed);
            // The others have to continue without it.
            if spec.consensus.stalls_with_silent(spec.quorum, &[ReplicaId(2)]).is_some() {
                spec.consensus.leader = LeaderKind::Fixed;
            }
            let losses = [loses_disk(0, 500.0), loses_disk(1, 1_100.0)];
            spec.network.faults.extend(losses);
            // It has executed the bundles, and neither provides them nor learns that they are void.
            spec.network.faults.push(cut(2, 1_700.0, 16_000.0));
            let report = sound(&spec, seed);
            let case = format!("{protocol} seed {seed}");
            assert_eq!(voiding(&report), BTreeSet::from([0, 1, 3]), "{case}");
            let halted: Vec<ReplicaId> = report.chronicle.halted.iter().map(|(replica, _)| *replica).collect();
            assert_eq!(halted, [ReplicaId(2)], "{case}");
        }
    }
}
