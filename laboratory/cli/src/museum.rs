//! `quorate museum`: writes the table to standard output, and progress to a terminal.

use crate::Outcome;
use quorate_lab::twins::museum::{self, MuseumArgs, THREAD_NAME};
use quorate_operator::output::{self, Outputs};
use std::io::{IsTerminal, Write, stderr};
use std::{panic, thread};

/// Shows exhibits. Returns an error if a bug was missed, or a violation occurred without the bug.
pub fn run(arguments: &MuseumArgs) -> Outcome {
    keep_panics_of_exhibits_quiet();
    if arguments.transcript {
        output::say(museum::transcripts(arguments)?.trim_end())?;
        return Ok(());
    }
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    let on_terminal = stderr().is_terminal();
    let heard = |name: &str| {
        if on_terminal {
            // Ignore errors: the terminal may be gone.
            let _ = write!(stderr(), "\r\x1b[K{name}");
        }
    };
    let result = museum::visit(arguments, &heard);
    if on_terminal {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let result = result?;
    outputs.show(&result, &[])
}

/// Silences panics that an exhibit provokes: the table already shows them.
fn keep_panics_of_exhibits_quiet() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        if thread::current().name() != Some(THREAD_NAME) {
            usual(information);
        }
    }));
}
