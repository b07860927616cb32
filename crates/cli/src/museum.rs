//! `quorate museum`: the table to standard output, progress to a terminal.

use crate::Outcome;
use quorate_lab::twins::museum::{self, MuseumArgs, THREAD_NAME};
use quorate_operator::output::{self, Outputs};
use std::io::{IsTerminal, Write, stderr};
use std::{panic, thread};

/// Shows exhibits; that one was missed, or something is wrong without the bug, is an error.
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
            // A terminal that is gone need not be told.
            let _ = write!(stderr(), "\r\x1b[K{name}");
        }
    };
    let result = museum::visit(arguments, &heard);
    if on_terminal {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let result = result?;
    outputs.deliver(result.to_table().trim_end(), &[("--json", &|| result.to_json())])?;
    result.failure().map_or(Ok(()), |failure| Err(failure.into()))
}

/// A replica that panics because of its bug is a finding, in the table, and needs no second message.
fn keep_panics_of_exhibits_quiet() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        if thread::current().name() != Some(THREAD_NAME) {
            usual(information);
        }
    }));
}
