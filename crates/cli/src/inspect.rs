//! `quorate inspect`: what a replica's directory holds, and whether it is sound.

use crate::{Outcome, output};
use quorate_lab::inspect::{self, InspectArgs};

/// The result is told in any case; that something in it is not as it should be is an error.
pub fn run(arguments: &InspectArgs) -> Outcome {
    let result = inspect::run(arguments)?;
    output::deliver_to(arguments.json.as_deref(), result.to_table().trim_end(), &result.to_json())?;
    result.failure().map_or(Ok(()), |failure| Err(failure.into()))
}
