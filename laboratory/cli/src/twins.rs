//! `quorate twins`: writes scenarios to standard output or a file, and transcripts and results to standard output.

use crate::Outcome;
use quorate_lab::twins::{self, ConvertArgs, GenerateArgs, ReplayArgs, RunArgs, ShrinkArgs, TwinsCommand};
use quorate_operator::output::{self, Form, Outputs};
use std::io::{self, BufWriter, IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of scenarios between progress updates.
const STEP: u64 = 4096;

/// Runs the command. Returns an error on a violation.
pub fn run(command: &TwinsCommand) -> Outcome {
    match command {
        TwinsCommand::Generate(arguments) => generate(arguments),
        TwinsCommand::Run(arguments) => play(arguments),
        TwinsCommand::Replay(arguments) => replay(arguments),
        TwinsCommand::Shrink(arguments) => shrink(arguments),
        TwinsCommand::Convert(arguments) => convert(arguments),
    }
}

/// Returns the name of an output for errors.
fn shown(path: &str) -> &str {
    if path == "-" { "standard output" } else { path }
}

fn generate(arguments: &GenerateArgs) -> Outcome {
    if arguments.count {
        output::say(&twins::space_of(&arguments.shape)?.count().to_string())?;
        return Ok(());
    }
    let mut outputs = Outputs::open(&[("--out", Some(&arguments.out))], &[])?;
    let mut place = BufWriter::new(outputs.writer("--out"));
    let written = match twins::generate(arguments, &mut place) {
        // A reader that closed the pipe has all it needs.
        Err(twins::TwinsError::Write { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        written => written?,
    };
    match place.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(format!("cannot write {}: {error}", shown(&arguments.out)).into());
        }
        _ => {}
    }
    output::report(&format!("{written} scenarios"));
    Ok(())
}

fn play(arguments: &RunArgs) -> Outcome {
    let save = arguments.save.to_string_lossy();
    let places = [("--json", arguments.json.as_deref()), ("--save", Some(&*save))];
    let inputs: Vec<&Path> = arguments.input.as_deref().into_iter().collect();
    let outputs = Outputs::open(&places, &inputs)?;
    let (on_terminal, told) = (stderr().is_terminal(), AtomicU64::new(0));
    let heard = |done: u64, total: u64| {
        if on_terminal && told.fetch_max(done / STEP, Ordering::Relaxed) < done / STEP {
            // Ignore errors: the terminal may be gone.
            let _ = write!(stderr(), "\r\x1b[K{done} of {total} scenarios");
        }
    };
    let result = twins::run(arguments, &heard);
    if on_terminal {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let result = result?;
    let found: Form<'_> = ("--save", &|| result.found.clone());
    outputs.show(&result, if result.found.is_empty() { &[] } else { std::slice::from_ref(&found) })
}

fn replay(arguments: &ReplayArgs) -> Outcome {
    let twins::Replayed { protocol, verdict, transcript } = twins::replay(arguments)?;
    output::say(transcript.trim_end())?;
    match verdict.violation() {
        None => {
            output::say(&format!("\n{protocol}: safe"))?;
            Ok(())
        }
        Some(violation) => Err(format!("{protocol}: {}: {}", violation.property, violation.what).into()),
    }
}

fn shrink(arguments: &ShrinkArgs) -> Outcome {
    let mut outputs = Outputs::open(&[("--out", Some(&arguments.out))], &[&arguments.entry.file])?;
    let simplest = twins::shrink(arguments)?;
    let mut place = outputs.writer("--out");
    writeln!(place, "{}", simplest.to_line())
        .map_err(|error| format!("cannot write {}: {error}", shown(&arguments.out)).into())
}

fn convert(arguments: &ConvertArgs) -> Outcome {
    let mut outputs = Outputs::open(&[("--out", Some(&arguments.out))], &[&arguments.file])?;
    let text = twins::convert(arguments)?;
    match outputs.writer("--out").write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write {}: {error}", shown(&arguments.out)).into())
        }
        _ => Ok(()),
    }
}
