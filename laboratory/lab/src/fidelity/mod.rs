//! Fidelity of the simulator: runs specifications on the node, in an emulated network or on hosts, and in the
//! simulator, and compares their figures.

mod grid;
mod result;
mod stages;

pub use grid::{Entry, GRID, Grid};
pub use result::{Cell, Fidelity, Figures};
pub use stages::{StageGap, gaps};

use crate::bench::{self, BenchError, DeploymentOptions, EmulationOptions, Progress, Watcher};
use crate::experiments::Instrument;
use crate::noise::Meter;
use crate::partial;
use crate::result::BenchResult;
use crate::sim::{self, SimOptions, SimResult};
use crate::spec::{BenchSpec, Host};
use quorate_operator::report::Report;
use quorate_simulator::CostTable;

/// Network of simulations of real runs, whose replicas and clients share one machine.
const LOOPBACK: &str = "loopback";
/// Default network of emulated runs, and of simulations of deployed ones.
const NETWORK: &str = "lan";

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

/// Instruments on which each specification is measured, besides being simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Any of `real`, `emulated` and `deployed`.
    pub instruments: Vec<Instrument>,
    /// Hosts of deployed runs.
    pub hosts: Option<String>,
    /// Network of emulated runs, and of simulations of emulated and deployed ones.
    pub network: Option<String>,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting { instruments: vec![Instrument::Real], hosts: None, network: None }
    }
}

impl Setting {
    fn network(&self) -> &str {
        self.network.as_deref().unwrap_or(NETWORK)
    }

    fn measure(&self, spec: &BenchSpec, instrument: Instrument) -> Result<Measured, String> {
        // One specification: the default of the journal depends on the host.
        let journal = spec.journal.or(Some(spec.journal()));
        let on = |host| BenchSpec { host, journal, ..spec.clone() };
        match instrument {
            Instrument::Deployed => {
                let options = DeploymentOptions { hosts: self.hosts.clone(), ..DeploymentOptions::default() };
                // The noise of this machine does not matter for other hosts.
                let result = bench::run_deployed(&on(Host::Deployed), &options, &mut Silent);
                Ok(Measured { result: result.map_err(|error| format!("deployed: {error}"))?, others_percent: None })
            }
            Instrument::Emulated => {
                let options = EmulationOptions { network: Some(self.network().into()), ..EmulationOptions::default() };
                let spec = on(Host::Emulated);
                measure_with(|| bench::run_on(&spec, &options, &mut Silent))
                    .map_err(|error| format!("emulated: {error}"))
            }
            _ => measure(spec),
        }
    }

    fn simulate(&self, spec: &BenchSpec, costs: &CostTable, instrument: Instrument) -> Result<SimResult, String> {
        match instrument {
            // Each replica and each machine of clients has cores of its own.
            Instrument::Deployed => simulate_on(spec, costs, 0, self.network()),
            Instrument::Emulated => simulate_on(spec, costs, cores(), self.network()),
            _ => simulate(spec, costs),
        }
    }
}

/// Runs each entry on the instruments, and after each of them in the simulator, with the same number of cores and this
/// cost table. A failed run is part of the result. A signal to end leaves out the present cell and all later ones.
pub fn run(entries: &[Entry], setting: &Setting, costs: &CostTable, observer: &mut dyn Observer) -> Fidelity {
    let cores = cores();
    let pairs = entries.iter().flat_map(|entry| setting.instruments.iter().map(move |instrument| (entry, *instrument)));
    let total = entries.len() * setting.instruments.len();
    let mut cells = Vec::with_capacity(total);
    for (at, (entry, instrument)) in pairs.enumerate() {
        if !partial::goes_on() {
            break;
        }
        let label = match instrument {
            Instrument::Real => entry.label(),
            _ => format!("{instrument}: {}", entry.label()),
        };
        observer.on_cell(at + 1, total, &label);
        let measured = setting.measure(&entry.spec, instrument);
        let others = measured.as_ref().ok().and_then(|measured| measured.others_percent);
        let simulated = match &measured {
            Ok(_) => setting.simulate(&entry.spec, costs, instrument).map(|result| result.bench),
            Err(_) => Err("not simulated".to_owned()),
        };
        let differences = match (&measured, &simulated) {
            (Ok(measured), Ok(simulated)) if entry.spec.node.stages => gaps(&measured.result, simulated),
            _ => Vec::new(),
        };
        let command = measured.as_ref().ok().map(|measured| measured.result.command.clone());
        let measured = measured.map(|measured| Figures::of(&measured.result));
        let mut cell = Cell::of(entry, measured, simulated.map(|result| Figures::of(&result))).on(instrument, command);
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
    let ended = || format!("after {done} of {total} cells");
    let partial = if done < total { partial::partial(ended) } else { None };
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
    measure_with(|| bench::run(spec, &mut Silent)).map_err(|error| format!("node: {error}"))
}

/// Measures until other programs leave a run undisturbed, as [`measure`] does.
fn measure_with(mut run: impl FnMut() -> Result<BenchResult, BenchError>) -> Result<Measured, BenchError> {
    let mut best: Option<Measured> = None;
    for _ in 0..MAX_RUNS {
        let meter = Meter::start();
        let result = run()?;
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
    simulate_on(spec, costs, cores(), LOOPBACK)
}

fn simulate_on(spec: &BenchSpec, costs: &CostTable, cores: usize, network: &str) -> Result<SimResult, String> {
    let spec = &BenchSpec { cores: cores as u32, ..spec.clone() };
    let options = SimOptions { network: network.into(), ..SimOptions::default() };
    let result = sim::run_with(spec, &options, costs, &|_| {}).map_err(|error| format!("simulator: {error}"))?;
    match result.failure() {
        Some(failure) => Err(format!("simulator: {failure}")),
        None => Ok(result),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
