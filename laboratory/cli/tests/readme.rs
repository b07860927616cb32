//! The README shows the counter that is compiled, and numbers that the program prints.

use crate::common::{Scratch, succeeds, text};
use serde_json::Value;
use std::fs;

const README: &str = include_str!("../../../README.md");
const COUNTER: &str = include_str!("../../../examples/counter/src/main.rs");
/// Columns of the README's numbers: the heading, the row of a result with its value, and the unit after the value.
const COLUMNS: [(&str, &str, &str); 3] = [
    ("commands/s", "throughput", "commands/s"),
    ("median latency", "latency", "ms median"),
    ("CPU us per command", "cpu", "us/command"),
];

#[test]
fn the_readme_quotes_the_counter() {
    let quoted = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("it has Rust code");
    let start = COUNTER.find("#[derive").expect("the example has a state");
    assert_eq!(quoted, &COUNTER[start..], "help: copy the example from its first `#[derive` on");
}

/// Returns the cells of the table under a heading, line by line, without the line below its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let section = README.split(&format!("## {heading}\n")).nth(1).and_then(|rest| rest.split("\n## ").next());
    let lines = section.expect("the section exists").lines().filter(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    lines.filter(|line| !line.starts_with("|--")).map(cells).collect()
}

/// Returns the flags in the span of code with which a line of the numbers begins, if it begins with one.
fn flags(name: &str) -> Vec<&str> {
    let code = name.strip_prefix('`').and_then(|rest| rest.split('`').next());
    code.map(|code| code.split(' ').collect()).unwrap_or_default()
}

/// Runs the benchmark for a second with these flags. Returns its table and its result.
fn bench(flags: &[&str]) -> (String, Value) {
    let scratch = Scratch::new("readme-numbers");
    let path = scratch.path("result.json");
    let output = succeeds(&[&["bench"], flags, &["--warmup", "300ms", "--duration", "1s", "--json", &path]].concat());
    let result = fs::read(&path).expect("it was written");
    (text(&output.stdout), serde_json::from_slice(&result).expect("it is JSON"))
}

/// Returns whether the table of a result has a row of this name whose number is followed by `unit`.
fn has_row(shown: &str, name: &str, unit: &str) -> bool {
    shown.lines().any(|line| {
        let words: Vec<&str> = line.trim().strip_prefix(name).unwrap_or_default().split_whitespace().collect();
        let is_number = |word: &&str| word.replace(',', "").parse::<f64>().is_ok_and(|value| value > 0.0);
        words.first().is_some_and(is_number) && words[1..].join(" ").starts_with(unit)
    })
}

/// Each line's command runs, each of its flags changes the run, and the result has a row for each column.
#[test]
fn the_numbers_of_the_readme_are_rows_of_the_commands_that_they_name() {
    let lines = table("Numbers");
    let (head, lines) = lines.split_first().expect("the table has a head");
    assert_eq!(head[1..], COLUMNS.map(|(heading, ..)| heading), "help: name the new column's row in COLUMNS");
    assert!(lines.len() >= 6, "{lines:?}");
    for line in lines {
        let flags = flags(line[0]);
        assert!(!flags.is_empty() || line[0].starts_with("none: "), "no flags: {}", line[0]);
        let (shown, result) = bench(&flags);
        for (heading, row, unit) in COLUMNS {
            assert!(has_row(&shown, row, unit), "{}: no `{row}` in `{unit}` for `{heading}`\n{shown}", line[0]);
        }
        let reproduce = shown.lines().find(|line| line.contains("reproduce")).expect("a result says how to repeat it");
        for flag in flags.chunks(2) {
            assert!(reproduce.contains(&flag.join(" ")), "{}: `{}` is the default", line[0], flag.join(" "));
        }
        if flags.is_empty() {
            let spec = &result["spec"];
            let said = (spec["protocol"].as_str(), spec["payload"].as_u64(), spec["bundle"].as_u64());
            assert_eq!(said, (Some("jolteon"), Some(0), Some(100)), "the README describes the defaults: {}", line[0]);
        }
    }
}

/// The rows that the test looks for are found only with their unit, and only with a number.
#[test]
fn a_row_without_its_unit_is_none() {
    let shown =
        " throughput  960,000  commands/s  288,000 in 300ms\n latency  5.56  ms median  mean 6.70\n cpu  -  us/command";
    assert!(has_row(shown, "throughput", "commands/s") && has_row(shown, "latency", "ms median"));
    assert!(!has_row(shown, "throughput", "commands/min") && !has_row(shown, "latency", "ms p99"));
    assert!(!has_row(shown, "cpu", "us/command") && !has_row(shown, "goodput", "commands/s"));
}
