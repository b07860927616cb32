//! Tests processes that are asked to stop: by SIGTERM, by SIGINT, and as process 1 of a container.

use crate::common::*;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(60);

/// Starts a replica that logs to a file.
fn node(home: &str, log: &str, through: &[&str]) -> Child {
    let call = [through, &[env!("CARGO_BIN_EXE_quorate"), "node", "--dir", home]].concat();
    let output = fs::File::create(log).expect("the scratch directory can be written");
    let mut command = heeding_signals(call[0]);
    command.args(&call[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    command.spawn().expect("a replica starts")
}

fn signal(process: u32, signal: i32) {
    let process = libc::pid_t::try_from(process).expect("a process id fits");
    // SAFETY: sends a signal to a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0, "process {process} exists");
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < HANG, "{what}: still not after {HANG:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn status_of(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_until("the process ends", || {
        status = child.try_wait().expect("it can be waited for");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

fn says(log: &str, words: &str) -> bool {
    fs::read_to_string(log).unwrap_or_default().contains(words)
}

#[test]
fn a_replica_stops_in_order_on_a_signal_and_continues_after_a_restart() {
    let scratch = Scratch::new("signals");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let (home, log) = (|at: usize| format!("{net}/replica-{at}"), |at: usize| scratch.path(&format!("log-{at}")));
    let mut nodes = Nodes((0..4).map(|at| node(&home(at), &log(at), &[])).collect());
    succeeds(&["client", "--dir", &net, "put", "greeting", "hello"]);
    // The client has f+1 replies, but a replica that has not executed the command yet may have no journal to continue
    // from.
    wait_until("all execute it", || {
        let status = quorate(&["status", "--dir", &net, "--json"]).stdout;
        let told: serde_json::Value = serde_json::from_slice(&status).expect("standard output is JSON");
        let replicas = told["replicas"].as_array().expect("a list");
        replicas.iter().all(|of| of["status"]["height"].as_u64() > Some(0))
    });
    for (at, number) in [(0, libc::SIGTERM), (1, libc::SIGINT)] {
        signal(nodes.0[at].id(), number);
        assert_eq!(status_of(&mut nodes.0[at]), Some(0), "{}", fs::read_to_string(log(at)).unwrap_or_default());
        assert!(says(&log(at), "stopped on request"), "one line reports it");
        nodes.0[at] = node(&home(at), &log(at), &[]);
        wait_until("it continues", || says(&log(at), "resumes from its journal"));
    }
    assert_eq!(text(&succeeds(&["client", "--dir", &net, "get", "greeting"]).stdout), "hello\n");
}

/// Returns the signals that a process handles, from `/proc`.
fn handled(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).expect("the kernel writes hexadecimal")
}

/// The kernel drops a signal to process 1 of a namespace if it has no handler.
#[test]
#[cfg(target_os = "linux")]
fn a_replica_handles_sigterm_as_process_1_of_a_container() {
    let scratch = Scratch::new("process-1");
    let (net, log) = (scratch.path("net"), scratch.path("log"));
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let container = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
    let can = Command::new(container[0]).args(&container[1..]).arg("true").stderr(Stdio::null()).status();
    let is_contained = can.is_ok_and(|status| status.success());
    let through = if is_contained { &container[..] } else { &[] };
    let mut nodes = Nodes(vec![node(&format!("{net}/replica-0"), &log, through)]);
    wait_until("it listens", || says(&log, "listening on"));
    let outer = nodes.0[0].id();
    let inner = match is_contained {
        true => {
            let children = fs::read_to_string(Path::new("/proc").join(format!("{outer}/task/{outer}/children")));
            children.expect("the kernel tells").trim().parse().expect("unshare has one child")
        }
        false => outer,
    };
    for number in [libc::SIGTERM, libc::SIGINT] {
        assert_ne!(handled(inner) >> (number - 1) & 1, 0, "signal {number} has a handler");
    }
    signal(inner, libc::SIGTERM);
    assert_eq!(status_of(&mut nodes.0[0]), Some(0), "{}", fs::read_to_string(&log).unwrap_or_default());
}
