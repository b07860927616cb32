//! Converts the result of a run to the figures of a row.

use quorate_lab::experiments::Row;
use quorate_lab::experiments::row::Sample;
use quorate_lab::figures::Run;

/// Fills a row from a run: its figures and series, or the reason why the run failed.
pub fn fill(row: &mut Row, run: &Run) {
    row.failure = run.failure();
    row.warnings = run.warnings();
    if row.failure.is_some() {
        return;
    }
    for (figure, value) in run.figures() {
        row.set(figure.name, value);
    }
    row.series = run.series();
    if let Some(bench) = run.bench() {
        row.stages.clone_from(&bench.stages);
        let sample = |own: &quorate_lab::result::Sample| Sample { at_s: own.at_s, latency_ms: own.latency_ms };
        row.samples = bench.samples.iter().map(sample).collect();
    }
}
