//! Results to standard output, everything else to standard error.

use quorate_lab::{BenchResult, BenchSpec};
use std::error::Error;
use std::fs;
use std::io::{self, Write};

/// Writes a line of a result. A reader that has gone away (`| head`) is no error.
pub fn say(text: &str) -> Result<(), io::Error> {
    say_bytes(text.as_bytes())
}

/// Writes a line of a result that need not be text.
pub fn say_bytes(line: &[u8]) -> Result<(), io::Error> {
    let mut out = io::stdout().lock();
    match out.write_all(line).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a line of a log.
pub fn complain(text: &str) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes a result wherever the spec says: table, JSON, page.
pub fn report(
    spec: &BenchSpec,
    result: &BenchResult,
    page: impl Fn(&BenchResult) -> String,
) -> Result<(), Box<dyn Error>> {
    deliver(spec, &result.to_table(), &result.to_json(), || page(result))
}

/// Writes the forms of a result wherever the spec says.
pub fn deliver(spec: &BenchSpec, table: &str, json: &str, page: impl Fn() -> String) -> Result<(), Box<dyn Error>> {
    deliver_to(spec.json.as_deref(), table, json)?;
    if let Some(path) = &spec.report {
        write(path, &page())?;
        complain(&format!("report: {path}"));
    }
    Ok(())
}

/// Writes a table to standard output, and JSON to that file if one is named; if that is `-`, JSON to standard output and the table to
/// standard error.
pub fn deliver_to(place: Option<&str>, table: &str, json: &str) -> Result<(), Box<dyn Error>> {
    match place {
        Some("-") => {
            complain(table);
            say(json.trim_end())?;
        }
        other => {
            if let Some(path) = other {
                write(path, json)?;
            }
            say(table)?;
        }
    }
    Ok(())
}

fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}"))
}
