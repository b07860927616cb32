//! Trouble drawn from a seed, then peace: nobody disagrees, and a healed core makes progress.

mod common;

use common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::run;
use std::time::Duration;

/// Seeds of each protocol; `QUORATE_SIM_SEEDS=<count>` runs more.
const SEEDS: u64 = 6;

#[test]
fn every_protocol_outlives_trouble() {
    let seeds = std::env::var("QUORATE_SIM_SEEDS").map_or(SEEDS, |count| count.parse().expect("a number"));
    for protocol in ProtocolKind::ALL {
        for seed in 0..seeds {
            let mut spec = spec(*protocol);
            spec.consensus.view_timeout_ms = 100;
            spec.consensus.leader = protocol.leaders()[seed as usize % protocol.leaders().len()];
            spec.chaos = Some(Duration::from_secs(2));
            spec.load.duration = Duration::from_secs(3600);
            spec.load.drain = Duration::ZERO;
            spec.load.mode = LoadMode::Open { rate: 2000.0, most_outstanding: 100_000 };
            // There is no transfer of state yet: who lags behind needs every block.
            spec.consensus.retained_blocks = 1 << 20;
            spec.consensus.retained_bytes = 1 << 30;
            let report = run(&spec, seed, &commands);
            let said = report.transcript.join("\n");
            assert_eq!(report.complaint, None, "{protocol} seed {seed} ({:?})\n{said}", spec.consensus.leader);
            assert!(report.virtual_time >= Duration::from_secs(2));
        }
    }
}

/// A liveness oracle is worth something only if it speaks: with two of four replicas silent nothing can be ordered.
#[test]
fn a_core_without_a_quorum_is_found_out() {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.consensus.view_timeout_ms = 100;
    spec.silent = vec![quorate_types::ReplicaId(1), quorate_types::ReplicaId(2)];
    spec.chaos = Some(Duration::from_millis(200));
    spec.load.duration = Duration::from_secs(3600);
    let report = run(&spec, 1, &commands);
    assert_eq!(report.complaint.map(|complaint| complaint.oracle), Some("liveness"));
    assert!(!report.transcript.is_empty(), "a failing seed has a transcript");
}
