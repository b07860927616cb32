//! Tests `quorate inspect` on the directories of running, stopped and damaged replicas.

use crate::common::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn a_directory_is_inspected_before_while_and_after_its_replica_runs() {
    let scratch = Scratch::new("inspect");
    let net = scratch.path("net");
    succeeds(&["testnet", "--replicas", "4", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let home = format!("{net}/replica-2");
    let inspect = |flags: &[&str]| quorate(&[&["inspect", "--dir", &home], flags].concat());
    let told = |flags: &[&str]| -> Value {
        let output = inspect(&[flags, &["--json", "-"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("standard output is JSON and nothing else")
    };
    let before = told(&["--verify"]);
    assert_eq!((&before["memory"], &before["replica"]), (&Value::from("new"), &Value::from(2)));

    let nodes = Nodes::start(&net);
    for value in ["one", "two", "three"] {
        succeeds(&["client", "--dir", &net, "put", "key", value]);
    }
    let beside = told(&["--verify"]);
    assert_eq!(beside["journal"]["held_by_process"], Value::from(nodes.0[2].id()));
    assert_eq!((&beside["memory"], &beside["verification"]["sound"]), (&Value::from("kept"), &Value::from(true)));
    succeeds(&["client", "--dir", &net, "put", "key", "four"]);
    drop(nodes);

    let file = scratch.path("export.jsonl");
    let after = told(&["--export", &file]);
    assert_eq!(after["journal"]["held_by_process"], Value::Null);
    let lines: Vec<Value> = fs::read_to_string(&file)
        .expect("the export is there")
        .lines()
        .map(|line| serde_json::from_str(line).expect("lines are JSON"))
        .collect();
    let blocks = lines.iter().filter(|line| line["line"] == "block" && line["committed"] == true).count();
    assert_eq!(after["export"]["blocks"], Value::from(blocks));
    assert_eq!(after["export"]["proven_height"], lines.last().expect("there is an end")["proven_height"]);
    let table = text(&inspect(&["--verify"]).stdout);
    for words in ["replica       2 of 4", "promised      ", "segment       ", "verdict       sound"] {
        assert!(table.contains(words), "{words:?} is in\n{table}");
    }
}

#[test]
fn a_fault_is_reported_and_sets_the_exit_status() {
    let scratch = Scratch::new("inspect-wrong");
    let net = scratch.path("net");
    succeeds(&["testnet", "--replicas", "4", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let nodes = Nodes::start(&net);
    succeeds(&["client", "--dir", &net, "put", "key", "value"]);
    drop(nodes);
    let home = format!("{net}/replica-0");
    let segment = Path::new(&home).join("journal/000000000000.segment");
    let mut bytes = fs::read(&segment).expect("it can be read");
    // Damages the first record: the first group starts after the first sector.
    bytes[580] ^= 1;
    fs::write(&segment, bytes).expect("it can be written");
    for flags in [&[][..], &["--verify"]] {
        let output = quorate(&[&["inspect", "--dir", &home], flags].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("000000000000.segment, byte ") && said.contains("--repair"), "{said}");
    }
    let repaired = text(&succeeds(&["inspect", "--dir", &home, "--repair"]).stdout);
    assert!(repaired.contains("memory        lost") && repaired.contains(".aside-1"), "{repaired}");

    let (replica_1, replica_3) = (format!("{net}/replica-1"), format!("{net}/replica-3"));
    fs::remove_dir_all(format!("{replica_1}/journal")).expect("it can be removed");
    fs::rename(format!("{replica_3}/journal"), format!("{replica_1}/journal")).expect("it can be renamed");
    for (arguments, status, words) in [
        (&["inspect", "--dir", &replica_1, "--verify"][..], 1, "the journal belongs to replica 3"),
        (&["inspect", "--dir", &scratch.path("absent")], 2, "name a directory made by `quorate testnet`"),
        (&["inspect", "--dir", &home, "--repair", "--verify"], 2, "cannot be used with"),
    ] {
        let output = quorate(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?} lacks {words:?}: {said}");
    }
}

#[test]
fn an_export_is_checked_without_the_cluster() {
    let scratch = Scratch::new("inspect-check");
    let net = scratch.path("net");
    succeeds(&["testnet", "--replicas", "4", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let nodes = Nodes::start(&net);
    for value in ["one", "two", "three"] {
        succeeds(&["client", "--dir", &net, "put", "key", value]);
    }
    drop(nodes);
    let file = scratch.path("export.jsonl");
    succeeds(&["inspect", "--dir", &format!("{net}/replica-1"), "--export", &file]);
    let checked = json(&["inspect", "--check", &file, "--keys", &net, "--json", "-"]);
    assert_eq!(checked["keys_compared"], Value::Bool(true));
    assert!(checked["commands"].as_u64() > Some(0) && checked["signatures"].as_u64() > Some(0));
    let whole = fs::read_to_string(&file).expect("it is there");
    let cut: String = whole.lines().take(whole.lines().count() - 1).flat_map(|line| [line, "\n"]).collect();
    fs::write(&file, cut).expect("it can be written");
    let refused = quorate(&["inspect", "--check", &file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("the end is missing"), "{}", text(&refused.stderr));
    assert_eq!(quorate(&["inspect", "--verify"]).status.code(), Some(2), "there is nothing to inspect");
}

#[test]
fn the_export_of_a_replica_that_never_ran_is_sound() {
    let scratch = Scratch::new("inspect-new");
    let (net, export) = (scratch.path("net"), scratch.path("export"));
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    succeeds(&["inspect", "--dir", &format!("{net}/replica-0"), "--export", &export]);
    let output = succeeds(&["inspect", "--check", &export, "--keys", &net]);
    assert!(text(&output.stdout).contains("sound"), "{}", text(&output.stdout));
    let named = fs::read_to_string(&export).expect("it was written");
    let at = named.find("\"committed_digest\":\"").expect("the last line names the last block") + 20;
    let digit = if &named[at..=at] == "0" { "1" } else { "0" };
    fs::write(&export, format!("{}{digit}{}", &named[..at], &named[at + 1..])).expect("it can be written");
    assert!(
        !quorate(&["inspect", "--check", &export, "--keys", &net]).status.success(),
        "another genesis is not sound"
    );
}
