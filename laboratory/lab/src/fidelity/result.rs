//! Ratios of simulated to measured figures.

use super::grid::Entry;
use super::stages::{self, StageGap};
use crate::experiments::Instrument;
use crate::result::{BenchResult, Machine};
use comfy_table::{CellAlignment, Table, presets};
use quorate_operator::report::Report;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Largest deviation of each ratio from 1 that meets the target, by figure, on a quiet machine.
const TARGETS: [f64; FIGURES] = [0.10, 0.10, 0.15, 0.30];
const NAMES: [&str; FIGURES] = ["throughput", "CPU", "p50", "p99"];
const FIGURES: usize = 4;

/// Figures that a simulated and a real run both have.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Commands per second.
    pub throughput_ops: f64,
    /// CPU time of replicas and clients per command, in microseconds.
    pub cpu_us_per_command: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl Figures {
    /// Extracts the figures of a result. CPU time covers replicas and clients only, since the simulator has nothing
    /// else.
    pub fn of(result: &BenchResult) -> Figures {
        let cpu = result.cpu_us_per_command;
        Figures {
            throughput_ops: result.throughput_ops,
            cpu_us_per_command: cpu.replicas.zip(cpu.clients).map(|(replicas, clients)| replicas + clients),
            p50_ms: result.latency_ms.p50,
            p99_ms: result.latency_ms.p99,
        }
    }

    fn all(&self) -> [Option<f64>; FIGURES] {
        [Some(self.throughput_ops), self.cpu_us_per_command, self.p50_ms, self.p99_ms]
    }
}

/// One specification, measured and simulated. Ratios are simulated over measured; `None` if one of the figures is
/// missing or 0.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Instrument that measured it.
    pub instrument: Instrument,
    /// Keys of `quorate bench` in which the cells differ.
    pub spec: Map<String, Value>,
    pub throughput_ratio: Option<f64>,
    pub cpu_ratio: Option<f64>,
    pub p50_ratio: Option<f64>,
    pub p99_ratio: Option<f64>,
    pub measured: Option<Figures>,
    pub simulated: Option<Figures>,
    /// CPU time of other programs and of the hypervisor during the node's run, in percent of all cores' time.
    pub others_percent: Option<f64>,
    /// Differences between the stages of the replicas' work, largest first; empty if they were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageGap>,
    /// Reason why a run failed.
    pub failure: Option<String>,
    /// Command that measures the cell again.
    pub command: String,
    #[serde(skip)]
    label: String,
}

impl Cell {
    /// Compares two runs of an entry.
    pub fn of(entry: &Entry, measured: Result<Figures, String>, simulated: Result<Figures, String>) -> Cell {
        let is_sound = |value: &f64| value.is_finite() && *value > 0.0;
        let ratio = |at: usize| {
            let (simulated, measured) = (simulated.as_ref().ok()?.all()[at], measured.as_ref().ok()?.all()[at]);
            Some(simulated.filter(is_sound)? / measured.filter(is_sound)?)
        };
        let spec = entry.keys.iter().map(|(key, value)| {
            (key.clone(), serde_json::to_value(value).expect("a value of TOML can be written as JSON"))
        });
        Cell {
            instrument: Instrument::Real,
            spec: spec.collect(),
            throughput_ratio: ratio(0),
            cpu_ratio: ratio(1),
            p50_ratio: ratio(2),
            p99_ratio: ratio(3),
            failure: measured.as_ref().err().or(simulated.as_ref().err()).cloned(),
            measured: measured.ok(),
            simulated: simulated.ok(),
            others_percent: None,
            stages: Vec::new(),
            command: entry.spec.command_line(),
            label: entry.label(),
        }
    }

    /// Returns the cell as measured on another instrument, by this command.
    pub fn on(mut self, instrument: Instrument, command: Option<String>) -> Cell {
        if instrument != Instrument::Real {
            self.label = format!("{instrument}: {}", self.label);
            self.command = command.unwrap_or(self.command);
        }
        Cell { instrument, ..self }
    }

    /// Returns the ratios of throughput, CPU time, median and 99th percentile.
    pub fn ratios(&self) -> [Option<f64>; FIGURES] {
        [self.throughput_ratio, self.cpu_ratio, self.p50_ratio, self.p99_ratio]
    }

    /// Returns the largest deviation of a ratio from 1 as a logarithm, so that half and double are equally far. A
    /// missing ratio is infinitely far.
    pub fn residual(&self) -> f64 {
        let far = |ratio: Option<f64>| ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
        self.ratios().into_iter().map(far).fold(0.0, f64::max)
    }
}

/// Result of `quorate lab fidelity`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fidelity {
    /// Cells, worst first.
    pub cells: Vec<Cell>,
    /// Source of the cost table.
    pub costs: String,
    /// Cores of this machine, shared by replicas and clients in both runs.
    pub cores: usize,
    pub machine: Machine,
    /// Progress at which a signal ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

impl Fidelity {
    /// Sorts cells by their residual.
    pub fn new(mut cells: Vec<Cell>, costs: String, cores: usize, partial: Option<String>) -> Fidelity {
        cells.sort_by(|one, other| other.residual().total_cmp(&one.residual()));
        Fidelity { cells, costs, cores, machine: Machine::here(), partial }
    }
}

impl Report for Fidelity {
    /// Returns a table of the ratios, worst cell first, and the number within the targets.
    fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["throughput", "CPU", "p50", "p99", "specification"]);
        for cell in &self.cells {
            let shown = cell.ratios().map(|ratio| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
            let about = match &cell.failure {
                Some(why) => format!("{}: {why}", cell.label),
                None => cell.label.clone(),
            };
            table.add_row(shown.into_iter().chain([about]));
        }
        table.column_iter_mut().take(FIGURES).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let mut text = format!("simulated / measured, the worst cells first\n{table}\n");
        let instruments: BTreeSet<Instrument> = self.cells.iter().map(|cell| cell.instrument).collect();
        for instrument in &instruments {
            let cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.instrument == *instrument).collect();
            let whose = if instruments.len() > 1 { format!("{instrument}, ") } else { String::new() };
            for (at, (name, target)) in NAMES.iter().zip(TARGETS).enumerate() {
                let ratios: Vec<f64> = cells.iter().filter_map(|cell| cell.ratios()[at]).collect();
                let within = ratios.iter().filter(|ratio| (**ratio - 1.0).abs() <= target).count();
                text += &format!("{whose}{name}: {within} of {} cells within {:.0} %\n", cells.len(), target * 100.0);
            }
        }
        text += &stages::table(self.cells.iter().map(|cell| cell.stages.as_slice()));
        text += &format!("costs: {}; {} cores", self.costs, self.cores);
        if let Some(partial) = &self.partial {
            text += &format!("\nPARTIAL: {partial}");
        }
        text
    }

    /// Returns the reason why the run is unusable: no cell was both measured and simulated.
    fn failure(&self) -> Option<String> {
        let is_whole = |cell: &Cell| cell.failure.is_none();
        let first = self.cells.iter().find_map(|cell| cell.failure.clone());
        match self.cells.iter().any(is_whole) {
            true => None,
            false => Some(format!("no cell was compared: {}", first.unwrap_or_else(|| "none was run".into()))),
        }
    }
}
