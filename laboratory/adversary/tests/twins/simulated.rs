//! Tests the simulator's oracles of work and of feature levels: Byzantine replicas under load that reach a replica's
//! limits, and replicas without these limits, which the oracle must detect; levels that begin at a wrong height.
//!
//! The tests are here and not in the simulator's crate because only this crate may inject bugs into replicas.

use quorate_adversary::byzantine::Fault;
use quorate_adversary::byzantine::behaviours::{FloodRelays, HoardCertificates, Overfill, Pester};
use quorate_client::load::{LoadMode, LoadOptions, LoadReport};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::config::{BatchSize, Dissemination, ProtocolKind};
use quorate_consensus::mutants::{Bug, having};
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Protocol, Replica};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::{Alter, CostTable, Leaves, NetworkSpec, Property, SimReport, SimSpec, run, run_altered};
use quorate_types::FeatureLevel;
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_FRAME_BYTES};
use std::time::Duration;

const LEADER: u16 = 0;
const BACKUP: u16 = 3;
const VIEW_TIMEOUT_MS: u64 = 50;
/// Commands per bundle; each has about 800 bytes.
const BUNDLE: usize = 10;
/// Maximum delay of honest clients, as in tests with hostile clients.
const SERVED_WITHIN: Duration = Duration::from_millis(250);

/// Fixed costs, independent of the shipped table, since floods are sized by them.
const COSTS: &str = include_str!("../../../simulator/tests/common/plain_costs.toml");

pub fn commands() -> Box<dyn Workload> {
    workload(&WorkloadKind::Fixed, 64, 1, 1, None).expect("a sound workload")
}

/// Returns a run of 250 ms with four replicas on a local network, with more outstanding commands than one block
/// holds. One replica misbehaves.
pub fn spec(protocol: ProtocolKind, liar: u16, fault: impl Into<Fault>) -> SimSpec {
    let mut network = NetworkSpec::preset("lan").expect("a preset");
    network.faults = vec![FaultSpec::misbehave(0.0, liar, fault)];
    SimSpec {
        consensus: Config {
            protocol,
            view_timeout_ms: VIEW_TIMEOUT_MS,
            batch: (2 * BUNDLE as u32).into(),
            ..Config::default()
        },
        network,
        costs: CostTable::parse(COSTS, "plain_costs.toml").expect("the table is valid"),
        load: LoadOptions {
            clients: 2,
            mode: LoadMode::Closed { outstanding: 100 },
            bundle: BUNDLE,
            warmup: Duration::ZERO,
            duration: Duration::from_millis(250),
            ..LoadOptions::default()
        },
        ..SimSpec::default()
    }
}

/// Injects a bug into all replicas.
pub struct Having(pub Bug);

impl Alter for Having {
    fn alter<P: Protocol>(&self, replica: Replica<P>) -> Replica<P> {
        replica.mutate(self.0)
    }
}

/// Lets all replicas vote for blocks of any size, regardless of the cluster's limits: a bug of our own.
struct BlocksUnbounded;

impl Alter for BlocksUnbounded {
    fn settings(&self, config: Config) -> Config {
        let (batch, batch_bytes) = (BatchSize::Commands(MAX_BLOCK_BUNDLES as u32), MAX_FRAME_BYTES / 2);
        Config { batch, batch_bytes, ..config }
    }
}

/// Expects no violation, and returns the clients' measurements.
fn passes(spec: &SimSpec, case: &str) -> (LoadReport, SimReport) {
    let report = run(spec, 1, &commands);
    assert_eq!(report.violation, None, "{case}: {}", report.transcript.join("\n"));
    let load = report.load.clone().expect("the run was completed");
    assert!(load.completed > 0, "{case}: no command is ordered");
    (load, report)
}

/// Expects a violation of the `work` oracle that contains these words, with a bug.
fn fails(spec: &SimSpec, mutant: impl Alter, words: &str, case: &str) {
    let violation = run_altered(spec, 1, &commands, mutant).violation;
    let violation = violation.unwrap_or_else(|| panic!("{case}: the bug is not detected"));
    assert_eq!(violation.property, Property::Work, "{case}: {}", violation.what);
    assert!(violation.what.contains(words), "{case}: {}", violation.what);
}

/// Returns how often honest replicas dropped a message from the liar for this reason.
fn dropped(report: &SimReport, liar: u16, why: Drop) -> u64 {
    let honest = report.end.iter().flatten().filter(|status| status.replica.0 != liar);
    let name = why.to_string();
    honest.flat_map(|status| &status.dropped).filter(|(why, _)| **why == name).map(|(_, count)| *count).sum()
}

/// A leader proposes more commands, or more bytes, than a block may hold: no replica votes for it, and another one
/// leads.
#[test]
fn no_replica_votes_for_a_block_beyond_the_bounds() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let commands = spec(protocol, LEADER, Overfill { bundles: 4 });
        let mut bytes = commands.clone();
        (bytes.consensus.batch, bytes.consensus.batch_bytes) = (1000.into(), 3000);
        for (bound, spec) in [("commands", &commands), ("bytes", &bytes)] {
            let case = format!("{bound} under {protocol}");
            let (_, report) = passes(spec, &case);
            assert!(dropped(&report, LEADER, Drop::TooLarge) > 0, "{case}: the leader proposes no such block");
            fails(spec, BlocksUnbounded, "votes for a block of", &case);
        }
    }
}

/// A replica lists its bundles twice and keeps the certificates while the others restart one after the other, as for a
/// new release. If voters rely on any certificate, they vote for a block whose bundles no honest replica has.
#[test]
fn certificates_kept_over_a_rolling_restart_prove_nothing() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let mut spec = spec(protocol, LEADER, HoardCertificates);
        spec.consensus.dissemination = Dissemination::ReplicasCertified;
        // The others restart between the two certificates of the first bundles and their proposal.
        for replica in 1..4 {
            let at_ms = VIEW_TIMEOUT_MS as f64 * (2.55 + 0.2 * f64::from(replica));
            spec.network.faults.push(FaultSpec::Restart { at_ms, for_ms: 3.0, replica, journal: Leaves::default() });
        }
        spec.load.duration = Duration::from_secs(6);
        let case = format!("kept certificates under {protocol}");
        passes(&spec, &case);
        let violation = run_altered(&spec, 1, &commands, Having(Bug::AnyCertificate)).violation;
        let violation = violation.unwrap_or_else(|| panic!("{case}: relying on any certificate is not detected"));
        assert_eq!(violation.property, Property::Availability, "{case}: {}", violation.what);
    }
}

/// Only the leader receives bundles from clients. It relays them all to the others, where they get no more than its
/// share of the pool.
#[test]
fn relays_of_one_peer_take_no_more_than_its_share() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let mut bundles = spec(protocol, LEADER, FloodRelays { bundles: 0 });
        bundles.consensus.dissemination = Dissemination::Leader;
        bundles.load.mode = LoadMode::Closed { outstanding: 400 };
        let mut bytes = bundles.clone();
        bundles.consensus.pool_bundles = 64;
        bytes.consensus.pool_bytes = 64 << 10;
        for (bound, spec) in [("bundles", &bundles), ("bytes", &bytes)] {
            let case = format!("{bound} under {protocol}");
            let (_, report) = passes(spec, &case);
            assert!(dropped(&report, LEADER, Drop::PoolFull) > 0, "{case}: the share is never used up");
            fails(spec, Having(Bug::RelaysUnbounded), "relays, whose share is", &case);
        }
    }
}

/// A peer repeats its requests: it gets no answers once its budget is spent.
#[test]
fn questions_of_one_peer_are_answered_within_its_budget() {
    for (protocol, questions, words) in
        [(ProtocolKind::Pbft, 8, "signatures per second"), (ProtocolKind::Jolteon, 200, "bytes per second")]
    {
        let mut spec = spec(protocol, BACKUP, Pester { questions });
        // Answers grow with the chain.
        spec.load.duration = Duration::from_millis(400);
        let (_, report) = passes(&spec, &protocol.to_string());
        let refused = dropped(&report, BACKUP, Drop::Repeated) + dropped(&report, BACKUP, Drop::Overload);
        assert!(refused > 0, "{protocol}: every question is answered");
        fails(&spec, Having(Bug::AnswersUnlimited), words, &protocol.to_string());
    }
}

/// A peer relays bundles that were executed and forgotten: they do not enter a pool, and honest clients are not
/// affected.
#[test]
fn executed_bundles_are_not_relayed_into_pools() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let mut beside = spec(protocol, BACKUP, FloodRelays { bundles: 64 });
        // Pools soon forget executed bundles, so that only sessions remember them.
        (beside.consensus.checkpoint_interval, beside.consensus.window) = (8, 32);
        beside.consensus.retained_blocks = 32;
        let mut alone = beside.clone();
        alone.network.faults.clear();
        let (undisturbed, _) = passes(&alone, &protocol.to_string());
        let (load, _) = passes(&beside, &protocol.to_string());
        let longest = Duration::from_micros(load.latency_us.max());
        assert!(longest < SERVED_WITHIN, "{protocol}: a client waits for {longest:?}");
        assert_eq!(load.unanswered, 0, "{protocol}");
        let completed = (load.completed, undisturbed.completed);
        assert!(
            2 * completed.0 > completed.1,
            "{protocol}: {} commands, and {} without the flood",
            completed.0,
            completed.1
        );
        fails(&beside, Having(Bug::RelaysUnscreened), "accepts executed bundle", &protocol.to_string());
    }
}

/// All replicas begin a level one block early, so they agree with each other, and their applications behave alike at
/// all levels: only the oracle of levels detects it.
#[test]
fn a_block_that_is_executed_at_a_wrong_level_is_detected() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::BasicHotStuff, ProtocolKind::Pbft] {
        let mut spec = spec(protocol, LEADER, Overfill { bundles: 4 });
        spec.network.faults = vec![FaultSpec::Level { at_ms: 100.0, level: 1 }];
        spec.load.duration = Duration::from_millis(600);
        let (_, right) = passes(&spec, &protocol.to_string());
        assert_eq!(right.levels, [FeatureLevel(1); 4], "{protocol}: the level is raised");
        let wrong = {
            let _everywhere = having(Some(Bug::LevelTooEarly));
            run(&spec, 1, &commands)
        };
        let violation = wrong.violation.unwrap_or_else(|| panic!("{protocol}: the bug is not detected"));
        assert_eq!(violation.property, Property::Level, "{protocol}: {}", violation.what);
        assert!(violation.what.contains("at feature level 1, where it is 0"), "{protocol}: {}", violation.what);
    }
}

/// The oracles' limits are not derived from the list of bugs, so check that each of these bugs is tested.
#[test]
fn every_bug_that_shows_under_load_is_in_these_tests() {
    let source = include_str!("simulated.rs");
    for mutant in Bug::UNDER_LOAD {
        assert!(source.contains(&format!("Bug::{mutant:?}")), "no test has {mutant:?}");
        assert!(!Bug::SHOWN.contains(&mutant), "{mutant:?} has an exhibit");
    }
}
