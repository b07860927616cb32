//! Checks of a host before anything starts there.

use super::hosts::Host;
use quorate_types::Fault;
use std::collections::BTreeSet;

/// POSIX shell script that describes a host, one `key=value` a line. Arguments: directory, interface or `-`, digest of
/// the program.
pub const SCRIPT: &str = r#"
PATH=$PATH:/usr/sbin:/sbin
echo "system=$(uname -sm)"
echo "cores=$(getconf _NPROCESSORS_ONLN)"
echo "files=$(ulimit -Hn)"
echo "governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
echo "clock_ns=$(date +%s%N)"
place=$1
while [ ! -e "$place" ]; do place=$(dirname "$place"); done
[ -d "$place" ] && [ -w "$place" ] || echo "refused=$place"
df -Pk "$place" | { read -r _; read -r _ _ _ free _; echo "free_kb=$free"; }
[ "$2" = - ] || grep -q "^ *$2:" /proc/net/dev || echo "lacks=$2"
command -v sha256sum >/dev/null || echo "lacks=sha256sum"
if [ -x "$1/bin/quorate-$3" ]; then echo "digest=$(sha256sum <"$1/bin/quorate-$3" | cut -c1-64)"; fi
for tool in tc perf; do command -v "$tool" >/dev/null && echo "tool=$tool"; done
for table in tcp tcp6 udp udp6; do
  [ -r "/proc/net/$table" ] && while read -r _ local _ state _; do echo "$table=$local $state"; done <"/proc/net/$table"
done
echo "end=yes"
"#;

/// Program that sets queueing disciplines.
pub const TC: &str = "tc";
/// Program that samples call stacks.
pub const PERF: &str = "perf";
/// Directories of such programs that the search path of a login by SSH often lacks.
pub const SYSTEM_PATH: &str = "/usr/sbin:/sbin";
/// State of a listening TCP socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// Minimum limit on open files.
const MIN_FILES: u64 = 1024;
/// Minimum free space besides the program, for journals, logs and recordings.
const MIN_FREE_BYTES: u64 = 256 << 20;
/// Maximum difference of clocks without a warning, in seconds.
const MAX_CLOCK_S: f64 = 1.0;
/// Processor governor whose measurements are steady.
const STEADY: &str = "performance";

/// Description of a host.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// Operating system and architecture, as in `uname -sm`.
    pub system: String,
    pub cores: usize,
    /// Limit on open files; `None` if there is none.
    pub files: Option<u64>,
    /// Processor governor; empty if the host has none.
    pub governor: String,
    pub clock_ns: Option<i64>,
    pub free_bytes: u64,
    /// Directory in which the user may not write.
    pub refused: Option<String>,
    /// Missing programs and interfaces.
    pub lacks: Vec<String>,
    /// Programs that some runs need: `tc` and `perf`.
    pub tools: BTreeSet<String>,
    /// Digest of the program that is there.
    pub digest: Option<String>,
    /// Ports on which something listens.
    pub ports: BTreeSet<u16>,
}

/// Requirements of a run on a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Operating system and architecture of the program.
    pub system: String,
    pub program_bytes: u64,
    /// Ports of the replica; none for clients.
    pub ports: Vec<u16>,
    /// Whether `perf` samples it.
    pub profile: bool,
}

impl Facts {
    /// Parses the output of [`SCRIPT`]; `None` if it is incomplete.
    pub fn parse(text: &str) -> Option<Facts> {
        let mut facts = Facts::default();
        let mut is_complete = false;
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "system" => value.clone_into(&mut facts.system),
                "cores" => facts.cores = value.parse().ok()?,
                "files" => facts.files = value.parse().ok(),
                "governor" => value.clone_into(&mut facts.governor),
                "clock_ns" => facts.clock_ns = value.parse().ok(),
                "free_kb" => facts.free_bytes = value.parse::<u64>().ok()? << 10,
                "refused" => facts.refused = Some(value.to_owned()),
                "lacks" => facts.lacks.push(value.to_owned()),
                "tool" => drop(facts.tools.insert(value.to_owned())),
                "digest" => facts.digest = Some(value.to_owned()),
                "tcp" | "tcp6" | "udp" | "udp6" => facts.ports.extend(listening(key, value)),
                "end" => is_complete = true,
                _ => {}
            }
        }
        is_complete.then_some(facts)
    }

    /// Returns the obstacles to a run on the host.
    pub fn faults(&self, host: &Host, needs: &Needs) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut refuse = |what: String, help: &str| faults.push(fault(host, what, help));
        if self.system != needs.system {
            let what = format!("is `{}`, but this program was built for `{}`", self.system, needs.system);
            refuse(what, "run a program built for the host, from a machine like it");
        }
        for lacks in &self.lacks {
            match host.interface.as_ref() == Some(lacks) {
                true => refuse(format!("has no interface `{lacks}`"), "list them there with `cat /proc/net/dev`"),
                false => refuse(format!("has no `{lacks}`"), "install coreutils there"),
            }
        }
        if host.qdisc.is_some() && !self.tools.contains(TC) {
            refuse(format!("has no `{TC}`, which `qdisc` needs"), "install iproute2 there, or leave `qdisc` out");
        }
        if needs.profile && !self.tools.contains(PERF) {
            let help = "install it there (on Debian the package linux-perf), or leave --perf out";
            refuse(format!("has no `{PERF}`, which --perf needs"), help);
        }
        if let Some(place) = &self.refused {
            refuse(format!("cannot write to {place}"), "set `directory` to one of the user's own");
        }
        let least = MIN_FREE_BYTES + if self.digest.is_some() { 0 } else { needs.program_bytes };
        if self.free_bytes < least && self.refused.is_none() {
            let mb = |bytes: u64| bytes / 1_000_000;
            let what =
                format!("has {} MB free below `{}`, {} are needed", mb(self.free_bytes), host.directory, mb(least));
            refuse(what, "free some, or set `directory` to another file system");
        }
        if let Some(files) = self.files.filter(|files| *files < MIN_FILES) {
            refuse(format!("allows {files} open files, {MIN_FILES} are needed"), "raise `nofile` in limits.conf there");
        }
        if let Some(cores) = host.cores.filter(|cores| *cores > self.cores) {
            let what = format!("has {} cores, but the file says {cores}", self.cores);
            refuse(what, "set `cores` to at most as many, or leave it out");
        }
        let taken: Vec<String> =
            needs.ports.iter().filter(|port| self.ports.contains(port)).map(u16::to_string).collect();
        if !taken.is_empty() {
            let what = format!("something listens on the ports {}", taken.join(", "));
            refuse(what, "stop it, or set --base-port");
        }
        faults
    }

    /// Returns caveats of a run on the host. `offset_s` is the difference between its clock and this machine's.
    pub fn warnings(&self, host: &Host, offset_s: Option<f64>) -> Vec<String> {
        let mut warnings = Vec::new();
        let name = &host.name;
        if !self.governor.is_empty() && self.governor != STEADY {
            let governor = &self.governor;
            warnings.push(format!(
                "host {name}: the processor's governor is `{governor}`, so its speed varies; help: set `{STEADY}`"
            ));
        }
        if let Some(offset) = offset_s.filter(|offset| offset.abs() > MAX_CLOCK_S) {
            warnings.push(format!(
                "host {name}: its clock differs by {offset:.1} s from this machine's, which the run corrects; help: \
                 synchronize it"
            ));
        }
        warnings
    }
}

/// Returns the port of a listening socket in a line of `/proc/net`: its local address and state.
fn listening(table: &str, line: &str) -> Option<u16> {
    let (address, state) = line.split_once(' ')?;
    let (_, port) = address.rsplit_once(':')?;
    let listens = table.starts_with("udp") || state == LISTENS;
    u16::from_str_radix(port, 16).ok().filter(|_| listens)
}

/// Returns a fault of a host.
pub fn fault(host: &Host, what: impl Into<String>, help: impl Into<String>) -> Fault {
    Fault::new(format!("host {}", host.name), what, help)
}
