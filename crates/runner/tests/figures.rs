//! Figures of rows, from the JSON of results.

use crate::common::row;
use quorate_experiments::{Instrument, Outliers};
use quorate_runner::figures::fill;
use serde_json::json;

#[test]
fn counters_and_ratios_come_from_the_keys_of_a_result() {
    let result = json!({
        "throughput_ops": 500.0, "committed_commands": 1000, "executed_commands": 1200, "committed_blocks": 10,
        "recovery_percent": 95.5, "agreement": true,
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
