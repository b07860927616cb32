//! Tests the binary from a user's point of view: exit status, standard output and error, files, processes.

use crate::common::*;
use quorate_consensus::config::ProtocolKind;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Runs a short benchmark and returns its JSON.
fn bench(arguments: &[&str]) -> Value {
    bench_for("1s", arguments)
}

fn bench_for(duration: &str, arguments: &[&str]) -> Value {
    let short = ["bench", "--warmup", "300ms", "--duration", duration, "--json", "-"];
    json(&[&short[..], arguments].concat())
}

#[test]
fn a_bench_reports_every_key_and_agrees() {
    for protocol in ProtocolKind::ALL.iter().filter(|protocol| protocol.is_chained()) {
        let result = bench(&["--protocol", protocol.name(), "--view-timeout-ms", "10000"]);
        assert_eq!(result["agreement"], Value::Bool(true), "{protocol}");
        assert_eq!(result["view_timeouts"], 0, "{protocol}: no view times out without a fault");
        for key in
            ["throughput_ops", "committed_commands", "committed_blocks", "views", "bytes_per_command", "peak_rss_mb"]
        {
            assert!(result[key].as_f64().is_some_and(|value| value > 0.0), "{protocol}: {key} is {}", result[key]);
        }
        for (table, keys) in [
            ("latency_ms", &["mean", "p50", "p90", "p99", "p999", "max"][..]),
            ("cpu_us_per_command", &["total", "replicas", "clients"]),
        ] {
            keys.iter().for_each(|key| assert!(result[table][key].is_number(), "{protocol}: {table}.{key}"));
        }
        assert!(result["client_bound"].is_boolean() && result["longest_gap_ms"].is_number());
        assert!(result["verifications_per_block"].as_f64().is_some_and(|count| count >= 3.0));
        assert_eq!(result["spec"]["protocol"], protocol.name());
    }
}

#[test]
fn a_bench_reports_what_its_channel_and_its_links_take() {
    for (transport, channel, timeouts) in [("tcp", "plain", false), ("tcp", "tls", false), ("rudp", "dtls", true)] {
        let result = bench(&["--transport", transport, "--channel", channel, "--view-timeout-ms", "10000"]);
        let what = format!("{transport} {channel}: {result}");
        for who in ["replicas", "clients"] {
            let us = result["channel_us_per_command"][who].as_f64();
            assert!(us.is_some_and(|us| (us > 0.0) == (channel != "plain")), "{what}");
        }
        let trips = &result["smoothed_rtt_ms"];
        assert!(trips["p50"].as_f64() > Some(0.0) && trips["max"].as_f64() >= trips["p50"].as_f64(), "{what}");
        let links = trips["links"].as_array().expect("a row for each replica");
        assert_eq!(links.len(), 4, "{what}");
        for (at, row) in links.iter().enumerate() {
            assert!(row[at].is_null() && row[(at + 1) % 4].as_f64() > Some(0.0), "{what}");
        }
        assert_eq!(result["packets"]["rto_events"].is_u64(), timeouts, "{what}");
    }
    let over_quic = bench(&["--transport", "quic", "--channel", "tls", "--view-timeout-ms", "10000"]);
    assert!(over_quic["packets"]["rto_events"].is_null(), "nobody counts them");
    assert!(over_quic["channel_us_per_command"]["replicas"].as_f64() > Some(0.0));
}

#[test]
fn one_outstanding_command_makes_progress_under_every_policy_and_leader() {
    for (batch, policy) in [("400", "full"), ("400", "timed"), ("400", "eager"), ("auto", "eager")] {
        let policy = format!("batch_policy={policy}");
        let blocks = ["--clients", "1", "--outstanding", "1", "--batch", batch, "--reproduction", &policy];
        for leader in ["fixed", "round-robin", "reputation"] {
            let run = ["sim", "--warmup", "300ms", "--duration", "3s", "--json", "-", "--leader", leader];
            let simulated = json(&[&run[..], &blocks[..]].concat());
            assert!(simulated["committed_commands"].as_u64() > Some(0), "{batch} {policy} {leader}, simulated");
            assert_eq!(simulated["view_timeouts"], 0, "{batch} {policy} {leader}, simulated");
        }
        // A leader that waits for a full block waits for a fraction of the view timeout, which must be well below the
        // length of the run.
        let pacing = [&["--view-timeout-ms", "1000"], &blocks[..]].concat();
        assert!(bench_for("3s", &pacing)["committed_commands"].as_u64() > Some(0), "{batch} {policy}");
    }
}

#[test]
fn a_cluster_of_processes_survives_a_killed_replica() {
    let arguments = ["--host", "processes", "--fault", "crash:0@300ms", "--view-timeout-ms", "200"];
    let result = bench_for("3s", &arguments);
    assert_eq!(result["agreement"], Value::Bool(true));
    let seconds = result["timeline"].as_array().expect("there is a timeline");
    assert!(seconds[1..].iter().any(|second| second["ops"].as_u64() > Some(0)), "the others continue");
    assert!(result["view_timeouts"].as_u64() > Some(0), "the leader's crash costs a view");
}

#[test]
fn workloads_and_modes() {
    let file = Scratch::new("workload");
    fs::write(file.path("commands"), "one\ntwo\n").expect("the directory can be written");
    let from_file = format!("file:{}", file.path("commands"));
    for arguments in [
        &["--workload", "ycsb-a", "--records", "100"][..],
        &["--workload", "ycsb-f", "--records", "100", "--payload", "20"],
        &["--workload", &from_file],
        &["--dissemination", "leader", "--payload", "512"],
        &["--reply", "none", "--payload", "16"],
        &["--rate", "2000"],
        &["--bundle", "1"],
        &["--scheme", "none"],
        &["--client-authentication", "ed25519"],
        &["--protocol", "pbft", "--window", "20", "--checkpoint-interval", "10", "--pipeline", "2"],
        &["--replicas", "7"],
        &["--replicas", "1"],
    ] {
        let result = bench(arguments);
        assert_eq!(result["agreement"], Value::Bool(true), "{arguments:?}");
        assert!(result["committed_commands"].as_u64() > Some(0), "{arguments:?}");
    }
}

#[test]
fn a_cluster_tolerates_a_silent_replica_or_is_refused() {
    for protocol in ["chained-hotstuff", "jolteon"] {
        for leader in ["fixed", "reputation"] {
            let result =
                bench(&["--protocol", protocol, "--leader", leader, "--fault", "silent:3", "--view-timeout-ms", "200"]);
            assert!(result["committed_commands"].as_u64() > Some(0), "{protocol} {leader}");
        }
    }
    let output =
        quorate(&["bench", "--protocol", "chained-hotstuff", "--leader", "round-robin", "--fault", "silent:3"]);
    assert_eq!(output.status.code(), Some(2), "three-chain, round-robin and a silent replica cannot commit");
    let said = text(&output.stderr);
    for part in ["4 live leaders", "longest row of 4 is 3", "`reputation`", "`jolteon`"] {
        assert!(said.contains(part), "the error has the numbers and the remedies: {said}");
    }
}

#[test]
fn a_spec_file_and_a_report() {
    let scratch = Scratch::new("spec");
    let (spec, page, json) = (scratch.path("spec.toml"), scratch.path("report.html"), scratch.path("result.json"));
    fs::write(&spec, "protocol = \"fast-hotstuff\"\nwarmup = \"200ms\"\nduration = \"1s\"\n")
        .expect("it can be written");
    let output = quorate(&["bench", "--spec", &spec, "--leader", "reputation", "--report", &page, "--json", &json]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("commands/s"), "the table goes to standard output");
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    assert_eq!(
        (&result["spec"]["protocol"], &result["spec"]["leader"]),
        (&"fast-hotstuff".into(), &"reputation".into())
    );
    let page = fs::read_to_string(&page).expect("it was written");
    assert!(page.starts_with("<!") && page.contains("quorate bench"), "the page shows the command that reproduces it");
}

#[test]
fn a_testnet_of_processes_serves_clients_and_survives_a_killed_replica() {
    let scratch = Scratch::new("net");
    let net = scratch.path("net");
    let written = quorate(&["testnet", "--replicas", "4", "--dir", &net, "--base-port", &free_ports().to_string()]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert!(Path::new(&net).join("client.toml").is_file() && Path::new(&net).join("replica-3").is_dir());
    let said = text(&written.stdout);
    let base = fs::read_to_string(Path::new(&net).join("client.toml")).expect("it was written");
    let (_, clients) = base.split_once("\naddress = \"127.0.0.1:").expect("the file has the members' addresses");
    let clients: u16 = clients[..5].parse().expect("a port of five digits");
    let ports = format!("ports: {}-{} for peers, {clients}-{} for clients", clients - 4, clients - 1, clients + 3);
    assert!(said.contains(&ports), "ports of peers and clients are separate ranges: {said}");
    let mut nodes = Nodes::start(&net);
    let client = |arguments: &[&str]| quorate(&[&["client", "--dir", &net][..], arguments].concat());
    let put = client(&["put", "greeting", "hello"]);
    assert!(put.status.success(), "{}", text(&put.stderr));
    assert_eq!(text(&client(&["get", "greeting"]).stdout), "hello\n");
    let known = fs::read_to_string(Path::new(&net).join("client.toml")).expect("it was written");
    let impatient = known.replace("request_timeout_ms = 30000", "request_timeout_ms = 4000");
    assert_ne!(impatient, known);
    fs::write(scratch.path("client.toml"), impatient).expect("it can be written");
    let directory = scratch.0.to_str().expect("a test's path is UTF-8");
    let unsigned = quorate(&["client", "--dir", directory, "--client-authentication", "none", "put", "greeting", "no"]);
    let said = text(&unsigned.stderr);
    assert_eq!(unsigned.status.code(), Some(1), "{said}");
    let differs = "`client_authentication` is none here and ed25519 there";
    assert!(said.contains(differs) && said.contains("client.toml"), "{said}");
    nodes.0[0].kill().expect("the leader is killed");
    assert!(client(&["put", "greeting", "again"]).status.success(), "three of four are a quorum");
    assert_eq!(text(&client(&["get", "greeting"]).stdout), "again\n");
    let load = client(&["load", "--warmup", "200ms", "--duration", "1s", "--json", "-"]);
    assert!(load.status.success(), "{}", text(&load.stderr));
    let result: Value = serde_json::from_slice(&load.stdout).expect("standard output is JSON and nothing else");
    assert!(result["committed_commands"].as_u64() > Some(0));
    let missing = client(&["get", "nothing"]);
    assert_eq!((missing.status.code(), text(&missing.stdout).as_str()), (Some(1), ""));
    // A stale read needs f+1 equal states, so it may have to wait for them.
    thread::sleep(Duration::from_millis(50));
    assert_eq!(text(&client(&["get", "--stale", "greeting"]).stdout), "again\n");
}

#[test]
fn wrong_calls_exit_with_2_and_name_a_remedy() {
    for (arguments, words) in [
        (&["bench", "--protocol", "jolten"][..], &["jolten", "jolteon"][..]),
        (&["bench", "--replicas", "0"], &["replicas"]),
        (&["bench", "--replicas", "4", "--faults", "2"], &["faults"]),
        (&["bench", "--rate", "100", "--outstanding", "5"], &["rate", "outstanding"]),
        (&["bench", "--fault", "silent"], &["silent:3"]),
        (&["bench", "--duration", "5"], &["unit"]),
        (&["demo", "--transport", "quic"], &["--channel", "set `tls`"]),
        (&["demo", "--channel", "dtls"], &["--channel", "set `plain` or `tls`"]),
        (&["demo", "--transport", "rdup"], &["rdup", "rudp"]),
        (&["node"], &["--dir"]),
        (&["nonsense"], &["nonsense"]),
    ] {
        let output = quorate(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{arguments:?} lacks {word:?}: {said}"));
        assert!(output.stdout.is_empty(), "only results go to standard output");
    }
}
