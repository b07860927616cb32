//! Tests `quorate lab` with real and simulated cells.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(60);

const HEAD: &str = "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\n";

/// Writes an experiment and returns its path.
fn file(scratch: &Scratch, text: &str) -> String {
    let path = scratch.path("mine.toml");
    fs::write(&path, format!("{HEAD}{text}")).expect("the scratch directory can be written");
    path
}

/// Two simulated cells with two runs each, and a claim that holds.
const SIMULATED: &str = "instruments = [\"simulated\"]
[base]
outstanding = 100
warmup = \"50ms\"
duration = \"200ms\"
[[axis]]
key = \"batch\"
values = [10, 100]
[repeat]
min = 2
max = 2
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

fn rows(result: &Value) -> &[Value] {
    result["rows"].as_array().map_or(&[], Vec::as_slice)
}

/// The files that `.ci/run` also runs: each instrument, end to end.
#[test]
fn the_smoke_experiment_runs_on_each_instrument_and_its_claims_hold() {
    let scratch = Scratch::new("lab-smoke");
    let result = json(&["lab", "run", "smoke/tiny", "--dir", &scratch.path("dir"), "--json", "-"]);
    let instruments: BTreeSet<&str> = rows(&result).iter().filter_map(|row| row["instrument"].as_str()).collect();
    assert_eq!(instruments, BTreeSet::from(["real", "simulated"]));
    for claim in result["claims"].as_array().expect("a list") {
        assert_eq!(claim["verdict"], "holds", "{claim}");
        for key in ["experiment", "id", "measured", "paper"] {
            assert!(claim[key].is_string(), "{claim}");
        }
    }
    for row in rows(&result) {
        let is_real = row["instrument"] == "real";
        assert_eq!(row["noise"]["steal_percent"].is_number(), is_real, "{row}");
        let command = row["provenance"]["command"].as_str().expect("a command");
        assert!(command.starts_with(if is_real { "quorate bench" } else { "quorate sim" }), "{command}");
        assert!(row["provenance"]["surroundings"]["build"].as_str().is_some_and(|build| build.contains("commit")));
    }
}

#[test]
fn what_was_run_is_reused_and_reported_and_exported() {
    let scratch = Scratch::new("lab-reuse");
    let (file, dir) = (file(&scratch, SIMULATED), scratch.path("dir"));
    let run = |more: &[&str]| {
        let output = succeeds(&[&["lab", "run", &file, "--dir", &dir, "--json", "-"], more].concat());
        let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
        (result, text(&output.stderr))
    };
    let (first, told) = run(&[]);
    assert_eq!(rows(&first).len(), 4);
    assert!(!told.contains("there already"), "{told}");
    let (second, told) = run(&[]);
    assert!(told.contains("4 runs are there already") && !told.contains("repetition"), "{told}");
    // Rows are in the order in which they were run, or read.
    let sorted = |result: &Value| rows(result).iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&first), sorted(&second));
    let reported = json(&["lab", "report", &dir, "--json", "-"]);
    assert_eq!((sorted(&reported), &reported["claims"]), (sorted(&first), &first["claims"]));
    assert_eq!(first["claims"][0]["verdict"], "holds");
    let (seeded, told) = run(&["--seed", "100"]);
    assert!(!told.contains("there already"), "another seed is another cell: {told}");
    let seeds: BTreeSet<u64> = rows(&seeded).iter().filter_map(|row| row["provenance"]["seed"].as_u64()).collect();
    assert_eq!(seeds, BTreeSet::from([100, 101]));
    let page = fs::read_to_string(Path::new(&dir).join("report.html")).expect("the report has written it");
    assert!(page.contains(">holds</span>") && page.contains("quorate sim"), "it has the verdict and commands");
    let csv = text(&succeeds(&["lab", "export", &dir]).stdout);
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let parquet = scratch.path("rows.parquet");
    succeeds(&["lab", "export", &dir, "--format", "parquet", "--out", &parquet]);
    assert!(fs::read(&parquet).expect("it was written").starts_with(b"PAR1"));
    let compared = json(&["lab", "compare", &dir, &dir, "--figure", "throughput_per_s", "--json", "-"]);
    assert_eq!(compared["comparisons"].as_array().map(Vec::len), Some(2));
    assert_eq!(compared["comparisons"][0]["ratio"]["ratio"], 1.0);
}

#[test]
fn the_command_of_a_row_repeats_it() {
    let scratch = Scratch::new("lab-repeat");
    let text_of_file = SIMULATED.replace("outstanding = 100\n", "outstanding = 100\nsamples = 20\n");
    let (file, dir) = (file(&scratch, &text_of_file), scratch.path("dir"));
    let result = json(&["lab", "run", &file, "--dir", &dir, "--json", "-"]);
    let exported = text(&succeeds(&["lab", "export", &dir, "--format", "json"]).stdout);
    let lines: Vec<Value> = serde_json::from_str(&exported).expect("a list");
    assert_eq!(lines.len(), rows(&result).len());
    for line in &lines {
        let has = |name: &str| line[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(["build", "machine", "kernel", "costs", "command"].iter().all(|name| has(name)), "{line}");
        assert!(line["build"].as_str().is_some_and(|build| build.contains("commit")), "{line}");
    }
    let last = &lines[lines.len() - 1];
    let words: Vec<&str> = last["command"].as_str().expect("a command").split(' ').skip(1).collect();
    let again = json(&[&words[..], &["--json", "-"]].concat());
    assert_eq!(again["throughput_ops"], last["throughput_per_s"]);
    for (key, column) in [("p50", "p50_ms"), ("p99", "p99_ms"), ("max", "max_ms")] {
        assert_eq!(again["latency_ms"][key], last[column], "{column}");
    }
    let of_last = |row: &&Value| row["provenance"]["command"] == last["command"];
    let row = rows(&result).iter().find(of_last).expect("the row of the line");
    assert_eq!(again["samples"], row["samples"], "the same requests");
    let samples = text(&succeeds(&["lab", "export", &dir, "--lines", "samples"]).stdout);
    assert_eq!(samples.lines().count(), 1 + 4 * 20, "{samples}");
    assert!(samples.lines().next().is_some_and(|names| names.ends_with("axis_batch,at_s,latency_ms")), "{samples}");
}

#[test]
fn repetitions_are_run_in_turns() {
    let scratch = Scratch::new("lab-turns");
    let real = SIMULATED.replace("simulated", "real");
    let output = succeeds(&["lab", "run", &file(&scratch, &real), "--dir", &scratch.path("dir")]);
    let told = text(&output.stderr);
    let order: Vec<&str> = told
        .lines()
        .filter(|line| line.contains(", repetition "))
        .filter_map(|line| line.split("real, ").nth(1)?.split(": ").next())
        .collect();
    let expected =
        ["batch 10, repetition 0", "batch 100, repetition 0", "batch 100, repetition 1", "batch 10, repetition 1"];
    assert_eq!(order, expected, "{told}");
}

/// A replica cannot listen on an occupied port.
#[test]
fn a_cell_that_fails_is_shown_and_run_again_by_the_next_call() {
    // Uses ports of no other test: the replicas also need the following ones once the port is free.
    let port = free_ports();
    let taken = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let scratch = Scratch::new("lab-failed");
    let (free, dir) = (free_ports(), scratch.path("dir"));
    let text_of = |ports: &str| {
        format!(
            "instruments = [\"real\"]\n[base]\noutstanding = 100\nwarmup = \"50ms\"\nduration = \"100ms\"\n[[axis]]\n\
             key = \"base_port\"\nvalues = [{ports}]\n[repeat]\nmin = 2\nmax = 2\n"
        )
    };
    let both = file(&scratch, &text_of(&format!("{port}, {free}")));
    let call = ["lab", "run", &both, "--dir", &dir, "--json", "-"];
    let output = succeeds(&call);
    let told = text(&output.stderr);
    assert!(told.contains("FAILED  real base_port") && told.contains("reproduce: quorate bench"), "{told}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let failed: Vec<&Value> = rows(&result).iter().filter(|row| row["failure"].is_string()).collect();
    assert_eq!((failed.len(), rows(&result).len()), (1, 3), "a cell that failed is not repeated: {told}");
    assert_eq!(failed[0]["cell"]["base_port"], port);
    assert_eq!(failed[0]["figures"], serde_json::json!({}));
    drop(taken);
    let again = json(&call);
    assert!(rows(&again).iter().all(|row| row["failure"].is_null()), "{again}");
    assert_eq!(rows(&again).len(), 4);
}

#[test]
fn a_call_in_which_every_cell_fails_fails() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("the system has a port");
    let port = taken.local_addr().expect("it is bound").port();
    let scratch = Scratch::new("lab-all-failed");
    let base = format!("instruments = [\"real\"]\n[base]\nbase_port = {port}\nduration = \"100ms\"\n");
    let output = quorate(&["lab", "run", &file(&scratch, &base), "--dir", &scratch.path("dir")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("none of 1 runs succeeded"), "{}", text(&output.stderr));
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let scratch = Scratch::new("lab-mistakes");
    let dir = scratch.path("dir");
    for (base, expected) in [
        (
            "batc = 10",
            "mine.toml, line 6, key `base.batc`: `batc` is no key of a specification; help: did you mean `batch`?",
        ),
        ("replicas = 0", "mine.toml, line 6, key `base.replicas`"),
    ] {
        let file = file(&scratch, &format!("instruments = [\"simulated\"]\n[base]\n{base}\n"));
        let output = quorate(&["lab", "run", &file, "--dir", &dir]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    for call in [
        &["lab", "run", "framework/fig222"][..],
        &["lab", "run", "smoke/tiny", "--instrument", "emulated", "--dir", &dir],
        &["lab", "report", &dir],
        &["lab", "compare", &dir, &dir, "--figure", "p50"],
    ] {
        let output = quorate(call);
        assert_eq!(output.status.code(), Some(2), "{call:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_report_is_a_page_with_figures_and_the_table_of_the_papers() {
    let scratch = Scratch::new("lab-page");
    let (file, dir) = (file(&scratch, SIMULATED), scratch.path("dir"));
    succeeds(&["lab", "run", &file, "--dir", &dir]);
    let (page, table, fidelity) = (scratch.path("page.html"), scratch.path("table.md"), scratch.path("fidelity.json"));
    fs::write(&fidelity, "{\"cells\": [{\"spec\": {\"batch\": 10}, \"throughput_ratio\": 1.25}]}")
        .expect("it can be written");
    let flags = ["--html", &page, "--reproduction", &table, "--fidelity", &fidelity];
    let output = succeeds(&[&["lab", "report", &dir][..], &flags].concat());
    assert!(text(&output.stderr).contains("with 1 figures"), "{}", text(&output.stderr));
    let page = fs::read_to_string(page).expect("it was written");
    assert!(page.contains("Throughput") && page.contains("throughput 1.25"), "the figure and the residual");
    assert!(!Path::new(&dir).join("report.html").exists(), "the page is where --html says");
    let figures: Vec<_> = fs::read_dir(Path::new(&dir).join("figures")).expect("it is there").collect();
    assert_eq!(figures.len(), 4, "SVG, PDF, TikZ and Vega-Lite");
    assert!(fs::read_to_string(table).expect("it was written").contains("[Figure 4](reproduction/transports.md#"));
    let paper = fs::read_to_string(scratch.path("reproduction/transports.md")).expect("it was written");
    assert!(paper.contains("## Figure 4\n"), "{paper}");
    fs::write(&fidelity, "[1]").expect("it can be written");
    for wrong in [&["--paper", "framework"][..], &["--fidelity", &fidelity]] {
        let output = quorate(&[&["lab", "report", &dir][..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_report_has_the_width_of_a_column_and_entries_for_a_bibliography() {
    let scratch = Scratch::new("lab-cite");
    let (file, dir) = (file(&scratch, SIMULATED), scratch.path("dir"));
    succeeds(&["lab", "run", &file, "--dir", &dir]);
    let output = succeeds(&["lab", "report", &dir, "--column", "two", "--bibtex"]);
    let entries = text(&output.stdout);
    assert!(entries.starts_with("@misc{quorate-mine-mine-quick,\n") && entries.ends_with("}\n"), "{entries}");
    assert!(entries.contains(&format!("Repeat with: quorate lab run {file} --profile quick")), "{entries}");
    let picture = fs::read_to_string(Path::new(&dir).join("figures/mine-mine-1.tex")).expect("it was written");
    assert!(picture.contains("177.8 mm wide, two columns"), "{picture}");
    let path = scratch.path("references.bib");
    succeeds(&["lab", "report", &dir, &format!("--bibtex={path}")]);
    assert_eq!(fs::read_to_string(path).expect("it was written"), entries);
    let output = quorate(&["lab", "report", &dir, "--bibtex", "--json", "-"]);
    assert_eq!(output.status.code(), Some(2), "both name standard output: {}", text(&output.stderr));
}

#[test]
fn an_artefact_repeats_its_runs_wherever_it_is() {
    let scratch = Scratch::new("lab-artefact");
    let (file, dir) = (file(&scratch, SIMULATED), scratch.path("dir"));
    let first = json(&["lab", "run", &file, "--dir", &dir, "--json", "-"]);
    let told = text(&succeeds(&["lab", "artefact", &dir]).stdout);
    assert!(told.contains("files described in ro-crate-metadata.json"), "{told}");
    let moved = scratch.path("moved");
    fs::rename(&dir, &moved).expect("it can be moved");
    let repeated = scratch.path("repeated");
    let bin = Path::new(env!("CARGO_BIN_EXE_quorate")).parent().expect("a directory").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh").args([format!("{moved}/repeat.sh"), repeated.clone()]).env("PATH", path).output();
    let output = output.expect("sh runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = json(&["lab", "report", &repeated, "--json", "-"]);
    let figures = |result: &Value| rows(result).iter().map(|row| row["figures"].to_string()).collect::<BTreeSet<_>>();
    assert_eq!(figures(&first), figures(&again), "virtual time repeats exactly");
}

#[test]
fn measured_round_trips_are_a_network() {
    let scratch = Scratch::new("lab-network");
    let (csv, toml) = (scratch.path("aws.csv"), scratch.path("aws.toml"));
    let round_trips = "region,us-east-1,eu-west-1\nus-east-1,1,70\neu-west-1,70,1\n";
    fs::write(&csv, round_trips).expect("it can be written");
    succeeds(&["lab", "network", &csv, "--out", &toml]);
    assert_eq!(text(&succeeds(&["lab", "network", &toml, "--to", "csv"]).stdout), round_trips);
    let run = |network: &str| {
        let flags = ["--network", network, "--duration", "1s", "--warmup", "1s", "--outstanding", "10", "--json", "-"];
        json(&[&["sim"][..], &flags].concat())
    };
    let (of_csv, of_toml) = (run(&csv), run(&toml));
    assert_eq!(of_csv["latency_ms"], of_toml["latency_ms"], "both files are the same network");
    assert!(of_csv["latency_ms"]["p50"].as_f64().is_some_and(|p50| p50 > 70.0), "{}", of_csv["latency_ms"]);
    fs::write(&csv, "region,a,b\na,1,fast\n").expect("it can be written");
    let output = quorate(&["sim", "--network", &csv]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("line 2, column 3: `fast` is no round trip"), "{}", text(&output.stderr));
}

/// Runs two cells, and sends a signal to this process or its child while the second cell runs, after the first one was
/// stored.
fn ended_in_the_second_cell(scratch: &Scratch, whom: impl FnOnce(u32) -> u32, signal: i32) -> Output {
    let dir = scratch.path("dir");
    let long = "instruments = [\"real\"]\n[base]\noutstanding = 100\nwarmup = \"50ms\"\n[[axis]]\nkey = \"duration\"\n\
                values = [\"100ms\", \"300s\"]\n[repeat]\nmin = 1\nmax = 1\n";
    let file = file(scratch, long);
    let mut command = quorate_heeding_signals();
    command.args(["lab", "run", &file, "--dir", &dir, "--json", "-"]).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    // While the second cell runs, there is a file for its output.
    let start = Instant::now();
    let has = |ending: &str| cells(&dir).iter().any(|name| name.ends_with(ending));
    while !(has(".json") && has(".out")) {
        assert!(start.elapsed() < HANG, "the second cell has not started: {:?}", cells(&dir));
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: sends a signal to a process that this test started and has not waited for, or to a child of that process.
    assert_eq!(unsafe { libc::kill(whom(child.id()) as libc::pid_t, signal) }, 0);
    child.wait_with_output().expect("it ends")
}

/// Returns the names of the files of cells.
fn cells(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(dir).join("cells")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[test]
fn a_signal_loses_only_the_cell_under_way() {
    let scratch = Scratch::new("lab-signal");
    let output = ended_in_the_second_cell(&scratch, |own| own, libc::SIGINT);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!(rows(&result).len(), 1);
    assert!(result["partial"].as_str().is_some_and(|partial| partial.contains("SIGINT after 1 of 2 runs")), "{result}");
    let dir = scratch.path("dir");
    assert_eq!(cells(&dir).len(), 1, "nothing is left of the cell under way: {:?}", cells(&dir));
    assert_eq!(rows(&json(&["lab", "report", &dir, "--json", "-"])).len(), 1);
}

/// A terminal sends signals to all processes in the foreground, so a cell can end before its laboratory receives the
/// signal.
#[cfg(target_os = "linux")]
#[test]
fn a_cell_that_a_signal_ends_has_not_failed() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let scratch = Scratch::new(&format!("lab-cell-{signal}"));
        let output = ended_in_the_second_cell(&scratch, cell_of, signal);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("a signal ended 1 of 2 runs; run it again"), "{said}");
        let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
        assert_eq!(rows(&result).len(), 1, "{result}");
        assert!(rows(&result)[0]["failure"].is_null(), "{result}");
        assert_eq!(cells(&scratch.path("dir")).len(), 1, "nothing is kept of the cell");
    }
}

/// Waits for the process of a cell, and returns its ID. Until it executes its own program, it is a copy of the
/// laboratory.
#[cfg(target_os = "linux")]
fn cell_of(laboratory: u32) -> u32 {
    let is_cell = |id: &u32| {
        let call = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        call.split(|byte| *byte == 0).nth(1) == Some(b"bench")
    };
    let start = Instant::now();
    loop {
        let threads = fs::read_dir(format!("/proc/{laboratory}/task")).into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let children: String = children.collect();
        if let Some(id) = children.split_whitespace().filter_map(|id| id.parse().ok()).find(is_cell) {
            return id;
        }
        assert!(start.elapsed() < HANG, "the cell is no process");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_file_does_not_hide_an_experiment_of_the_same_name() {
    let scratch = Scratch::new("lab-hidden");
    fs::write(scratch.path("smoke"), "no experiment").expect("the directory is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command
        .args(["lab", "run", "smoke", "--instrument", "simulated", "--dir", "results"])
        .current_dir(scratch.path(""));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn without_a_name_all_experiments_run_and_say_how_far_they_are() {
    let scratch = Scratch::new("lab-all");
    let dir = scratch.path("results");
    let list = json(&["lab", "list", "--json", "-"]);
    let formulas = |own: &&Value| own["instruments"].as_array().is_some_and(|own| own.contains(&"analytical".into()));
    let count = list["experiments"].as_array().expect("a list").iter().filter(formulas).count();
    let output = succeeds(&["lab", "run", "--instrument", "analytical", "--dir", &dir]);
    let said = text(&output.stderr);
    assert!(count > 1 && said.contains(&format!("experiment {count} of {count}: ")), "{said}");
}

#[test]
fn the_list_names_papers_claims_and_instruments() {
    let list = json(&["lab", "list", "--json", "-"]);
    let experiments = list["experiments"].as_array().expect("a list");
    let tiny = experiments.iter().find(|own| own["id"] == "tiny").expect("it is part of the binary");
    assert_eq!(tiny["paper"], "smoke");
    assert_eq!(tiny["instruments"], serde_json::json!(["simulated", "real"]));
    assert!(tiny["title"].is_string() && tiny["claims"].as_array().is_some_and(|claims| claims.len() == 3));
    let quick = json(&["lab", "list", "--profile", "quick", "--json", "-"]);
    let cells = quick["experiments"][0]["cells"].as_object().expect("an object");
    assert_eq!(cells.keys().collect::<Vec<_>>(), ["quick"]);
    let shown = text(&succeeds(&["lab", "list"]).stdout);
    assert!(experiments.iter().all(|own| shown.contains(own["title"].as_str().unwrap_or("?"))), "{shown}");
}

#[test]
fn cells_that_ask_for_more_cores_than_there_are_are_not_run_and_say_why() {
    let scratch = Scratch::new("lab-cores");
    let text =
        SIMULATED.replace("simulated", "real").replace("\"batch\"", "\"cores\"").replace("[10, 100]", "[1, 1024]");
    let text = text.replace("[[claim]]\n", "[[claim]]\nwhere = { cores = 1024 }\n");
    let (file, dir) = (file(&scratch, &text), scratch.path("dir"));
    let output = succeeds(&["lab", "run", &file, "--dir", &dir, "--json", "-"]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert!(crate::common::text(&output.stderr).contains("NOT HERE  real cores 1024: --cores: 1024 are more than"));
    let claim = &result["claims"][0];
    assert_eq!(claim["verdict"], "not measurable here");
    assert!(claim["measured"].as_str().is_some_and(|why| why.contains("1024 are more than the")), "{claim}");
    let ran: Vec<bool> = rows(&result).iter().map(|row| row["not_measurable"].is_null()).collect();
    assert_eq!(ran.iter().filter(|ran| **ran).count(), 2, "{ran:?}");
    let reported = json(&["lab", "report", &dir, "--json", "-"]);
    assert_eq!(reported["claims"], result["claims"], "the reason is kept");
}

#[test]
fn scenarios_with_twins_are_an_instrument() {
    let scratch = Scratch::new("lab-twins");
    let text = "instruments = [\"scenarios\"]
[base]
sample = 30
[[axis]]
key = \"protocol\"
values = [\"jolteon\", \"pbft\"]
[repeat]
min = 1
max = 1
[[claim]]
id = \"safe\"
text = \"No scenario violates safety.\"
kind = \"bound\"
figure = \"unsafe_scenarios\"
max = 0
";
    let result = json(&["lab", "run", &file(&scratch, text), "--dir", &scratch.path("dir"), "--json", "-"]);
    assert_eq!(result["claims"][0]["verdict"], "holds", "{}", result["claims"]);
    assert_eq!(rows(&result).len(), 2);
    for row in rows(&result) {
        assert_eq!(row["figures"]["scenarios"], 30.0, "{row}");
        assert!(row["figures"]["scenarios_per_s"].as_f64().is_some_and(|speed| speed > 0.0), "{row}");
    }
    // With two twins among four replicas nothing is guaranteed, and the claim fails.
    let text = text.replace("sample = 30", "sample = 3000\ntwins = 2").replace(", \"pbft\"", "");
    let result = json(&["lab", "run", &file(&scratch, &text), "--dir", &scratch.path("dir"), "--json", "-"]);
    assert_eq!(result["claims"][0]["verdict"], "does not hold", "{}", result["claims"]);
}

/// Plans as an instrument, for an FPGA and for a CPU.
#[test]
fn plans_are_an_instrument() {
    const PLANS: &str = "instruments = [\"analytical\"]
[base]
plan = \"fpga\"
line_rate = \"20G\"
[[axis]]
key = \"replicas\"
values = [4, 31]
[[plot]]
kind = \"line\"
title = \"Logic\"
x = \"replicas\"
y = \"slices\"
[[claim]]
id = \"falls\"
text = \"Fewer operations fit the line.\"
kind = \"trend\"
figure = \"operations_limit_per_s\"
along = \"replicas\"
direction = \"falls\"
";
    let scratch = Scratch::new("lab-plans");
    let cpu = PLANS.replace("fpga", "cpu").replace("y = \"slices\"", "y = \"processor_cores\"");
    for (experiment, command, figure) in
        [(PLANS, "quorate plan fpga --", "remaining_slices"), (&cpu, "quorate plan cpu --", "processor_us")]
    {
        let path = file(&scratch, experiment);
        let result = json(&["lab", "run", &path, "--dir", &scratch.path("dir"), "--json", "-"]);
        assert_eq!(result["claims"][0]["verdict"], "holds", "{result}");
        assert_eq!(rows(&result).len(), 2, "{result}");
        for row in rows(&result) {
            let run = row["provenance"]["command"].as_str().expect("a command");
            assert!(run.starts_with(command) && run.contains("--line-rate=20G"), "{run}");
            assert!(row["figures"][figure].is_number(), "{row}");
        }
    }
    for (from, to, words) in [
        ("20G", "0", ["line_rate", "above 0"]),
        ("\"fpga\"", "\"gpu\"", ["plan", "fpga, cpu"]),
        ("line_rate = \"20G\"", "device = \"vx\"", ["device", "xc7vx690t"]),
    ] {
        let path = file(&scratch, &PLANS.replacen(from, to, 1));
        let output = quorate(&["lab", "run", &path, "--dir", &scratch.path("dir")]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(words.iter().all(|word| error.contains(word)) && error.contains("mine.toml"), "{error}");
    }
}

/// Formulas as an instrument: each cell runs once and is exact, and the error for a wrong value names its place.
#[test]
fn formulas_are_an_instrument() {
    const FORMULAS: &str = "instruments = [\"analytical\"]
[base]
protocol = \"pbft\"
[[axis]]
key = \"loss\"
values = [0.0, 0.1]
[[plot]]
kind = \"line\"
title = \"Success\"
x = \"loss\"
y = \"success_probability\"
[[claim]]
id = \"falls\"
text = \"Success falls.\"
kind = \"trend\"
figure = \"success_probability\"
along = \"loss\"
direction = \"falls\"
";
    let scratch = Scratch::new("lab-formulas");
    let path = file(&scratch, FORMULAS);
    let result = json(&["lab", "run", &path, "--dir", &scratch.path("dir"), "--json", "-"]);
    assert_eq!(result["claims"][0]["verdict"], "holds", "{result}");
    assert_eq!(rows(&result).len(), 2, "a formula is computed once: {result}");
    for row in rows(&result) {
        let command = row["provenance"]["command"].as_str().expect("a command");
        assert!(command.starts_with("quorate model pbft --loss"), "{command}");
        let figures = &row["figures"];
        assert!(figures["expected_replies_bound"].as_f64() <= figures["expected_replies"].as_f64(), "{row}");
        assert!(figures["p99_ms"].as_f64() > figures["p50_ms"].as_f64(), "{row}");
    }
    for (from, to, words) in [
        ("0.1]", "1.1]", ["loss", "between 0 and 1"]),
        ("\"pbft\"", "\"raft\"", ["protocol", "pbft"]),
        ("key = \"loss\"", "key = \"los\"", ["los", "loss"]),
    ] {
        let path = file(&scratch, &FORMULAS.replacen(from, to, 1));
        let output = quorate(&["lab", "run", &path, "--dir", &scratch.path("dir")]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(words.iter().all(|word| error.contains(word)) && error.contains("mine.toml"), "{error}");
    }
}
