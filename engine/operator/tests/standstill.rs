//! `quorate-node status` on clusters of real processes that look healthy from one replica and are not.

use crate::{Net, REPLICAS, call, free_ports, program, succeeds};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for an event has hung.
const HANG: Duration = Duration::from_secs(120);

impl Net {
    /// Writes a cluster of four.
    pub fn written(name: &str, flags: &[&str]) -> Net {
        let path = std::env::temp_dir().join(format!("quorate-{name}-test-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let ports = free_ports().to_string();
        let dir = path.to_str().expect("a test's path is UTF-8").to_owned();
        succeeds(&[&["testnet", "--dir", &dir, "--base-port", &ports], flags].concat());
        Net { path, nodes: Vec::new() }
    }

    pub fn dir(&self) -> &str {
        self.path.to_str().expect("a test's path is UTF-8")
    }

    /// Replaces a line of a replica's configuration.
    pub fn configure(&self, replica: u16, key: &str, value: &str) {
        let path = self.path.join(format!("replica-{replica}/config.toml"));
        let text = fs::read_to_string(&path).expect("the configuration can be read");
        let is_key = |line: &str| line.trim_start_matches("# ").split_once(" =").is_some_and(|(name, _)| name == key);
        assert_eq!(text.lines().filter(|line| is_key(line)).count(), 1, "{key} has one line");
        let lines = text.lines().map(|line| if is_key(line) { format!("{key} = {value}") } else { line.to_owned() });
        fs::write(&path, lines.collect::<Vec<_>>().join("\n")).expect("the configuration can be written");
    }

    pub fn start(&mut self, replicas: impl IntoIterator<Item = u16>) {
        for replica in replicas {
            let home = self.path.join(format!("replica-{replica}"));
            let log = fs::File::options().create(true).append(true).open(home.join("log")).expect("a log");
            let mut command = program();
            command.args(["run", "--dir"]).arg(home).stdout(Stdio::null()).stderr(log);
            self.nodes.push(command.spawn().expect("a replica starts"));
        }
    }

    fn log(&self, replica: u16) -> String {
        fs::read_to_string(self.path.join(format!("replica-{replica}/log"))).unwrap_or_default()
    }

    /// Reads the status until `is_told` accepts the attention texts of the replicas and of the cluster; returns them
    /// and the exit status.
    fn status(&self, mut is_told: impl FnMut(&[String]) -> bool) -> (Vec<String>, Option<i32>) {
        let start = Instant::now();
        loop {
            let output = call(&["status", "--dir", self.dir(), "--json", "--timeout-ms", "5000"]);
            let status: Value = serde_json::from_slice(&output.stdout).expect("the status is JSON");
            let replicas = status["replicas"].as_array().expect("a list of replicas");
            let all = replicas.iter().chain([&status]);
            let attention: Vec<String> = all.map(|of| of["attention"].to_string()).collect();
            if is_told(&attention) {
                return (attention, output.status.code());
            }
            let logs: Vec<String> = (0..REPLICAS).map(|replica| self.log(replica)).collect();
            assert!(start.elapsed() < HANG, "the status does not say it: {attention:#?}\n{}", logs.join("\n"));
        }
    }

    pub fn put(&self, key: &str) {
        succeeds(&["client", "--dir", self.dir(), "put", key, "value"]);
    }
}

/// Each of these differences once let a replica run forever without a report, or led to advice to delete a sound
/// journal.
#[test]
fn a_parameter_that_differs_is_named_with_both_values_by_both_ends() {
    let cases = [
        ("protocol", "\"hotstuff-2\"", "`consensus.protocol` is", "jolteon", "hotstuff-2"),
        ("retained_blocks", "2000", "`consensus.retained_blocks` is", "16384", "2000"),
        ("batch", "10", "`consensus.batch` is", "auto", "10"),
        ("application", "\"log\"", "`application` is", "kv", "log"),
    ];
    for (key, value, names, usual, other) in cases {
        let mut net = Net::written("parameters", &[]);
        net.configure(3, key, value);
        net.start(0..REPLICAS);
        let here = format!("{names} {usual} here and {other} there");
        let there = format!("{names} {other} here and {usual} there");
        // If the genesis differs, the status does not come from a member of this cluster, so it is not read.
        let runs_another = "runs with another configuration and is not read: ";
        let is_other_cluster = |told: &str| {
            told.contains(runs_another) && told.contains("`protocol` is jolteon here and hotstuff-2 there")
        };
        let (attention, exit) = net.status(|told| {
            let names_all = (0..3).all(|replica| told[3].contains(&format!("replica {replica}, whose")));
            (0..3).all(|replica| told[replica].contains("replica 3") && told[replica].contains(&here))
                && (names_all && told[3].contains(&there) || is_other_cluster(&told[3]))
        });
        assert_eq!(exit, Some(1), "{attention:?}");
        assert!(net.log(0).contains(&here) && net.log(3).contains(&there), "{}", net.log(0));
        // The others are a quorum, and continue without it.
        net.put(key);
    }
}

#[test]
fn a_cluster_without_a_quorum_names_who_is_missing() {
    let mut net = Net::written("quorum", &[]);
    net.start(0..REPLICAS);
    net.put("before");
    let (_, exit) = net.status(|told| told.iter().all(|attention| attention == "[]"));
    assert_eq!(exit, Some(0));
    for replica in [2, 3] {
        net.nodes[replica].kill().and_then(|()| net.nodes[replica].wait()).expect("it runs");
    }
    let missing = "has no quorum: 2 of 4 replicas can vote, and 3 are needed; missing: replica 2 (does not answer), \
                   replica 3 (does not answer)";
    let (attention, exit) = net.status(|told| told[4].contains(missing));
    assert_eq!(exit, Some(1), "{attention:?}");
    // A command that waits longer for them than usual.
    let config = net.path.join("client.toml");
    let text = fs::read_to_string(&config).expect("the configuration can be read");
    let patient = text.replace("request_timeout_ms = 30000", "request_timeout_ms = 600000");
    assert_ne!(text, patient, "the key has its default");
    fs::write(&config, patient).expect("the configuration can be written");
    let path = net.dir().to_owned();
    let mut client = program();
    let mut client =
        client.args(["client", "--dir", &path, "put", "after", "x"]).stderr(Stdio::null()).spawn().expect("a client");
    let (attention, exit) =
        net.status(|told| told[4].contains("commits nothing for ") && told[0].contains("bundles wait"));
    assert_eq!(exit, Some(1), "{attention:?}");
    net.start([2, 3]);
    let status = client.wait().expect("it ends");
    assert!(status.success(), "the command is executed once there is a quorum");
    net.status(|told| told.iter().all(|attention| attention == "[]"));
}

/// A stopped process keeps its connections: only its votes are missing. Those that collect votes miss them: in Jolteon
/// the leader, which is not replica 0 if a view has timed out.
#[test]
fn votes_that_do_not_arrive_are_named() {
    for (protocol, late) in [("jolteon", None), ("jolteon", Some(0)), ("pbft", None)] {
        let mut net = Net::written("votes", &["--protocol", protocol]);
        net.start((0..REPLICAS).filter(|replica| late != Some(*replica)));
        net.put("before");
        net.start(late);
        let processes: Vec<libc::pid_t> = net.nodes.iter().map(|node| node.id() as libc::pid_t).collect();
        // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
        let signal = |node: usize, signal| assert_eq!(unsafe { libc::kill(processes[node], signal) }, 0);
        let silent = if late.is_some() { 2 } else { 3 };
        signal(silent, libc::SIGSTOP);
        let (attention, exit) = net.status(|told| {
            net.put("more");
            // A slow machine may close the silent link before the status is read.
            let words = ["receives no votes of replica 3, though it is connected", "is not connected to replica 3"];
            told[..3].iter().any(|attention| words.iter().any(|words| attention.contains(words)))
        });
        assert_eq!(exit, Some(1), "{attention:?}");
        signal(silent, libc::SIGCONT);
        // Under PBFT, a replica that has timed out of a view alone does not vote before the next one. The others enter
        // that while they miss their leader.
        let mut tries = 0;
        net.status(|told| {
            tries += 1;
            let leader = (protocol == "pbft" && tries % 3 == 0).then(|| (tries / 3 - 1) % 3);
            leader.into_iter().for_each(|node| signal(node, libc::SIGSTOP));
            net.put("again");
            leader.into_iter().for_each(|node| signal(node, libc::SIGCONT));
            !told[..3].iter().any(|attention| attention.contains("receives no votes of replica 3"))
        });
    }
}
