//! Figures of rows, from the JSON of results.

use crate::common::row;
use quorate_experiments::Outliers;
use quorate_runner::figures::fill;
use serde_json::json;

#[test]
fn counters_and_ratios_come_from_the_keys_of_a_result() {
    let result = json!({
        "throughput_ops": 500.0, "committed_commands": 1000, "executed_commands": 1200, "committed_blocks": 10,
        "recovery_percent": 95.5, "agreement": true,
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
    ];
    for (name, value) in expected {
        assert_eq!(filled.figures.get(name), Some(&value), "{name}");
    }
}
