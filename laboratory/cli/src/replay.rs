//! `quorate replay`: replays a recording.

use crate::Outcome;
use quorate_lab::replay::{self, ReplayArgs};
use quorate_operator::failure::wrong_call;
use quorate_operator::output::Outputs;
use std::io::{self, BufWriter, Write};
use std::process;

/// Writes the transcript and the result to standard output, or to standard error if the JSON goes to standard output.
/// Returns an error on a difference from the recording.
pub fn run(arguments: &ReplayArgs) -> Outcome {
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[&arguments.file])?;
    let json_to_stdout = arguments.json.as_deref() == Some("-");
    let place: Box<dyn Write> = if json_to_stdout { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    let mut place = BufWriter::new(place);
    let mut tell = |line: &str| {
        // Ignores other errors: the replay does not depend on its reader, unless the transcript is its only output.
        if writeln!(place, "{line}").is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            && arguments.json.is_none()
        {
            process::exit(0);
        }
    };
    let result = match arguments.transcript {
        true => replay::run(arguments, Some(&mut tell)),
        false => replay::run(arguments, None),
    };
    drop(place.flush());
    let result = result.map_err(wrong_call)?;
    outputs.show(&result, &[])
}
