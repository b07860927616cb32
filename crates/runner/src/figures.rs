//! From the JSON of `quorate bench`, `quorate sim`, `quorate twins run`, `quorate model` and `quorate plan` to the figures
//! of a row.

use crate::stages;
use quorate_experiments::figures::{REQUESTS, SUCCESS};
use quorate_experiments::row::Sample;
use quorate_experiments::{Instrument, Outliers, Row};
use serde_json::Value;

/// Figures of a row, and where the result has them.
const DIRECT: &[(&str, &[&str])] = &[
    ("throughput_per_s", &["throughput_ops"]),
    ("commit_mean_ms", &["commit_latency_ms", "mean"]),
    ("commit_p50_ms", &["commit_latency_ms", "p50"]),
    ("commit_p99_ms", &["commit_latency_ms", "p99"]),
    ("longest_gap_ms", &["longest_gap_ms"]),
    ("completed_commands", &["committed_commands"]),
    ("executed_commands", &["executed_commands"]),
    ("refused_commands", &["refused_commands"]),
    ("committed_blocks", &["committed_blocks"]),
    ("views", &["views"]),
    ("view_timeouts", &["view_timeouts"]),
    ("recovery_percent", &["recovery_percent"]),
    ("cpu_us_per_command", &["cpu_us_per_command", "total"]),
    ("replica_cpu_us_per_command", &["cpu_us_per_command", "replicas"]),
    ("client_cpu_us_per_command", &["cpu_us_per_command", "clients"]),
    ("allocations_per_command", &["allocations_per_command"]),
    ("allocated_bytes_per_command", &["allocated_bytes_per_command"]),
    ("bytes_per_command", &["bytes_per_command"]),
    ("bytes_per_block", &["bytes_per_block"]),
    ("leader_bytes_per_command", &["line", "bytes_per_command"]),
    ("line_bytes_per_command", &["line", "line_bytes_per_command"]),
    ("goodput_mbit_per_s", &["line", "goodput_mbit_per_s"]),
    ("goodput_percent", &["line", "goodput_percent"]),
    ("line_used_percent", &["line", "line_used_percent"]),
    ("line_limit_per_s", &["line", "line_limit_per_s"]),
    ("messages_per_block", &["messages_per_block"]),
    ("verifications_per_block", &["verifications_per_block"]),
    ("certificate_bytes", &["certificate_bytes"]),
    ("key_additions_per_certificate", &["key_additions_per_certificate"]),
    ("handshake_ms", &["packets", "handshake_ms"]),
];
/// Figures of a row of requests that nothing repeats, and their keys in `requests`.
const REQUEST_FIGURES: &[(&str, &str)] = &[
    (REQUESTS, "requests"),
    ("answered_probability", "answered_probability"),
    (SUCCESS, "success_probability"),
    ("mean_replies", "expected_replies"),
];
/// Latencies of requests that succeed, and their keys in `requests.latency_ms` or in the answer of formulas.
const SUCCESSES: &[(&str, &str)] =
    &[("success_mean_ms", "mean"), ("success_p50_ms", "p50"), ("success_p90_ms", "p90"), ("success_p99_ms", "p99")];
/// Figures of a transport, where a transport over packets has them, and where an emulated network has those of TCP.
const TRANSPORT: &[(&str, [&str; 2], [&str; 2])] = &[
    ("packets", ["packets", "sent"], ["emulation", "packets"]),
    ("retransmissions", ["packets", "retransmissions"], ["emulation", "retransmissions"]),
    ("rto_events", ["packets", "rto_events"], ["emulation", "rto_events"]),
];
/// Figures of threads, and the stages that have them.
const THREADS: &[(&str, &str)] =
    &[("core_percent", "core"), ("network_percent", "network"), ("verifiers_percent", "verifiers")];
/// Latencies of a row, and their keys in a result.
const LATENCIES: &[(&str, &str)] = &[
    ("mean_ms", "mean"),
    ("p50_ms", "p50"),
    ("p90_ms", "p90"),
    ("p99_ms", "p99"),
    ("p999_ms", "p999"),
    ("max_ms", "max"),
];
/// Series of a row, and their keys in an entry of `timeline`.
const SERIES: &[(&str, &str)] = &[
    ("completed_per_s", "ops"),
    ("executed_per_s", "executed_commands"),
    ("timeouts_per_s", "view_timeouts"),
    ("p50_ms", "p50_ms"),
    ("p99_ms", "p99_ms"),
];
/// Figures of a row of scenarios, and their keys in a result.
const SCENARIOS: &[(&str, &str)] = &[
    ("scenarios", "scenarios"),
    ("unsafe_scenarios", "unsafe"),
    ("stalled_scenarios", "stalled"),
    ("scenarios_per_s", "scenarios_per_second"),
];
/// Work in the charges of a simulation.
const VERIFICATIONS: &str = "verifications";
/// Workload whose commands are the payload.
const FIXED: &str = "fixed";
/// Figures of a row of formulas, and where the answer has them. Latencies are those of [`LATENCIES`].
const FORMULAS: &[(&str, &[&str])] = &[
    (SUCCESS, &["success_probability"]),
    ("agreement_probability", &["agreement_probability"]),
    ("expected_replies", &["expected_replies"]),
    ("mean_replies", &["mean_replies"]),
    ("expected_replies_bound", &["expected_replies_lower_bound"]),
    ("message_loss", &["message_loss"]),
    ("messages_per_request", &["messages", "without_loss"]),
    ("printed_messages", &["messages", "printed"]),
    ("packets_per_request", &["messages", "packets"]),
    ("retransmissions_needed", &["retransmissions_needed"]),
    ("repetitions_needed", &["repetitions_needed"]),
    ("view_change_probability", &["view_change", "probability"]),
    ("best_timeout_ms", &["best_timeout_ms"]),
    ("commit_mean_ms", &["commit_latency_ms", "mean"]),
    ("commit_p50_ms", &["commit_latency_ms", "p50"]),
    ("commit_p99_ms", &["commit_latency_ms", "p99"]),
];
/// Figures of a row of a plan, and where its point has them.
const PLANS: &[(&str, &[&str])] = &[
    ("operations_limit_per_s", &["operations_per_s"]),
    ("values_of_line_percent", &["goodput_percent"]),
    ("signature_slices", &["signature_slices"]),
    ("slices", &["total", "slices"]),
    ("dsps", &["total", "dsps"]),
    ("brams", &["total", "brams"]),
    ("remaining_slices", &["remaining", "slices"]),
];
const BITS_PER_BYTE: f64 = 8.0;

/// Fills a row from a result: its figures and series, or why the run failed.
pub fn fill(row: &mut Row, result: &Value, outliers: Outliers) {
    row.failure = failure(result);
    match row.instrument {
        Instrument::Scenarios => return fill_scenarios(row, result),
        Instrument::Analytical => return fill_formulas(row, result),
        _ => {}
    }
    if !result["throughput_ops"].is_number() {
        row.failure.get_or_insert_with(|| "the result has no throughput".to_owned());
    }
    let warnings = result["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    row.warnings = warnings.map(str::to_owned).collect();
    if result["client_bound"] == Value::Bool(true) {
        row.warnings.push("the clients were the bottleneck: the cluster could have done more".to_owned());
    }
    if row.failure.is_some() {
        return;
    }
    for (figure, path) in DIRECT {
        row.set(figure, at(result, path));
    }
    for (figure, own, of_tcp) in TRANSPORT {
        let value = |[object, key]: [&str; 2]| result[object][key].as_f64();
        row.set(figure, value(*own).or_else(|| value(*of_tcp)));
    }
    let latencies = match outliers {
        Outliers::None => &result["latency_ms"],
        Outliers::Iqr => &result["latency_within_fences_ms"],
    };
    for (figure, key) in LATENCIES {
        row.set(figure, latencies[key].as_f64());
    }
    fill_requests(row, &result["requests"]);
    let figure = |row: &Row, name: &str| row.figures.get(name).copied();
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    let charges = result["charges"]["replicas"].as_array();
    let verifications = charges.and_then(|all| all.iter().find(|charge| charge["work"] == VERIFICATIONS));
    let of_verifications = |key: &str| verifications.and_then(|charge| charge[key].as_f64());
    row.set("verification_us", ratio(of_verifications("us_per_command"), of_verifications("count_per_command")));
    row.set("tail_ratio", ratio(figure(row, "p99_ms"), figure(row, "p50_ms")));
    row.set("commands_per_block", ratio(figure(row, "executed_commands"), figure(row, "committed_blocks")));
    let payload = result["spec"]["payload"].as_f64().filter(|_| result["spec"]["workload"] == FIXED);
    let payload_mbit = |bytes: f64| Some(figure(row, "throughput_per_s")? * bytes * BITS_PER_BYTE / 1e6);
    row.set("payload_mbit_per_s", payload.and_then(payload_mbit));
    // A simulation does not measure memory.
    row.set("peak_rss_mb", result["peak_rss_mb"].as_f64().filter(|memory| *memory > 0.0));
    fill_threads(row, &result["threads"]["stages"]);
    fill_series(row, &result["timeline"]);
    stages::fill(row, &result["stages"]);
    row.samples = samples(&result["samples"]);
}

/// Fills how busy the threads of each stage of a replica were.
fn fill_threads(row: &mut Row, stages: &Value) {
    let Some(stages) = stages.as_array() else { return };
    for (figure, stage) in THREADS {
        let found = stages.iter().find(|one| one["stage"] == *stage);
        row.set(figure, found.map_or(Some(0.0), |one| one["busy_percent"].as_f64()));
    }
}

/// Fills the figures of requests that nothing repeats.
fn fill_requests(row: &mut Row, requests: &Value) {
    for (figure, key) in REQUEST_FIGURES {
        row.set(figure, requests[*key].as_f64());
    }
    for (figure, key) in SUCCESSES {
        row.set(figure, requests["latency_ms"][key].as_f64());
    }
}

/// Fills the figures of `quorate model` or `quorate plan`.
fn fill_formulas(row: &mut Row, answer: &Value) {
    if answer["points"].is_array() {
        return fill_plan(row, answer);
    }
    for (figure, path) in FORMULAS {
        row.set(figure, at(answer, path));
    }
    for (figure, key) in LATENCIES.iter().chain(SUCCESSES) {
        row.set(figure, answer["latency_ms"][key].as_f64());
    }
    let figure = |row: &Row, name: &str| row.figures.get(name).copied();
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    row.set("bound_ratio", ratio(figure(row, "expected_replies_bound"), figure(row, "expected_replies")));
    // The first attempt counts as well.
    let attempts = |name: &str| figure(row, name).map(|number| number + 1.0);
    let ratio = ratio(attempts("repetitions_needed"), attempts("retransmissions_needed"));
    row.set("attempts_ratio", ratio);
}

/// Fills the figures of a plan: of its first point, since a cell has one group and one size.
fn fill_plan(row: &mut Row, plan: &Value) {
    let point = &plan["points"][0];
    if point["roles"].is_array() {
        let of = |key: &str| point["roles"].as_array()?.iter().filter_map(|role| role[key].as_f64()).reduce(f64::max);
        row.set("operations_limit_per_s", point["line_limit_per_s"].as_f64());
        row.set("processor_cores", of("cores"));
        row.set("processor_us", of("us_per_operation"));
        row.set("cores_limit_per_s", point["on_cores"][0]["operations_per_s"].as_f64());
        return;
    }
    for (figure, path) in PLANS {
        row.set(figure, at(point, path));
    }
    let used = point["used_percent"].as_object().into_iter().flat_map(|used| used.values());
    row.set("device_percent", used.filter_map(Value::as_f64).reduce(f64::max));
    row.set("least_replicas", plan["least_replicas"][0]["replicas"].as_f64());
    row.set("least_value_bytes", plan["least_values"][0]["value_bytes"].as_f64());
}

/// Returns the number at a path of keys.
fn at(result: &Value, path: &[&str]) -> Option<f64> {
    path.iter().fold(result, |at, key| &at[*key]).as_f64()
}

/// Fills the figures of `quorate twins run` or `quorate museum`.
fn fill_scenarios(row: &mut Row, result: &Value) {
    let Some(exhibits) = result["exhibits"].as_array() else {
        for (figure, key) in SCENARIOS {
            row.set(figure, result[*key].as_f64());
        }
        return;
    };
    row.set("bugs_missed", result["missed"].as_f64());
    row.set("false_alarms", result["unsound"].as_f64());
    let hunts = exhibits.iter().flat_map(|exhibit| exhibit["found_by"].as_array().into_iter().flatten());
    let twins = hunts.filter(|hunt| hunt["hunt"] == "twins");
    // A hunt that found nothing has no number, so the row has none either.
    let counts: Option<Vec<f64>> = twins.map(|hunt| hunt["found"]["scenarios"].as_f64()).collect();
    row.set("scenarios_until_found", counts.and_then(|counts| counts.into_iter().reduce(f64::max)));
}

fn fill_series(row: &mut Row, timeline: &Value) {
    let seconds = timeline.as_array().map_or(&[][..], Vec::as_slice);
    for (series, key) in SERIES {
        // A second without completions has no latency, and then the series has a gap, which a list cannot show.
        let values: Option<Vec<f64>> = seconds.iter().map(|second| second[key].as_f64()).collect();
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            row.series.insert((*series).to_owned(), values);
        }
    }
}

fn samples(samples: &Value) -> Vec<Sample> {
    let all = samples.as_array().into_iter().flatten();
    let sample = |own: &Value| Some(Sample { at_s: own["at_s"].as_f64()?, latency_ms: own["latency_ms"].as_f64()? });
    all.filter_map(sample).collect()
}

/// Returns why the figures of a run do not count. A run that completed nothing has not failed: that is its result.
fn failure(result: &Value) -> Option<String> {
    if let Some(partial) = result["partial"].as_str() {
        return Some(format!("the run did not complete: {partial}"));
    }
    let violation = result["seeds"].as_array().into_iter().flatten().find_map(|seed| seed["oracle"].as_array());
    if let Some(violation) = violation {
        let words: Vec<&str> = violation.iter().filter_map(Value::as_str).collect();
        return Some(format!("an oracle reported a violation: {}", words.join(": ")));
    }
    let difference = &result["agreement"];
    difference.is_object().then(|| format!("replicas executed different histories: {difference}"))
}
