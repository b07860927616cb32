//! JSON keys, figures and tables of results.

use hdrhistogram::Histogram;
use quorate_lab::BenchResult;
use quorate_lab::experiments::Outliers;
use quorate_lab::experiments::figures::label;
use quorate_lab::figures::{Outcome, Run, rows, vocabulary};
use quorate_lab::record::Record;
use quorate_lab::result::{
    Agreement, CpuPerCommand, Difference, Latency, Machine, Probe, Step, count, figure, log_buckets, per,
};
use quorate_operator::report::Report;
use serde_json::{Value, json};

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Other programs read these keys, so none may disappear, and all keys of a run are documented.
#[test]
fn the_promised_keys_stay_and_all_are_documented() {
    let value: Value = serde_json::from_str(&crate::common::sample().to_json()).expect("JSON");
    let mut promised = vec![
        "spec",
        "throughput_ops",
        "latency_ms",
        "latency_within_fences_ms",
        "committed_commands",
        "executed_commands",
        "refused_commands",
        "committed_blocks",
        "views",
        "view_timeouts",
        "longest_gap_ms",
        "cpu_us_per_command",
        "crypto_us_per_command",
        "bytes_per_command",
        "verifications_per_block",
        "peak_rss_mb",
        "client_bound",
        "agreement",
    ];
    promised.extend([
        "machine",
        "command",
        "version",
        "messages_per_block",
        "bytes_per_block",
        "certificate_bytes",
        "timeline",
        "latency_histogram",
    ]);
    promised.extend(["evidence", "events", "warnings"]);
    let keys_of_result = keys(&value);
    let lost: Vec<&&str> = promised.iter().filter(|key| !keys_of_result.contains(key)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let documented: Vec<&str> = BenchResult::FIELDS.iter().map(|field| field.key).collect();
    let secret: Vec<&&str> = keys_of_result.iter().filter(|key| !documented.contains(key)).collect();
    assert!(secret.is_empty(), "{secret:?}");
    assert_eq!(keys(&value["latency_ms"]), ["max", "mean", "p50", "p90", "p99", "p999"]);
    assert_eq!(keys(&value["cpu_us_per_command"]), ["clients", "replicas", "total"]);
    assert_eq!(keys(&value["crypto_us_per_command"]), ["clients", "replicas", "source"]);
    let primitives = ["hash", "mac", "sign", "verify_aggregate", "verify_batch", "verify_single"];
    assert_eq!(keys(&value["crypto_us_per_command"]["replicas"]), primitives);
    assert_eq!(value["agreement"], json!(true));
    assert_eq!(value["client_bound"], json!(false));
    assert_eq!(value["spec"]["reproduction"]["batch_policy"], json!("eager"));
    assert_eq!(value["spec"]["fault"], json!(["crash:2@4s", "slow:1"]));
}

#[test]
fn json_reproduces_the_result() {
    let broken = Difference { height: 7, replicas: [0, 3], blocks: ["aa".into(), "bb".into()] };
    for agreement in [Agreement::Agreed, Agreement::Differs(broken), Agreement::Unknown("replica 2 is gone".into())] {
        let result = BenchResult { agreement, ..crate::common::sample() };
        assert_eq!(serde_json::from_str::<BenchResult>(&result.to_json()).expect("what was written"), result);
    }
    let lie = crate::common::sample().to_json().replace("\"agreement\": true", "\"agreement\": false");
    assert!(serde_json::from_str::<BenchResult>(&lie).is_err());
}

#[test]
fn a_difference_is_an_object_with_height_and_replicas() {
    let difference = Difference { height: 7, replicas: [0, 3], blocks: ["aa".into(), "bb".into()] };
    let value = serde_json::to_value(Agreement::Differs(difference)).expect("JSON");
    assert_eq!(value, json!({"height": 7, "replicas": [0, 3], "blocks": ["aa", "bb"]}));
}

#[test]
fn percentiles_are_those_of_the_histogram() {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).expect("valid bounds");
    assert_eq!(Latency::of(&histogram), Latency::default());
    for us in 1..=1000u64 {
        histogram.record(us * 10).expect("within bounds");
    }
    let latency = Latency::of(&histogram);
    let near = |value: Option<f64>, expected: f64| {
        let value = value.expect("a figure");
        assert!((value - expected).abs() <= expected * 0.002, "{value} is not {expected}");
    };
    near(latency.mean, 5.005);
    near(latency.p50, 5.0);
    near(latency.p90, 9.0);
    near(latency.p99, 9.9);
    near(latency.p999, 9.99);
    near(latency.max, 10.0);
}

#[test]
fn buckets_count_every_command_once_and_have_no_gaps() {
    let histogram = crate::common::latencies();
    let buckets = log_buckets(&histogram);
    assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), histogram.len());
    assert!(buckets.windows(2).all(|pair| (pair[0].to_ms - pair[1].from_ms).abs() < 1e-9 * pair[0].to_ms));
    let (first, last) = (buckets[0], buckets[buckets.len() - 1]);
    assert!(first.count > 0 && last.count > 0);
    // A value counts in the bucket of its highest equivalent value, at most 0.1 % away.
    assert!(first.from_ms <= histogram.min() as f64 / 1000.0 * 1.002);
    assert!(last.to_ms >= histogram.max() as f64 / 1000.0 * 0.998);
    assert!(log_buckets(&Histogram::new(3).expect("valid precision")).is_empty());
}

/// Quartiles 1 ms and 2 ms, so the upper fence is at 3.5 ms.
#[test]
fn outliers_count_only_without_fences() {
    let mut histogram = Histogram::<u64>::new(3).expect("valid precision");
    for (us, count) in [(1_000, 50), (2_000, 49), (500_000, 1)] {
        histogram.record_n(us, count).expect("in range");
    }
    let (all, kept) = (Latency::of(&histogram), Latency::within_fences(&histogram));
    assert!(all.max > Some(499.0) && all.mean > Some(6.0), "{all:?}");
    assert!(kept.max < Some(2.1) && kept.mean < Some(1.6), "{kept:?}");
    assert_eq!(kept.p50, all.p50);
    assert_eq!(Latency::within_fences(&Histogram::new(3).expect("valid precision")), Latency::default());
}

#[test]
fn without_commits_figures_are_null_and_dashes() {
    assert_eq!(per(1.0, 0), None);
    assert_eq!(per(10.0, 4), Some(2.5));
    let empty = BenchResult {
        committed_commands: 0,
        latency_ms: Latency::default(),
        cpu_us_per_command: CpuPerCommand::default(),
        bytes_per_command: None,
        ..crate::common::sample()
    };
    let value: Value = serde_json::from_str(&empty.to_json()).expect("JSON");
    assert_eq!(value["latency_ms"]["p50"], Value::Null);
    assert_eq!(value["bytes_per_command"], Value::Null);
    assert!(empty.to_table().contains('–'));
    assert_eq!(serde_json::from_str::<BenchResult>(&empty.to_json()).expect("what was written"), empty);
}

#[test]
fn figures_are_short_and_grouped() {
    let shown = [0.0, 4.611, 9.999, 14.04, 99.97, 1043.7, 412_310.4, -1234.0].map(figure);
    assert_eq!(shown, ["0.00", "4.61", "10.0", "14.0", "100", "1,044", "412,310", "-1,234"]);
    assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn the_table_has_the_main_figures_and_stays_narrow() {
    let table = crate::common::sample().to_table();
    for part in [
        "165,480  commands/s",
        "14.0  ms median",
        "7.31  us/command",
        "1,044  ms",
        "replica 2 was killed",
        "all replicas executed the same",
    ] {
        assert!(table.contains(part), "`{part}` is missing:\n{table}");
    }
    let command = crate::common::sample().command;
    assert!(table.lines().filter(|line| !line.contains(&command)).all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.lines().all(|line| line.trim_end() == line), "{table}");
}

#[test]
fn this_machine_has_cores() {
    let machine = Machine::here();
    assert!(machine.cores >= 1 && !machine.cpu.is_empty() && !machine.kernel.is_empty());
}

/// A figure declared with a row appears in the table and in the report.
#[test]
fn declared_rows_are_shown() {
    let result = crate::common::sample();
    let (table, page) = (result.to_table(), quorate_lab::render_html(&result));
    let rows: Vec<_> = BenchResult::FIELDS.iter().filter(|field| !field.note.is_empty()).collect();
    assert!(!rows.is_empty());
    for field in rows {
        let (own, of) = field.figure().expect("only figures have rows");
        let value = of(&result).map_or_else(|| "–".to_owned(), figure);
        let name = label(own.name);
        let line = table.lines().find(|line| line.trim_start().starts_with(&name));
        assert!(line.is_some_and(|line| line.contains(&value) && line.contains(field.note)), "{name}: {table}");
    }
    for text in ["longest gap", "1,044", "Signatures verified by all replicas per committed block"] {
        assert!(page.contains(text), "{text}");
    }
}

/// Every row, and every name in its note, is a figure with its unit; rows of rare figures are left out if the figure is
/// absent.
#[test]
fn rows_are_declared_figures() {
    let run = |bench: BenchResult| Run {
        outcome: Outcome::Bench(Box::new(bench)),
        outliers: Outliers::None,
        instructions: None,
    };
    let shown = rows(&run(crate::common::sample()));
    let units: Vec<&str> = vocabulary().figures.iter().map(|figure| figure.unit).collect();
    for [label, _, unit, note] in &shown {
        assert!(units.iter().any(|own| unit.starts_with(own) || label == own), "{label}: {unit}");
        assert!(!note.contains(['{', '}', '[', ']']), "{label}: {note}");
    }
    let labels = |rows: &[[String; 4]]| rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    let refusing = rows(&run(BenchResult { refused_commands: 7, ..crate::common::sample() }));
    assert!(labels(&refusing).contains(&"refused".to_owned()), "{refusing:?}");
    let none = rows(&run(BenchResult { refused_commands: 0, line: None, ..crate::common::sample() }));
    assert!(!labels(&none).iter().any(|label| label == "refused" || label == "leader"), "{none:?}");
}

#[test]
fn lines_of_steps_and_probes_leave_out_what_is_absent() {
    let step = Step {
        from_s: 0.0,
        to_s: 10.0,
        rate: Some(1000.0),
        outstanding: None,
        throughput_ops: 998.0,
        p50_ms: Some(1.5),
        p99_ms: None,
    };
    let text = "0.00 to 10.0 s: 1,000 commands/s offered, 998 commands/s completed, p50 1.50 ms, p99 –";
    assert_eq!(step.to_string(), text);
    let probe = Probe { rate: 2000, throughput: 1500.0, p99_ms: Some(120.0), ok: false };
    assert_eq!(probe.to_string(), "2,000 commands/s offered, 1,500 completed, p99 120 ms: too much");
}
