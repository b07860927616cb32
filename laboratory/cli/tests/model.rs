//! Tests `quorate model`: answers, sweeps, pages, and invalid input.

use crate::common::*;
use serde_json::Value;
use std::fs;

fn number(answer: &Value, path: &[&str]) -> f64 {
    let found = path.iter().fold(answer, |at, key| &at[*key]);
    found.as_f64().unwrap_or_else(|| panic!("{path:?} is {found}"))
}

#[test]
fn an_answer_has_every_key() {
    for protocol in ["pbft", "hotstuff", "basic-hotstuff", "jolteon"] {
        let answer = json(&["model", protocol, "--replicas", "20", "--faults", "6", "--loss", "0.1", "--json", "-"]);
        assert_eq!(answer["protocol"], protocol);
        let probability = number(&answer, &["success_probability"]);
        assert!(probability > 0.0 && probability < 1.0, "{answer}");
        for key in ["mean", "p50", "p90", "p99"] {
            assert!(number(&answer, &["latency_ms", key]) > 100.0, "{answer}");
        }
        assert!(number(&answer, &["expected_replies"]) > 0.0 && number(&answer, &["messages", "expected"]) > 19.0);
        assert!((0.0..1.0).contains(&number(&answer, &["view_change", "probability"])), "{answer}");
        let of_pbft = ["agreement_probability", "expected_replies_lower_bound", "retransmissions_needed", "counting"];
        assert!(of_pbft.iter().all(|key| answer[key].is_null() != (protocol == "pbft")), "{answer}");
        let remedies = answer["remedies"].as_array().expect("a list");
        assert_eq!(remedies.len(), 4, "{answer}");
        assert_eq!(remedies.iter().filter(|remedy| remedy["cheapest"] == true).count(), 1, "{answer}");
    }
}

/// Each of these flags changes the answer: more copies, a timeout, the engine's counting, TCP.
#[test]
fn flags_change_the_answer() {
    let answer = |more: &[&str]| json(&[&["model", "pbft", "--loss", "0.1", "--json", "-"], more].concat());
    let plain = answer(&[]);
    let success = number(&plain, &["success_probability"]);
    for more in [
        &["--pre-prepare-repeat", "1"][..],
        &["--repeat", "1"],
        &["--transport", "tcp"],
        &["--counting", "engine"],
        &["--replies", "f+1"],
        &["--client-loss", "0"],
        &["--quorum", "2"],
    ] {
        assert!(number(&answer(more), &["success_probability"]) > success + 0.01, "{more:?}");
    }
    for more in [&["--silent", "1"][..], &["--segments", "3"], &["--pre-prepare-bytes", "4000"], &["--replies", "4"]] {
        assert!(number(&answer(more), &["success_probability"]) < success - 0.01, "{more:?}");
    }
    assert_eq!(number(&answer(&["--timeout-ms", "150"]), &["view_change", "timeout_ms"]), 150.0);
    assert!(number(&answer(&["--client-delay-ms", "1"]), &["latency_ms", "p50"]) < 150.0);
    let more = number(&answer(&["--with-request"]), &["latency_ms", "mean"]) - number(&plain, &["latency_ms", "mean"]);
    assert!((more - 40.0).abs() < 0.5, "{more}");
    let bits = json(&["model", "pbft", "--bit-error-rate", "0.0001", "--json", "-"]);
    assert!((number(&bits, &["loss"]) - (1.0 - (1.0f64 - 0.0001).powi(156 * 8))).abs() < 1e-9, "{bits}");
    let bursts = answer(&["--burst-packets", "3", "--repeat", "1"]);
    assert!(number(&bursts, &["message_loss"]) > 0.05, "copies are lost together: {bursts}");
}

#[test]
fn a_sweep_is_a_table_json_and_a_page() {
    let scratch = Scratch::new("model-sweep");
    let (report, data) = (scratch.path("model.html"), scratch.path("model.json"));
    let call = ["model", "pbft", "--sweep", "loss=0..0.3/0.1", "--report", &report, "--json", &data];
    let table = text(&succeeds(&call).stdout);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 5, "{table}");
    assert!(rows[0].contains("success") && rows[4].trim_start().starts_with("0.3 "), "{table}");
    let result: Value = serde_json::from_str(&fs::read_to_string(&data).expect("it is there")).expect("JSON");
    assert_eq!(result["values"], serde_json::json!([0.0, 0.1, 0.2, 0.3]));
    let successes: Vec<f64> = (0..4).map(|at| number(&result["answers"][at], &["success_probability"])).collect();
    assert!(successes.windows(2).all(|pair| pair[0] > pair[1]), "{successes:?}");
    let page = fs::read_to_string(&report).expect("it is there");
    assert!(page.contains("Success of a request") && page.contains("<svg"), "the page has plots");
    let replicas = json(&["model", "jolteon", "--sweep", "replicas=4..10/3", "--json", "-"]);
    let faults: Vec<u64> = (0..3).filter_map(|at| replicas["answers"][at]["faults"].as_u64()).collect();
    assert_eq!(faults, [1, 2, 3]);
}

/// Invalid input causes one error that names the flag, and exit status 2.
#[test]
fn nonsense_is_refused_with_status_2() {
    for (arguments, words) in [
        (&["pbft", "--replicas", "3", "--faults", "1"][..], &["--replicas", "at least 4"][..]),
        (&["pbft", "--replicas", "0"], &["--replicas"]),
        (&["pbft", "--replicas", "1001"], &["--replicas", "1000"]),
        (&["pbft", "--loss", "1.5"], &["--loss", "between 0 and 1"]),
        (&["pbft", "--loss=-0.1"], &["--loss", "between 0 and 1"]),
        (&["pbft", "--loss", "NaN"], &["--loss", "between 0 and 1"]),
        (&["pbft", "--loss", "inf"], &["--loss"]),
        (&["pbft", "--loss", "much"], &["--loss"]),
        (&["pbft", "--delay-ms", "NaN"], &["--delay-ms"]),
        (&["pbft", "--jitter-ms=-1"], &["--jitter-ms"]),
        (&["pbft", "--delay-ms", "0"], &["--delay-ms"]),
        (&["pbft", "--silent", "4"], &["--silent"]),
        (&["pbft", "--quorum", "9"], &["--quorum"]),
        (&["pbft", "--replies", "5"], &["--replies"]),
        (&["pbft", "--replies", "most"], &["--replies", "f+1"]),
        (&["pbft", "--transport", "tcp", "--repeat", "1"], &["--repeat", "TCP"]),
        (&["pbft", "--transport", "tcp", "--burst-packets", "2"], &["--burst-packets", "TCP"]),
        (&["pbft", "--burst-packets", "0", "--loss", "0.1"], &["--burst-packets"]),
        (&["pbft", "--segments", "0"], &["--segments"]),
        (&["pbft", "--mtu-bytes", "20", "--pre-prepare-bytes", "100"], &["--mtu-bytes"]),
        (&["pbft", "--timeout-ms", "0"], &["--timeout-ms"]),
        (&["raft"], &["raft", "pbft"]),
        (&["pbft", "--sweep", "loss"], &["--sweep", "loss=0..0.3/0.01"]),
        (&["pbft", "--sweep", "lost=0..1/0.1"], &["did you mean `loss`"]),
        (&["pbft", "--sweep", "loss=0..2/0.5"], &["--loss", "between 0 and 1"]),
        (&["pbft", "--sweep", "loss=0..1/0"], &["positive step"]),
        (&["pbft", "--sweep", "loss=0..1/0.0001"], &["1000 values"]),
        (&["pbft", "--sweep", "replicas=4..5/0.5"], &["whole number"]),
        (&["pbft", "--report", "page.html"], &["--sweep"]),
    ] {
        let output = quorate(&[&["model"], arguments].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty() && !error.contains("panicked"), "{arguments:?}: {error}");
        let errors = error.lines().filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "{arguments:?}: {error}");
    }
}

/// A thousand replicas take seconds, not minutes.
#[test]
fn a_thousand_replicas_have_an_answer() {
    let answer = json(&["model", "jolteon", "--replicas", "1000", "--loss", "0.1", "--json", "-"]);
    assert_eq!(answer["quorum"], 667);
}

/// With two silent replicas of four no quorum answers: the sums over its sizes have no terms.
#[test]
fn a_chance_of_zero_has_no_sign() {
    let flags = ["model", "pbft", "--silent", "2"];
    let table = text(&succeeds(&flags).stdout);
    assert!(table.contains("success") && !table.contains("-0"), "{table}");
    let answer = json(&[&flags[..], &["--json", "-"]].concat());
    for key in ["success_probability", "agreement_probability", "expected_replies"] {
        let value = answer[key].as_f64().unwrap_or_else(|| panic!("{key} is {}", answer[key]));
        assert!(value == 0.0 && value.is_sign_positive(), "{key} is {}", answer[key]);
    }
}
