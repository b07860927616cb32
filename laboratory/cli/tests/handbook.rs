//! The operator's handbook, followed literally: the commands of its first section lead from nothing to four replicas
//! that a Prometheus monitors.
#![cfg(target_os = "linux")]

use crate::common::{Scratch, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../docs/OPERATIONS.md");
const SECTION: &str = "## The first fifteen minutes\n";
/// Commands before the page's: a loopback of the test's own, since others may use the page's ports.
const BEFORE: &str = "ip link set lo up; PATH=$PROGRAMS:$PATH; set -ex\n";

/// Returns the commands of the section: its indented lines.
fn commands() -> String {
    let section = PAGE.split(SECTION).nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the page has it");
    section.lines().filter_map(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect()
}

#[test]
#[ignore = "needs prometheus (Debian: apt-get install prometheus) and namespaces; .ci/run runs it"]
fn the_first_fifteen_minutes_lead_to_a_cluster_that_prometheus_monitors() {
    let commands = commands();
    assert!(commands.lines().count() >= 8, "{commands}");
    let scratch = Scratch::new("handbook");
    let operations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operations");
    symlink(operations, scratch.0.join("operations")).expect("a link");
    let script = scratch.path("script");
    fs::write(&script, format!("{BEFORE}{commands}")).expect("a file");
    let program = Path::new(env!("CARGO_BIN_EXE_quorate"));
    // All processes end with the first one of the namespace.
    let mut command = Command::new("unshare");
    // SAFETY: returns an ID, and touches no memory.
    if unsafe { libc::geteuid() } != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", &script]);
    command.current_dir(&scratch.0).env("PROGRAMS", program.parent().expect("a directory"));
    let log = fs::File::create(scratch.0.join("log")).expect("a file");
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).output().expect("there is unshare");
    let (told, log) = (text(&output.stdout), fs::read_to_string(scratch.0.join("log")).unwrap_or_default());
    assert!(output.status.success(), "{told}\n{log}");
    for expected in ["hello\n", "nothing needs attention", "=> 4"] {
        assert!(told.contains(expected), "no {expected:?} in:\n{told}\n{log}");
    }
}
