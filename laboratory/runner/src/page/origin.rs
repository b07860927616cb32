//! Origin of what a figure shows: builds, machines, seeds, and the command that repeats it.

use super::cells::Cells;
use super::words;
use quorate_lab::experiments::{Plan, Row};
use std::collections::BTreeSet;

/// Maximum number of builds or machines named in a caption.
const MAX_NAMED: usize = 2;

/// Returns the sentences of a caption that say where its values come from.
pub(super) fn caption(cells: &Cells, drawn: &[usize]) -> String {
    let rows = || drawn.iter().flat_map(|cell| cells.rows(*cell));
    let mut instruments: Vec<&str> = Vec::new();
    for name in drawn.iter().map(|cell| cells.cell(*cell).instrument.name()) {
        if !instruments.contains(&name) {
            instruments.push(name);
        }
    }
    let named = |of: fn(&Row) -> &str| {
        let all: BTreeSet<&str> = rows().map(|row| of(row)).filter(|name| !name.is_empty()).collect();
        let more = all.len().saturating_sub(MAX_NAMED);
        let shown: Vec<&str> = all.into_iter().take(MAX_NAMED).collect();
        if more > 0 { format!("{} and {more} more", shown.join("; ")) } else { shown.join("; ") }
    };
    let mut parts = vec![format!("{}, profile {}", instruments.join(" and "), cells.plan.profile)];
    for (name, value) in [
        ("build", named(|row| &row.provenance.surroundings.build)),
        ("machine", named(|row| &row.provenance.surroundings.machine)),
    ] {
        if !value.is_empty() {
            parts.push(format!("{name} {value}"));
        }
    }
    let seeds = || rows().map(|row| row.provenance.seed);
    if let Some((least, most)) = seeds().min().zip(seeds().max()) {
        parts.push(if least == most { format!("seed {least}") } else { format!("seeds {least} to {most}") });
    }
    format!("Origin: {}; repeat with `{}`.", words::line(&parts.join("; ")), command(cells.plan))
}

/// Returns the command that runs an experiment again.
pub(crate) fn command(plan: &Plan) -> String {
    let experiment = plan.experiment;
    // The repository's experiments have names on the command line.
    let name = match experiment.file.ends_with(&format!("experiments/{}.toml", experiment.name())) {
        true => experiment.name(),
        false => quorate_types::text::quote(&experiment.file),
    };
    format!("quorate lab run {name} --profile {}", plan.profile)
}
