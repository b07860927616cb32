//! The binary, its output, and directories for its files.
// Each test file uses only a part of this module.
#![allow(dead_code)]

#[cfg(target_os = "linux")]
pub mod disks;
#[cfg(target_os = "linux")]
pub mod fake_ssh;
#[cfg(target_os = "linux")]
pub mod wire;

use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Runs the binary to completion.
pub fn quorate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quorate")).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

/// Returns a `quorate` command with default signal handling.
pub fn quorate_heeding_signals() -> Command {
    heeding_signals(env!("CARGO_BIN_EXE_quorate"))
}

/// Returns a command with default signal handling. A shell that runs the tests in the background makes them ignore
/// SIGINT, and children inherit that: a program rightly leaves ignored signals alone.
pub fn heeding_signals(program: &str) -> Command {
    let mut command = Command::new(program);
    // SAFETY: only resets dispositions, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        })
    };
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Expects a command to succeed.
pub fn succeeds(arguments: &[&str]) -> Output {
    let output = quorate(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

/// Expects a command to succeed, and returns the JSON on its standard output.
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(arguments).stdout).expect("standard output is JSON and nothing else")
}

/// Number of ports of four replicas: each has one for peers, one for clients, one for operators
/// and one for monitors.
const PORTS: u16 = 16;

/// Returns free consecutive ports for four replicas: different in each test of this process, and below the ports that
/// the system assigns to outgoing connections.
pub fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 21_000 + (std::process::id() % 32) as u16 * 352;
    loop {
        let base = start + NEXT.fetch_add(PORTS, Ordering::Relaxed);
        if (base..base + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
}

/// Replicas that are killed with SIGKILL on drop.
pub struct Nodes(pub Vec<Child>);

impl Nodes {
    pub fn start(net: &str) -> Nodes {
        let start = |replica: u16| {
            let home = Path::new(net).join(format!("replica-{replica}"));
            let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
            command.args(["node", "--dir"]).arg(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("a replica starts")
        };
        Nodes((0..4).map(start).collect())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Temporary directory, removed on drop.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the temporary directory can be written");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a test's path is UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Time after which something counts as hung, generous for busy machines.
pub const HANG: Duration = Duration::from_secs(120);

/// Waits until something has happened.
///
/// # Panics
/// If it has not happened after [`HANG`].
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < HANG, "{what}: still not after {HANG:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process that a test has started and not waited for.
pub fn signal(process: u32, signal: i32) {
    let process = libc::pid_t::try_from(process).expect("a process id fits");
    // SAFETY: sends a signal, which touches no memory of this process.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0, "process {process} exists");
}
