//! Tests that `quorate-node` has everything needed to run a cluster.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const REPLICAS: u16 = 4;
/// A replica has a port for peers, one for clients and one for operators.
const PORTS: u16 = 3 * REPLICAS;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate-node"));
    // A shell that runs the tests in the background makes them ignore signals, and children inherit that.
    // SAFETY: only resets a disposition, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            Ok(())
        })
    };
    command.stdin(Stdio::null());
    command
}

fn call(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the binary runs")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = call(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Returns the first of consecutive free ports, below those that the system assigns to connections.
fn free_ports() -> u16 {
    let start = 9_000 + (std::process::id() % 64) as u16 * PORTS;
    let is_free = |base: &u16| (*base..*base + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (start..20_000).step_by(PORTS.into()).find(is_free).expect("some ports are free")
}

/// Directory of a cluster with running replicas, which are killed with SIGKILL at the end.
struct Net {
    path: PathBuf,
    nodes: Vec<Child>,
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn a_cluster_is_configured_run_queried_inspected_and_stopped() {
    let path = std::env::temp_dir().join(format!("quorate-node-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut net = Net { path, nodes: Vec::new() };
    let dir = net.path.to_str().expect("a test's path is UTF-8").to_owned();
    let ports = free_ports().to_string();
    let told = succeeds(&["testnet", "--dir", &dir, "--protocol", "fast-hotstuff", "--base-port", &ports]);
    assert!(told.contains(&format!("quorate-node run --dir {dir}/replica-3")), "{told}");
    assert!(told.contains("quorate-node client --dir"), "{told}");
    for replica in 0..REPLICAS {
        let home = Path::new(&dir).join(format!("replica-{replica}"));
        let mut command = program();
        command.args(["run", "--dir"]).arg(home).stdout(Stdio::null()).stderr(Stdio::null());
        net.nodes.push(command.spawn().expect("a replica starts"));
    }
    succeeds(&["client", "--dir", &dir, "put", "greeting", "hello"]);
    assert_eq!(succeeds(&["client", "--dir", &dir, "get", "greeting"]).trim(), "hello");
    let status = call(&["status", "--dir", &dir, "--json", "--timeout-ms", "60000"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("the status is JSON");
    assert_eq!(status["replicas"].as_array().map(Vec::len), Some(REPLICAS.into()), "{status}");
    // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(net.nodes[0].id() as libc::pid_t, libc::SIGTERM) }, 0);
    assert_eq!(net.nodes[0].wait().expect("it ends").code(), Some(0), "a signal stops a replica in order");
    let report = succeeds(&["inspect", "--dir", &format!("{dir}/replica-0"), "--verify"]);
    assert!(report.contains("fast-hotstuff"), "{report}");
}

#[test]
fn invalid_input_is_refused_as_a_wrong_call() {
    for (arguments, why) in [
        (&["testnet", "--dir", "/nowhere/net", "--replicas", "3", "--hosts", "a,b"][..], "name a host for each"),
        (&["testnet", "--dir", "/nowhere/net", "--protocol", "paxos"], "jolteon"),
        (&["run", "--dir", "/nowhere/replica"], "/nowhere/replica/config.toml"),
        (&["client", "--dir", "/nowhere", "get", "key"], "/nowhere/client.toml"),
        (&["bench"], "unrecognized subcommand"),
    ] {
        let output = call(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{arguments:?}: {told}");
    }
}
