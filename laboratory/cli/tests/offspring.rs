//! Tests that the processes and files of a run do not outlive it, however it ends.

use crate::common::*;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Starts a long run with replicas as processes, whose directory is below `place`.
fn run(arguments: &[&str], place: &str) -> Child {
    let mut command = quorate_heeding_signals();
    command.args(arguments).env("TMPDIR", place).current_dir(place);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

fn directories(place: &str) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name of ours is UTF-8");
    let names = fs::read_dir(place).expect("it is there").flatten().map(name);
    names.filter(|name| name.starts_with("quorate-run-")).collect()
}

/// Returns the number of processes whose command line contains a directory below `place`.
fn processes(place: &str) -> usize {
    let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let lines = fs::read_dir("/proc").expect("there is /proc").flatten().map(of);
    lines.filter(|line| String::from_utf8_lossy(line).contains(&format!("{place}/quorate-run-"))).count()
}

const BENCH: &[&str] = &["bench", "--host", "processes", "--duration", "10m", "--warmup", "0s", "--rate", "20"];

#[test]
fn children_die_with_their_parent_and_the_next_run_removes_its_files() {
    let scratch = Scratch::new("orphans");
    let place = scratch.0.to_str().expect("a test's path is UTF-8").to_owned();
    let (mut victim, mut other) = (run(BENCH, &place), run(BENCH, &place));
    wait_until("eight replicas run", || processes(&place) == 8);
    let both = directories(&place);
    assert_eq!(both.len(), 2);
    let left = both.iter().find(|name| name.starts_with(&format!("quorate-run-{}-", victim.id()))).expect("its own");
    victim.kill().expect("it runs");
    assert_eq!(victim.wait().expect("it ended").signal(), Some(libc::SIGKILL));
    wait_until("its replicas are gone", || processes(&place) == 4);
    assert!(directories(&place).contains(left), "a killed process cannot remove its directory");
    // The next run removes the leftovers but not the live run's directory, and removes its own at its end.
    let short = ["bench", "--host", "processes", "--duration", "300ms", "--warmup", "0s", "--rate", "20"];
    let status = run(&short, &place).wait().expect("it ends");
    assert!(status.success() && !directories(&place).contains(left), "{status}: {:?}", directories(&place));
    assert_eq!(directories(&place).len(), 1);
    assert!(other.try_wait().expect("it can be asked").is_none(), "the other continues");
    signal(other.id(), libc::SIGTERM);
    other.wait().expect("it ends");
    assert_eq!((directories(&place).len(), processes(&place)), (0, 0));
}

#[test]
fn every_signal_ends_a_run_with_its_replicas_and_its_directory() {
    let scratch = Scratch::new("ended");
    for (name, arguments, signals) in [
        ("bench", BENCH, &[libc::SIGINT][..]),
        ("twice", BENCH, &[libc::SIGINT, libc::SIGINT]),
        ("torture", &["torture", "--minutes", "10"], &[libc::SIGTERM]),
        ("demo", &["demo"], &[libc::SIGHUP]),
    ] {
        let place = scratch.path(name);
        fs::create_dir(&place).expect("it can be written");
        let mut child = run(arguments, &place);
        wait_until("four replicas run", || processes(&place) == 4);
        for number in signals {
            signal(child.id(), *number);
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now();
        let status = child.wait().expect("it ends");
        assert!(start.elapsed() < HANG, "{name} took {:?} to end", start.elapsed());
        assert_eq!(status.code(), Some(128 + signals[0]), "{name}: {status}");
        assert_eq!(directories(&place), Vec::<String>::new(), "{name}");
        // After a second signal, the kernel ends the replicas soon after their parent.
        wait_until("no replica runs", || processes(&place) == 0);
        assert!(Path::new(&place).exists());
    }
}
