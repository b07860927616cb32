//! Real processes that are killed with -9 and stopped, and clients whose histories are judged.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn json(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(arguments)
        .args(["--json", "-"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {log}");
    serde_json::from_slice(&output.stdout).expect("standard output is JSON and nothing else")
}

#[test]
fn the_demonstration_keeps_its_word() {
    let report = std::env::temp_dir().join(format!("quorate-test-{}-demo.html", std::process::id()));
    let outcome = json(&["demo", "--report", report.to_str().expect("a test's path is UTF-8")]);
    let page = std::fs::read_to_string(&report).expect("the report is written");
    let _ = std::fs::remove_file(&report);
    let (load, witnesses) = (&outcome["load"], &outcome["witnesses"]);
    assert_eq!(load["agreement"], Value::Bool(true));
    assert!(load["committed_commands"].as_u64() > Some(0));
    assert!(witnesses["operations"].as_u64() > Some(0));
    assert_eq!(witnesses["violations"], Value::Array(Vec::new()));
    let evidence = load["evidence"].as_array().expect("a list");
    assert!(evidence.iter().any(|proof| proof.as_str().is_some_and(|proof| proof.starts_with("replica 0 signed two"))));
    let events: Vec<&str> =
        load["events"].as_array().expect("a list").iter().filter_map(|it| it["text"].as_str()).collect();
    for event in ["equivocate:0@4s", "replica 3 killed", "replica 3 started again", "replica 0 started again"] {
        assert!(events.contains(&event) && page.contains(event), "{event} is among {events:?} and on the page");
    }
}

#[test]
fn torture_finds_nothing_under_any_engine() {
    for protocol in ["chained-hotstuff", "basic-hotstuff", "pbft"] {
        let verdict = json(&["torture", "--minutes", "0.15", "--seed", "7", "--protocol", protocol]);
        assert_eq!(verdict["violations"], Value::Array(Vec::new()), "{protocol}");
        assert_eq!((&verdict["stalled_at"], &verdict["divergence"]), (&Value::Null, &Value::Null), "{protocol}");
        assert!(verdict["operations"].as_u64() > Some(0) && !verdict["blows"].as_array().expect("a list").is_empty());
    }
    assert!(!Path::new("journal").exists(), "replicas write where they live");
}
