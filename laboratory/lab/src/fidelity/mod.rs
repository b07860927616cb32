//! Fidelity of the simulator: runs specifications on the node and in the simulator, and compares their figures.

mod grid;
mod result;
mod stages;

pub use grid::{Entry, GRID, Grid};
pub use result::{Cell, Fidelity, Figures};
pub use stages::{StageGap, gaps};

use crate::bench::{self, Progress, Watcher};
use crate::noise::Meter;
use crate::partial;
use crate::result::BenchResult;
use crate::sim::{self, SimOptions, SimResult};
use crate::spec::BenchSpec;
use quorate_operator::report::Report;
use quorate_simulator::CostTable;

/// Network of the simulated runs, since the node's replicas and clients share one machine.
const NETWORK: &str = "loopback";

/// Maximum share of the machine used by other programs during a run, in percent.
const MAX_OTHERS_PERCENT: f64 = 5.0;
/// Maximum number of runs of a specification.
const MAX_RUNS: usize = 3;

/// Observer of the cells.
pub trait Observer {
    /// Reports that a cell begins, counted from 1.
    fn on_cell(&mut self, number: usize, of: usize, label: &str);
    fn on_end(&mut self, cell: &Cell);
}

/// Discards the progress of single runs, which take seconds.
struct Silent;

impl Watcher for Silent {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn warn(&mut self, _: &str) {}
}

/// Runs each entry on the node, and then in the simulator with the same number of cores and this cost table. A failed
/// run is part of the result. A signal to end leaves out the present cell and all later ones.
pub fn run(entries: &[Entry], costs: &CostTable, observer: &mut dyn Observer) -> Fidelity {
    let cores = cores();
    let mut cells = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        if !partial::goes_on() {
            break;
        }
        observer.on_cell(at + 1, entries.len(), &entry.label());
        let measured = measure(&entry.spec);
        let others = measured.as_ref().ok().and_then(|measured| measured.others_percent);
        let simulated = match &measured {
            Ok(_) => simulate(&entry.spec, costs).map(|result| result.bench),
            Err(_) => Err("not simulated".to_owned()),
        };
        let differences = match (&measured, &simulated) {
            (Ok(measured), Ok(simulated)) if entry.spec.node.stages => gaps(&measured.result, simulated),
            _ => Vec::new(),
        };
        let measured = measured.map(|measured| Figures::of(&measured.result));
        let mut cell = Cell::of(entry, measured, simulated.map(|result| Figures::of(&result)));
        cell.stages = differences;
        cell.others_percent = others;
        if !partial::goes_on() {
            // The run was cut short, so its figures are not the specification's.
            break;
        }
        observer.on_end(&cell);
        cells.push(cell);
    }
    let done = cells.len();
    let ended = || format!("after {done} of {} cells", entries.len());
    let partial = if done < entries.len() { partial::partial(ended) } else { None };
    Fidelity::new(cells, costs.source.clone(), cores, partial)
}

/// A specification run on the node.
pub(crate) struct Measured {
    pub result: BenchResult,
    /// CPU time of other programs and of the hypervisor, in percent of all cores' time; `None` if the kernel does not
    /// report it.
    pub others_percent: Option<f64>,
}

/// Runs a specification on the node until other programs leave it undisturbed, at most [`MAX_RUNS`] times. Returns the
/// least disturbed run.
pub(crate) fn measure(spec: &BenchSpec) -> Result<Measured, String> {
    let mut best: Option<Measured> = None;
    for _ in 0..MAX_RUNS {
        let meter = Meter::start();
        let result = bench::run(spec, &mut Silent).map_err(|error| format!("node: {error}"))?;
        let others_percent = meter.noise(&[]).map(|noise| noise.others_percent + noise.steal_percent);
        let others = |measured: &Measured| measured.others_percent.unwrap_or(0.0);
        let measured = Measured { result, others_percent };
        let is_quiet = others(&measured) <= MAX_OTHERS_PERCENT;
        if best.as_ref().is_none_or(|best| others(&measured) < others(best)) {
            best = Some(measured);
        }
        if is_quiet || !partial::goes_on() {
            break;
        }
    }
    Ok(best.expect("at least one run was measured"))
}

/// Runs a specification in the simulator, on as many cores as this machine has.
pub(crate) fn simulate(spec: &BenchSpec, costs: &CostTable) -> Result<SimResult, String> {
    let spec = &BenchSpec { cores: cores() as u32, ..spec.clone() };
    let options = SimOptions { network: NETWORK.into(), ..SimOptions::default() };
    let result = sim::run_with(spec, &options, costs, &|_| {}).map_err(|error| format!("simulator: {error}"))?;
    match result.failure() {
        Some(failure) => Err(format!("simulator: {failure}")),
        None => Ok(result),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
