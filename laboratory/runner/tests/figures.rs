//! Figures of rows, from typed results and from their JSON.

use crate::common::row;
use clap::{Args, Command, FromArgMatches};
use quorate_lab::BenchResult;
use quorate_lab::experiments::{Outliers, Row};
use quorate_lab::figures::{Outcome, Run};
use quorate_lab::model::{ModelOptions, Protocol};
use quorate_lab::plan::{CpuOptions, FpgaAnswer, FpgaOptions, Plan};
use quorate_lab::result::{
    Agreement, CpuPerCommand, Difference, Latency, LineFigures, PacketFigures, RequestFigures, Sample, Second,
    StageThreads, ThreadLoads,
};
use quorate_lab::sim::{self, SimOptions, SimResult};
use quorate_lab::spec::{BenchSpec, Interval};
use quorate_operator::report::Report;
use quorate_runner::figures::fill;
use quorate_simulator::models::Answer;
use quorate_simulator::models::plan::CpuPlan;
use quorate_types::ReplicaId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Figures, and the values of a result that they are.
type Fields<T> = &'static [(&'static str, fn(&T) -> Option<f64>)];

/// Number that a result may lack.
trait Number {
    fn number(&self) -> Option<f64>;
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Number for $type {
            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        })*
    };
}
numbers!(f64, u64, u32, usize);

impl<N: Number> Number for Option<N> {
    fn number(&self) -> Option<f64> {
        self.as_ref()?.number()
    }
}

macro_rules! fields {
    ($type:ty => $($name:literal: |$result:ident| $value:expr;)*) => {
        &[$(($name, |$result: &$type| $value.number())),*]
    };
}

/// Figures of clusters, and the fields that they are: written down once more, so that no figure changes unseen.
const CLUSTERS: Fields<BenchResult> = fields! { BenchResult =>
    "throughput_per_s": |r| r.throughput_ops;
    "completed_commands": |r| r.committed_commands;
    "executed_commands": |r| r.executed_commands;
    "refused_commands": |r| r.refused_commands;
    "committed_blocks": |r| r.committed_blocks;
    "views": |r| r.views;
    "view_timeouts": |r| r.view_timeouts;
    "longest_gap_ms": |r| r.longest_gap_ms;
    "recovery_percent": |r| r.recovery_percent;
    "mean_ms": |r| r.latency_ms.mean;
    "p50_ms": |r| r.latency_ms.p50;
    "p90_ms": |r| r.latency_ms.p90;
    "p99_ms": |r| r.latency_ms.p99;
    "p999_ms": |r| r.latency_ms.p999;
    "max_ms": |r| r.latency_ms.max;
    "cpu_us_per_command": |r| r.cpu_us_per_command.total;
    "replica_cpu_us_per_command": |r| r.cpu_us_per_command.replicas;
    "client_cpu_us_per_command": |r| r.cpu_us_per_command.clients;
    "allocations_per_command": |r| r.allocations_per_command;
    "allocated_bytes_per_command": |r| r.allocated_bytes_per_command;
    "bytes_per_command": |r| r.bytes_per_command;
    "bytes_per_block": |r| r.bytes_per_block;
    "leader_bytes_per_command": |r| r.line.as_ref()?.bytes_per_command;
    "line_bytes_per_command": |r| r.line.as_ref()?.line_bytes_per_command;
    "goodput_mbit_per_s": |r| r.line.as_ref()?.goodput_mbit_per_s;
    "goodput_percent": |r| r.line.as_ref()?.goodput_percent;
    "line_used_percent": |r| r.line.as_ref()?.line_used_percent;
    "line_limit_per_s": |r| r.line.as_ref()?.line_limit_per_s;
    "messages_per_block": |r| r.messages_per_block;
    "verifications_per_block": |r| r.verifications_per_block;
    "certificate_bytes": |r| r.certificate_bytes;
    "key_additions_per_certificate": |r| r.key_additions_per_certificate;
    "handshake_ms": |r| r.packets.as_ref()?.handshake_ms;
    "packets": |r| r.packets.as_ref()?.sent;
    "retransmissions": |r| r.packets.as_ref()?.retransmissions;
    "rto_events": |r| r.packets.as_ref()?.rto_events;
    "requests": |r| r.requests.as_ref()?.requests;
    "answered_probability": |r| r.requests.as_ref()?.answered_probability;
    "success_probability": |r| r.requests.as_ref()?.success_probability;
    "mean_replies": |r| r.requests.as_ref()?.expected_replies;
    "success_mean_ms": |r| r.requests.as_ref()?.latency_ms.mean;
    "success_p50_ms": |r| r.requests.as_ref()?.latency_ms.p50;
    "success_p90_ms": |r| r.requests.as_ref()?.latency_ms.p90;
    "success_p99_ms": |r| r.requests.as_ref()?.latency_ms.p99;
};
/// Figures of simulations alone.
const SIMULATIONS: Fields<SimResult> = fields! { SimResult =>
    "commit_mean_ms": |r| r.commit_latency_ms.mean;
    "commit_p50_ms": |r| r.commit_latency_ms.p50;
    "commit_p99_ms": |r| r.commit_latency_ms.p99;
};
const MODELS: Fields<Answer> = fields! { Answer =>
    "success_probability": |r| r.success_probability;
    "agreement_probability": |r| r.agreement_probability;
    "expected_replies": |r| r.expected_replies;
    "mean_replies": |r| r.mean_replies;
    "expected_replies_bound": |r| r.expected_replies_lower_bound;
    "message_loss": |r| r.message_loss;
    "messages_per_request": |r| r.messages.without_loss;
    "printed_messages": |r| r.messages.printed;
    "packets_per_request": |r| r.messages.packets;
    "retransmissions_needed": |r| r.retransmissions_needed;
    "repetitions_needed": |r| r.repetitions_needed;
    "view_change_probability": |r| r.view_change.as_ref()?.probability;
    "best_timeout_ms": |r| r.best_timeout_ms;
    "mean_ms": |r| r.latency_ms.mean;
    "p99_ms": |r| r.latency_ms.p99;
    "success_mean_ms": |r| r.latency_ms.mean;
    "success_p90_ms": |r| r.latency_ms.p90;
    "commit_mean_ms": |r| r.commit_latency_ms.mean;
    "commit_p99_ms": |r| r.commit_latency_ms.p99;
};
const FPGAS: Fields<FpgaAnswer> = fields! { FpgaAnswer =>
    "operations_limit_per_s": |r| r.plan.points.first()?.operations_per_s;
    "values_of_line_percent": |r| r.plan.points.first()?.goodput_percent;
    "signature_slices": |r| r.plan.points.first()?.signature_slices;
    "slices": |r| r.plan.points.first()?.total.slices;
    "dsps": |r| r.plan.points.first()?.total.dsps;
    "brams": |r| r.plan.points.first()?.total.brams;
    "remaining_slices": |r| r.plan.points.first()?.remaining.slices;
    "device_percent": |r| r.plan.points.first()?.used_percent.slices;
    "least_replicas": |r| r.plan.least_replicas.first()?.replicas;
    "least_value_bytes": |r| r.plan.least_values.first()?.value_bytes;
};
const PROCESSORS: Fields<CpuPlan> = fields! { CpuPlan =>
    "operations_limit_per_s": |r| r.points.first()?.line_limit_per_s;
    "processor_cores": |r| r.points.first()?.roles.first()?.cores;
    "processor_us": |r| r.points.first()?.roles.first()?.us_per_operation;
    "cores_limit_per_s": |r| r.points.first()?.on_cores.first()?.operations_per_s;
};

/// Parses JSON.
fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn filled(outcome: Outcome) -> Row {
    let mut filled = row(10, 0, &[]);
    fill(&mut filled, &Run { outcome, outliers: Outliers::None, instructions: None });
    filled
}

fn of_bench(result: BenchResult) -> Row {
    filled(Outcome::Bench(Box::new(read(&result.to_json()))))
}

fn empty() -> BenchResult {
    BenchResult { throughput_ops: 500.0, ..BenchResult::empty(&BenchSpec::default()) }
}

/// Asserts that figures are the numbers of a result, and returns how many there are.
fn assert_fields<T>(row: &Row, result: &T, fields: Fields<T>) -> usize {
    for (name, field) in fields {
        assert_eq!(row.figures.get(*name).copied(), field(result), "{name}");
    }
    row.validate(&quorate_lab::figures::vocabulary()).unwrap_or_else(|fault| panic!("{fault}"));
    fields.iter().filter(|(_, field)| field(result).is_some()).count()
}

#[test]
fn figures_of_a_simulation_are_those_of_its_json() {
    let spec = {
        let mut spec = BenchSpec {
            warmup: Interval::from_millis(50),
            duration: Interval::from_millis(1100),
            clients: 2,
            outstanding: Some(20),
            ..BenchSpec::default()
        };
        spec.node.stages = true;
        spec
    };
    let result = sim::run(&spec, &SimOptions::default(), &|_| {}).expect("a sound spec");
    let json = result.to_json();
    let again: SimResult = read(&json);
    assert_eq!(again, SimResult { charged: None, ..result }, "what was written is read");
    let row = filled(Outcome::Sim(Box::new(read(&json))));
    assert!(assert_fields(&row, &again.bench, CLUSTERS) > 22, "{:?}", row.figures);
    assert_eq!(assert_fields(&row, &again, SIMULATIONS), 3);
    let json: Value = read(&json);
    let replicas = json["charges"]["replicas"].as_array().expect("charges");
    let share = replicas.iter().find(|share| share["work"] == "verifications").expect("votes are verified");
    let us = share["us_per_command"].as_f64().expect("a number") / share["count_per_command"].as_f64().expect("one");
    assert_eq!(row.figures["verification_us"], us);
    assert_eq!(row.series["completed_per_s"], [json["timeline"][0]["ops"].as_f64().expect("a number")]);
    assert_eq!((row.figures.get("peak_rss_mb"), row.stages.is_empty(), row.failure), (None, false, None));
}

#[test]
fn counters_ratios_and_series_come_from_the_fields_of_a_result() {
    let latency = |p50| Latency { p50: Some(p50), p99: Some(9.0), ..Latency::default() };
    let second = |ops, p50_ms| Second { ops, p50_ms, executed_commands: Some(7), ..Second::default() };
    let result = BenchResult {
        committed_commands: 1000,
        executed_commands: 1200,
        committed_blocks: 10,
        longest_gap_ms: Some(1.5),
        recovery_percent: Some(95.5),
        latency_ms: latency(3.0),
        latency_within_fences_ms: latency(2.0),
        cpu_us_per_command: CpuPerCommand { total: Some(3.0), replicas: Some(2.0), clients: Some(1.0) },
        line: Some(LineFigures {
            replica: ReplicaId(0),
            line_rate_bits_per_s: 1e10,
            bytes_per_command: 100.0,
            line_bytes_per_command: 110.0,
            goodput_percent: 90.0,
            values_percent: None,
            goodput_mbit_per_s: 7000.5,
            line_mbit_per_s: 7500.0,
            line_used_percent: 80.0,
            line_limit_per_s: 9000.0,
        }),
        packets: Some(PacketFigures { sent: 5, retransmissions: 2, handshake_ms: Some(0.5), ..Default::default() }),
        timeline: vec![second(400, Some(1.0)), second(600, None)],
        samples: vec![Sample { at_s: 0.5, latency_ms: 2.0 }],
        peak_rss_mb: 12.0,
        client_bound: true,
        warnings: vec!["careful".to_owned()],
        ..empty()
    };
    let row = of_bench(result.clone());
    assert_eq!(row.failure, None);
    assert!(assert_fields(&row, &result, CLUSTERS) > 20);
    let payload = f64::from(BenchSpec::default().payload) * 500.0 * 8.0 / 1e6;
    for (name, value) in
        [("commands_per_block", 120.0), ("tail_ratio", 3.0), ("payload_mbit_per_s", payload), ("peak_rss_mb", 12.0)]
    {
        assert_eq!(row.figures.get(name), Some(&value), "{name}");
    }
    // A second without completions has no latency.
    assert_eq!(row.series.keys().collect::<Vec<_>>(), ["completed_per_s", "executed_per_s"]);
    assert_eq!((row.series["completed_per_s"].as_slice(), row.samples.len()), (&[400.0, 600.0][..], 1));
    assert!(row.warnings.len() == 2 && row.warnings[1].contains("the clients were the bottleneck"));
    let mut fenced = crate::common::row(10, 0, &[]);
    fill(&mut fenced, &Run { outcome: Outcome::Bench(Box::new(result)), outliers: Outliers::Iqr, instructions: None });
    assert_eq!((fenced.figures["p50_ms"], row.figures["p50_ms"]), (2.0, 3.0));
}

/// For TCP, an emulated network counts packets that the transport does not count.
#[test]
fn packets_of_tcp_are_those_of_the_emulated_network() {
    let added = json!({"p50": 1.0, "p99": 2.0, "max": 3.0, "probes": 10, "lost": 0});
    let emulation = json!({
        "network": "wan4", "emulator": "router", "fallback": null, "router_priority": null, "shortest_delay_us": 5.0,
        "emulator_us": 1.0, "emulation_added_us": added, "emulation_added_loaded_us": null, "is_distorted": false,
        "congestion_control": "cubic", "rto_min_ms": 200.0, "not_set": [], "packets": 900, "bytes_on_wire": 10,
        "lost": 0, "cut": 0, "queue_dropped": 0, "router_dropped": 0, "retransmissions": 3, "rto_events": 1,
        "tail_loss_probes": 0, "router_cpu_s": null,
    });
    let row = of_bench(BenchResult { emulation: Some(read(&emulation.to_string())), ..empty() });
    assert_eq!(["packets", "retransmissions", "rto_events"].map(|name| row.figures[name]), [900.0, 3.0, 1.0]);
}

#[test]
fn a_run_that_did_not_count_has_a_reason_and_no_figures() {
    let difference = Difference { height: 7, replicas: [0, 3], blocks: ["aa".into(), "bb".into()] };
    let broken = BenchResult { agreement: Agreement::Differs(difference), ..empty() };
    let partial = BenchResult { partial: Some("SIGINT".to_owned()), ..empty() };
    for (result, words) in [(broken, "different histories: at height 7"), (partial, "did not complete: SIGINT")] {
        let row = of_bench(result);
        assert!(row.failure.as_ref().is_some_and(|why| why.contains(words)), "{:?}", row.failure);
        assert!(row.figures.is_empty(), "{:?}", row.figures);
    }
    let nothing = of_bench(BenchResult::empty(&BenchSpec::default()));
    assert_eq!((nothing.failure, nothing.figures["throughput_per_s"]), (None, 0.0), "that is its result");
}

#[test]
fn scenarios_and_bugs_put_back_have_figures_of_their_own() {
    let machine = json!({"cpu": "c", "cores": 2, "memory_mb": 1, "kernel": "k"});
    let twins = json!({
        "protocol": "jolteon", "shape": null, "input": null, "sample": null, "seed": null, "shard": [0, 1],
        "scenarios": 4000, "unsafe": 3, "stalled": 1, "wall_seconds": 0.5, "scenarios_per_second": 9000.5,
        "threads": 2, "findings": [{"number": 1, "verdict": "unsafe", "property": "agreement", "what": "w"}],
        "saved": null, "simplest": null, "machine": machine, "version": "1",
    });
    let twins = filled(Outcome::Twins(read(&twins.to_string())));
    let names: Vec<(&str, f64)> = twins.figures.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let expected = [("scenarios", 4000.0), ("scenarios_per_s", 9000.5), ("stalled_scenarios", 1.0)];
    assert_eq!(names, [&expected[..], &[("unsafe_scenarios", 3.0)]].concat());
    let museum = |missed: u64, found: Value| {
        let hunt = |hunt: &str, found: Value| json!({"hunt": hunt, "budget": 5, "found": found, "without_bug": null});
        let directed = hunt("directed", json!({"scenarios": 1, "property": "agreement", "what": "w"}));
        let exhibit = json!({
            "exhibit": "8b", "bug": "b", "source": "s", "mutant": null, "protocol": "pbft", "passed": true,
            "found_by": [directed, hunt("twins", found)], "seconds": 1.0,
        });
        let result = json!({
            "shown": 1, "missed": missed, "unsound": 0, "exhibits": [exhibit], "absent": [], "wall_seconds": 1.0,
            "threads": 2, "machine": machine, "version": "1",
        });
        filled(Outcome::Museum(read(&result.to_string()))).figures
    };
    let found = museum(0, json!({"scenarios": 45015, "property": "agreement", "what": "w"}));
    assert_eq!((found["bugs_missed"], found["false_alarms"], found["scenarios_until_found"]), (0.0, 0.0, 45015.0));
    let missed = museum(1, Value::Null);
    assert_eq!((missed["bugs_missed"], missed.get("scenarios_until_found")), (1.0, None));
}

fn options<T: Args + FromArgMatches>(words: &[&str]) -> T {
    let command = T::augment_args(Command::new("options").no_binary_name(true));
    T::from_arg_matches(&command.get_matches_from(words)).unwrap_or_else(|error| panic!("{error}"))
}

/// A plan has a row of figures for its single group and size, for an FPGA or a CPU.
#[test]
fn plans_have_figures_of_their_own() {
    let fpga: FpgaOptions = options(&["--replicas", "15", "--value", "512"]);
    let cpu: CpuOptions = options(&["--replicas", "15", "--value", "512"]);
    let (fpga, cpu) = (Box::new(fpga.answer().expect("a plan")), Box::new(cpu.answer().expect("a plan")));
    let of = |plan: Plan| filled(Outcome::Plan(read(&plan.to_json())));
    let of_fpga = of(Plan::Fpga(fpga.clone()));
    assert!(assert_fields(&of_fpga, &*fpga, FPGAS) > 3, "{fpga:?}");
    let of_cpu = of(Plan::Cpu(cpu.clone()));
    assert!(assert_fields(&of_cpu, &*cpu, PROCESSORS) > 3, "{cpu:?}");
    for (row, fields) in [(of_fpga, FPGAS.len()), (of_cpu, PROCESSORS.len())] {
        assert_eq!(row.failure, None);
        assert!(row.figures.len() <= fields, "{:?}", row.figures);
    }
}

#[test]
fn requests_that_nothing_repeats_have_figures_beside_those_of_formulas() {
    let latency = Latency { mean: Some(200.0), p50: Some(199.0), p90: Some(220.0), ..Latency::default() };
    let requests = RequestFigures {
        requests: 400,
        answered_probability: Some(0.9),
        success_probability: Some(0.7),
        expected_replies: Some(2.8),
        latency_ms: latency,
        ..RequestFigures::default()
    };
    let result = BenchResult { requests: Some(requests), ..empty() };
    let counted = of_bench(result.clone());
    assert_fields(&counted, &result, CLUSTERS);
    assert_eq!(counted.figures.get("expected_replies"), None);
    let model: ModelOptions = options(&["--loss", "0.1"]);
    let answer = model.question(Protocol::Pbft).expect("it can be asked").answer();
    let json = serde_json::to_string(&answer).expect("plain data");
    let computed = filled(Outcome::Model(read(&json)));
    assert!(assert_fields(&computed, &answer, MODELS) >= MODELS.len() - 2, "{json}");
    let ratio = answer.expected_replies_lower_bound.expect("of PBFT") / answer.expected_replies;
    assert_eq!((computed.figures["bound_ratio"], computed.figures.get("requests")), (ratio, None));
    assert_eq!(computed.figures.get("tail_ratio"), None, "formulas have no tail");
}

#[test]
fn stages_of_the_leader_are_sums_per_command_and_shares() {
    let cost = |message: &str, stage: &str, role: &str, cycles: f64, count: u64| {
        json!({"message": message, "stage": stage, "role": role, "cycles": cycles, "nanoseconds": cycles / 2.0,
               "count": count})
    };
    let mut untimed = cost("timeout", "step", "leader", 0.0, 5);
    untimed["cycles"] = Value::Null;
    let stages = json!([
        cost("request", "hash", "leader", 3000.0, 100),
        cost("request", "unmarshal", "leader", 500.0, 100),
        cost("commit", "unmarshal", "leader", 100.0, 1400),
        cost("reply", "marshal", "leader", 600.0, 100),
        cost("reply", "sign", "leader", 4500.0, 100),
        cost("reply", "send", "leader", 9e9, 100),
        cost("request", "hash", "backup", 7.0, 1400),
        untimed,
    ]);
    let measured = BenchResult { executed_commands: 100, stages: read(&stages.to_string()), ..empty() };
    let filled = of_bench(measured.clone());
    let expected = [
        ("leader_unmarshal_cycles", 1900.0),
        ("leader_codec_cycles", 2500.0),
        ("leader_hash_cycles", 3000.0),
        ("leader_step_cycles", 0.0),
        ("codec_and_hash_percent", 55.0),
        ("request_hash_cycles", 3000.0),
        ("reply_sign_cycles", 4500.0),
    ];
    for (name, value) in expected {
        let found = filled.figures.get(name).copied().unwrap_or(f64::NAN);
        assert!((found - value).abs() < 1e-6, "{name}: {found}");
    }
    assert_eq!(filled.stages.len(), 8);
    filled.validate(&quorate_lab::figures::vocabulary()).unwrap_or_else(|fault| panic!("{fault}"));
    let without = of_bench(BenchResult { stages: Vec::new(), ..measured });
    assert!(without.stages.is_empty() && !without.figures.contains_key("codec_and_hash_percent"));
}

#[test]
fn the_load_of_threads_is_by_stage() {
    let stage = |stage: &str, busy_percent: f64| StageThreads {
        stage: stage.to_owned(),
        threads: 1,
        us_per_command: None,
        busy_percent,
        limit_per_s: None,
    };
    let stages = vec![stage("core", 97.0), stage("verifiers", 40.0)];
    let threads = ThreadLoads { replica: ReplicaId(1), limiting_stage: "core".to_owned(), stages };
    let filled = of_bench(BenchResult { threads: Some(threads), ..empty() });
    let found = ["core_percent", "network_percent", "verifiers_percent"].map(|name| filled.figures.get(name).copied());
    assert_eq!(found, [Some(97.0), Some(0.0), Some(40.0)]);
    assert!(!of_bench(empty()).figures.contains_key("core_percent"));
}
