//! `client load` on a cluster that others use: it validates its settings, and leaves nothing behind.

use crate::common::*;
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(120);

/// A running cluster with one key of another user.
struct Net(String, #[allow(dead_code, reason = "the replicas end on drop")] Nodes, #[allow(dead_code)] Scratch);

impl Net {
    fn start(name: &str) -> Net {
        let scratch = Scratch::new(name);
        let net = scratch.path("net");
        succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
        let nodes = Nodes::start(&net);
        succeeds(&["client", "--dir", &net, "put", "greeting", "hello"]);
        Net(net, nodes, scratch)
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        let scan = succeeds(&["client", "--dir", &self.0, "scan", "--prefix", prefix, "--json"]);
        let pairs = text(&scan.stdout);
        let pairs = pairs.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        pairs.map(|pair| pair["key"].as_str().unwrap_or("binary").to_owned()).collect()
    }
}

const SHORT: [&str; 4] = ["--warmup", "100ms", "--duration", "300ms"];

#[test]
fn a_load_leaves_the_store_as_it_was() {
    let net = Net::start("loads-clean");
    for workload in ["fixed", "ycsb-a", "ycsb-b", "ycsb-f"] {
        let load = ["client", "--dir", &net.0, "load", "--workload", workload, "--records", "500", "--payload", "64"];
        let result = json(&[&load[..], &SHORT, &["--json", "-"]].concat());
        assert!(result["committed_commands"].as_u64() > Some(0), "{workload}: {result}");
        assert_eq!(net.keys(""), ["greeting"], "{workload}");
    }
    assert_eq!(text(&succeeds(&["client", "--dir", &net.0, "get", "greeting"]).stdout), "hello\n");
}

/// Holds even if a signal ends it while it uses its keys.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_load_leaves_the_store_as_it_was() {
    let net = Net::start("loads-interrupted");
    let mut command = quorate_heeding_signals();
    command.args(["client", "--dir", &net.0, "load", "--workload", "ycsb-a", "--records", "500", "--duration", "10m"]);
    let mut load: Child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let start = Instant::now();
    while net.keys("quorate-load/").len() < 500 {
        assert!(start.elapsed() < HANG, "the load writes its records");
        thread::sleep(Duration::from_millis(10));
    }
    let process = libc::pid_t::try_from(load.id()).expect("a process id fits");
    // SAFETY: sends a signal to a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(process, libc::SIGINT) }, 0);
    let status = loop {
        if let Some(status) = load.try_wait().expect("it can be waited for") {
            break status;
        }
        if start.elapsed() > HANG {
            load.kill().expect("it runs");
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(128 + libc::SIGINT));
    assert_eq!(net.keys(""), ["greeting"]);
}

/// Commands that exceed the store's limits or are unknown to it are refused before anything is sent.
#[test]
fn what_the_store_cannot_hold_is_refused_before_the_run() {
    let net = Net::start("loads-limits");
    let lines = net.2.path("lines");
    fs::write(&lines, "put a 1\nget a\n").expect("it can be written");
    let file = format!("file:{lines}");
    let load = ["client", "--dir", &net.0, "load"];
    for (flags, words) in [
        (&["--payload", "1048577"][..], "at most 1048576"),
        (&["--payload", "2000000"], "at most 1048576"),
        (&["--payload", "4194304"], "--payload"),
        (&["--payload", "1048577", "--workload", "ycsb-a"], "at most 1048576"),
        (&["--payload", "2000000", "--workload", "ycsb-f"], "at most 1048576"),
        (&["--workload", &file], "line 1"),
    ] {
        let output = quorate(&[&load[..], flags, &SHORT].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(words) && !said.contains("panicked") && !said.contains("stage:"), "{flags:?}: {said}");
    }
    let largest = [&load[..], &["--payload", "1048576", "--clients", "1", "--outstanding", "1"], &SHORT].concat();
    succeeds(&largest);
    assert_eq!(net.keys(""), ["greeting"]);
    for host in ["bench", "sim"] {
        let output = quorate(&[&[host, "--payload", "2000000", "--workload", "ycsb-a"][..], &SHORT].concat());
        assert_eq!(output.status.code(), Some(2), "{host}: {}", text(&output.stderr));
    }
}

/// The limit belongs to the replicas, and a client does not know it. The load must not run to its end before reporting
/// that none of its commands can be ordered.
#[test]
fn commands_over_the_clusters_limit_end_a_load_at_once() {
    let scratch = Scratch::new("loads-large");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    for replica in 0..4 {
        let file = format!("{net}/replica-{replica}/config.toml");
        let text = fs::read_to_string(&file).expect("it was written");
        let smaller = text.replace("batch_bytes = 8388608", "batch_bytes = 65536");
        assert_ne!(text, smaller, "the key is there");
        fs::write(&file, smaller).expect("it can be written");
    }
    let _nodes = Nodes::start(&net);
    let output =
        quorate(&["client", "--dir", &net, "load", "--payload", "100000", "--bundle", "1", "--duration", "10m"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the replicas refused a command: the bundle has 100") && said.contains("; help: "), "{said}");
    succeeds(&["client", "--dir", &net, "put", "large", &"x".repeat(30_000)]);
}
