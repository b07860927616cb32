//! The notebook reads the output of `quorate lab export`.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

const NOTEBOOK: &str = include_str!("../../../examples/notebook/rows.ipynb");
const RESULTS: &str = include_str!("../../../docs/RESULTS.md");

/// Quoted words of the notebook that are not export columns: names of pandas and matplotlib, and its own.
const OTHERS: &[&str] = &["mean", "std", "count", "half", "o", "batch"];

/// Returns the source of each cell of a kind.
fn cells(kind: &str) -> Vec<String> {
    let notebook: Value = serde_json::from_str(NOTEBOOK).expect("a notebook is JSON");
    assert_eq!(notebook["nbformat"], 4);
    let cells = notebook["cells"].as_array().expect("it has cells");
    let lines = |cell: &Value| cell["source"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    cells.iter().filter(|cell| cell["cell_type"] == kind).map(lines).collect()
}

/// Returns the quoted words of the code that could be names.
fn names(code: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    code.split('"').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn every_column_of_the_notebook_is_documented() {
    let code = cells("code").join("\n");
    let names: Vec<&str> = names(&code).into_iter().filter(|name| !OTHERS.contains(name)).collect();
    assert!(names.contains(&"throughput_per_s") && names.contains(&"command"), "{names:?}");
    for name in names {
        let is_axis = name.starts_with("axis_");
        assert!(is_axis || RESULTS.contains(&format!("| `{name}` |")), "docs/RESULTS.md has no column {name}");
    }
}

/// Runs the commands in the notebook's text, and then its code if Python and its libraries are available.
#[test]
fn the_notebook_runs_on_exported_rows() {
    let scratch = Scratch::new("notebook");
    let text = cells("markdown").concat();
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("quorate ")).collect();
    assert_eq!(commands.len(), 3, "{text}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        // Only the simulator: this test is not about real clusters.
        let more: &[&str] = if words[1] == "run" { &["--instrument", "simulated"] } else { &[] };
        let output = Command::new(env!("CARGO_BIN_EXE_quorate"))
            .args([&words[..], more].concat())
            .current_dir(&scratch.0)
            .stdin(Stdio::null())
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let header = fs::read_to_string(scratch.path("rows.csv")).expect("it was exported");
    let header: Vec<&str> = header.lines().next().unwrap_or_default().split(',').collect();
    let code = cells("code").join("\n");
    for name in names(&code).into_iter().filter(|name| !OTHERS.contains(name)) {
        assert!(header.contains(&name), "the table has no column {name}: {header:?}");
    }
    let python = |script: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).env("MPLBACKEND", "agg").current_dir(&scratch.0).stdin(Stdio::null()).output()
    };
    let has_libraries = python("import pandas, pyarrow, matplotlib").is_ok_and(|output| output.status.success());
    if !has_libraries {
        eprintln!("no python3 with pandas, pyarrow and matplotlib: the code of the notebook is not run");
        return;
    }
    let output = python(&code).expect("Python was there a moment ago");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("quorate sim ") && printed.contains("virtual time"), "{printed}");
    assert!(fs::read(scratch.path("throughput.png")).expect("it was drawn").starts_with(b"\x89PNG"));
}
