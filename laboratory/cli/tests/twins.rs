//! Tests `quorate twins` and `quorate museum` from a user's point of view.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns an empty directory for a test, below cargo's temporary directory.
fn scratch(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("cargo's directory can be written");
    path
}

fn quorate(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Expects success, and returns standard output.
fn told(directory: &Path, arguments: &[&str]) -> String {
    let output = quorate(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Expects a failure other than a usage error, and returns standard output and standard error.
fn fails(directory: &Path, arguments: &[&str]) -> (String, String) {
    let output = quorate(directory, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("standard output is JSON and nothing else")
}

#[test]
fn a_sound_protocol_passes_a_sample() {
    let directory = scratch("sound");
    let shape = ["--replicas", "4", "--twins", "1", "--partitions", "2", "--rounds", "7", "--seed", "1"];
    let run = ["twins", "run", "--protocol", "fast-hotstuff", "--sample", "300", "--json", "-"];
    let result = json(&told(&directory, &[&run[..], &shape].concat()));
    assert_eq!((&result["scenarios"], &result["unsafe"], &result["stalled"]), (&300.into(), &0.into(), &0.into()));
    assert!(result["wall_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{result}");
    assert!(result["scenarios_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
    assert_eq!(fs::read_dir(&directory).expect("it can be read").count(), 0, "nothing was found, so nothing is saved");
}

#[test]
fn generated_scenarios_are_played_and_findings_are_replayed_and_shrunk() {
    let directory = scratch("found");
    let shape = ["--twins", "2", "--rounds", "7"];
    told(&directory, &[&["twins", "generate", "--sample", "1500", "--out", "some.jsonl"], &shape[..]].concat());
    let lines = fs::read_to_string(directory.join("some.jsonl")).expect("it was written");
    assert_eq!(lines.lines().count(), 1500);
    let (result, error) =
        fails(&directory, &["twins", "run", "--input", "some.jsonl", "--save", "found.jsonl", "--json", "-"]);
    let result = json(&result);
    let broken = |verdict: &str| result[verdict].as_u64().expect("a count");
    assert!(broken("unsafe") > 0, "two twins among four replicas break agreement: {error}");
    let found = fs::read_to_string(directory.join("found.jsonl")).expect("findings are saved");
    assert_eq!(found.lines().count() as u64, 1 + broken("unsafe") + broken("stalled"), "the simplest comes first");
    let (transcript, error) = fails(&directory, &["twins", "replay", "found.jsonl", "--line", "1"]);
    assert!(transcript.starts_with("view 1: leader R"), "{transcript}");
    assert!(error.contains("jolteon: agreement: "), "{error}");
    let simplest = told(&directory, &["twins", "shrink", "found.jsonl", "--line", "1"]);
    assert_eq!(simplest.lines().next(), found.lines().next(), "a scenario that cannot be simplified stays unchanged");
}

#[test]
fn the_parts_of_a_sample_add_up_to_it() {
    let directory = scratch("parts");
    let part = |shard: &str| told(&directory, &["twins", "generate", "--sample", "9", "--shard", shard]);
    let whole = part("1/1");
    let (first, second) = (part("1/2"), part("2/2"));
    let mut dealt = (first.lines(), second.lines());
    for (at, line) in whole.lines().enumerate() {
        assert_eq!(if at % 2 == 0 { dealt.0.next() } else { dealt.1.next() }, Some(line));
    }
    let count = told(&directory, &["twins", "generate", "--count", "--rounds", "1"]);
    assert!(count.trim().parse::<u64>().is_ok_and(|count| count > 0), "{count}");
}

#[test]
fn invalid_input_gets_one_clear_error() {
    let directory = scratch("bad");
    fs::write(directory.join("bad.jsonl"), "{\"replicas\":4,\"rounds\":[]}\n").expect("it can be written");
    let wrong: [(&[&str], &str); 4] = [
        (
            &["twins", "run", "--input", "bad.jsonl"],
            "bad.jsonl, line 1: scenario: a scenario has between 1 and 1000 rounds",
        ),
        (&["twins", "replay", "none.jsonl"], "cannot read none.jsonl"),
        (&["twins", "run", "--twins", "5", "--sample", "1"], "5 of 4 replicas cannot be twins"),
        (&["museum", "--exhibit", "99"], "there is no exhibit `99`"),
    ];
    for (arguments, expected) in wrong {
        let output = quorate(&directory, arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected) && error.lines().count() == 1, "{arguments:?}: {error}");
    }
}

#[test]
fn the_museum_shows_its_exhibits_and_names_absent_bugs() {
    let directory = scratch("museum");
    let table = told(&directory, &["museum", "--max-scenarios", "500"]);
    for said in [
        "a two-chain commits although views",
        "directed 1",
        "crash-sweep",
        "lasso",
        " 0 missed, 0 ",
        " 16   PBFT: a primary's block",
    ] {
        assert!(table.contains(said), "{said}: {table}");
    }
    let result = json(&told(&directory, &["museum", "--exhibit", "8,14a", "--max-scenarios", "100", "--json", "-"]));
    assert_eq!((&result["missed"], &result["unsound"], &result["shown"]), (&0.into(), &0.into(), &5.into()));
    assert!(result["absent"].as_array().is_some_and(|absent| !absent.is_empty()));
    let mutants = result["mutants"].as_array().expect("there are mutants");
    assert!(mutants.len() == 45 && mutants[11]["shown_by"] == "8d" && mutants[9]["mutant"] == "DecidedByFew");
    let exhibits = result["exhibits"].as_array().expect("there are exhibits");
    assert!(exhibits.iter().all(|one| one["passed"] == true && one["found_by"][0]["hunt"] == "directed"));
    let transcript = told(&directory, &["museum", "--exhibit", "6b", "--transcript"]);
    assert!(transcript.contains("view 1: ") && transcript.contains("panic: "), "{transcript}");
}

/// Exhibit 14: a warning before the start tells the user about such a cluster.
#[test]
fn a_cluster_that_would_stall_causes_a_warning() {
    let directory = scratch("announced");
    for (replicas, row) in [("4", "the longest row of 4 is 3"), ("7", "the longest row of 7 is 3")] {
        let shape = ["--replicas", replicas, "--leader", "round-robin", "--protocol"];
        let warning = |protocol: &str| {
            let place = format!("{protocol}-{replicas}");
            let output = quorate(&directory, &[&["testnet", "--dir", &place][..], &shape, &[protocol]].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stderr)
        };
        let said = warning("chained-hotstuff");
        assert!(said.contains(row) && said.contains("`reputation`") && said.contains("two-chain"), "{said}");
        assert_eq!(warning("jolteon"), "", "a two-chain makes progress");
    }
}

/// Mutants belong to the museum: no configuration can name one, and no other crate injects them. The variable that
/// names one is read only in a build with them.
#[test]
fn only_the_museum_puts_bugs_into_replicas() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut open: Vec<PathBuf> = vec![root.join("engine"), root.join("laboratory")];
    let mut sources = 0;
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(&path).expect("the sources can be read").map(|entry| entry.expect("an entry").path()),
            );
            continue;
        }
        let shipped = path.extension().is_some_and(|kind| kind == "rs" || kind == "toml")
            && path.components().any(|part| part.as_os_str() == "src")
            || path.ends_with("Cargo.toml");
        let of = |name: &str| path.components().any(|part| part.as_os_str() == name);
        let defines = of("consensus") || of("types");
        if !shipped || of("twins") || defines || path.ends_with("adversary/Cargo.toml") {
            continue;
        }
        sources += 1;
        let text = fs::read_to_string(&path).expect("a source is text");
        for switch in ["mutants", "Mutant", ".mutate("] {
            assert!(!text.contains(switch), "{} contains {switch}", path.display());
        }
    }
    assert!(sources > 50, "the sources are found");
    let switches = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/types/src/mutants.rs"));
    assert!(!switches.contains("Deserialize") && !switches.contains("FromStr"), "a mutant cannot be read from a file");
}

#[test]
fn scenarios_can_be_exchanged_with_other_implementations() {
    let directory = scratch("exchange");
    let made = told(&directory, &["twins", "generate", "--rounds", "2", "--sample", "5", "--seed", "3"]);
    fs::write(directory.join("ours.jsonl"), &made).expect("it can be written");
    for format in ["relab", "diem"] {
        let theirs = format!("{format}.json");
        told(&directory, &["twins", "convert", "ours.jsonl", "--to", format, "--out", &theirs]);
        let file = json(&fs::read_to_string(directory.join(&theirs)).expect("it was written"));
        assert_eq!(file["scenarios"].as_array().map(Vec::len), Some(5));
        assert_eq!(told(&directory, &["twins", "convert", &theirs, "--from", format]), made);
    }
    fs::write(directory.join("bad.json"), "{\"num_nodes\": 4,\n \"num_twins\": \"one\"}").expect("it can be written");
    let output = quorate(&directory, &["twins", "convert", "bad.json", "--from", "relab"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("bad.json: invalid type: string \"one\"") && said.contains("line 2 column"), "{said}");
}
