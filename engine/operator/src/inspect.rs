//! `quorate inspect`: shows and checks a replica's directory, or checks an export.

use crate::Outcome;
use crate::failure::wrong_call;
use crate::inspection::InspectArgs;
use crate::output::Outputs;
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig};
use std::path::Path;

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  every check that ran passed; without --verify, only that the journal can be read
  1  a problem was found and reported, or the directory cannot be inspected
  2  the call is wrong";

/// Inspects a directory, or checks an export.
pub fn run(arguments: &InspectArgs) -> Outcome {
    match (&arguments.check, &arguments.dir) {
        (Some(export), _) => check(export, arguments),
        (None, Some(directory)) => inspect(directory, arguments),
        (None, None) => unreachable!("clap requires one of the two"),
    }
}

fn outputs(arguments: &InspectArgs) -> Result<Outputs, Box<dyn std::error::Error>> {
    let inputs: Vec<&Path> = arguments.check.iter().chain(&arguments.keys).map(AsRef::as_ref).collect();
    Outputs::open(&[("--json", arguments.json.as_deref())], &inputs)
}

fn check(export: &Path, arguments: &InspectArgs) -> Outcome {
    let outputs = outputs(arguments)?;
    let keys = arguments.keys.as_deref().map(|path| match path.is_dir() {
        true => ClientConfig::load(&path.join(CLIENT_CONFIG_FILE)),
        false => ClientConfig::load(path),
    });
    let checked = crate::inspection::check::check(export, keys.transpose()?.as_ref())?;
    outputs.show(&checked, &[])
}

/// Prints the result even if it contains a problem, which is then also returned as an error.
fn inspect(directory: &Path, arguments: &InspectArgs) -> Outcome {
    if arguments.export.as_deref() == Some(Path::new("-")) {
        return Err(wrong_call("--export: an export is renamed once it is complete; name a file"));
    }
    let outputs = outputs(arguments)?;
    let result = crate::inspection::run(directory, arguments)?;
    outputs.show(&result, &[])
}
