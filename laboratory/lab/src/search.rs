//! Search for saturation: the highest rate of an open loop that the cluster sustains.

pub use crate::result::{Probe, Search};

use crate::partial;
use crate::result::BenchResult;
use crate::spec::{BenchSpec, DEFAULT_SEARCH_RATE};

/// Maximum number of runs of a search.
pub const MAX_PROBES: usize = 20;
/// Largest accepted difference between completed and offered rate, as a fraction of the offered one.
pub const MAX_RATE_ERROR: f64 = 0.05;
/// Termination: the search ends when the lowest rate that failed is at most this multiple of the highest rate that
/// passed.
pub const PRECISION: f64 = 1.05;
/// Factor between two rates until one has passed and another has failed.
const STRIDE: f64 = 4.0;
/// Highest rate to try, in commands per second.
const MAX_SEARCH_RATE: u64 = 100_000_000;

/// The judged part of a benchmark's result is all of it.
impl AsMut<BenchResult> for BenchResult {
    fn as_mut(&mut self) -> &mut BenchResult {
        self
    }
}

/// Judges a run at a rate.
fn judge(rate: u64, result: &BenchResult, limit_ms: u64) -> Probe {
    let (throughput, p99_ms) = (result.throughput_ops, result.latency_ms.p99);
    let keeps_up = (throughput - rate as f64).abs() <= MAX_RATE_ERROR * rate as f64;
    Probe { rate, throughput, p99_ms, ok: keeps_up && p99_ms.is_some_and(|p99| p99 <= limit_ms as f64) }
}

/// Returns the next rate to try, given the probes so far; `None` if the search is over.
///
/// The rate grows (or, if the first one fails, falls) by a factor of four until one rate has passed and a higher one
/// has failed, and then halves the interval between them on a logarithmic scale.
pub fn next_rate(first: u64, probes: &[Probe]) -> Option<u64> {
    if probes.len() >= MAX_PROBES {
        return None;
    }
    let passed = probes.iter().filter(|probe| probe.ok).map(|probe| probe.rate).max();
    let failed = probes.iter().filter(|probe| !probe.ok).map(|probe| probe.rate).min();
    let next = match (passed, failed) {
        (None, None) => return Some(first),
        (Some(passed), None) => (passed as f64 * STRIDE).min(MAX_SEARCH_RATE as f64),
        (None, Some(failed)) => failed as f64 / STRIDE,
        // A rate that failed although a higher one passed was disturbed, so the higher one counts.
        (Some(passed), Some(_)) => {
            let above = probes.iter().filter(|probe| !probe.ok && probe.rate > passed).map(|probe| probe.rate).min();
            match above {
                None => passed as f64 * STRIDE,
                Some(above) if above as f64 <= passed as f64 * PRECISION => return None,
                Some(above) => (passed as f64 * above as f64).sqrt(),
            }
        }
    };
    let next = (next.round() as u64).clamp(1, MAX_SEARCH_RATE);
    probes.iter().all(|probe| probe.rate != next).then_some(next)
}

/// Runs a load at several rates. Returns the search, and the result at the highest rate that passed, or else at the
/// last rate. Passes the watcher to each run and its probe.
///
/// # Errors
/// The error of the first run that fails.
pub(crate) fn search<R: AsMut<BenchResult>, E, W: ?Sized>(
    spec: &BenchSpec,
    watcher: &mut W,
    mut run: impl FnMut(&BenchSpec, &mut W) -> Result<R, E>,
    on_probe: impl Fn(&mut W, &Probe),
) -> Result<R, E> {
    let mut search = Search::default();
    let mut best: Option<R> = None;
    let mut last = None;
    while let Some(rate) = next_rate(spec.rate.unwrap_or(DEFAULT_SEARCH_RATE), &search.probes) {
        let probe = BenchSpec { search: false, rate: Some(rate), outstanding: None, ..spec.clone() };
        let mut result = match run(&probe, watcher) {
            Ok(result) => result,
            Err(_) if !search.probes.is_empty() && !partial::goes_on() => break,
            Err(error) => return Err(error),
        };
        if result.as_mut().partial.is_some() {
            last = Some(result);
            break;
        }
        let probe = judge(rate, result.as_mut(), spec.search_p99_ms);
        on_probe(watcher, &probe);
        let is_best = probe.ok && search.rate.is_none_or(|highest| rate > highest);
        search.probes.push(probe);
        if is_best {
            (search.rate, best) = (Some(rate), Some(result));
        } else {
            last = Some(result);
        }
        if !partial::goes_on() {
            break;
        }
    }
    let mut result = best.or(last).expect("a search has a first run");
    let found = result.as_mut();
    let runs = search.probes.len();
    found.partial = found.partial.take().or_else(|| partial::partial(|| format!("after {runs} runs of a search")));
    if found.partial.is_none() && search.rate.is_none() {
        found.warnings.push(format!("--search: none of {runs} rates was sustained; the figures are from the last run"));
    }
    found.search = Some(search);
    Ok(result)
}
