//! Tests the outputs of results, their completeness, and the exit status.

use crate::common::*;
use quorate_client::{ClientConfig, StatusProbe};
use serde_json::Value;
use std::env;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(120);
/// A benchmark that ends quickly.
const SHORT: &[&str] = &["--warmup", "100ms", "--duration", "300ms"];

fn refused(arguments: &[&str], words: &[&str]) {
    // Some commands write to the current directory by default.
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.args(arguments).current_dir(env::temp_dir()).stdin(Stdio::null()).output();
    let output = output.expect("the binary runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    words.iter().for_each(|word| assert!(said.contains(word), "{arguments:?} lacks {word:?}: {said}"));
    assert!(output.stdout.is_empty(), "{arguments:?}: nothing was run");
    assert!(!said.contains("stage:") && !said.contains("panicked"), "{arguments:?}: nothing was run: {said}");
}

#[test]
fn an_unwritable_output_is_refused_before_anything_runs() {
    let scratch = Scratch::new("places");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let (nowhere, directory) = ("/nonexistent/result.json", scratch.path(""));
    for place in [nowhere, &directory] {
        for call in [
            &["bench", "--json"][..],
            &["bench", "--report"],
            &["sim", "--json"],
            &["twins", "run", "--first", "5", "--json"],
            &["twins", "run", "--first", "5", "--save"],
            &["twins", "generate", "--first", "5", "--out"],
            &["museum", "--json"],
            &["torture", "--json"],
            &["client", "--dir", &net, "load", "--json"],
            &["calibrate", "--out"],
            &["demo", "--report"],
            &["demo", "--json"],
        ] {
            refused(&[call, &[place]].concat(), &[place, "cannot write"]);
        }
    }
}

#[test]
fn no_result_overwrites_an_input_or_another_result() {
    let scratch = Scratch::new("clash");
    let (spec, result) = (scratch.path("spec.toml"), scratch.path("result"));
    let settings = "warmup = \"100ms\"\nduration = \"300ms\"\n";
    fs::write(&spec, settings).expect("it can be written");
    refused(&["bench", "--spec", &spec, "--json", &spec], &["--spec, --json"]);
    refused(&["bench", "--spec", &spec, "--report", &spec], &["--spec, --report"]);
    refused(&["sim", "--network", &spec, "--json", &spec], &["--json", "would overwrite"]);
    let machines = scratch.path("machines.toml");
    refused(&["sim", "--clients-at", &machines, "--json", &machines], &["--json", "would overwrite"]);
    refused(&["bench", "--workload", &format!("file:{spec}"), "--json", &spec], &["would overwrite"]);
    refused(&["twins", "run", "--input", &spec, "--save", &spec], &["would overwrite"]);
    assert_eq!(fs::read_to_string(&spec).expect("it is there"), settings);
    std::os::unix::fs::symlink(&result, scratch.path("link")).expect("a link can be made");
    for other in [result.clone(), scratch.path("./result"), scratch.path("link")] {
        refused(&["bench", "--json", &result, "--report", &other], &["both name"]);
    }
    refused(&["bench", "--json", "-", "--report", "-"], &["both name standard output"]);
    assert!(!fs::exists(&result).expect("it can be looked up"), "an unused output is removed");
}

#[test]
fn each_form_of_a_result_may_go_to_standard_output() {
    let page = succeeds(&[&["bench", "--report", "-"], SHORT].concat());
    assert!(text(&page.stdout).starts_with("<!doctype html>") && text(&page.stderr).contains("throughput"));
    let scratch = Scratch::new("forms");
    let there = scratch.path("found.jsonl");
    let found = ["twins", "run", "--twins", "2", "--sample", "300", "--seed", "3", "--save"];
    let on_stdout = quorate(&[&found[..], &["-"]].concat());
    let in_file = quorate(&[&found[..], &[&there]].concat());
    assert_eq!((on_stdout.status.code(), in_file.status.code()), (Some(1), Some(1)));
    assert_eq!(text(&on_stdout.stdout), fs::read_to_string(&there).expect("it was written"));
    assert!(text(&in_file.stdout).contains("beyond f"), "the result says that safety is not guaranteed");
}

/// Runs the binary with standard output on a device that is always full.
fn into_full(arguments: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(arguments).stdin(Stdio::null()).stdout(full).output().expect("the binary runs")
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_output_is_named_and_the_others_are_written() {
    let scratch = Scratch::new("full");
    let (json, page) = (scratch.path("result.json"), scratch.path("page.html"));
    for call in [&[&["bench"], SHORT].concat()[..], &["sim", "--duration", "300ms"]] {
        let output = quorate(&[call, &["--json", "/dev/full", "--report", &page]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("--json") && said.contains("/dev/full") && said.contains("No space left"), "{said}");
        assert!(text(&output.stdout).contains("throughput"), "the table was printed");
        assert!(fs::read_to_string(&page).expect("the page was written").starts_with("<!doctype"));
        let output = into_full(&[call, &["--json", &json]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("standard output: No space left") && said.contains("throughput"), "{said}");
        assert!(serde_json::from_slice::<Value>(&fs::read(&json).expect("it was written")).is_ok());
    }
}

#[test]
fn a_run_without_any_work_is_a_failure() {
    let scratch = Scratch::new("nothing");
    let (empty, save) = (scratch.path("empty"), scratch.path("found"));
    fs::write(&empty, "").expect("it can be written");
    for (arguments, words) in [
        (&["twins", "run", "--input", &empty, "--save", &save][..], "no scenario was played"),
        (&["sim", "--loss", "1", "--duration", "300ms"], "no command was completed"),
        (&["sim", "--loss", "1", "--duration", "300ms", "--seeds", "1..4"], "no command was completed"),
        (&["torture", "--minutes", "0.00001", "--clients", "1"], "no fault was injected"),
    ] {
        let output = quorate(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// A run under chaos that completes nothing in the measured time is sound if the oracles find no violation: a bug hunt
/// by exit status must not report it.
#[test]
fn a_sound_run_under_chaos_succeeds_whatever_it_completed() {
    let call = "sim --protocol jolteon --dissemination replicas-certified --transport rudp --channel dtls --leader \
                round-robin --view-timeout-ms 100 --clients 2 --outstanding 40 --warmup 100ms --duration 2s --chaos \
                --seeds 91539..91540";
    let output = quorate(&call.split_whitespace().collect::<Vec<_>>());
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    assert!(told.contains("1 seed") || told.contains("seeds"), "{told}");
}

/// With more Byzantine replicas than the cluster tolerates, the result names them, and does not call a violation a bug.
#[test]
fn more_than_f_byzantine_replicas_are_named() {
    let lies = ["--fault", "equivocate:0,equivocate:1", "--view-timeout-ms", "100"];
    for call in [&[&["bench"], SHORT].concat()[..], &["sim", "--duration", "300ms"]] {
        let output = quorate(&[call, &lies].concat());
        let (told, said) = (text(&output.stdout), text(&output.stderr));
        assert!(told.contains("2 replicas misbehave (0, 1)") && told.contains("is guaranteed"), "{told}{said}");
        assert!(!told.contains("please keep the command"), "{told}");
    }
    let output = quorate(&["twins", "run", "--replicas", "3", "--sample", "20", "--save", "/dev/null"]);
    assert!(text(&output.stdout).contains("safety is not guaranteed"), "{}", text(&output.stdout));
}

#[test]
fn invalid_input_exits_with_2_including_files() {
    let scratch = Scratch::new("given");
    let write = |name: &str, content: &str| {
        fs::write(scratch.path(name), content).expect("it can be written");
        scratch.path(name)
    };
    let (empty, junk) = (write("empty", ""), write("junk", "junk\n"));
    let (slow, likely) =
        (write("slow.toml", "[delay]\nmean_ms = -5\n"), write("likely.toml", "[loss]\nprobability = 1.5\n"));
    let unknown = write("unknown.toml", "nonsense = 1\n");
    fs::create_dir_all(scratch.path("taken/inside")).expect("it can be made");
    let (taken, absent, directory) = (scratch.path("taken"), scratch.path("absent"), scratch.path(""));
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let (long, record) = ("k".repeat(70_000), scratch.path("recording"));
    let of = |path: &str| format!("file:{path}");
    for (arguments, words) in [
        (&["bench", "--fault", "restart:1@1s"][..], &["--host processes"][..]),
        (&["bench", "--workload", &of(&absent)], &["absent"]),
        (&["bench", "--workload", &of(&empty)], &["no command"]),
        (&["bench", "--workload", &of(&directory)], &["not a regular file"]),
        (&["sim", "--workload", &of(&empty)], &["no command"]),
        (&["sim", "--network", "mars"], &["mars", "wan4"]),
        (&["sim", "--network", &slow], &["slow.toml"]),
        (&["sim", "--network", &likely], &["likely.toml"]),
        (&["sim", "--network", &unknown], &["nonsense"]),
        (&["sim", "--costs", &unknown], &["nonsense"]),
        (&["sim", "--record", &record, "--seeds", "1..5"], &["--seeds 1..2"]),
        (&["twins", "run", "--replicas", "0"], &[]),
        (&["twins", "run", "--twins", "5"], &[]),
        (&["twins", "run", "--partitions", "0"], &[]),
        (&["twins", "run", "--rounds", "40"], &["40"]),
        (&["twins", "run", "--input", &junk], &["junk", "line 1"]),
        (&["twins", "replay", &junk], &["junk", "line 1"]),
        (&["twins", "replay", &absent], &["absent"]),
        (&["museum", "--exhibit", "99"], &["99"]),
        (&["museum", "--exhibit", "17"], &["17", "not shown:"]),
        (&["testnet", "--dir", &absent, "--base-port", "0"], &["--base-port"]),
        (&["testnet", "--dir", &taken], &["taken", "empty"]),
        (&["client", "--dir", &net, "put", &long, "value"], &["70000"]),
        (&["client", "--dir", &absent, "get", "key"], &["client.toml"]),
        (&["node", "--dir", &absent], &["absent"]),
        (&["inspect", "--dir", &absent], &["absent"]),
        (&["replay", &junk], &["junk"]),
        (&["replay", &absent], &["absent"]),
    ] {
        refused(arguments, words);
    }
}

/// An endless device is refused as a settings file, like any file that is too large.
#[test]
fn input_sizes_are_limited_while_reading() {
    for call in [
        &["bench", "--spec", "/dev/zero"][..],
        &["sim", "--network", "/dev/zero"],
        &["sim", "--costs", "/dev/zero"],
        &["twins", "run", "--input", "/dev/zero"],
        &["twins", "replay", "/dev/zero"],
        &["bench", "--workload", "file:/dev/zero"],
    ] {
        refused(call, &["/dev/zero"]);
    }
}

/// Ticks per second in `/proc`; constant on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Minimum total ticks of four processes for a measurement accurate to 2 %, given that each process counts whole ticks.
const MIN_TICKS: u64 = 200;

/// Returns the CPU time of a process, user and system, in ticks.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let after_name = stat.rsplit(')').next().expect("it has a part");
    after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// Running process whose standard error goes to a file.
struct Run {
    child: Child,
    log: String,
}

impl Run {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Run {
        let log = scratch.path("log");
        let mut command = quorate_heeding_signals();
        let output = |name: &str| File::create(scratch.path(name)).expect("it can be written");
        command.args(arguments).stdin(Stdio::null()).stdout(output("table")).stderr(output("log"));
        Run { child: command.spawn().expect("the binary runs"), log }
    }

    fn await_words(&self, words: &str) {
        let start = Instant::now();
        while !fs::read_to_string(&self.log).expect("it is there").contains(words) {
            assert!(start.elapsed() < HANG, "{words:?} is not logged: {}", fs::read_to_string(&self.log).unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the process has used this much CPU time, in ticks.
    fn await_work(&self, ticks: u64) {
        let start = Instant::now();
        loop {
            if self::ticks(self.child.id()) >= ticks {
                return;
            }
            assert!(start.elapsed() < HANG, "it uses no CPU time");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal and waits for the end.
    fn end(mut self, signal: i32) -> Option<i32> {
        let process = libc::pid_t::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: sends a signal to a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code();
            }
            assert!(start.elapsed() < HANG, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_a_run_and_keeps_its_measurements() {
    let long = ["--warmup", "100ms", "--duration", "10m"];
    for (name, signal, call, begun) in [
        ("bench", libc::SIGINT, &[&["bench"][..], &long].concat()[..], "stage: measure"),
        ("processes", libc::SIGTERM, &[&["bench", "--host", "processes"][..], &long].concat(), "stage: measure"),
        ("sim", libc::SIGINT, &["sim", "--seeds", "1..1000000", "--duration", "200ms", "--outstanding", "5"], ""),
        ("one-seed", libc::SIGTERM, &["sim", "--duration", "60m", "--outstanding", "5"], ""),
        ("twins", libc::SIGINT, &["twins", "run", "--first", "100000000", "--save", "/dev/null"], ""),
        ("museum", libc::SIGTERM, &["museum"], ""),
        ("torture", libc::SIGINT, &["torture", "--minutes", "60", "--clients", "2"], " for "),
    ] {
        let scratch = Scratch::new(&format!("ended-{name}"));
        let json = scratch.path("result.json");
        let run = Run::start(&scratch, &[call, &["--json", &json]].concat());
        if begun.is_empty() {
            run.await_work(150)
        } else {
            run.await_words(begun)
        }
        let said = |name: &str| fs::read_to_string(scratch.path(name)).expect("it is there");
        assert_eq!(run.end(signal), Some(128 + signal), "{name}: {}", said("log"));
        let result: Value =
            serde_json::from_str(&said("result.json")).unwrap_or_else(|_| panic!("{name}: {}", said("log")));
        let word = if signal == libc::SIGINT { "SIGINT" } else { "SIGTERM" };
        let marked = result["partial"].as_str().unwrap_or_default();
        assert!(marked.contains(word), "{name}: the result is marked as partial: {marked:?}");
        assert!(said("table").contains("PARTIAL"), "{name}: the table is marked as partial: {}", said("table"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_load_is_reported() {
    let scratch = Scratch::new("ended-load");
    let (net, json, page) = (scratch.path("net"), scratch.path("result.json"), scratch.path("page.html"));
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let _nodes = Nodes::start(&net);
    let call =
        ["client", "--dir", &net, "load", "--duration", "10m", "--warmup", "100ms", "--json", &json, "--report", &page];
    let run = Run::start(&scratch, &call);
    run.await_words("stage: measure");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(run.end(libc::SIGINT), Some(128 + libc::SIGINT));
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    assert!(result["partial"].is_string() && result["committed_commands"].as_u64() > Some(0), "{result}");
    assert!(fs::read_to_string(&page).expect("it was written").contains("ended by SIGINT"));
}

/// A client that puts load on a running cluster reports that cluster's settings, not the defaults of bench.
#[test]
#[cfg(target_os = "linux")]
fn a_load_describes_its_cluster_and_replicas_count_all_their_threads() {
    let scratch = Scratch::new("described");
    let (net, json) = (scratch.path("net"), scratch.path("result.json"));
    let shape = ["--protocol", "pbft", "--batch", "50", "--window", "300", "--base-port", &free_ports().to_string()];
    succeeds(&[&["testnet", "--dir", &net][..], &shape].concat());
    let nodes = Nodes::start(&net);
    let load = [
        "client",
        "--dir",
        &net,
        "load",
        "--warmup",
        "100ms",
        "--duration",
        "1s",
        "--json",
        &json,
        "--payload",
        "2000",
        // Larger than a block of this cluster can hold.
        "--bundle",
        "50",
    ];
    let table = text(&succeeds(&load).stdout);
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    let spec = &result["spec"];
    assert_eq!((&spec["protocol"], &spec["batch"], &spec["window"]), (&"pbft".into(), &50.into(), &300.into()));
    assert_eq!((&spec["journal"], &spec["client_authentication"]), (&"file".into(), &"ed25519".into()));
    assert!(spec["host"].is_null() && spec["base_port"].is_null(), "unknown settings are omitted: {spec}");
    assert!(table.contains("pbft, 4 replicas, blocks of 50") && table.contains("journal in files"), "{table}");
    let again = result["command"].as_str().expect("a text");
    assert!(
        again.starts_with("quorate client --dir ") && again.contains(" load ") && again.contains(" --payload 2000 "),
        "{again}"
    );
    assert!(!again.contains("pbft") && !again.contains("--client-authentication"), "{again}");

    // Compares the CPU time that the replicas report with the kernel's figures for their processes.
    let config = ClientConfig::load(&Path::new(&net).join("client.toml")).expect("it was written");
    let mut probe = StatusProbe::connect(&config).expect("a socket");
    let spent = || -> u64 { nodes.0.iter().map(|node| ticks(node.id())).sum() };
    // The reported time lies between the first and the second reading of the kernel's clocks, even on a busy machine. A
    // status may be a copy of a recent one; the second status is not.
    let mut told = || {
        probe.read(HANG).expect("a status");
        thread::sleep(Duration::from_secs(1));
        let earliest = spent();
        let statuses = probe.read(HANG).expect("a status");
        let told: u64 = statuses.iter().map(|status| status.as_ref().expect("each answers").cpu_ns).sum();
        (earliest, told, spent())
    };
    let before = told();
    // Wait until the ticks are accurate enough.
    while spent() < before.2 + MIN_TICKS {
        succeeds(&load);
    }
    let after = told();
    let told = (after.1 - before.1) as f64 * TICKS_PER_SECOND as f64 / 1e9;
    let (least, most) = ((after.0 - before.2) as f64, (after.2 - before.0) as f64);
    assert!((0.95 * least..1.05 * most).contains(&told), "replicas reported {told} ticks, but used {least} to {most}");
}

/// The load asks the cluster for the size of a block before it sends anything.
#[test]
fn a_load_with_bundles_above_the_block_size_is_refused() {
    let scratch = Scratch::new("bundles");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--batch", "50", "--base-port", &free_ports().to_string()]);
    let _nodes = Nodes::start(&net);
    let load = ["client", "--dir", &net, "load", "--warmup", "0s", "--duration", "300ms"];
    refused(
        &[&load[..], &["--bundle", "51"]].concat(),
        &["--bundle: 51 commands exceed a block of this cluster, which holds 50; help: set at most 50"],
    );
    let output = succeeds(&load);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    let lowered = "bundles hold 50, not 100";
    assert!(said.contains(lowered) && told.contains(lowered), "the default is lowered: {told}{said}");
}

/// The run reports why a replica exited immediately, although no client could connect.
#[test]
fn a_replica_that_exits_at_once_is_reported_with_its_output() {
    let port = free_ports();
    let taken: Vec<TcpListener> =
        (0..2).map(|at| TcpListener::bind(("127.0.0.1", port + at)).expect("it was free")).collect();
    let base = port.to_string();
    let output = quorate(&[&["bench", "--host", "processes", "--base-port", &base], SHORT].concat());
    drop(taken);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended by itself") && said.contains("cannot listen on"), "{said}");
}

#[test]
fn flags_without_effect_are_named() {
    for (arguments, flags) in [
        (
            &["sim", "--host", "processes", "--base-port", "99", "--fsync", "never"][..],
            &["--host:", "--base-port:", "--fsync:"][..],
        ),
        (
            &["bench", "--records", "5", "--reproduction", "batch_wait_ms=3", "--fsync", "never"],
            &["--records:", "--reproduction batch_wait_ms:", "--fsync:"],
        ),
    ] {
        let output = succeeds(&[arguments, SHORT].concat());
        let told = text(&output.stdout);
        flags.iter().for_each(|flag| assert!(told.contains(flag) && told.contains("has no effect"), "{flag}: {told}"));
        let is_simulated = arguments[0] == "sim";
        let memory = told.lines().find(|line| line.trim_start().starts_with("memory")).unwrap_or_default();
        assert_eq!(told.contains("simulated disks") && memory.contains('–'), is_simulated, "{told}");
    }
}

#[test]
fn a_wrong_value_names_its_flag_and_the_valid_values() {
    let scratch = Scratch::new("texts");
    let write = |name: &str, content: &str| {
        fs::write(scratch.path(name), content).expect("it can be written");
        scratch.path(name)
    };
    let (seed, twice) =
        (write("seed.toml", "seed = 18446744073709551616\n"), write("twice.toml", "batch = 1\nbatch = 2\n"));
    let net = scratch.path("a net");
    let written = text(
        &succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string(), "--replicas", "1"]).stdout,
    );
    assert!(written.contains("wrote 1 replica ") && written.contains(&format!("--dir '{net}/replica-0'")), "{written}");
    for (arguments, words) in [
        (&["bench", "--replicas", "-1"][..], &["--replicas", "a whole number from 1 to 256"][..]),
        (&["bench", "--replicas", "abc"], &["--replicas", "a whole number from 1 to 256"]),
        (&["bench", "--replicas", "4.5"], &["--replicas", "a whole number from 1 to 256"]),
        (&["bench", "--replicas", "4294967296"], &["--replicas", "a whole number from 1 to 256"]),
        (&["bench", "--seed", "-1"], &["--seed", "a whole number from 0"]),
        (&["bench", "--duration", "-5s"], &["--duration", "`-5s` is not a valid duration"]),
        (&["torture", "--minutes", "-1"], &["--minutes", "a number above 0"]),
        (&["museum", "--max-scenarios", "-1"], &["--max-scenarios"]),
        (&["bench", "--spec", &seed], &["seed", "18446744073709551616 is out of range", "a whole number from 0"]),
        (&["bench", "--spec", &twice], &["key `batch`", "keep one of the lines"]),
        (&["bench", "--replicas", "0"], &["Usage: quorate bench [OPTIONS]"]),
        (&["client", "--dir", &net, "load", "--clients", "0"], &["Usage: quorate client "]),
        (&["testnet", "--dir", "x", "--base-port", "65534"], &["--base-port", "65532 at most"]),
        (&["node", "--dir", &net], &["directory of a testnet", "replica-0"]),
        (&["bench", "--payload", "4194304", "--outstanding", "1600"], &["--outstanding, --payload", "at most 15"]),
    ] {
        refused(arguments, words);
    }
    let told = quorate(&["bench", "--view-timeout-ms", "0"]);
    assert_eq!(text(&told.stderr).matches("--view-timeout-ms").count(), 1, "the problem is reported once");
}

/// A second start of a replica names the process that runs it, rather than the occupied port.
#[test]
fn a_second_start_names_the_process_that_holds_the_journal() {
    let scratch = Scratch::new("second");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let nodes = Nodes::start(&net);
    succeeds(&["client", "--dir", &net, "put", "a", "b"]);
    let output = quorate(&["node", "--dir", &format!("{net}/replica-0")]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", nodes.0[0].id())), "{said}");
}

/// A line that wraps is not overwritten, so each update would leave a row behind.
#[test]
#[cfg(target_os = "linux")]
fn the_live_line_fits_the_terminal() {
    const COLUMNS: u16 = 60;
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the two descriptors are valid pointers, and the size is only read.
    let opened = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(opened, 0, "the system has a free terminal");
    // SAFETY: both descriptors were just opened, and nothing else owns them.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command
        .args(["bench", "--warmup", "100ms", "--duration", "1s"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(theirs);
    let mut child = command.spawn().expect("the binary runs");
    drop(command);
    let mut shown = Vec::new();
    // The other end is closed when the process exits, which a terminal reports as an error.
    let _ = ours.read_to_end(&mut shown);
    assert!(child.wait().expect("it ends").success());
    let shown = String::from_utf8_lossy(&shown);
    let lines: Vec<&str> = shown.split("\r\u{1b}[K").filter(|line| line.contains("commands/s")).collect();
    assert!(!lines.is_empty(), "the line is updated: {shown}");
    lines.iter().for_each(|line| assert!(line.chars().count() < usize::from(COLUMNS), "{line}"));
}
