//! `quorate lab network`: converts networks between the file format and CSV.

use crate::Outcome;
use quorate_lab::network::{NetworkArgs, convert};
use quorate_operator::output::Outputs;
use std::io::{ErrorKind, Write};
use std::path::Path;

pub fn run(arguments: &NetworkArgs) -> Outcome {
    let mut outputs = Outputs::open(&[("--out", Some(&arguments.out))], &[Path::new(&arguments.network)])?;
    let text = convert(arguments)?;
    match outputs.writer("--out").write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("--out: cannot write {}: {error}", arguments.out).into())
        }
        _ => Ok(()),
    }
}
