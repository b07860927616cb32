//! Tests `--record` and `quorate replay` from a user's point of view.

use crate::common::*;
use quorate_hosting::recording::{Entry, Reader, Tape, Writer};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(120);

fn replay_json(file: &str) -> Value {
    json(&["replay", file, "--json", "-"])
}

#[test]
fn killed_processes_leave_recordings_that_can_be_replayed() {
    let scratch = Scratch::new("processes");
    let recordings = scratch.path("recordings");
    let mut run = vec!["bench", "--host", "processes", "--fault", "crash:0@300ms", "--view-timeout-ms", "200"];
    run.extend(["--warmup", "200ms", "--duration", "1s", "--record", &recordings]);
    let said = text(&succeeds(&run).stderr);
    for replica in 0..4 {
        let file = format!("{recordings}/replica-{replica}.recording");
        assert!(said.contains(&format!("recording: {file}")), "{said}");
        let result = replay_json(&file);
        assert_eq!((&result["end"], &result["difference"]), (&"broken-off".into(), &Value::Null), "{result}");
        assert!(result["commands"].as_u64() > Some(0) && result["recorded"][0] == replica, "{result}");
    }
    let file = scratch.path("recordings/replica-1.recording");
    let whole = fs::read(&file).expect("it was written");
    fs::write(&file, &whole[..whole.len() - 5]).expect("the directory can be written");
    let torn = replay_json(&file);
    assert!(torn["torn_bytes"].as_u64() > Some(0) && torn["difference"].is_null(), "{torn}");
    let said = text(&succeeds(&["replay", &file]).stdout);
    assert!(said.contains("the recording breaks off: its process was killed"), "{said}");
}

/// A simulation that a signal ends has a recording up to that point. The rest of the run, whose load was stopped,
/// differs from the seed's run.
#[test]
fn an_interrupted_simulation_ends_soon_and_its_recording_can_be_replayed() {
    let scratch = Scratch::new("interrupted");
    let (file, written) = (scratch.path("run.recording"), scratch.path("result.json"));
    let mut command = quorate_heeding_signals();
    command.args(["sim", "--duration", "60m", "--clients", "1", "--outstanding", "1"]);
    command.args(["--record", &file, "--json", &written]).stdin(Stdio::null());
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let start = Instant::now();
    while fs::metadata(&file).map_or(0, |about| about.len()) < 1_000_000 {
        assert!(start.elapsed() < HANG, "nothing is recorded");
        thread::sleep(Duration::from_millis(10));
    }
    let process = libc::pid_t::try_from(run.id()).expect("a process id fits");
    // SAFETY: sends a signal to a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(process, libc::SIGTERM) }, 0);
    let status = loop {
        if let Some(status) = run.try_wait().expect("it can be waited for") {
            break status;
        }
        if start.elapsed() > HANG {
            run.kill().expect("it runs");
            panic!("it does not hear the signal");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(128 + libc::SIGTERM));
    let result: Value = serde_json::from_slice(&fs::read(&written).expect("it was written")).expect("JSON");
    assert!(result["partial"].as_str().is_some_and(|partial| partial.contains("SIGTERM")), "{result}");
    // With --until, the whole run, which would take as long as planned, is not repeated.
    let replayed = json(&["replay", &file, "--until", "1000000000", "--json", "-"]);
    assert_eq!((&replayed["end"], &replayed["torn_bytes"]), (&"broken-off".into(), &0.into()), "{replayed}");
    assert!(replayed["difference"].is_null() && replayed["steps"].as_u64() > Some(1000), "{replayed}");
}

#[test]
fn a_simulated_recording_is_replayed_and_an_altered_one_is_refused() {
    let scratch = Scratch::new("sim");
    let file = scratch.path("run.recording");
    let load = ["--clients", "1", "--outstanding", "20", "--warmup", "20ms", "--duration", "50ms"];
    let run = [&["sim", "--seed", "7", "--json", "-", "--record", &file][..], &load].concat();
    let recorded: Value = serde_json::from_slice(&succeeds(&run).stdout).expect("JSON");
    let result = replay_json(&file);
    assert_eq!(result["rerun"]["trace_hash"], recorded["trace_hash"]);
    assert_eq!((&result["end"], &result["rerun"]["difference"]), (&"complete".into(), &Value::Null));

    let told = text(&succeeds(&["replay", &file, "--transcript", "--until", "25"]).stdout);
    for words in ["R0 begins", "takes the start", "enters v1, leader R0", "replayed    25 steps", "stopped before"] {
        assert!(told.contains(words), "no `{words}` in\n{told}");
    }

    let mut damaged = fs::read(&file).expect("it was written");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&file, damaged).expect("the directory can be written");
    let output = quorate(&["replay", &file]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(&file) && said.contains("the recording is damaged: chunk"), "{said}");
}

#[test]
fn a_difference_exits_with_1_and_shows_the_step() {
    let scratch = Scratch::new("differs");
    let file = scratch.path("run.recording");
    let load = ["--clients", "1", "--outstanding", "20", "--warmup", "20ms", "--duration", "50ms"];
    succeeds(&[&["sim", "--protocol", "jolteon", "--record", &file][..], &load].concat());
    // Chained HotStuff behaves differently from Jolteon, but their messages have the same encoding.
    let other = scratch.path("other.recording");
    let mut reader = Reader::open(file.as_ref()).expect("a recording");
    let mut header = reader.header().clone();
    header.consensus.protocol = "chained-hotstuff".parse().expect("a protocol");
    let mut writer = Writer::create(other.as_ref(), &header, u64::MAX).expect("the directory can be written");
    while let Some(entry) = reader.next_entry().expect("a sound recording") {
        match entry {
            Entry::Begin(begin) => writer.begin(begin),
            Entry::Step(step) => writer.step(step),
            Entry::End(_) => unreachable!("a reader returns no end"),
        }
    }
    writer.finish(None).expect("the directory can be written");
    let output = quorate(&["replay", &other]);
    let (said, table) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(said.contains("error: the replay differs from the recording, first in step"), "{said}");
    for words in ["difference  step", "  input     ", "  recorded  ", "  replayed  "] {
        assert!(table.contains(words), "no `{words}` in\n{table}");
    }
}

#[test]
fn wrong_calls_name_a_remedy() {
    let scratch = Scratch::new("calls");
    let text_file = scratch.path("file");
    fs::write(&text_file, "hello").expect("the directory can be written");
    for (arguments, status, words) in [
        (&["replay"][..], 2, "<FILE>"),
        (&["replay", &text_file, "--until", "0"], 2, "--until"),
        (&["replay", &text_file], 2, "this is not a recording"),
        (&["replay", "no-such-file"], 2, "no-such-file"),
        (&["bench", "--record", "9:file"], 2, "there is no replica 9"),
        (&["sim", "--record", "1:file"], 2, "without `1:`"),
        (&["sim", "--record", &text_file, "--seeds", "1..4"], 2, "--seeds 1..2"),
    ] {
        let output = quorate(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?} lacks {words:?}: {said}");
    }
}
