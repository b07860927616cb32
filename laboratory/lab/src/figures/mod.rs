//! The figures of runs. Each is declared once, with its unit, its meaning and the function that derives it: a field of
//! a result (`record!`), or an entry of `declared`. The declaration yields the key of the JSON, the column of rows, CSV
//! and Parquet, the name in experiment files and the line of `docs/RESULTS.md`.

mod declared;
mod rows;
mod run;

use crate::experiments::figures::{Figure, Vocabulary};
use crate::record::Record;
use crate::result::{
    BenchResult, ChannelPerCommand, CpuPerCommand, DeploymentResult, EmulationResult, HostResult, LineFigures,
    PacketFigures, Primitives, Probe, RequestFigures, Search, Second, StageClock, StageThreads, Step, ThreadLoads,
};
use crate::sim::{MachineResult, SimResult};
use declared::{OF_CLUSTERS, OF_MODELS};
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use rows::rows;
pub use run::{Outcome, Run};

type Of = dyn Fn(&Run) -> Option<f64> + Send + Sync;

/// Figure with the function that derives it from a run.
struct Declared {
    figure: Figure,
    of: Box<Of>,
}

static DECLARED: LazyLock<Vec<Declared>> = LazyLock::new(|| {
    let derived = |all: &'static [declared::Derived]| -> Vec<Declared> {
        all.iter().map(|own| Declared { figure: own.figure, of: Box::new(own.of) }).collect()
    };
    let parts: [Vec<Declared>; 8] = [
        fields(Run::bench),
        fields(|run| Some(&run.bench()?.cpu_us_per_command)),
        fields::<LineFigures>(|run| run.bench()?.line.as_ref()),
        fields::<PacketFigures>(|run| run.bench()?.packets.as_ref()),
        derived(OF_CLUSTERS),
        fields(Run::twins),
        fields(Run::museum),
        derived(OF_MODELS),
    ];
    parts.into_iter().flatten().collect()
});
static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| DECLARED.iter().map(|declared| declared.figure).collect());
static SERIES: LazyLock<Vec<Figure>> =
    LazyLock::new(|| Second::FIELDS.iter().filter_map(|field| Some(field.figure()?.0)).collect());

/// Returns the figures among the fields of one part of a result.
fn fields<T: Record>(part: fn(&Run) -> Option<&T>) -> Vec<Declared> {
    let declared = |(figure, of): (Figure, fn(&T) -> Option<f64>)| Declared {
        figure,
        of: Box::new(move |run: &Run| of(part(run)?)),
    };
    T::FIELDS.iter().filter_map(|field| field.figure()).map(declared).collect()
}

/// Returns all figures and series that runs may have.
pub fn vocabulary() -> Vocabulary {
    Vocabulary { figures: &FIGURES, series: &SERIES }
}

impl Run {
    /// Returns the run's figures with their values.
    pub fn figures(&self) -> impl Iterator<Item = (Figure, f64)> {
        // A peer's recipe names its figures.
        let of_peer = |figure: Figure| self.peer()?.figures.get(figure.name).copied();
        DECLARED.iter().filter_map(move |declared| {
            Some((declared.figure, (declared.of)(self).or_else(|| of_peer(declared.figure))?))
        })
    }

    /// Returns the run's series by name. A second without completions has no latency; a list cannot show the gap, so
    /// that series is left out.
    pub fn series(&self) -> BTreeMap<String, Vec<f64>> {
        let seconds = self.bench().map_or(&[][..], |bench| bench.timeline.as_slice());
        let of_field = |(figure, of): (Figure, fn(&Second) -> Option<f64>)| {
            let values: Vec<f64> = seconds.iter().map(of).collect::<Option<_>>()?;
            (!values.is_empty()).then(|| (figure.name.to_owned(), values))
        };
        Second::FIELDS.iter().filter_map(|field| field.figure()).filter_map(of_field).collect()
    }
}

/// Returns the tables of result keys for `docs/RESULTS.md`, by name.
pub fn tables() -> Vec<(&'static str, String)> {
    vec![
        ("result", keys::<BenchResult>()),
        ("cpu_us_per_command", keys::<CpuPerCommand>()),
        ("timeline", keys::<Second>()),
        ("crypto_us_per_command", keys::<Primitives>()),
        ("channel_us_per_command", keys::<ChannelPerCommand>()),
        ("packets", keys::<PacketFigures>()),
        ("line", keys::<LineFigures>()),
        ("requests", keys::<RequestFigures>()),
        ("stage_clock", keys::<StageClock>()),
        ("threads", keys::<ThreadLoads>()),
        ("threads.stages", keys::<StageThreads>()),
        ("emulation", keys::<EmulationResult>()),
        ("deployment", keys::<DeploymentResult>()),
        ("deployment.hosts", keys::<HostResult>()),
        ("sim", keys::<SimResult>()),
        ("client_machines", keys::<MachineResult>()),
        ("search", keys::<Search>()),
        ("search.probes", keys::<Probe>()),
        ("steps", keys::<Step>()),
    ]
}

fn keys<T: Record>() -> String {
    let line = |field: &crate::record::Field<T>| table_line(field.key, field.unit, field.about());
    let head = "| key | unit | |\n|---|---|---|\n".to_owned();
    T::FIELDS.iter().fold(head, |table, field| table + &line(field))
}

/// Returns the line of a name in a table of `docs/RESULTS.md`.
pub fn table_line(name: &str, unit: &str, about: &str) -> String {
    format!("| `{name}` | {unit} | {about} |\n").replace("|  |", "| |")
}
