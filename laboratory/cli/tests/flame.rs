//! `bench --flame`.

use crate::common::{Scratch, text};
use std::fs;
use std::process::{Command, Stdio};

fn bench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["bench", "--warmup", "100ms", "--duration", "1s"]).stdin(Stdio::null());
    command
}

#[test]
fn a_graph_without_perf_is_refused_with_a_remedy() {
    let scratch = Scratch::new("without-perf");
    let drawing = scratch.path("flame.svg");
    let output = bench().args(["--flame", &drawing]).env("PATH", "").output().expect("the binary runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--flame: cannot run perf") && said.contains("help: install perf"), "{said}");
    assert!(!fs::exists(&drawing).expect("it is looked for"), "nothing was drawn");
}

#[test]
fn a_graph_and_another_result_need_two_files() {
    let scratch = Scratch::new("two-files");
    let path = scratch.path("result");
    let output = bench().args(["--json", &path, "--flame", &path]).output().expect("the binary runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--json and --flame both name"), "{said}");
}

/// If `perf` can sample, the graph shows the replicas' threads, and the run keeps its other results and its status.
#[test]
fn stacks_of_replicas_are_drawn_where_perf_can_sample() {
    let scratch = Scratch::new("flame");
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--call-graph", "dwarf", "--output"]).arg(scratch.path("data")).arg("true");
    if !perf.output().is_ok_and(|output| output.status.success()) {
        println!("perf cannot sample here: not tested");
        return;
    }
    let drawing = scratch.path("flame.svg");
    let output = bench().args(["--json", "-", "--flame", &drawing]).output().expect("the binary runs");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the run's own result");
    assert!(result["committed_commands"].as_u64() > Some(0), "{result}");
    let svg = fs::read_to_string(&drawing).expect("the graph is there");
    assert!(svg.contains("<svg") && svg.contains("replica-0"), "{said}\n{}", &svg[..svg.len().min(2000)]);
}
