//! Tests `quorate lab versus` and `quorate lab instructions`.

use crate::common::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// One simulated cell, whose figures depend on the seed only.
const EXPERIMENT: &str = "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"simulated\"]
[base]
outstanding = 20
warmup = \"0ms\"
duration = \"50ms\"
[[axis]]
key = \"batch\"
values = [10]
[repeat]
min = 3
max = 3
[[plot]]
kind = \"line\"
title = \"Throughput\"
x = \"batch\"
y = \"throughput_per_s\"
[[claim]]
id = \"completes\"
text = \"Commands complete.\"
kind = \"bound\"
figure = \"completed_commands\"
min = 1
";

/// A program that runs this build and edits its result with `sed`.
fn other_build(scratch: &Scratch, edit: &str) -> String {
    let path = scratch.path("other");
    let text = format!(
        "#!/bin/sh\nset -e\nresult=$('{}' \"$@\")\necho \"$result\" | sed -E '{edit}'\n",
        env!("CARGO_BIN_EXE_quorate")
    );
    fs::write(&path, text).expect("the scratch directory can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

/// Compares the CPU time of a command in another build and in this one.
fn versus(scratch: &Scratch, program: &str) -> std::process::Output {
    let file = scratch.path("mine.toml");
    fs::write(&file, EXPERIMENT).expect("the scratch directory can be written");
    let dir = scratch.path("dir");
    let arguments = ["lab", "versus", program, &file, "--figure", "cpu_us_per_command", "--dir", &dir, "--json", "-"];
    quorate(&arguments)
}

fn first(output: &std::process::Output) -> Value {
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["comparisons"].as_array().map(Vec::len), Some(1), "{result}");
    result["comparisons"][0].clone()
}

#[test]
fn equal_builds_differ_in_nothing() {
    let scratch = Scratch::new("versus-equal");
    let output = versus(&scratch, &other_build(&scratch, ""));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let compared = first(&output);
    assert_eq!((&compared["before_runs"], &compared["after_runs"]), (&3.into(), &3.into()), "{compared}");
    assert_eq!(compared["is_significant"], false, "{compared}");
}

#[test]
fn a_build_that_takes_more_cpu_fails_by_name() {
    let scratch = Scratch::new("versus-worse");
    // The other build reports hardly any CPU time.
    let edit = "/\"cpu_us_per_command\"/,/\\}/ s/(\"total\": )[0-9.]+/\\10.01/";
    let output = versus(&scratch, &other_build(&scratch, edit));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("more than 3 % worse: mine/mine quick simulated, batch 10 (cpu_us_per_command)"), "{said}");
    assert_eq!(first(&output)["is_significant"], true);
}

#[test]
fn a_program_that_is_not_quorate_is_refused() {
    let scratch = Scratch::new("versus-other");
    let output = versus(&scratch, "/bin/true");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("/bin/true: does not say the version of quorate"),
        "{}",
        text(&output.stderr)
    );
}

/// Needs valgrind: `cargo test -p quorate-cli -- --ignored instructions`.
#[test]
#[ignore = "needs valgrind"]
fn instructions_of_equal_builds_are_equal_and_more_of_them_fail() {
    let scratch = Scratch::new("instructions");
    let (file, counts, dir) = (scratch.path("mine.toml"), scratch.path("counts.json"), scratch.path("dir"));
    fs::write(&file, EXPERIMENT).expect("the scratch directory can be written");
    let output = quorate(&["lab", "instructions", &file, "--write", &counts, "--dir", &dir]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = fs::read_to_string(&counts).expect("it was written");
    let mut value: Value = serde_json::from_str(&written).expect("JSON");
    let count = value["instructions_per_command"]["10"].as_f64().expect("one cell");

    let again = scratch.path("again");
    let arguments = ["lab", "instructions", &file, "--against", &counts, "--dir", &again];
    let output = quorate(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));

    value["instructions_per_command"]["10"] = (count / 1.03).into();
    fs::write(&counts, value.to_string()).expect("it is ours");
    let output = quorate(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("10 takes more instructions (limit 2 %)"), "{}", text(&output.stderr));
}
