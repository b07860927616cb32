//! Warnings and observations common to real and simulated runs.

use quorate_client::load::LoadReport;
use quorate_types::Status;
use std::collections::BTreeSet;

/// Minimum share of the time in which a bottleneck thread ran or waited for a CPU.
pub(crate) const BUSY_FRACTION: f64 = 0.95;

/// Returns the proofs of all replicas, without duplicates.
pub(crate) fn evidence<'a>(statuses: impl Iterator<Item = &'a Status>) -> Vec<String> {
    each_once(statuses.flat_map(|status| &status.evidence))
}

/// Returns the unproven contradictions that replicas report, without duplicates.
pub(crate) fn hearsay<'a>(statuses: impl Iterator<Item = &'a Status>) -> Vec<String> {
    each_once(statuses.flat_map(|status| &status.hearsay))
}

fn each_once<'a>(lines: impl Iterator<Item = &'a String>) -> Vec<String> {
    lines.cloned().collect::<BTreeSet<String>>().into_iter().collect()
}

/// Adds a warning for each count above 0: the load's counts, and `others`.
pub(crate) fn note_counts(warnings: &mut Vec<String>, load: Option<&LoadReport>, others: &[(u64, &str)]) {
    let count = |of: fn(&LoadReport) -> u64| load.map_or(0, of);
    let of_load = [
        (count(|load| load.unanswered), "commands were unanswered when the run ended"),
        (count(|load| load.unsent), "commands were due but never sent, because too many were outstanding"),
        (count(|load| load.total_refused), "commands were refused"),
    ];
    let seen = of_load.iter().chain(others).filter(|(count, _)| *count > 0);
    warnings.extend(seen.map(|(count, what)| format!("{count} {what}")));
}
