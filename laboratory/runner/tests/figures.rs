//! Figures of rows, from typed results and from their JSON.

use crate::common::row;
use clap::{Args, Command, FromArgMatches};
use quorate_lab::BenchResult;
use quorate_lab::experiments::{Outliers, Row};
use quorate_lab::figures::{Outcome, Run};
use quorate_lab::model::{ModelOptions, Protocol};
use quorate_lab::plan::{CpuOptions, FpgaOptions, Plan};
use quorate_lab::result::{
    Agreement, CpuPerCommand, Difference, Latency, LineFigures, PacketFigures, RequestFigures, Sample, Second,
    StageThreads, ThreadLoads,
};
use quorate_lab::sim::{self, SimOptions, SimResult};
use quorate_lab::spec::{BenchSpec, Interval};
use quorate_operator::report::Report;
use quorate_runner::figures::fill;
use quorate_types::ReplicaId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Figures of clusters, with their paths in the JSON of a result: listed again here, so that no key or figure changes
/// unnoticed.
const CLUSTERS: &[(&str, &str)] = &[
    ("throughput_per_s", "/throughput_ops"),
    ("completed_commands", "/committed_commands"),
    ("executed_commands", "/executed_commands"),
    ("refused_commands", "/refused_commands"),
    ("committed_blocks", "/committed_blocks"),
    ("views", "/views"),
    ("view_timeouts", "/view_timeouts"),
    ("longest_gap_ms", "/longest_gap_ms"),
    ("recovery_percent", "/recovery_percent"),
    ("mean_ms", "/latency_ms/mean"),
    ("p50_ms", "/latency_ms/p50"),
    ("p90_ms", "/latency_ms/p90"),
    ("p99_ms", "/latency_ms/p99"),
    ("p999_ms", "/latency_ms/p999"),
    ("max_ms", "/latency_ms/max"),
    ("commit_mean_ms", "/commit_latency_ms/mean"),
    ("commit_p50_ms", "/commit_latency_ms/p50"),
    ("commit_p99_ms", "/commit_latency_ms/p99"),
    ("cpu_us_per_command", "/cpu_us_per_command/total"),
    ("replica_cpu_us_per_command", "/cpu_us_per_command/replicas"),
    ("client_cpu_us_per_command", "/cpu_us_per_command/clients"),
    ("allocations_per_command", "/allocations_per_command"),
    ("allocated_bytes_per_command", "/allocated_bytes_per_command"),
    ("bytes_per_command", "/bytes_per_command"),
    ("bytes_per_block", "/bytes_per_block"),
    ("leader_bytes_per_command", "/line/bytes_per_command"),
    ("line_bytes_per_command", "/line/line_bytes_per_command"),
    ("goodput_mbit_per_s", "/line/goodput_mbit_per_s"),
    ("goodput_percent", "/line/goodput_percent"),
    ("line_used_percent", "/line/line_used_percent"),
    ("line_limit_per_s", "/line/line_limit_per_s"),
    ("messages_per_block", "/messages_per_block"),
    ("verifications_per_block", "/verifications_per_block"),
    ("certificate_bytes", "/certificate_bytes"),
    ("key_additions_per_certificate", "/key_additions_per_certificate"),
    ("handshake_ms", "/packets/handshake_ms"),
    ("packets", "/packets/sent"),
    ("retransmissions", "/packets/retransmissions"),
    ("rto_events", "/packets/rto_events"),
    ("requests", "/requests/requests"),
    ("answered_probability", "/requests/answered_probability"),
    ("success_probability", "/requests/success_probability"),
    ("mean_replies", "/requests/expected_replies"),
    ("success_mean_ms", "/requests/latency_ms/mean"),
    ("success_p50_ms", "/requests/latency_ms/p50"),
    ("success_p90_ms", "/requests/latency_ms/p90"),
    ("success_p99_ms", "/requests/latency_ms/p99"),
];
const MODELS: &[(&str, &str)] = &[
    ("success_probability", "/success_probability"),
    ("agreement_probability", "/agreement_probability"),
    ("expected_replies", "/expected_replies"),
    ("mean_replies", "/mean_replies"),
    ("expected_replies_bound", "/expected_replies_lower_bound"),
    ("message_loss", "/message_loss"),
    ("messages_per_request", "/messages/without_loss"),
    ("printed_messages", "/messages/printed"),
    ("packets_per_request", "/messages/packets"),
    ("retransmissions_needed", "/retransmissions_needed"),
    ("repetitions_needed", "/repetitions_needed"),
    ("view_change_probability", "/view_change/probability"),
    ("best_timeout_ms", "/best_timeout_ms"),
    ("mean_ms", "/latency_ms/mean"),
    ("p99_ms", "/latency_ms/p99"),
    ("success_mean_ms", "/latency_ms/mean"),
    ("success_p90_ms", "/latency_ms/p90"),
    ("commit_mean_ms", "/commit_latency_ms/mean"),
    ("commit_p99_ms", "/commit_latency_ms/p99"),
];
const FPGAS: &[(&str, &str)] = &[
    ("operations_limit_per_s", "/points/0/operations_per_s"),
    ("values_of_line_percent", "/points/0/goodput_percent"),
    ("signature_slices", "/points/0/signature_slices"),
    ("slices", "/points/0/total/slices"),
    ("dsps", "/points/0/total/dsps"),
    ("brams", "/points/0/total/brams"),
    ("remaining_slices", "/points/0/remaining/slices"),
    ("device_percent", "/points/0/used_percent/slices"),
    ("least_replicas", "/least_replicas/0/replicas"),
    ("least_value_bytes", "/least_values/0/value_bytes"),
];
const PROCESSORS: &[(&str, &str)] = &[
    ("operations_limit_per_s", "/points/0/line_limit_per_s"),
    ("processor_cores", "/points/0/roles/0/cores"),
    ("processor_us", "/points/0/roles/0/us_per_operation"),
    ("cores_limit_per_s", "/points/0/on_cores/0/operations_per_s"),
];

/// Parses JSON.
fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn filled(outcome: Outcome) -> Row {
    let mut filled = row(10, 0, &[]);
    fill(&mut filled, &Run { outcome, outliers: Outliers::None });
    filled
}

fn of_bench(result: BenchResult) -> Row {
    filled(Outcome::Bench(Box::new(read(&result.to_json()))))
}

fn empty() -> BenchResult {
    BenchResult { throughput_ops: 500.0, ..BenchResult::empty(&BenchSpec::default()) }
}

/// Asserts that figures equal the numbers at these paths of a JSON, and returns their count.
fn assert_paths(row: &Row, json: &str, paths: &[(&str, &str)]) -> usize {
    let json: Value = read(json);
    let number = |path: &str| json.pointer(path).and_then(Value::as_f64);
    for (name, path) in paths {
        assert_eq!(row.figures.get(*name).copied(), number(path), "{name} at {path}");
    }
    row.validate(&quorate_lab::figures::vocabulary()).unwrap_or_else(|fault| panic!("{fault}"));
    paths.iter().filter(|(_, path)| number(path).is_some()).count()
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
    let row = filled(Outcome::Sim(Box::new(again)));
    assert!(assert_paths(&row, &json, CLUSTERS) > 25, "{:?}", row.figures);
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
    assert!(assert_paths(&row, &result.to_json(), CLUSTERS) > 20);
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
    fill(&mut fenced, &Run { outcome: Outcome::Bench(Box::new(result)), outliers: Outliers::Iqr });
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
    let plans = [
        (Plan::Fpga(Box::new(fpga.answer().expect("a plan"))), FPGAS),
        (Plan::Cpu(Box::new(cpu.answer().expect("a plan"))), PROCESSORS),
    ];
    for (plan, paths) in plans {
        let json = plan.to_json();
        let row = filled(Outcome::Plan(read(&json)));
        assert_eq!(row.failure, None);
        assert!(assert_paths(&row, &json, paths) > 3, "{json}");
        assert!(row.figures.len() <= paths.len(), "{:?}", row.figures);
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
    assert_paths(&counted, &result.to_json(), CLUSTERS);
    assert_eq!(counted.figures.get("expected_replies"), None);
    let model: ModelOptions = options(&["--loss", "0.1"]);
    let answer = model.question(Protocol::Pbft).expect("it can be asked").answer();
    let json = serde_json::to_string(&answer).expect("plain data");
    let computed = filled(Outcome::Model(read(&json)));
    assert!(assert_paths(&computed, &json, MODELS) >= MODELS.len() - 2, "{json}");
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
