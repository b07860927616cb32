//! A process that is requested twice to stop.

use quorate_node::interrupt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Set in the process that receives the signals.
const VICTIM: &str = "QUORATE_TEST_INTERRUPTED";

/// Not a test: the process started by [`a_second_signal_ends_a_process_at_once`]. It reports the signals and does not
/// stop.
#[test]
fn run_as_victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let say = |what: &str| {
        let mut out = std::io::stdout();
        writeln!(out, "\nheard: {what}").and_then(|()| out.flush()).expect("the parent listens");
    };
    interrupt::install().expect("signals can be handled");
    interrupt::install().expect("a second call changes nothing");
    let _request = interrupt::when_requested(move || say("request"));
    drop(interrupt::when_requested(move || say("a subscription that ended")));
    let _abort = interrupt::before_abort(move || say("abort"));
    say("ready");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_second_signal_ends_a_process_at_once() {
    let mut command = Command::new(std::env::current_exe().expect("this test has a path"));
    command.args(["interrupt::run_as_victim", "--exact", "--nocapture"]).env(VICTIM, "1");
    // A test that runs in the background of a shell ignores SIGINT, and its children would, too.
    // SAFETY: `signal` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGINT, libc::SIG_DFL) {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the process starts");
    let process = libc::pid_t::try_from(child.id()).expect("a process id fits");
    let mut output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut hear = |what: &str| {
        let mut line = String::new();
        while line.trim() != format!("heard: {what}") {
            line.clear();
            assert_ne!(
                output.read_line(&mut line).expect("the output can be read"),
                0,
                "the process ended before it reported {what}"
            );
            assert!(!line.contains("that ended"), "a subscription ends when it is dropped");
        }
    };
    // SAFETY: sends a signal to a child that has not been waited for.
    let kill = |signal| assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    hear("ready");
    kill(libc::SIGINT);
    hear("request");
    kill(libc::SIGTERM);
    hear("abort");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("the output ends");
    assert_eq!(child.wait().expect("the process has ended").code(), Some(128 + libc::SIGTERM));
}
