//! Sweeps of experiments: on hosts over SSH, until a time, in an order, in pods of Kubernetes; and merged directories.

use crate::common::fake_ssh::FakeHosts;
use crate::common::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

const REPETITIONS: usize = 3;
const BATCHES: usize = 4;
const RUNS: usize = REPETITIONS * BATCHES;

/// Writes an experiment with short simulated runs, and these further keys of its base.
pub fn experiment(scratch: &Scratch, base: &str, more: &str) -> String {
    let path = scratch.path("mine.toml");
    let batches: Vec<usize> = (1..=BATCHES).map(|batch| 10 * batch).collect();
    let text = format!(
        "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"simulated\"]\n[base]\noutstanding = 100\n\
         warmup = \"50ms\"\nduration = \"1s\"\n{base}\n[[axis]]\nkey = \"batch\"\nvalues = {batches:?}\n\
         [repeat]\nmin = {REPETITIONS}\nmax = {REPETITIONS}\n{more}"
    );
    fs::write(&path, text).expect("the scratch directory can be written");
    path
}

/// Returns the names of the runs that a call has completed, in their order.
pub fn completed(log: &str) -> Vec<String> {
    let names = log.lines().filter_map(|line| Some(line.split_once("] ")?.1.split_once(": ")?.0.to_owned()));
    names.filter(|name| name.contains("repetition")).collect()
}

pub fn files(dir: &str, below: &str, extension: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(Path::new(dir).join(below)).expect("it is there").flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|own| own == extension)).collect();
    paths.sort();
    paths
}

pub fn missing(file: &str, dir: &str) -> usize {
    let missing = json(&["lab", "missing", file, "--dir", dir, "--json", "-"]);
    missing["experiments"][0]["missing"].as_array().expect("a list").len()
}

/// Starts a sweep on the hosts, and returns it with the file of its progress.
fn sweep(hosts: &FakeHosts, file: &str, dir: &str, json: &str) -> (Child, String) {
    let log = hosts.scratch.path("log");
    let mut command = hosts.quorate();
    command.args(["lab", "run", file, "--dir", dir, "--on", &format!("ssh:{}", hosts.file()), "--json", json]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).expect("it can be written"));
    (command.spawn().expect("the binary runs"), log)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("it is there")
}

/// One of three hosts dies while it runs cells.
#[test]
fn hosts_run_cells_and_those_of_a_dead_host_run_elsewhere() {
    let hosts = FakeHosts::new("sweep-hosts", 0, 3);
    let workers = (0..3).map(|host| {
        format!(
            "[[host]]\nname = \"c{host}\"\nssh = \"c{host}\"\naddress = \"127.0.0.1\"\nrole = \"worker\"\ncores = 1\n"
        )
    });
    fs::write(hosts.file(), workers.collect::<String>()).expect("written");
    let network = hosts.scratch.path("far.toml");
    fs::write(&network, include_str!("../../simulator/networks/us4.toml")).expect("written");
    let file = experiment(&hosts.scratch, &format!("network = {network:?}"), "");
    let (dir, json) = (hosts.scratch.path("dir"), hosts.scratch.path("result.json"));
    let (mut call, log) = sweep(&hosts, &file, &dir, &json);
    wait_until("each host runs a cell", || (0..3).all(|host| !children(&hosts, &format!("c{host}")).is_empty()));
    let agent = agent(&hosts, "c1").expect("it runs");
    signal(agent, libc::SIGKILL);
    assert!(call.wait().expect("it ends").success(), "{}", read(&log));
    let said = read(&log);
    assert!(said.contains("3 hosts take runs, 3 simulations at a time"), "{said}");
    assert_eq!(
        said.matches("host c1 failed, and its runs go to the others: its connection ended").count(),
        1,
        "{said}"
    );
    let made = completed(&said);
    assert_eq!((made.len(), made.iter().collect::<BTreeSet<_>>().len()), (RUNS, RUNS), "{made:?}");
    let result: Value = serde_json::from_str(&read(&json)).expect("it is JSON");
    let rows = result["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["failure"].is_null()), "{rows:?}");
    let by: BTreeSet<&str> = rows.iter().filter_map(|row| row["provenance"]["host"].as_str()).collect();
    assert!(by.contains("c0") && by.contains("c2"), "{by:?}");
    let log_of_run = read(files(&dir, "logs", "log")[0].to_str().expect("UTF-8"));
    assert!(log_of_run.contains("command: quorate sim ") && log_of_run.contains("\nhost: c"), "{log_of_run}");
    wait_until("no process is left", || hosts.processes(None).is_empty());
    // The next run on a host removes the directory of an agent that was killed.
    assert!(hosts.runs().iter().all(|run| run.starts_with(hosts.at("c1"))), "{:?}", hosts.runs());
    // The same runs here: nothing is left to do in that directory, and another one gets the same figures.
    assert_eq!(missing(&file, &dir), 0);
    let here = hosts.scratch.path("here");
    let local = crate::common::json(&["lab", "run", &file, "--dir", &here, "--json", "-"]);
    let figures = |result: &Value| {
        let rows = result["rows"].as_array().expect("rows").iter();
        let of = |row: &Value| ((row["cell"].to_string(), row["repetition"].to_string()), row["figures"].clone());
        rows.map(of).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(figures(&result), figures(&local));
}

fn children(hosts: &FakeHosts, host: &str) -> Vec<u32> {
    let runs = |process: &u32| words(*process).get(1).is_some_and(|word| word == "sim");
    hosts.processes(Some(host)).into_iter().filter(runs).collect()
}

/// Returns the agent of a host that runs a cell: the cell's parent. Its directory would be visible to root only.
fn agent(hosts: &FakeHosts, host: &str) -> Option<u32> {
    let cell = *children(hosts, host).first()?;
    let stat = fs::read_to_string(format!("/proc/{cell}/stat")).ok()?;
    let parent: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some(parent).filter(|parent| words(*parent).get(1).is_some_and(|word| word == "deployed-agent"))
}

fn words(process: u32) -> Vec<String> {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[test]
fn a_signal_ends_the_runs_on_hosts_and_the_next_call_goes_on() {
    let hosts = FakeHosts::new("sweep-signal", 0, 2);
    let file = experiment(&hosts.scratch, "", "");
    let (dir, json) = (hosts.scratch.path("dir"), hosts.scratch.path("result.json"));
    let text = read(&hosts.file()).replace("interface = \"lo\"", "cores = 1");
    let text = text.replace("role = \"client\"", "role = \"worker\"");
    fs::write(hosts.file(), text).expect("written");
    for number in [libc::SIGINT, libc::SIGKILL] {
        let (mut call, log) = sweep(&hosts, &file, &dir, &json);
        wait_until("a run is completed", || !completed(&read(&log)).is_empty());
        signal(call.id(), number);
        call.wait().expect("it ends");
        wait_until("no process is left", || hosts.processes(None).is_empty());
        wait_until("no directory is left", || hosts.runs().is_empty());
    }
    let left = missing(&file, &dir);
    assert!(left <= RUNS - 2, "{left}");
    let (mut call, log) = sweep(&hosts, &file, &dir, &json);
    assert!(call.wait().expect("it ends").success(), "{}", read(&log));
    assert_eq!((completed(&read(&log)).len(), missing(&file, &dir)), (left, 0));
}

#[test]
fn a_sweep_stops_at_a_time_says_what_is_left_and_directories_merge() {
    let scratch = Scratch::new("sweep-until");
    let (file, dir) = (experiment(&scratch, "", ""), scratch.path("dir"));
    let run = ["lab", "run", &file, "--dir", &dir];
    succeeds(&run);
    let logs = files(&dir, "logs", "log");
    assert_eq!(logs.len(), RUNS);
    let log = read(logs[0].to_str().expect("UTF-8"));
    assert!(log.starts_with("run: mine/mine simulated, repetition ") && log.contains("\nend: ended with a result\n"));
    for row in &files(&dir, "cells", "json")[..6] {
        fs::remove_file(row).expect("it is there");
    }
    let stopped = succeeds(&[&run[..], &["--until", "0s"]].concat());
    let (said, table) = (text(&stopped.stderr), text(&stopped.stdout));
    assert!(said.contains("6 runs are left, for about "), "{said}");
    assert!(said.contains(&format!("go on with\n  quorate lab run {file} --dir {dir}\n")), "{said}");
    assert!(table.contains("PARTIAL  stopped by --until; 6 runs are left"), "{table}");
    assert_eq!(missing(&file, &dir), 6);
    let again = text(&succeeds(&run).stderr);
    assert_eq!((completed(&again).len(), missing(&file, &dir)), (6, 0), "{again}");
    // Into an empty directory, and once more.
    let other = scratch.path("other");
    let merged = text(&succeeds(&["lab", "merge", &dir, &other]).stdout);
    assert!(merged.contains(&format!("{RUNS} runs added, 0 were there already")), "{merged}");
    assert_eq!(missing(&file, &other), 0);
    let row = &files(&other, "cells", "json")[0];
    let mut failed: Value = serde_json::from_str(&read(row.to_str().expect("UTF-8"))).expect("it is JSON");
    failed["failure"] = "it was killed".into();
    fs::write(row, failed.to_string()).expect("it can be written");
    let merged = text(&succeeds(&["lab", "merge", &dir, &other]).stdout);
    assert!(merged.contains(&format!("1 runs added, {} were there already", RUNS - 1)), "{merged}");
    assert_eq!(missing(&file, &other), 0);
    // The experiment is recorded, although nothing runs.
    let third = scratch.path("third");
    quorate(&["lab", "run", &file, "--dir", &third, "--seed", "5", "--until", "0s"]);
    let refused = quorate(&["lab", "merge", &third, &other]);
    assert!(text(&refused.stderr).contains("differs between the directories"), "{}", text(&refused.stderr));
}

#[test]
fn the_cells_of_claims_run_first_if_asked_for() {
    let scratch = Scratch::new("sweep-first");
    let claim = "[[claim]]\nid = \"large\"\ntext = \"It completes.\"\npaper = \"none\"\nkind = \"bound\"\n\
                 figure = \"completed_commands\"\nwhere = { batch = 40 }\nmin = 1\n";
    let (file, dir) = (experiment(&scratch, "", claim), scratch.path("dir"));
    let said = text(&succeeds(&["lab", "run", &file, "--dir", &dir, "--on", "local:1", "--first", "claims"]).stderr);
    let made = completed(&said);
    assert_eq!(made.len(), RUNS, "{said}");
    assert!(made[..REPETITIONS].iter().all(|name| name.contains("batch 40")), "{made:?}");
    assert!(!made[REPETITIONS..].iter().any(|name| name.contains("batch 40")), "{made:?}");
    let refused = quorate(&["lab", "run", &file, "--dir", &dir, "--first", "pipeline"]);
    assert!(text(&refused.stderr).contains("`pipeline` is not among the experiments"), "{}", text(&refused.stderr));
}

/// The pods' command runs here as two processes, with the directories of the pods below the test's own.
#[test]
fn pods_share_the_runs_of_an_experiment() {
    let scratch = Scratch::new("sweep-pods");
    let (file, dir) = (experiment(&scratch, "", ""), scratch.path("dir"));
    let told = text(&succeeds(&["lab", "run", &file, "--dir", &dir, "--on", "kubernetes:2"]).stdout);
    assert!(told.contains(&format!("kubectl apply --kustomize {dir}/kubernetes\n")), "{told}");
    let job = read(&format!("{dir}/kubernetes/job.yaml"));
    let arguments = job.lines().filter_map(|line| line.strip_prefix("            - '")?.strip_suffix('\''));
    let here = |word: &str| word.replace("/results", &dir).replace("/inputs", &format!("{dir}/kubernetes"));
    let arguments: Vec<String> = arguments.map(here).collect();
    let pods: Vec<(Child, String)> = (0..2)
        .map(|pod| {
            let log = scratch.path(&format!("pod-{pod}"));
            let mut command = quorate_heeding_signals();
            command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(File::create(&log).expect("it can be written"));
            (command.spawn().expect("the binary runs"), log)
        })
        .collect();
    let mut made = Vec::new();
    for (mut pod, log) in pods {
        assert!(pod.wait().expect("it ends").success(), "{}", read(&log));
        made.extend(completed(&read(&log)));
    }
    assert_eq!((made.len(), made.iter().collect::<BTreeSet<_>>().len()), (RUNS, RUNS), "{made:?}");
    assert_eq!(missing(&format!("{dir}/kubernetes/mine.toml"), &dir), 0);
    let network = scratch.path("far.toml");
    fs::write(&network, include_str!("../../simulator/networks/us4.toml")).expect("written");
    let file = experiment(&scratch, &format!("network = {network:?}"), "");
    let refused = quorate(&["lab", "run", &file, "--dir", &dir, "--on", "kubernetes:2"]);
    assert!(text(&refused.stderr).contains("is a file that pods do not have"), "{}", text(&refused.stderr));
}
