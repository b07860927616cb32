//! Measurements of `bench --stages`.

use crate::common::Quiet;
use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{
    AuthProfile, BenchSpec, ClientAuthentication, Dissemination, Interval, ProtocolKind, ReplyAuthentication,
};
use quorate_lab::{BenchResult, bench, fidelity};
use quorate_operator::report::Report;
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole, TURNS_PER_SAMPLE};
use std::collections::BTreeSet;

/// PBFT without batches, with MACs and clients' signatures: every kind of work that a message can need.
fn spec() -> BenchSpec {
    {
        let mut spec = BenchSpec {
            bundle: 1,
            payload: 512,
            clients: 1,
            outstanding: Some(8),
            warmup: Interval::from_millis(100),
            duration: Interval::from_millis(1500),
            ..BenchSpec::default()
        };
        spec.node.consensus.protocol = ProtocolKind::PbftMac;
        spec.node.auth_profile = AuthProfile::Domain;
        spec.node.client_authentication = ClientAuthentication::Ed25519;
        spec.node.reply_authentication = ReplyAuthentication::Mac;
        spec.node.consensus.dissemination = Dissemination::Leader;
        spec.node.consensus.batch = 1.into();
        spec.node.stages = true;
        spec
    }
}

fn run(spec: &BenchSpec) -> BenchResult {
    bench::run(spec, &mut Quiet).unwrap_or_else(|error| panic!("{error}"))
}

fn count(result: &BenchResult, role: StageRole, message: MessageKind, stage: Stage) -> u64 {
    let own = result.stages.iter().find(|cost| (cost.role, cost.message, cost.stage) == (role, message, stage));
    own.map_or(0, |own| own.count)
}

/// Allowed error, in standard deviations, of an estimate from timed iterations. A loaded machine times about a hundred.
const DEVIATIONS: f64 = 4.0;

/// Returns the largest relative error of an estimate from `samples` iterations whose work has a standard deviation of
/// its mean.
fn sampling_error(samples: u64) -> f64 {
    DEVIATIONS / (samples.max(1) as f64).sqrt()
}

/// Asserts that two counts of one run agree. The replicas' statuses are read one after the other, so small differences
/// are allowed.
fn assert_near(found: u64, expected: u64, what: &str) {
    assert_within(found, expected, 0.1, what);
}

/// Asserts that a count estimated from the timed iterations agrees with an exact one.
fn assert_estimated(found: u64, expected: u64, what: &str) {
    assert_within(found, expected, sampling_error(expected / TURNS_PER_SAMPLE), what);
}

fn assert_within(found: u64, expected: u64, part: f64, what: &str) {
    let (low, high) = (expected as f64 * (1.0 - part) - 16.0, expected as f64 * (1.0 + part) + 16.0);
    assert!((low..=high).contains(&(found as f64)), "{what}: {found}, expected {expected}");
}

#[test]
fn counts_agree_with_the_messages_of_the_protocol() {
    // One request at a time: a leader on a loaded machine executes several waiting requests in one iteration, and an
    // estimate from few such iterations is less accurate than one from as many separate events.
    let result = run(&BenchSpec { outstanding: Some(1), duration: Interval::from_millis(4000), ..spec() });
    let blocks = result.committed_blocks;
    assert!(blocks > 100, "{}", result.to_table());
    let of = |role, message, stage| count(&result, role, message, stage);
    use MessageKind::{Commit, PrePrepare, Prepare, Reply, Request};
    use StageRole::{Backup, Leader};
    assert_estimated(of(Leader, PrePrepare, Stage::Marshal), blocks, "proposals made");
    assert_near(of(Leader, PrePrepare, Stage::Send), 3 * blocks, "proposals sent");
    assert_near(of(Backup, PrePrepare, Stage::Receive), 3 * blocks, "proposals received");
    assert_near(of(Leader, Prepare, Stage::Receive), 3 * blocks, "PREPAREs at the leader");
    assert_near(of(Backup, Prepare, Stage::Receive), 6 * blocks, "PREPAREs of backups at other backups");
    assert_near(of(Leader, Commit, Stage::Receive), 3 * blocks, "COMMITs at the leader");
    assert_near(of(Leader, Commit, Stage::Send), 3 * blocks, "COMMITs of the leader");
    assert_estimated(of(Leader, Request, Stage::Execute), blocks, "requests executed by the leader");
    assert_estimated(of(Backup, Request, Stage::Execute), 3 * blocks, "requests executed by backups");
    assert_estimated(of(Leader, Reply, Stage::Marshal), blocks, "replies of the leader");
    assert_estimated(of(Leader, Reply, Stage::Sign), blocks, "MACs on the replies of the leader");
    assert_eq!(of(Leader, MessageKind::Unread, Stage::Unmarshal), 0, "all frames were valid");
    let to_replicas = |cost: &&StageCost| cost.stage == Stage::Send && cost.message != Reply;
    let sent: u64 = result.stages.iter().filter(to_replicas).map(|cost| cost.count).sum();
    let messages = result.messages_per_block.expect("blocks were committed") * blocks as f64;
    assert_within(sent + 4 * blocks, messages as u64, 0.1, "frames sent by replicas, a reply by each included");
}

#[test]
fn exclusive_times_are_the_processor_time_of_the_threads() {
    let result = run(&spec());
    let clock = result.stage_clock.as_ref().expect("stages were measured");
    assert!(clock.timed_turns > 30 && clock.timed_turns <= clock.turns / TURNS_PER_SAMPLE + 4, "{clock:?}");
    let ratio = clock.cpu_by_stages.expect("turns were timed");
    assert!((0.94..1.2).contains(&ratio), "stages do not add up to the processor time: {ratio}");
    let ns: f64 = result.stages.iter().filter_map(|cost| Some(cost.nanoseconds? * cost.count as f64)).sum();
    let per_command = ns / 1e3 / result.executed_commands as f64;
    let cpu = result.cpu_us_per_command.replicas.expect("commands were executed");
    let error = sampling_error(clock.timed_turns);
    let (low, high) = (cpu * (0.5 - error), cpu * (1.15 + error));
    assert!((low..high).contains(&per_command), "stages {per_command} us, replicas {cpu} us: {clock:?}");
    for cost in result.stages.iter().filter(|cost| cost.count > 1000) {
        assert!(cost.cycles.is_some_and(|cycles| cycles >= 0.0), "{cost:?}");
    }
    // A request has a signature and a hash of half a kilobyte, neither of which is free.
    let of = |stage| {
        let place = (StageRole::Leader, MessageKind::Request, stage);
        let own = |cost: &&StageCost| (cost.role, cost.message, cost.stage) == place;
        result.stages.iter().find(own).and_then(|cost| cost.nanoseconds).expect("it was timed")
    };
    assert!(of(Stage::Authenticate) > 10_000.0, "a signature takes longer than {} ns", of(Stage::Authenticate));
    assert!(of(Stage::Hash) > 200.0, "a hash takes longer than {} ns", of(Stage::Hash));
}

/// Threads that verify signatures count towards the stages of their replica.
#[test]
fn verifying_threads_count_too() {
    let result = run(&{
        let mut spec = spec();
        spec.node.replica_threads = quorate_types::ReplicaThreads::Count(2);
        spec
    });
    let verified = count(&result, StageRole::Leader, MessageKind::Request, Stage::Authenticate);
    assert!(verified >= result.committed_blocks, "{verified} of {}", result.committed_blocks);
}

#[test]
fn replicas_with_and_without_probes_agree_and_only_one_reports() {
    let with = run(&{
        let mut spec = spec();
        spec.node.consensus.protocol = ProtocolKind::Jolteon;
        spec.node.auth_profile = AuthProfile::Pk;
        spec
    });
    let without = run(&{
        let mut spec = with.spec.clone();
        spec.node.stages = false;
        spec
    });
    for result in [&with, &without] {
        assert_eq!(result.agreement, quorate_lab::result::Agreement::Agreed, "{}", result.to_table());
        assert_eq!(result.failure(), None);
    }
    let json: serde_json::Value = serde_json::from_str(&with.to_json()).expect("JSON");
    let rows = json["stages"].as_array().expect("a list");
    for row in rows {
        let keys: BTreeSet<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["message", "stage", "role", "cycles", "nanoseconds", "count"].into());
    }
    let roles = |role: &str| rows.iter().filter(|row| row["role"] == role && row["message"] == "proposal").count();
    assert!(roles("leader") > 0 && roles("backup") > 0, "{rows:?}");
    assert!(with.to_table().contains("stages at the leader: cycles per message"), "{}", with.to_table());
    assert!(json["stage_clock"]["counter_hz"].as_f64() > Some(0.0));
}

#[test]
fn a_simulation_has_the_stages_of_a_run() {
    let spec = BenchSpec { duration: Interval::from_millis(300), ..spec() };
    let result = sim::run(&spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let bench = &result.bench;
    let clock = bench.stage_clock.as_ref().expect("stages were charged");
    assert_eq!((clock.counter.as_str(), clock.disturbed_turns, clock.timed_turns), ("charges", 0, clock.turns));
    assert!(clock.cpu_by_stages.is_some_and(|ratio| (ratio - 1.0).abs() < 0.01), "{clock:?}");
    let ns: f64 = bench.stages.iter().map(|cost| cost.nanoseconds.expect("charged") * cost.count as f64).sum();
    let charged: f64 = result.charged.as_ref().expect("the run is whole").replicas.total() as f64 / 1e3;
    assert!((ns / charged - 1.0).abs() < 1e-3, "stages {ns} ns, charged {charged} ns");
    let (blocks, of) = (bench.committed_blocks, |role, message, stage| count(bench, role, message, stage));
    assert_near(of(StageRole::Leader, MessageKind::PrePrepare, Stage::Send), 3 * blocks, "proposals sent");
    assert_near(of(StageRole::Backup, MessageKind::Prepare, Stage::Receive), 6 * blocks, "PREPAREs between backups");
    let json: serde_json::Value = serde_json::from_str(&result.to_json()).expect("JSON");
    let keys: BTreeSet<&str> = json["stages"][0].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["message", "stage", "role", "cycles", "nanoseconds", "count"].into());
    assert!(result.to_table().contains("stages at the leader: cycles per message"), "{}", result.to_table());
    assert!(quorate_lab::report::render_html(bench).contains("Cost of a message by stage"), "the report draws them");
}

/// The largest difference between two tables of stages comes first, in percent of the measured time.
#[test]
fn differences_of_a_simulated_and_a_real_run_are_sorted() {
    let cost = |message, stage, nanoseconds: f64| StageCost {
        message,
        stage,
        role: StageRole::Leader,
        cycles: None,
        nanoseconds: Some(nanoseconds),
        count: 10,
    };
    let spec = BenchSpec { duration: Interval::from_millis(100), ..spec() };
    let whole = sim::run(&spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}")).bench;
    let (request, hash) = (MessageKind::Request, Stage::Hash);
    let measured = vec![cost(request, hash, 600.0), cost(MessageKind::Commit, Stage::Step, 400.0)];
    let simulated = vec![cost(request, hash, 650.0), cost(MessageKind::Reply, Stage::Sign, 200.0)];
    let [measured, simulated] =
        [measured, simulated].map(|stages| BenchResult { stages, executed_commands: 10, ..whole.clone() });
    let gaps = fidelity::gaps(&measured, &simulated);
    let percents: Vec<i64> = gaps.iter().map(|gap| gap.percent().round() as i64).collect();
    assert_eq!(percents, [-40, 20, 5]);
    assert_eq!((gaps[0].message, gaps[0].stage, gaps[0].measured_us), (MessageKind::Commit, Stage::Step, 0.4));
    assert!(fidelity::gaps(&measured, &measured).iter().all(|gap| gap.percent() == 0.0));
}

#[test]
fn a_simulation_without_costs_has_no_stages() {
    let options = SimOptions { costs: Some("none".into()), ..SimOptions::default() };
    let error = sim::run(&spec(), &options, &|_| {}).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(
        error,
        "--stages, --costs: work takes no time, so its stages have no costs; help: omit --costs none, or --stages"
    );
}

/// Node, simulator and documents share one list of messages and stages.
#[test]
fn the_page_of_results_has_all_messages_and_stages() {
    let page = include_str!("../../../docs/RESULTS.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Stages\n")).expect("there is a section");
    for stage in Stage::ALL {
        assert!(section.contains(&format!("\n| `{}` | ", stage.name())), "the table lacks {}", stage.name());
    }
    for message in MessageKind::ALL {
        assert!(section.contains(&format!("`{}`", message.name())), "the page lacks {}", message.name());
    }
    let named = |name: &str| serde_json::from_value::<Stage>(name.into()).map(Stage::name).ok();
    assert!(Stage::ALL.iter().all(|stage| named(stage.name()) == Some(stage.name())), "JSON has the same names");
}
