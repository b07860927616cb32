//! Snapshots of clusters above feature level 0, saved, verified and restored by programs that support the level, and by
//! older ones.
//!
//! A program is this test binary, told to run only the test [`run_as_snapshot_command`].

use crate::level::{FACTORY, SUPPORTED, client, eventually, start, written};
use crate::{Net, REPLICAS, call, free_ports};
use clap::Parser;
use quorate_applications::ApplicationKind;
use quorate_operator::backup::file::{Backup, Base};
use quorate_operator::snapshot::{self, SnapshotCommand};
use quorate_operator::testnet::Program;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const ARGUMENTS: &str = "QUORATE_TEST_SNAPSHOT_ARGUMENTS";
/// Timeout: a test that waits longer for an event has hung.
const HANG: Duration = Duration::from_secs(60);
/// Commands between two attempts to save a snapshot.
const COMMANDS: usize = 16;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: SnapshotCommand,
}

/// Not a test: the main function of an operator's program with the application.
#[test]
fn run_as_snapshot_command() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    ApplicationKind::register(&FACTORY).expect("the name is free");
    let arguments = Arguments::parse_from(["snapshot"].into_iter().chain(arguments.lines()));
    let program = Program { name: "quorate-node", run: "run" };
    if let Err(error) = snapshot::run(arguments.command, &program) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Runs a command of a program that supports a level. Returns whether it succeeds, and its output.
fn snapshot_by(supported: u16, arguments: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test has a file"));
    command.args(["--exact", "level_snapshots::run_as_snapshot_command", "--nocapture"]);
    command.env(SUPPORTED, supported.to_string()).env(ARGUMENTS, arguments.join("\n")).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(told).expect("output is UTF-8"))
}

/// Starts a cluster, and raises its level to 1. If it keeps states, it does so every 32 blocks.
fn raised(name: &str, keeps: bool) -> Net {
    let mut net = written(name);
    for replica in 0..REPLICAS {
        net.configure(replica, "checkpoint_interval", "16");
        if keeps {
            net.configure(replica, "window", "64");
            net.configure(replica, "retained_blocks", "64");
        }
    }
    net.nodes = (0..REPLICAS).map(|replica| start(net.dir(), replica, 1)).collect();
    eventually(&["level", "raise", "--dir", net.dir(), "--to", "1"], "");
    net
}

/// Saves a snapshot whose base is as wanted and whose level is 1, and returns its file.
fn saved(net: &Net, is_wanted: impl Fn(&Base) -> bool) -> String {
    let file = format!("{}/snapshot", net.dir());
    let home = format!("{}/replica-0", net.dir());
    let (mut client, begun) = (client(net), Instant::now());
    loop {
        for _ in 0..COMMANDS {
            assert_eq!(client.execute(b"level?").expect("a result"), [1, 0]);
        }
        let (is_saved, told) = snapshot_by(1, &["save", "--dir", &home, "--out", &file]);
        let is_raised = told.contains(", feature level 1, ");
        if is_saved && is_raised && is_wanted(&Backup::read(Path::new(&file)).expect("it was just written").base) {
            return file;
        }
        assert!(begun.elapsed() < HANG, "no such snapshot: {told}");
    }
}

/// Expects that a program that supports level 0 only neither verifies nor restores a snapshot.
fn is_refused_by_an_older_program(net: &Net, file: &str) {
    let new = format!("{}/by-older", net.dir());
    for arguments in [
        &["verify", file, "--keys", net.dir()][..],
        &["restore", file, "--keys", net.dir(), "--dir", &new, "--name", "restored"],
    ] {
        let (succeeds, told) = snapshot_by(0, arguments);
        assert!(!succeeds, "{told}");
        assert!(
            told.contains("error: this program cannot verify the snapshot: the cluster executes at feature level 1")
        );
        assert!(
            told.contains("supports levels up to 0; help: start the version of the program that supports"),
            "{told}"
        );
    }
    assert!(!Path::new(&new).exists());
}

/// Without a state in it, the snapshot has all blocks, with the change of the level among them.
#[test]
fn a_snapshot_of_blocks_passes_the_change_of_the_level() {
    let net = raised("level-blocks", false);
    let file = saved(&net, |base| matches!(base, Base::Empty));
    let (succeeds, told) = snapshot_by(1, &["verify", &file, "--keys", net.dir()]);
    assert!(succeeds && told.contains(", feature level 1, "), "{told}");
    is_refused_by_an_older_program(&net, &file);
}

#[test]
fn a_snapshot_carries_its_level_into_a_new_cluster() {
    let old = raised("level-state", true);
    let file = saved(&old, |base| matches!(base, Base::State { .. }));
    is_refused_by_an_older_program(&old, &file);
    let path = std::env::temp_dir().join(format!("quorate-level-restored-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut new = Net { path, nodes: Vec::new() };
    let ports = free_ports().to_string();
    let shape = ["--dir", new.dir(), "--name", "restored", "--base-port", &ports];
    let (succeeds, told) = snapshot_by(1, &[&["restore", &file, "--keys", old.dir()], &shape[..]].concat());
    assert!(succeeds, "{told}");
    drop(old);

    new.nodes = (0..REPLICAS).map(|replica| start(new.dir(), replica, u16::from(replica < 3))).collect();
    let ended = new.nodes[3].wait().expect("its program is too old");
    let log = fs::read_to_string(new.path.join("replica-3/log")).expect("it has a log");
    assert!(!ended.success() && log.contains("executes at feature level 1 since height 0"), "{log}");
    new.nodes[3] = start(new.dir(), 3, 1);
    let mut client = client(&new);
    assert_eq!(client.execute(b"level?").expect("a result"), [1, 0]);
    let begun = Instant::now();
    loop {
        let status = call(&["status", "--dir", new.dir()]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        if status.contains("feature level\n  1 is active on replicas 0 1 2 3") {
            break;
        }
        assert!(begun.elapsed() < HANG, "{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
