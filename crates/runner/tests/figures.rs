//! Figures of rows, from the JSON of results.

use crate::common::row;
use quorate_experiments::{Instrument, Outliers};
use quorate_runner::figures::fill;
use serde_json::json;

#[test]
fn counters_and_ratios_come_from_the_keys_of_a_result() {
    let result = json!({
        "throughput_ops": 500.0, "committed_commands": 1000, "executed_commands": 1200, "committed_blocks": 10,
        "recovery_percent": 95.5, "agreement": true, "line": {"goodput_mbit_per_s": 7000.5, "line_used_percent": 80.0},
        "charges": {"replicas": [
            {"work": "signatures", "count_per_command": 3.0, "us_per_command": 60.0},
            {"work": "verifications", "count_per_command": 4.0, "us_per_command": 50.0},
        ]},
    });
    let mut filled = row(10, 0, &[]);
    fill(&mut filled, &result, Outliers::None);
    assert_eq!(filled.failure, None);
    let expected = [
        ("throughput_per_s", 500.0),
        ("completed_commands", 1000.0),
        ("executed_commands", 1200.0),
        ("commands_per_block", 120.0),
        ("recovery_percent", 95.5),
        ("goodput_mbit_per_s", 7000.5),
        ("line_used_percent", 80.0),
        ("verification_us", 12.5),
    ];
    for (name, value) in expected {
        assert_eq!(filled.figures.get(name), Some(&value), "{name}");
    }
}

#[test]
fn scenarios_and_bugs_put_back_have_figures_of_their_own() {
    let filled = |result: serde_json::Value| {
        let mut filled = row(10, 0, &[]);
        filled.instrument = Instrument::Scenarios;
        fill(&mut filled, &result, Outliers::None);
        assert_eq!(filled.failure, None);
        filled.figures
    };
    let twins = filled(json!({"scenarios": 4000, "unsafe": 3, "stalled": 1, "scenarios_per_second": 9000.5}));
    let names: Vec<(&str, f64)> = twins.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let expected = [("scenarios", 4000.0), ("scenarios_per_s", 9000.5), ("stalled_scenarios", 1.0)];
    assert_eq!(names, [&expected[..], &[("unsafe_scenarios", 3.0)]].concat());
    let hunts = |found| json!([{"hunt": "directed", "found": {"scenarios": 1}}, {"hunt": "twins", "found": found}]);
    let found =
        filled(json!({"missed": 0, "unsound": 0, "exhibits": [{"found_by": hunts(json!({"scenarios": 45015}))}]}));
    assert_eq!((found["bugs_missed"], found["scenarios_until_found"]), (0.0, 45015.0));
    let missed = filled(json!({"missed": 1, "unsound": 0, "exhibits": [{"found_by": hunts(json!(null))}]}));
    assert_eq!((missed["bugs_missed"], missed.get("scenarios_until_found")), (1.0, None));
}

/// A plan has a row of figures for its one group and size, for an FPGA or a processor.
#[test]
fn plans_have_figures_of_their_own() {
    let filled = |result: serde_json::Value| {
        let mut filled = row(10, 0, &[]);
        filled.instrument = Instrument::Analytical;
        fill(&mut filled, &result, Outliers::None);
        assert_eq!(filled.failure, None);
        filled.figures
    };
    let point = json!({
        "operations_per_s": 80108.0, "goodput_percent": 45.9, "signature_slices": 59035.0,
        "total": {"slices": 87031.0, "dsps": 640.0, "brams": 402.0}, "remaining": {"slices": 21269.0},
        "used_percent": {"slices": 80.4, "dsps": 17.8, "brams": 27.3},
    });
    let least = json!([{"value_bytes": 512, "replicas": 12}]);
    let plan = filled(json!({
        "points": [point], "least_replicas": least, "least_values": [{"value_bytes": null, "replicas": 15}],
    }));
    let expected = [
        ("brams", 402.0),
        ("device_percent", 80.4),
        ("dsps", 640.0),
        ("least_replicas", 12.0),
        ("operations_limit_per_s", 80108.0),
        ("remaining_slices", 21269.0),
        ("signature_slices", 59035.0),
        ("slices", 87031.0),
        ("values_of_line_percent", 45.9),
    ];
    let names: Vec<(&str, f64)> = plan.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(names, expected, "a size that does not exist has no figure");
    let roles = json!([{"cores": 4.1, "us_per_operation": 58.4}, {"cores": 3.8, "us_per_operation": 54.2}]);
    let on_cores = json!([{"cores": 1, "operations_per_s": 17114.0}]);
    let cpu = filled(json!({"points": [{"line_limit_per_s": 69452.0, "roles": roles, "on_cores": on_cores}]}));
    let expected = [
        ("cores_limit_per_s", 17114.0),
        ("operations_limit_per_s", 69452.0),
        ("processor_cores", 4.1),
        ("processor_us", 58.4),
    ];
    let names: Vec<(&str, f64)> = cpu.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(names, expected);
}

#[test]
fn requests_that_nothing_repeats_have_figures_beside_those_of_formulas() {
    let latency = json!({"mean": 200.0, "p50": 199.0, "p90": 220.0, "p99": 240.0});
    let requests = json!({
        "requests": 400, "answered_probability": 0.9, "success_probability": 0.7, "expected_replies": 2.8,
        "latency_ms": latency,
    });
    let mut counted = row(10, 0, &[]);
    fill(&mut counted, &json!({"throughput_ops": 3.0, "agreement": true, "requests": requests}), Outliers::None);
    assert_eq!(counted.failure, None);
    let mut computed = row(10, 0, &[]);
    computed.instrument = Instrument::Analytical;
    let answer = json!({"success_probability": 0.71, "mean_replies": 2.84, "latency_ms": latency});
    fill(&mut computed, &answer, Outliers::None);
    let shared = [("success_mean_ms", 200.0), ("success_p50_ms", 199.0), ("success_p99_ms", 240.0)];
    let own = [("requests", 400.0), ("answered_probability", 0.9), ("success_probability", 0.7), ("mean_replies", 2.8)];
    for (name, value) in shared.into_iter().chain(own) {
        assert_eq!(counted.figures.get(name), Some(&value), "{name}");
    }
    for (name, value) in shared.into_iter().chain([("success_probability", 0.71), ("mean_replies", 2.84)]) {
        assert_eq!(computed.figures.get(name), Some(&value), "{name}");
    }
    assert_eq!((computed.figures.get("requests"), counted.figures.get("expected_replies")), (None, None));
}

#[test]
fn stages_of_the_leader_are_sums_per_command_and_shares() {
    let cost = |message: &str, stage: &str, role: &str, cycles: f64, count: u64| {
        json!({"message": message, "stage": stage, "role": role, "cycles": cycles, "nanoseconds": cycles / 2.0,
               "count": count})
    };
    let mut untimed = cost("timeout", "step", "leader", 0.0, 5);
    untimed["cycles"] = serde_json::Value::Null;
    let result = json!({
        "throughput_ops": 500.0, "executed_commands": 100,
        "stages": [
            cost("request", "hash", "leader", 3000.0, 100),
            cost("request", "unmarshal", "leader", 500.0, 100),
            cost("commit", "unmarshal", "leader", 100.0, 1400),
            cost("reply", "marshal", "leader", 600.0, 100),
            cost("reply", "sign", "leader", 4500.0, 100),
            cost("reply", "send", "leader", 9e9, 100),
            cost("request", "hash", "backup", 7.0, 1400),
            untimed,
        ],
    });
    let mut filled = row(10, 0, &[]);
    fill(&mut filled, &result, Outliers::None);
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
    filled.validate().unwrap_or_else(|fault| panic!("{fault}"));
    let mut without = row(10, 0, &[]);
    fill(&mut without, &json!({"throughput_ops": 500.0, "executed_commands": 100}), Outliers::None);
    assert!(without.stages.is_empty() && !without.figures.contains_key("codec_and_hash_percent"));
}

#[test]
fn the_load_of_threads_is_by_stage() {
    let stage = |stage: &str, busy: f64| json!({"stage": stage, "threads": 1, "busy_percent": busy});
    let threads = json!({"limiting_stage": "core", "stages": [stage("core", 97.0), stage("verifiers", 40.0)]});
    let mut filled = row(10, 0, &[]);
    fill(&mut filled, &json!({"throughput_ops": 500.0, "threads": threads}), Outliers::None);
    let found = ["core_percent", "network_percent", "verifiers_percent"].map(|name| filled.figures.get(name).copied());
    assert_eq!(found, [Some(97.0), Some(0.0), Some(40.0)]);
    let mut without = row(10, 0, &[]);
    fill(&mut without, &json!({"throughput_ops": 500.0}), Outliers::None);
    assert!(!without.figures.contains_key("core_percent"));
}
