//! Tests the operators' commands: status, logs, version, completions, manual pages.

use crate::common::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(60);

fn node(home: &str, log: &str, flags: &[&str]) -> Child {
    let output = fs::File::create(log).expect("the scratch directory can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["node", "--dir", home]).args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    command.spawn().expect("a replica starts")
}

/// Queries the status until it satisfies `wanted`.
fn status(directory: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let output = quorate(&["status", "--dir", directory, "--json", "--timeout-ms", "5000"]);
        let told: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
        let replicas = told["replicas"].as_array().expect("a list");
        let calm = replicas.iter().chain([&told]).all(|of| of["attention"] == Value::Array(vec![]));
        assert_eq!(
            output.status.code(),
            Some(i32::from(!calm)),
            "the exit status shows whether something needs attention"
        );
        if wanted(&told) {
            return told;
        }
        assert!(start.elapsed() < HANG, "the status does not change: {told}");
    }
}

fn attention(of: &Value) -> String {
    of["attention"].to_string()
}

#[test]
fn the_status_shows_each_replica_and_what_needs_attention() {
    let scratch = Scratch::new("status");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--protocol", "pbft", "--base-port", &free_ports().to_string()]);
    let home = |at: usize| format!("{net}/replica-{at}");
    let log = |at: usize| scratch.path(&format!("log-{at}"));
    let mut nodes = Nodes((0..4).map(|at| node(&home(at), &log(at), &["--log-format", "json"])).collect());
    succeeds(&["client", "--dir", &net, "put", "greeting", "hello"]);
    let is_well = |of: &Value| attention(of) == "[]" && of["lag"] == 0 && of["status"]["height"].as_u64() > Some(0);
    let are_well = |told: &Value| told["replicas"].as_array().expect("a list").iter().all(is_well);
    status(&net, |told| are_well(told) && told["replicas"][1]["status"]["connected"] == serde_json::json!([0, 2, 3]));
    let table = text(&succeeds(&["status", "--dir", &net]).stdout);
    assert!(table.contains("3 of 3") && table.contains("nothing needs attention"), "{table}");
    let one = status(&home(2), |told| told["replicas"][0]["status"].is_object());
    assert_eq!(one["replicas"].as_array().expect("a list").len(), 1, "a replica's directory selects that replica");

    nodes.0[3].kill().and_then(|()| nodes.0[3].wait()).expect("it runs");
    let told = status(&net, |told| attention(&told["replicas"][0]).contains("is not connected to replica 3"));
    assert!(attention(&told["replicas"][3]).contains("does not answer: 127.0.0.1:"), "{told}");
    // Without its journal, the replica does not know its earlier statements, and abstains for now.
    for entry in fs::read_dir(home(3)).expect("it is there").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        if name == "journal" || name == "journal.snapshots" {
            fs::remove_dir_all(entry.path()).expect("it can be removed");
        }
    }
    nodes.0[3] = node(&home(3), &log(3), &["--log-format", "json"]);
    status(&net, |told| attention(&told["replicas"][3]).contains("does not vote: its journal was lost"));
    nodes.0[2].kill().and_then(|()| nodes.0[2].wait()).expect("it runs");
    nodes.0[1].kill().and_then(|()| nodes.0[1].wait()).expect("it runs");
    status(&net, |told| attention(&told["replicas"][0]).contains("reaches 1 of 3 other replicas, and needs 2"));
    let output = quorate(&["status", "--dir", &scratch.path("nowhere")]);
    assert!(text(&output.stderr).contains("name the directory of a replica or a testnet"));

    let lines = fs::read_to_string(log(0)).expect("it was written");
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect();
    let lost = events
        .iter()
        .find(|event| event["message"].as_str().is_some_and(|text| text.contains("lost the link to replica")));
    let lost = lost.expect("the loss of a peer is logged");
    assert_eq!(
        (&lost["level"], &lost["target"], &lost["replica"], &lost["event"]),
        (&"WARN".into(), &"quorate::network".into(), &0.into(), &"lost".into())
    );
    assert!(lost["peer"].as_u64().is_some_and(|peer| (1..4).contains(&peer)), "{lost}");
    assert!(lost["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{lost}");
    let dials =
        events.iter().filter(|event| event["message"].as_str().is_some_and(|text| text.contains("replica 3 at")));
    assert!(dials.count() <= 3, "a dead peer is logged once, and again after each silence: {lines}");
}

#[test]
fn the_log_level_is_configurable_and_an_unknown_one_is_refused() {
    let scratch = Scratch::new("levels");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let (loud, quiet) = (scratch.path("loud"), scratch.path("quiet"));
    let flags = ["--log-level", "error,quorate::network=info"];
    let nodes = Nodes(vec![
        node(&format!("{net}/replica-0"), &loud, &flags),
        node(&format!("{net}/replica-1"), &quiet, &["--log-level", "error"]),
    ]);
    let start = Instant::now();
    while !fs::read_to_string(&loud).unwrap_or_default().contains("replica 1 is connected") {
        assert!(start.elapsed() < HANG, "{}", fs::read_to_string(&loud).unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    }
    let line = fs::read_to_string(&loud).expect("it was written");
    assert!(line.lines().all(|line| line.contains("quorate::network: ")), "{line}");
    assert!(line.starts_with("20") && line.contains("Z  INFO quorate::network: listening on "), "{line}");
    assert_eq!(fs::read_to_string(&quiet).expect("it was written"), "");
    drop(nodes);
    for wrong in ["loud", "info,network=debug", "quorate::network=loud", ""] {
        let output = quorate(&["node", "--dir", &net, "--log-level", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(text(&output.stderr).contains("--log-level"), "{}", text(&output.stderr));
    }
}

/// systemd names the stream that it reads by device and inode.
#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    let scratch = Scratch::new("journal-stream");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let started = |replica: u16, variable: &dyn Fn(&fs::Metadata) -> String| {
        let path = scratch.path(&format!("log-{replica}"));
        let log = fs::File::create(&path).expect("a log");
        let mut command = heeding_signals(env!("CARGO_BIN_EXE_quorate"));
        command.args(["node", "--dir", &format!("{net}/replica-{replica}")]).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("JOURNAL_STREAM", variable(&log.metadata().expect("it is open"))).stderr(log);
        let _node = Nodes(vec![command.spawn().expect("it starts")]);
        wait_until("it listens", || fs::read_to_string(&path).unwrap_or_default().contains("listening on "));
        fs::read_to_string(&path).expect("it was written")
    };
    let log = started(0, &|about| format!("{}:{}", about.dev(), about.ino()));
    assert!(log.lines().all(|line| line.starts_with('<')), "{log}");
    assert!(log.contains("<6>quorate::network: listening on "), "{log}");
    assert!(log.contains(" event=\"listening\" replica=0"), "{log}");
    let other = started(1, &|about| format!("{}:{}", about.dev(), about.ino() + 1));
    assert!(other.contains("Z  INFO quorate::network: listening on "), "{other}");
}

#[test]
fn version_completions_and_manual_pages_are_printed() {
    let version = text(&succeeds(&["--version"]).stdout);
    assert_eq!(text(&succeeds(&["-V"]).stdout), format!("quorate {}\n", env!("CARGO_PKG_VERSION")));
    for line in ["commit  ", "target  ", "rustc   1.", "curve25519 backend: "] {
        assert!(version.contains(line), "{version}");
    }
    for (shell, words) in [("bash", "complete -F"), ("zsh", "#compdef quorate"), ("fish", "complete -c quorate")] {
        let script = text(&succeeds(&["completions", shell]).stdout);
        assert!(script.contains(words) && script.contains("testnet"), "{shell}");
    }
    let page = text(&succeeds(&["man"]).stdout);
    assert!(page.contains(".TH quorate 1") && page.contains("testnet"), "{page}");
    let scratch = Scratch::new("man");
    succeeds(&["man", "--dir", scratch.0.to_str().expect("UTF-8")]);
    let node = fs::read_to_string(scratch.path("quorate-node.1")).expect("each command has a page");
    assert!(node.contains("log\\-level"), "{node}");
}

/// A file system whose writes can be made to hang. Its image file is next to the mount point.
#[cfg(target_os = "linux")]
struct Hanging {
    at: String,
}

#[cfg(target_os = "linux")]
impl Hanging {
    /// Mounts an image; returns `None` and prints the reason if this host has no loop devices.
    fn mount(image: &str, at: &str) -> Option<Hanging> {
        fs::File::create(image).and_then(|file| file.set_len(1 << 30)).expect("an image");
        fs::create_dir(at).expect("a place for the disk");
        assert!(ran("mkfs.ext4", &["-q", image]).is_ok_and(|said| said.is_empty()), "mkfs.ext4 makes a file system");
        match ran("mount", &["-o", "loop", image, at]) {
            Ok(_) => Some(Hanging { at: at.to_owned() }),
            Err(why) => {
                println!("skipped: this host mounts no image: {why}");
                None
            }
        }
    }

    fn hang(&self) {
        ran("fsfreeze", &["--freeze", &self.at]).expect("writes can be stopped");
    }

    fn go_on(&self) {
        ran("fsfreeze", &["--unfreeze", &self.at]).expect("writes can go on");
    }
}

#[cfg(target_os = "linux")]
impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = ran("fsfreeze", &["--unfreeze", &self.at]);
        let _ = ran("umount", &["--lazy", &self.at]);
    }
}

/// Runs a system program. The error is its output.
#[cfg(target_os = "linux")]
fn ran(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A write that never returns causes no error, so a hanging disk shows only in the time since the write began.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs root"]
fn privileged_a_disk_that_hangs_is_named_until_it_answers() {
    let scratch = Scratch::new("hanging");
    let (net, disk) = (scratch.path("net"), scratch.path("disk"));
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let Some(hanging) = Hanging::mount(&scratch.path("image"), &disk) else { return };
    let (home, moved) = (format!("{net}/replica-3"), format!("{disk}/home"));
    ran("cp", &["-a", &home, &moved]).expect("its home moves to the disk");
    fs::remove_dir_all(&home).expect("it has moved");
    std::os::unix::fs::symlink(&moved, &home).expect("a link");
    let nodes = Nodes(
        (0..4).map(|at| node(&format!("{net}/replica-{at}"), &scratch.path(&format!("log-{at}")), &[])).collect(),
    );
    let put = |key: &str| drop(succeeds(&["client", "--dir", &net, "put", key, "value"]));
    put("before");
    status(&net, |told| told["attention"] == Value::Array(vec![]) && attention(&told["replicas"][3]) == "[]");
    hanging.hang();
    put("meanwhile"); // The other three are a quorum.
    let told = status(&net, |told| attention(&told["replicas"][3]).contains("waits for its disk"));
    assert!(attention(&told["replicas"][3]).contains("a write of the journal has not ended for "), "{told}");
    assert!(!attention(&told["replicas"][0]).contains("disk"), "{told}");
    hanging.go_on();
    put("after");
    status(&net, |told| attention(&told["replicas"][3]) == "[]" && told["replicas"][3]["lag"] == 0);
    drop(nodes);
}
