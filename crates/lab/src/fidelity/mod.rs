//! How true the simulator is: specifications run on the node and in the simulator, and the ratios of their figures.

mod grid;
mod result;

pub use grid::{Entry, GRID, Grid};
pub use result::{Cell, Fidelity, Figures};

use crate::bench::{self, Progress, Watcher};
use crate::partial;
use crate::sim::{self, SimOptions};
use crate::spec::BenchSpec;
use quorate_simulator::CostTable;

/// Observer of the cells.
pub trait Observer {
    /// Reports that a cell begins, counted from 1.
    fn on_cell(&mut self, number: usize, of: usize, label: &str);
    fn on_end(&mut self, cell: &Cell);
}

/// The progress of single runs is not shown: they take seconds.
struct Silent;

impl Watcher for Silent {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn warn(&mut self, _: &str) {}
}

/// Runs each entry on the node, and then in the simulator with the same number of cores and this cost table. A run that
/// fails is part of the result. Stops between cells if a signal has asked the process to end.
pub fn run(entries: &[Entry], costs: &CostTable, observer: &mut dyn Observer) -> Fidelity {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut cells = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        if !partial::goes_on() {
            break;
        }
        observer.on_cell(at + 1, entries.len(), &entry.label());
        let measured = measure(&entry.spec);
        let simulated = match &measured {
            Ok(_) => simulate(&entry.spec, costs, cores),
            Err(_) => Err("not simulated".to_owned()),
        };
        let cell = Cell::of(entry, measured, simulated);
        observer.on_end(&cell);
        cells.push(cell);
    }
    let done = cells.len();
    let ended = || format!("after {done} of {} cells", entries.len());
    let partial = if done < entries.len() { partial::partial(ended) } else { None };
    Fidelity::new(cells, costs.source.clone(), cores, partial)
}

fn measure(spec: &BenchSpec) -> Result<Figures, String> {
    bench::run(spec, &mut Silent).map(|result| Figures::of(&result)).map_err(|error| format!("node: {error}"))
}

fn simulate(spec: &BenchSpec, costs: &CostTable, cores: usize) -> Result<Figures, String> {
    let spec = &BenchSpec { cores: cores as u32, ..spec.clone() };
    let result =
        sim::run_with(spec, &SimOptions::default(), costs, &|_| {}).map_err(|error| format!("simulator: {error}"))?;
    match result.failure() {
        Some(failure) => Err(format!("simulator: {failure}")),
        None => Ok(Figures::of(&result.bench)),
    }
}
