//! Several calls of `quorate lab run` share a directory.

use crate::common::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

const REPETITIONS: usize = 3;
const BATCHES: usize = 5;
const RUNS: usize = REPETITIONS * BATCHES;

/// Simulated runs of half a second or so.
fn experiment(scratch: &Scratch) -> String {
    let path = scratch.path("mine.toml");
    let batches: Vec<usize> = (1..=BATCHES).map(|batch| 10 * batch).collect();
    let text = format!(
        "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"simulated\"]\n[base]\noutstanding = 100\n\
         warmup = \"50ms\"\nduration = \"2s\"\n[[axis]]\nkey = \"batch\"\nvalues = {batches:?}\n\
         [repeat]\nmin = {REPETITIONS}\nmax = {REPETITIONS}\n"
    );
    fs::write(&path, text).expect("the scratch directory can be written");
    path
}

/// Starts a call that shares the directory, and returns it with the file of its progress.
fn start(scratch: &Scratch, number: usize, file: &str, dir: &str) -> (Child, String) {
    let log = scratch.path(&format!("log-{number}"));
    let mut command = quorate_heeding_signals();
    command.args(["lab", "run", file, "--dir", dir, "--on", "shared:1"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(&log).expect("the scratch directory can be written"));
    (command.spawn().expect("the binary runs"), log)
}

/// Returns the runs that a call has completed.
fn runs(log: &str) -> Vec<String> {
    let text = fs::read_to_string(log).expect("it is there");
    let names = text.lines().filter_map(|line| Some(line.split_once("] ")?.1.split_once(": ")?.0.to_owned()));
    names.filter(|name| name.contains("repetition")).collect()
}

fn lacks(file: &str, dir: &str) -> BTreeMap<String, usize> {
    let missing = json(&["lab", "missing", file, "--dir", dir, "--json", "-"]);
    let mut counts = BTreeMap::new();
    for lack in missing["experiments"][0]["missing"].as_array().expect("a list") {
        *counts.entry(lack["reason"].as_str().expect("a reason").to_owned()).or_insert(0) += 1;
    }
    counts
}

/// One of three calls is killed. The others take its run, and none is made twice.
#[test]
fn calls_share_the_runs_of_an_experiment_and_outlive_each_other() {
    let scratch = Scratch::new("lab-shared");
    let (file, dir) = (experiment(&scratch), scratch.path("dir"));
    let mut calls: Vec<(Child, String)> = (0..3).map(|number| start(&scratch, number, &file, &dir)).collect();
    wait_until("the first call completes a run", || !runs(&calls[0].1).is_empty());
    let (mut killed, killed_log) = calls.remove(0);
    killed.kill().and_then(|()| killed.wait()).expect("it runs");
    for (call, log) in &mut calls {
        let status = call.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", fs::read_to_string(log).expect("it is there"));
    }
    let mut made: Vec<String> = calls.iter().flat_map(|(_, log)| runs(log)).chain(runs(&killed_log)).collect();
    made.sort();
    let distinct: BTreeSet<&String> = made.iter().collect();
    assert_eq!(distinct.len(), made.len(), "runs are made twice: {made:?}");
    // The killed call may have kept a row without having said so.
    assert!((RUNS - 1..=RUNS).contains(&made.len()), "{made:?}");
    assert_eq!(lacks(&file, &dir), BTreeMap::new());
    let left: Vec<_> = fs::read_dir(Path::new(&dir).join("cells")).expect("it is there").flatten().collect();
    let rows = left.iter().filter(|entry| entry.path().extension().is_some_and(|own| own == "json")).count();
    assert_eq!(rows, RUNS);
    let again = succeeds(&["lab", "run", &file, "--dir", &dir]);
    assert!(text(&again.stderr).contains(&format!("{RUNS} runs are there already")), "{}", text(&again.stderr));
}

#[test]
fn missing_runs_are_listed_with_the_reason() {
    let scratch = Scratch::new("lab-missing");
    let (file, dir) = (experiment(&scratch), scratch.path("dir"));
    let refused = quorate(&["lab", "missing", &file, "--dir", &dir]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("is no directory of results"), "{}", text(&refused.stderr));
    succeeds(&["lab", "run", &file, "--dir", &dir]);
    let rows: Vec<_> = fs::read_dir(Path::new(&dir).join("cells")).expect("it is there").flatten().collect();
    let mut rows: Vec<_> = rows
        .iter()
        .map(std::fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(|own| own == "json"))
        .collect();
    rows.sort();
    fs::remove_file(&rows[0]).expect("it is there");
    let mut failed: Value = serde_json::from_slice(&fs::read(&rows[1]).expect("it is there")).expect("it is JSON");
    failed["failure"] = "it was killed".into();
    fs::write(&rows[1], failed.to_string()).expect("it can be written");
    assert_eq!(lacks(&file, &dir), BTreeMap::from([("absent".into(), 1), ("failed".into(), 1)]));
    let table = text(&succeeds(&["lab", "missing", &file, "--dir", &dir]).stdout);
    assert!(table.contains("1 absent, 1 failed") && table.contains(": it was killed"), "{table}");
    let told = text(&succeeds(&["lab", "run", &file, "--dir", &dir, "--on", "local:2"]).stderr);
    assert!(told.contains(&format!("[{RUNS}/{RUNS}]")), "only the two are run again: {told}");
    assert_eq!(lacks(&file, &dir), BTreeMap::new());
}

#[test]
fn a_machine_without_slurm_gets_the_script_and_is_told_so() {
    let scratch = Scratch::new("lab-slurm");
    let (file, dir) = (experiment(&scratch), scratch.path("dir"));
    let mut command = quorate_heeding_signals();
    command.args(["lab", "run", &file, "--dir", &dir, "--on", "slurm:4"]).env("PATH", "/nowhere");
    let refused = command.output().expect("the binary runs");
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("there is no `sbatch`"), "{said}");
    let script = fs::read_to_string(Path::new(&dir).join("slurm.sh")).expect("it is written");
    assert!(script.contains("--array=1-4\n") && script.contains("--on shared"), "{script}");
    let refused = quorate(&["lab", "run", &file, "--dir", &dir, "--on", "slurm:4", "--json", "-"]);
    assert!(text(&refused.stderr).contains("has no effect with --on slurm"), "{}", text(&refused.stderr));
}
