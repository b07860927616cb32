//! `quorate bench --host deployed` over real SSH: a daemon in the namespace of each host of an emulated network. Needs
//! root, openssh-server and openssh-client: `cargo test -p quorate-cli -- --ignored privileged`.

use crate::common::fake_ssh::{digest, processes_in, wait_for_stage};
use crate::common::*;
use quorate_lab::emulation::{Change, Emulation, Emulator, Plan, TcpSettings, address_of};
use quorate_types::Time;
use serde_json::Value;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SSHD: &str = "/usr/sbin/sshd";
const REPLICAS: usize = 4;
const CLIENTS: usize = 2;
/// Endpoint of the laboratory itself, after the hosts.
const LABORATORY: usize = REPLICAS + CLIENTS;
const ENDS: usize = LABORATORY + 1;
/// The host that lacks the program, near the laboratory.
const LACKING: usize = 1;
/// Region of each endpoint.
const REGIONS: [usize; ENDS] = [0, 1, 2, 3, 0, 2, 1];
/// One-way delays between regions in milliseconds, as between Virginia, Ireland, Oregon and Tokyo.
const DELAYS_MS: [[u64; 4]; 4] = [[1, 34, 29, 73], [34, 1, 62, 104], [29, 62, 1, 49], [73, 104, 49, 1]];
/// Hosts with a daemon each, which end with this value.
struct Hosts {
    scratch: Scratch,
    emulation: Emulation,
    daemons: Vec<Child>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn succeeds_in(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
}

impl Hosts {
    fn start(name: &str, changes: Vec<(Time, Change)>) -> Hosts {
        assert!(Path::new(SSHD).exists(), "there is no {SSHD}; install openssh-server");
        let scratch = Scratch::new(name);
        let mut plan = Plan { changes, ..Plan::uniform(ENDS, 0) };
        for (at, link) in plan.links.iter_mut().enumerate() {
            link.delay_ns = DELAYS_MS[REGIONS[at / ENDS]][REGIONS[at % ENDS]] * 1_000_000;
        }
        let settings = TcpSettings { congestion_control: "cubic".to_owned(), values: Vec::new() };
        let emulation = Emulation::start(&plan, &settings, Emulator::Router).expect("root may emulate networks");
        for key in ["host", "user"] {
            let path = scratch.path(key);
            succeeds_in(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path]));
        }
        // The daemon gives up its privileges in this directory.
        fs::create_dir_all("/run/sshd").expect("root may create it");
        let mut hosts = Hosts { scratch, emulation, daemons: Vec::new() };
        let digest = digest(env!("CARGO_BIN_EXE_quorate"));
        for host in 0..LABORATORY {
            let bin = hosts.directory(host).join("bin");
            fs::create_dir_all(&bin).expect("created");
            if host != LACKING {
                symlink(env!("CARGO_BIN_EXE_quorate"), bin.join(format!("quorate-{digest}"))).expect("linked");
            }
            hosts.start_daemon(host);
        }
        for host in 0..LABORATORY {
            wait_until("the daemon listens", || hosts.listens(host));
        }
        fs::write(hosts.scratch.0.join("hosts.toml"), hosts.text()).expect("written");
        hosts
    }

    fn directory(&self, host: usize) -> PathBuf {
        self.scratch.0.join(format!("host-{host}"))
    }

    fn start_daemon(&mut self, host: usize) {
        let (path, address) = (|name: &str| self.scratch.path(name), address_of(host));
        let config = path(&format!("sshd-{host}"));
        let text = format!(
            "Port 22\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\n\
             UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n",
            path("host"),
            path("user.pub"),
        );
        fs::write(&config, text).expect("written");
        let log = File::create(path(&format!("sshd-{host}.log"))).expect("created");
        let start = || Command::new(SSHD).args(["-D", "-e", "-f", &config]).stdin(Stdio::null()).stderr(log).spawn();
        let daemon = self.emulation.namespace(host).within(start).expect("the namespace is there");
        self.daemons.push(daemon.expect("the daemon starts"));
    }

    fn listens(&self, host: usize) -> bool {
        let connect = || TcpStream::connect((address_of(host), 22));
        self.emulation.namespace(host).within(connect).expect("the namespace is there").is_ok()
    }

    fn text(&self) -> String {
        let path = |name: &str| self.scratch.path(name);
        let mut text = format!(
            "[defaults]\nuser = \"root\"\ninterface = \"lo\"\noptions = [\"IdentityFile={}\", \
             \"UserKnownHostsFile={}\", \"StrictHostKeyChecking=accept-new\", \"IdentitiesOnly=yes\"]\n",
            path("user"),
            path("known"),
        );
        for (host, region) in REGIONS.iter().enumerate().take(LABORATORY) {
            let role = if host < REPLICAS { "replica" } else { "client" };
            text += &format!(
                "[[host]]\nname = \"host-{host}\"\naddress = \"{}\"\nrole = \"{role}\"\nregion = \"region-{region}\"\n\
                 directory = \"{}\"\n",
                address_of(host),
                self.directory(host).display(),
            );
        }
        text
    }

    /// Starts the laboratory in its namespace.
    fn bench(&self, arguments: &[&str]) -> Child {
        let mut command = quorate_heeding_signals();
        command.args(["bench", "--host", "deployed", "--hosts", &self.scratch.path("hosts.toml")]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = self.emulation.namespace(LABORATORY).within(|| command.spawn());
        started.expect("the namespace is there").expect("it starts")
    }

    fn runs(&self) -> Vec<PathBuf> {
        let of = |host| fs::read_dir(self.directory(host).join("runs"));
        (0..LABORATORY).filter_map(|host| of(host).ok()).flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Returns the processes of runs on all hosts.
    fn processes(&self) -> Vec<u32> {
        (0..LABORATORY).flat_map(|host| processes_in(&self.directory(host))).collect()
    }

    fn become_clean(&self) {
        wait_until("no process is left", || self.processes().is_empty());
        wait_until("no directory is left", || self.runs().is_empty());
    }
}

fn result_of(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

#[test]
#[ignore = "needs root and sshd"]
fn privileged_six_hosts_run_over_ssh_with_delays_between_them() {
    let hosts = Hosts::start("ssh-run", Vec::new());
    let load = ["--rate", "200", "--clients", "4", "--warmup", "2s", "--duration", "5s", "--json", "-"];
    let result = result_of(hosts.bench(&load));
    let deployment = &result["deployment"];
    assert_eq!(deployment["copied"], 1, "only one host lacked the program");
    let hosts_of = deployment["hosts"].as_array().expect("hosts");
    let of = |key: &str| hosts_of.iter().map(|host| host[key].clone()).collect::<Vec<Value>>();
    assert!(of("failure").iter().all(Value::is_null), "{deployment}");
    let regions: Vec<String> = REGIONS[..LABORATORY].iter().map(|region| format!("region-{region}")).collect();
    assert_eq!(of("region"), regions);
    // All hosts have the same clock, so that the offset is the error of its measurement.
    for (offset, error) in of("clock_offset_ms").into_iter().zip(of("clock_error_ms")) {
        let (offset, error) = (offset.as_f64().expect("a number"), error.as_f64().expect("a number"));
        assert!(offset.abs() <= error && error >= 1.0, "{offset} ms, measured to {error} ms");
    }
    // A command crosses the world several times.
    assert!(result["latency_ms"]["p50"].as_f64().expect("commands completed") > 100.0, "{}", result["latency_ms"]);
    assert!(result["committed_commands"].as_u64().expect("a count") > 500, "{}", result["committed_commands"]);
    assert_eq!(result["agreement"], true, "{}", result["warnings"]);
    hosts.become_clean();
    // The second run finds the program everywhere. Its directories stay if asked for.
    let kept = ["--keep", "--rate", "50", "--warmup", "500ms", "--duration", "1s", "--json", "-"];
    let result = result_of(hosts.bench(&kept));
    assert_eq!(result["deployment"]["copied"], 0);
    for host in result["deployment"]["hosts"].as_array().expect("hosts") {
        assert!(Path::new(host["kept"].as_str().expect("a path")).is_dir(), "{host}");
    }
    hosts.become_clean();
}

#[test]
#[ignore = "needs root and sshd"]
fn privileged_a_host_behind_a_cut_network_is_named_and_cleans_up_by_itself() {
    const CUT: usize = 3;
    let links = (0..ENDS).filter(|end| *end != CUT).flat_map(|end| [(end, CUT), (CUT, end)]).collect();
    let mut hosts = Hosts::start("ssh-cut", vec![(Time(1_000_000_000), Change::Cut(links, true))]);
    let mut child = hosts.bench(&["--rate", "100", "--warmup", "2s", "--duration", "40s", "--json", "-"]);
    wait_for_stage(&mut child, "measure");
    hosts.emulation.begin().expect("the network changes");
    let result = result_of(child);
    let failures = result["deployment"]["hosts"].as_array().expect("hosts").iter();
    let failed: Vec<&Value> = failures.filter(|host| host["failure"].is_string()).map(|host| &host["name"]).collect();
    assert_eq!(failed, [&format!("host-{CUT}")], "{}", result["deployment"]);
    assert!(result["committed_commands"].as_u64().expect("a count") > 1000, "{}", result["committed_commands"]);
    hosts.become_clean();
}

#[test]
#[ignore = "needs root and sshd"]
fn privileged_nothing_is_left_over_ssh_however_a_run_ends() {
    let hosts = Hosts::start("ssh-left", Vec::new());
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let mut child = hosts.bench(&["--rate", "50", "--duration", "10m"]);
        wait_until("all replicas and clients run", || hosts.processes().len() == REPLICAS + LABORATORY);
        // SAFETY: sends a signal to a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        child.wait().expect("it ends");
        hosts.become_clean();
    }
}
