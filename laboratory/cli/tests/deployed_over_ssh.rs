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
/// Interface of each namespace.
const INTERFACE: &str = "quorate0";
/// Disciplines for the hosts' interfaces. The first one that this kernel has is used.
const DISCIPLINES: [&str; 3] = ["netem delay 1ms", "tbf rate 50mbit burst 64kb latency 200ms", "pfifo limit 5000"];

/// Hosts with a daemon each, which end with this value.
struct Hosts {
    scratch: Scratch,
    emulation: Emulation,
    daemons: Vec<Child>,
    /// Discipline of the hosts' interfaces.
    qdisc: &'static str,
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
        let mut hosts = Hosts { scratch, emulation, daemons: Vec::new(), qdisc: "" };
        let has = |qdisc: &&str| hosts.tc(0, &format!("qdisc add dev lo root {qdisc}")).is_some();
        hosts.qdisc = DISCIPLINES.into_iter().find(has).expect("each kernel has `pfifo`");
        println!("the hosts' interfaces get `{}`", hosts.qdisc);
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

    /// Runs `tc` in the namespace of a host; `None` if it fails.
    fn tc(&self, host: usize, words: &str) -> Option<String> {
        let mut command = Command::new("tc");
        command.args(words.split(' ')).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
        let output = self.emulation.namespace(host).within(|| command.output()).expect("the namespace is there");
        let output = output.expect("iproute2 is installed");
        output.status.success().then(|| text(&output.stdout))
    }

    /// Returns whether the interface of a host has the discipline of a run.
    fn is_shaped(&self, host: usize) -> bool {
        let kind = self.qdisc.split(' ').next().expect("a word");
        let shown = self.tc(host, &format!("qdisc show dev {INTERFACE}")).expect("it is shown");
        shown.contains(&format!("qdisc {kind} ")) && !shown.contains(&format!("qdisc {kind} 0: "))
    }

    fn text(&self) -> String {
        let path = |name: &str| self.scratch.path(name);
        let mut text = format!(
            "[defaults]\nuser = \"root\"\ninterface = \"{INTERFACE}\"\nqdisc = \"{}\"\noptions = [\"IdentityFile={}\", \
             \"UserKnownHostsFile={}\", \"StrictHostKeyChecking=accept-new\", \"IdentitiesOnly=yes\"]\n",
            self.qdisc,
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
        wait_until("no interface is shaped", || !(0..LABORATORY).any(|host| self.is_shaped(host)));
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
    for number in [libc::SIGINT, libc::SIGKILL] {
        let mut child = hosts.bench(&["--rate", "50", "--duration", "10m"]);
        wait_until("all replicas and clients run", || hosts.processes().len() == REPLICAS + LABORATORY);
        assert!((0..LABORATORY).all(|host| hosts.is_shaped(host)), "all interfaces have `{}`", hosts.qdisc);
        signal(child.id(), number);
        child.wait().expect("it ends");
        hosts.become_clean();
    }
    // All processes of a host are killed at once, the agent among them.
    let mut child = hosts.bench(&["--rate", "50", "--duration", "10m"]);
    wait_until("all replicas and clients run", || hosts.processes().len() == REPLICAS + LABORATORY);
    processes_in(&hosts.directory(2)).into_iter().for_each(|process| signal(process, libc::SIGKILL));
    wait_until("the host of the killed agent is not shaped", || !hosts.is_shaped(2));
    signal(child.id(), libc::SIGINT);
    child.wait().expect("it ends");
    assert!(hosts.runs().iter().all(|run| run.starts_with(hosts.directory(2))), "{:?}", hosts.runs());
    // A discipline of somebody else stays.
    hosts.tc(3, &format!("qdisc add dev {INTERFACE} root pfifo limit 77")).expect("root may set it");
    let output = hosts.bench(&["--duration", "1s"]).wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert!(said.contains("host host-3: cannot prepare the run: the interface quorate0 has the queueing"), "{said}");
    assert!(hosts.tc(3, &format!("qdisc show dev {INTERFACE}")).expect("it is shown").contains("limit 77p"));
    hosts.tc(3, &format!("qdisc del dev {INTERFACE} root")).expect("root may remove it");
    // This run has also removed the directory that the killed agent left.
    hosts.become_clean();
}

/// Cells of an experiment run on two hosts, one at a time on each.
#[test]
#[ignore = "needs root and sshd"]
fn privileged_cells_run_over_ssh() {
    let hosts = Hosts::start("ssh-cells", Vec::new());
    let file = crate::sweeps::experiment(&hosts.scratch, "", "");
    let (dir, workers) = (hosts.scratch.path("dir"), hosts.scratch.path("workers.toml"));
    let text_of_all = hosts.text().replace(&format!("qdisc = \"{}\"\n", hosts.qdisc), "cores = 1\n");
    let text_of_all = text_of_all.replace("role = \"client\"", "role = \"worker\"");
    fs::write(&workers, text_of_all).expect("written");
    let mut command = quorate_heeding_signals();
    command.args(["lab", "run", &file, "--dir", &dir, "--on", &format!("ssh:{workers}")]);
    let output = hosts.emulation.namespace(LABORATORY).within(|| command.output()).expect("the namespace is there");
    let output = output.expect("it runs");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("2 hosts take runs, 2 simulations at a time"), "{said}");
    assert_eq!(crate::sweeps::missing(&file, &dir), 0);
    hosts.become_clean();
}
