//! Stages of simulated replicas.

use crate::common::{commands, spec};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{ClientAuthentication, SchemeKind};
use quorate_simulator::costs::{CostSource, CostTable};
use quorate_simulator::probes::COUNTER;
use quorate_simulator::work::Work;
use quorate_simulator::{SimReport, SimSpec, run};
use quorate_types::ReplicaStages;
use quorate_types::stages::{MessageKind, Stage, StageCost, StageCounts};

/// PBFT with MACs, signed requests and authenticated replies, and nonzero costs for everything that a replica does.
fn everything() -> SimSpec {
    let mut costs = CostTable::shipped();
    (costs.core.round_us, costs.core.handle_us, costs.journal.record_us) = (0.4, 0.3, 0.2);
    SimSpec {
        macs: Some(SchemeKind::HMAC_SHA256),
        client_authentication: ClientAuthentication::Ed25519,
        reply_seals: Some(SchemeKind::HMAC_SHA256),
        probes: true,
        costs,
        ..spec(ProtocolKind::PbftMac)
    }
}

fn simulate(spec: &SimSpec) -> SimReport {
    let report = run(spec, 1, &commands);
    assert!(report.violation.is_none(), "{:?}", report.violation);
    report
}

/// Returns the growth of the stages of all replicas over the measured time.
fn stages(report: &SimReport) -> StageCounts {
    let mut sum = StageCounts::default();
    for life in &report.lives {
        let [first, last] = [&life.first, &life.last].map(|status| status.stages.as_ref().expect("probes are on"));
        sum.add(&last.since(first));
    }
    sum
}

fn nanoseconds(costs: &[StageCost], counts: impl Fn(&StageCost) -> bool) -> f64 {
    let own = costs.iter().filter(|cost| counts(cost));
    own.map(|cost| cost.nanoseconds.expect("all turns are timed") * cost.count as f64).sum()
}

#[test]
fn stages_add_up_to_what_is_charged() {
    let threads = [(false, 0), (true, 0), (false, 2), (true, 1)];
    for (network, verifiers) in threads {
        let spec = SimSpec { stages: ReplicaStages { network, verifiers }, ..everything() };
        let report = simulate(&spec);
        let charged = report.charged.as_ref().expect("the run is whole");
        let probes = charged.replicas.probes().expect("probes are on");
        let by_message: u64 =
            MessageKind::ALL.iter().flat_map(|message| Work::ALL.map(|work| probes.charged(*message, work))).sum();
        assert_eq!(by_message, charged.replicas.total(), "{network} {verifiers}");
        let counts = stages(&report);
        assert_eq!((counts.counter.as_str(), counts.turns[0]), (COUNTER, counts.turns[1]));
        let costs = counts.costs();
        let all = nanoseconds(&costs, |_| true);
        let off = (all * 1e3 / charged.replicas.total() as f64 - 1.0).abs();
        assert!(off < 1e-4, "stages differ from charges by {off}");
        for stage in Stage::ALL {
            let own: f64 = Work::ALL.iter().filter(|work| work.stage() == stage).map(|w| charged.replicas.us(*w)).sum();
            let shown = nanoseconds(&costs, |cost| cost.stage == stage) / 1e3;
            assert!((shown - own).abs() <= 1e-3 * own + 0.1, "{}: {shown} us, charged {own} us", stage.name());
            assert!(own > 0.0, "nothing is charged in {}", stage.name());
        }
    }
}

#[test]
fn stages_count_the_messages_that_had_them() {
    let report = simulate(&everything());
    let costs = stages(&report).costs();
    let count = |message: MessageKind, stage: Stage| -> u64 {
        let own = costs.iter().filter(|cost| (cost.message, cost.stage) == (message, stage));
        own.map(|cost| cost.count).sum()
    };
    let (first, last) = (&report.lives[0].first, &report.lives[0].last);
    let blocks = last.committed_blocks - first.committed_blocks;
    let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 50 + 16;
    use MessageKind::{Commit, PrePrepare, Prepare, Request};
    for (message, sent) in [(PrePrepare, 3), (Prepare, 9), (Commit, 12)] {
        for stage in [Stage::Send, Stage::Receive, Stage::Unmarshal] {
            let found = count(message, stage);
            assert!(near(found, sent * blocks), "{message:?} {stage:?}: {found}, {blocks} blocks");
        }
        assert!(near(count(message, Stage::Marshal), sent / 3 * blocks), "{message:?}");
    }
    assert!(near(count(Request, Stage::Execute), count(Request, Stage::Unmarshal)));
    // One MAC per peer, the same for all messages that have MACs. A COMMIT has none.
    let of = |message: MessageKind, stage: Stage| {
        let own = costs.iter().find(|cost| (cost.message, cost.stage) == (message, stage));
        own.and_then(|cost| cost.nanoseconds).expect("it was charged")
    };
    assert!((of(Prepare, Stage::Sign) / of(PrePrepare, Stage::Sign) - 1.0).abs() < 0.05);
}

#[test]
fn probes_change_nothing_and_report_the_tables_cycles() {
    let with = everything();
    let without = SimSpec { probes: false, ..with.clone() };
    let (one, other) = (simulate(&with), simulate(&without));
    assert_eq!(one.trace_hash, other.trace_hash);
    assert!(other.lives.iter().all(|life| life.last.stages.is_none()));
    let slow = stages(&one);
    assert_eq!(slow.counter_hz, 1e9, "a cycle is a nanosecond unless the table says otherwise");
    let mut fast = with;
    fast.costs.counter_hz = Some(2.5e9);
    let fast = stages(&simulate(&fast));
    let ratio = fast.timed_cycles() as f64 / slow.timed_cycles() as f64;
    assert!((ratio - 2.5).abs() < 1e-3, "{ratio}");
    assert!((nanoseconds(&fast.costs(), |_| true) / nanoseconds(&slow.costs(), |_| true) - 1.0).abs() < 1e-3);
}

#[test]
fn a_table_says_how_its_entries_were_measured() {
    let mut table = CostTable::shipped();
    assert_eq!(table.source_of("core.step_us"), None, "older files do not say it");
    table.sources = [
        ("core".to_owned(), CostSource::Alone),
        ("core.step_us".to_owned(), CostSource::Probe),
        ("signatures.ed25519".to_owned(), CostSource::Fitted),
    ]
    .into();
    let read = CostTable::parse(&table.to_toml(), "mine.toml").expect("a sound table");
    assert_eq!(read, table);
    assert_eq!(read.source_of("core.step_us"), Some(CostSource::Probe));
    assert_eq!(read.source_of("core.turn_us"), Some(CostSource::Alone));
    assert_eq!(read.source_of("signatures.ed25519.verify_us[2][1]"), Some(CostSource::Fitted));
    table.sources.insert("core.steps_us".into(), CostSource::Alone);
    let error = CostTable::parse(&table.to_toml(), "mine.toml").expect_err("no such entry").to_string();
    assert!(error.contains("mine.toml: `sources.\"core.steps_us\"`: the table has no such entry"), "{error}");
    let guessed = CostTable::shipped().to_toml() + "\n[sources]\ncore = \"guessed\"\n";
    let error = CostTable::parse(&guessed, "mine.toml").expect_err("an unknown source").to_string();
    assert!(error.contains("guessed") && error.contains("`probe`, `alone`, `fitted`"), "{error}");
    let slow = CostTable { counter_hz: Some(0.0), ..CostTable::shipped() };
    let error = CostTable::parse(&slow.to_toml(), "mine.toml").expect_err("no cycles").to_string();
    assert!(error.contains("`counter_hz`: 0 is out of range"), "{error}");
    assert!(CostTable::free().is_free() && !CostTable::shipped().is_free());
}
