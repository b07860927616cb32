//! `quorate inspect`: what a replica's directory holds, and whether it is sound; and whether an export is.

use crate::{Outcome, output};
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig};
use quorate_lab::inspect::{self, InspectArgs};
use std::path::Path;

/// Looks into a directory, or checks an export.
pub fn run(arguments: &InspectArgs) -> Outcome {
    match (&arguments.check, &arguments.dir) {
        (Some(export), _) => check(export, arguments),
        (None, Some(directory)) => inspect(directory, arguments),
        (None, None) => unreachable!("the command line demands one of the two"),
    }
}

fn check(export: &Path, arguments: &InspectArgs) -> Outcome {
    let keys = arguments.keys.as_deref().map(|path| match path.is_dir() {
        true => ClientConfig::load(&path.join(CLIENT_CONFIG_FILE)),
        false => ClientConfig::load(path),
    });
    let checked = inspect::check::check(export, keys.transpose()?.as_ref())?;
    output::deliver_to(arguments.json.as_deref(), checked.to_table().trim_end(), &checked.to_json())
}

/// The result is told in any case; that something in it is not as it should be is an error.
fn inspect(directory: &Path, arguments: &InspectArgs) -> Outcome {
    let result = inspect::run(directory, arguments)?;
    output::deliver_to(arguments.json.as_deref(), result.to_table().trim_end(), &result.to_json())?;
    result.failure().map_or(Ok(()), |failure| Err(failure.into()))
}
