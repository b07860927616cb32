//! Errors of wrong command lines: invalid numbers, unusable paths, and outputs without a reader.

use crate::common::*;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a process counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(120);
/// Values that no numeric flag accepts, and one accepted only by wide ones.
const VALUES: [&str; 5] = ["zzz", "", "-1", "99999999999999999999999999", "1e999"];
/// Fragments of messages from the parsers of Rust and clap.
const FOREIGN: [&str; 8] = [
    "invalid digit",
    "invalid float",
    "cannot parse",
    "too large to fit",
    "too small to fit",
    " is not in ",
    "..=",
    "number would be",
];

/// Returns every command with the flags that take a value, from clap's help.
fn flags() -> Vec<(Vec<String>, String)> {
    let (mut found, mut open) = (Vec::new(), vec![Vec::<String>::new()]);
    while let Some(words) = open.pop() {
        let call: Vec<&str> = words.iter().map(String::as_str).chain(["--help-all"]).collect();
        let help = text(&succeeds(&call).stdout);
        let mut is_list = false;
        for line in help.lines() {
            is_list = (is_list && !line.is_empty()) || line == "Commands:";
            let Some(first) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()) else { continue };
            if is_list && line != "Commands:" && first != "help" && !line.starts_with("   ") {
                open.push([words.clone(), vec![first.to_owned()]].concat());
            }
            let declared = line.trim_start();
            let flag = declared.split_whitespace().find(|word| word.starts_with("--"));
            if declared.starts_with('-')
                && let Some(flag) = flag.filter(|_| declared.contains(" <") || declared.contains(" ["))
            {
                found.push((words.clone(), flag.to_owned()));
            }
        }
    }
    found
}

/// Every flag of every command is given non-numeric values. Nothing runs, because an unknown flag follows.
#[test]
fn no_flag_answers_in_the_words_of_rusts_parsers() {
    let flags = flags();
    assert!(flags.len() > 250, "{} flags", flags.len());
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let refused = AtomicUsize::new(0);
    let work = || {
        while let Some((words, flag)) = flags.get(next.fetch_add(1, Ordering::Relaxed)) {
            for value in VALUES {
                let given = format!("{flag}={value}");
                let call: Vec<&str> =
                    words.iter().map(String::as_str).chain([given.as_str(), "--no-such-flag"]).collect();
                let output = quorate(&call);
                let said = text(&output.stderr);
                refused.fetch_add(usize::from(!said.contains("--no-such-flag")), Ordering::Relaxed);
                let is_clear = said.starts_with("error: ") && !FOREIGN.iter().any(|words| said.contains(words));
                if output.status.code() != Some(2) || !is_clear {
                    faults.lock().unwrap().push(format!("{call:?}: {said}"));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
    let refused = refused.into_inner();
    assert!(refused > 2 * flags.len(), "most values are refused: {refused} of {} flags' five", flags.len());
}

#[test]
fn a_number_out_of_range_is_told_the_range() {
    for (call, words) in [
        (&["status", "--dir", "x", "--timeout-ms", "60001"][..], "write a whole number from 1 to 60000"),
        (&["status", "--dir", "x", "--watch", "0"], "write a whole number from 1 to 3600"),
        (&["testnet", "--dir", "x", "--client-keys", "4294967296"], "write a whole number from 0 to 4294967295"),
        (&["twins", "replay", "x", "--line", "zzz"], "write a whole number, 0 or more"),
        (&["model", "pbft", "--loss", "half"], "write a number, such as 0.25"),
        (&["model", "pbft", "--replicas", "99999999999999999999"], "the number is too large"),
    ] {
        let output = quorate(call);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{call:?}: {said}");
        assert!(said.contains(words) && said.contains(call[call.len() - 2]), "{call:?}: {said}");
    }
}

/// In every command, an unusable path given by the user is a usage error.
#[test]
fn a_path_that_cannot_be_used_is_a_wrong_call() {
    let scratch = Scratch::new("paths");
    let (file, absent, directory) = (scratch.path("file"), scratch.path("absent/x"), scratch.path("directory"));
    fs::write(&file, "junk\n").expect("it can be written");
    fs::create_dir(&directory).expect("it can be made");
    let below = format!("{file}/x");
    let short = ["--warmup", "100ms", "--duration", "100ms", "--outstanding", "1"];
    let sim = |path| [&["sim"][..], &short, &["--record", path]].concat();
    let bench = |path| [&["bench"][..], &short, &["--record", path]].concat();
    let of_one = format!("1:{absent}");
    for call in [
        &["status", "--dir", &absent][..],
        &["status", "--dir", &file],
        &["keys", "show", &absent],
        &["keys", "show", &directory],
        &["keys", "encrypt", &absent],
        &["keys", "generate", "client", "--cluster", "one", "--out", &absent],
        &["keys", "generate", "client", "--cluster", "one", "--out", &file],
        &["man", "--dir", &absent],
        &["man", "--dir", &file],
        &["testnet", "--dir", &below],
        &["testnet", "--dir", "/proc/x"],
        &["lab", "run", "smoke/tiny", "--dir", &below],
        &["lab", "report", &absent],
        &["lab", "export", &absent],
        &["node", "--dir", &absent],
        &["client", "--dir", &absent, "get", "key"],
        &["inspect", "--dir", &absent],
        &["inspect", "--check", &absent],
        &["replay", &absent],
        &sim(&absent),
        &sim(&directory),
        &sim("/dev/null"),
        &bench(&absent),
        &bench(&below),
        &bench("/proc/x"),
        &bench(&of_one),
    ] {
        let output = quorate(call);
        assert_eq!(output.status.code(), Some(2), "{call:?}: {}", text(&output.stderr));
    }
    let names: Vec<_> =
        fs::read_dir(&scratch.0).expect("it is there").map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no call has made a directory: {names:?}");
    assert!(fs::read_dir(&directory).expect("it is there").next().is_none());
}

/// `--help` fits on a few screens; `--help-all` shows every flag.
#[test]
fn help_shows_the_common_flags_first_and_few_others() {
    let flags = |words: &[&str]| {
        let help = text(&succeeds(words).stdout);
        let flags = help.lines().map(str::trim_start).filter(|line| line.starts_with("--") || line.starts_with("-h"));
        let order = |heading: &str| help.find(heading).unwrap_or_else(|| panic!("{heading} in {help}"));
        assert!(order("Common:") < order("Cluster:") && order("Cluster:") < order("Load:"), "{help}");
        flags.count()
    };
    for command in ["bench", "sim"] {
        let (short, all) = (flags(&[command, "--help"]), flags(&[command, "--help-all"]));
        assert!(short <= 40, "{command} --help shows {short} flags");
        assert!(all > short + 20, "{command} --help-all shows {all} flags, --help {short}");
    }
}

/// Help and version are results, too.
#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_a_failure() {
    for call in [&["--help"][..], &["--version"], &["-V"], &["help", "sim"], &["sim", "--help"], &["lab", "run", "-h"]]
    {
        let run = |output: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
            command.args(call).stdin(Stdio::null()).stdout(output).output().expect("the binary runs")
        };
        let full = run(File::options().write(true).open("/dev/full").expect("Linux has it").into());
        let said = text(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{call:?}: {said}");
        assert!(said.contains("standard output: No space left"), "{call:?}: {said}");
        let whole = run(Stdio::piped());
        assert!(whole.status.success() && !whole.stdout.is_empty() && whole.stderr.is_empty(), "{call:?}");
    }
}

/// Waits until a process has ended.
fn wait(child: &mut std::process::Child, what: &str) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status.code();
        }
        assert!(start.elapsed() < HANG, "{what} does not end");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A command with endless output ends when its reader closes the pipe.
#[test]
fn an_endless_output_ends_with_its_reader() {
    let scratch = Scratch::new("readers");
    let (net, recording) = (scratch.path("net"), scratch.path("recording"));
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    succeeds(&["sim", "--warmup", "100ms", "--duration", "1s", "--outstanding", "1", "--record", &recording]);
    for call in [
        &["status", "--dir", &net, "--timeout-ms", "1", "--watch", "1"][..],
        &["status", "--dir", &net, "--timeout-ms", "1", "--watch", "1", "--json"],
        &["twins", "generate"],
        &["replay", &recording, "--transcript"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(call).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("it prints");
        assert!(!line.is_empty(), "{call:?}");
        assert_eq!(wait(&mut child, &format!("{call:?}")), Some(0), "{call:?}");
    }
}
