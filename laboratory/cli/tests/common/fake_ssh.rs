//! Hosts without SSH: a program `ssh` that runs the command on this machine, in a directory of the host.

use super::{Scratch, free_ports};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Reads the options that the laboratory uses. A master connection is a process and its socket's file.
const SCRIPT: &str = r#"#!/bin/sh
master=no
while [ $# -gt 0 ]; do
  case $1 in
    -M) master=yes ;;
    -o) shift; case $1 in ControlPath=*) control=${1#ControlPath=} ;; esac ;;
    -p | -l) shift ;;
    --) shift; break ;;
  esac
  shift
done
host=$1
shift
cd "$(dirname "$0")/../$host" || exit 255
if [ -e refuses ]; then echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255; fi
if [ $master = yes ]; then : >"$control"; exec sleep 3600; fi
sh -c "$*"
"#;

/// Hosts on this machine, each with a loopback address and a directory.
pub struct FakeHosts {
    pub scratch: Scratch,
    pub replicas: usize,
    pub clients: usize,
    /// First port of each replica.
    pub port: u16,
}

impl FakeHosts {
    /// Creates hosts that have this program, except for the first one.
    pub fn new(name: &str, replicas: usize, clients: usize) -> FakeHosts {
        let hosts = FakeHosts { scratch: Scratch::new(name), replicas, clients, port: free_ports() };
        fs::create_dir(hosts.at("tools")).expect("created");
        let ssh = hosts.at("tools/ssh");
        fs::write(&ssh, SCRIPT).expect("written");
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let digest = digest(env!("CARGO_BIN_EXE_quorate"));
        let names: Vec<String> = hosts.names().collect();
        for (number, name) in names.iter().enumerate() {
            let bin = hosts.at(&format!("{name}/quorate-lab/bin"));
            fs::create_dir_all(&bin).expect("created");
            if number > 0 {
                let program = bin.join(format!("quorate-{digest}"));
                symlink(env!("CARGO_BIN_EXE_quorate"), program).expect("linked");
            }
        }
        fs::write(hosts.file(), hosts.text()).expect("written");
        hosts
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.0.join(name)
    }

    pub fn file(&self) -> String {
        self.scratch.path("hosts.toml")
    }

    /// Returns the names of the hosts: r0, r1, .., c0, c1, ..
    pub fn names(&self) -> impl Iterator<Item = String> {
        let replicas = (0..self.replicas).map(|replica| format!("r{replica}"));
        replicas.chain((0..self.clients).map(|client| format!("c{client}")))
    }

    fn text(&self) -> String {
        let mut text = "[defaults]\nregion = \"here\"\ninterface = \"lo\"\n".to_owned();
        for (number, name) in self.names().enumerate() {
            let role = if name.starts_with('r') { "replica" } else { "client" };
            let address = format!("127.0.0.{}", number + 2);
            text +=
                &format!("[[host]]\nname = \"{name}\"\nssh = \"{name}\"\nrole = \"{role}\"\naddress = \"{address}\"\n");
        }
        text
    }

    /// Returns `quorate` with the `ssh` of these hosts, and default signal handling.
    pub fn quorate(&self) -> Command {
        let mut command = super::quorate_heeding_signals();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.at("tools").display()));
        command
    }

    /// Returns `quorate bench` on these hosts, with default signal handling.
    pub fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = self.quorate();
        command.args(["bench", "--host", "deployed", "--hosts", &self.file()]).args(arguments);
        let (port, replicas) = (self.port.to_string(), self.replicas.to_string());
        for (flag, value) in [("--rate", "200".to_owned()), ("--base-port", port), ("--replicas", replicas)] {
            if !arguments.contains(&flag) {
                command.args([flag, &value]);
            }
        }
        command
    }

    /// Returns the runs' directories on all hosts.
    pub fn runs(&self) -> Vec<PathBuf> {
        let of = |name: String| fs::read_dir(self.at(&format!("{name}/quorate-lab/runs")));
        self.names().filter_map(|name| of(name).ok()).flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Returns the processes that work in a directory of this host, or of any host.
    pub fn processes(&self, host: Option<&str>) -> Vec<u32> {
        let place = host.map_or_else(|| self.scratch.0.clone(), |host| self.at(host));
        processes_in(&place)
    }
}

/// Returns the processes whose current directory is below `place`.
pub fn processes_in(place: &Path) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("there is /proc").flatten();
    let works_there = |path: &PathBuf| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(place));
    let number = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
    all.map(|entry| entry.path()).filter(works_there).filter_map(number).collect()
}

/// Waits until a benchmark reports this stage on its standard error, which is read to its end from then on.
pub fn wait_for_stage(child: &mut Child, stage: &str) {
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let wanted = format!("stage: {stage}");
    let mut said = Vec::new();
    let reached = lines.by_ref().map_while(Result::ok).any(|line| {
        said.push(line);
        said.last() == Some(&wanted)
    });
    assert!(reached, "no `{wanted}` in {said:?}");
    std::thread::spawn(move || lines.for_each(drop));
}

/// Returns the SHA-256 digest of a file.
pub fn digest(path: &str) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("coreutils are installed");
    String::from_utf8(output.stdout).expect("hexadecimal").split(' ').next().expect("a digest").to_owned()
}
