//! The runnable cells of an experiment, and their runs.

use crate::call::Call;
use crate::callgrind::Counted;
use crate::elsewhere;
use crate::error::RunnerError;
use crate::figures;
use crate::options::Run;
use crate::process::{self, Ended, Ending};
use quorate_lab::experiments::row::Provenance;
use quorate_lab::experiments::{Instrument, Plan, Row, Surroundings};
use quorate_lab::figures as measured;
use quorate_lab::noise::Meter;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Maximum time of a deployed run beyond its load: the program may have to be copied.
const MAX_DEPLOYED_OVERHEAD: Duration = Duration::from_secs(1200);
/// Maximum time of a real or emulated run beyond its load, after which it counts as hung.
const MAX_REAL_OVERHEAD: Duration = Duration::from_secs(120);
/// Maximum time of a simulated run, after which it counts as hung.
const MAX_SIMULATED_TIME: Duration = Duration::from_secs(1800);

/// Place of a run on this machine.
pub(crate) const HERE: usize = 0;

/// End of a run.
pub(crate) enum Measured {
    Row(Box<Row>),
    /// A signal ended it.
    Cut,
    /// Its host no longer takes part, for this reason.
    Lost(String),
}

/// A runnable cell.
pub(crate) struct Runnable {
    pub call: Call,
    pub surroundings: Surroundings,
    /// Key under which its rows are kept.
    pub key: String,
    /// Reason why this machine or build cannot run it.
    pub obstacle: Option<String>,
}

/// Parts of an experiment that do not change while it runs.
pub(crate) struct Cells<'r> {
    pub run: &'r Run,
    pub plan: &'r Plan<'r>,
    pub name: String,
    /// In the order of the plan.
    pub runnable: Vec<Runnable>,
}

impl Cells<'_> {
    /// Returns a row without figures for a run of a cell.
    pub fn row(&self, repetition: u32, cell: usize, call: &Call) -> Row {
        let runnable = &self.runnable[cell];
        let cell = &self.plan.cells[cell];
        Row {
            experiment: self.name.clone(),
            instrument: cell.instrument,
            profile: self.plan.profile,
            cell: cell.values(),
            repetition,
            figures: BTreeMap::new(),
            series: BTreeMap::new(),
            samples: Vec::new(),
            stages: Vec::new(),
            noise: None,
            failure: None,
            not_measurable: None,
            warnings: Vec::new(),
            provenance: Provenance {
                surroundings: runnable.surroundings.clone(),
                kernel: self.run.here.kernel.clone(),
                seed: call.seed(),
                command: call.command_line(),
                host: None,
            },
        }
    }

    /// Runs a repetition of a cell at a place: a worker, or [`HERE`].
    ///
    /// # Errors
    /// If the process cannot be started or its files cannot be written. Everything else is a row.
    pub fn measure(&self, repetition: u32, cell: usize, place: usize) -> Result<Measured, RunnerError> {
        let runnable = &self.runnable[cell];
        let call = runnable.call.repetition(repetition);
        let mut row = self.row(repetition, cell, &call);
        let cell = &self.plan.cells[cell];
        let limit = match cell.instrument {
            Instrument::Real | Instrument::Emulated => call.load_time() + MAX_REAL_OVERHEAD,
            Instrument::Deployed => call.load_time() + MAX_DEPLOYED_OVERHEAD,
            _ => MAX_SIMULATED_TIME,
        };
        let takes_time = [Instrument::Real, Instrument::Emulated, Instrument::Scenarios].contains(&cell.instrument);
        let meter = takes_time.then(Meter::start);
        let scratch = self.run.store.scratch(&runnable.key, repetition);
        let counts = self.run.counts_instructions && cell.instrument == Instrument::Simulated;
        let arguments = call.arguments();
        let counted = counts.then(|| Counted::new(&self.run.here.program, &arguments, &scratch));
        let (began, begun, mut noise) = (SystemTime::now(), Instant::now(), None);
        let ended = match (&self.run.workers, &counted) {
            (Some(workers), _) => {
                let (ended, there) = elsewhere::run(workers, place, &call, limit)?;
                noise = there.filter(|_| takes_time);
                row.provenance.host = Some(workers.name(place).to_owned());
                row.provenance.kernel.clone_from(&workers.machine(place).kernel);
                ended
            }
            (None, Some(counted)) => process::run(counted.program(), &counted.arguments, limit, &scratch)?,
            (None, None) => process::run(&self.run.here.program, &arguments, limit, &scratch)?,
        };
        let log = Log { row: &row, ended: &ended, began, took: begun.elapsed() };
        self.run.store.log(&runnable.key, repetition, &log.text())?;
        match ended.ending {
            Ending::Interrupted => return Ok(Measured::Cut),
            Ending::Lost(why) => return Ok(Measured::Lost(why)),
            Ending::Failed(why) => row.failure = Some(why),
            Ending::Result(json) => {
                let outcome = call.outcome(&json).map_err(|error| format!("its result cannot be read: {error}"));
                let instructions = counted.as_ref().map(Counted::instructions).transpose();
                match outcome.and_then(|outcome| Ok((outcome, instructions?))) {
                    Ok((outcome, instructions)) => {
                        let run = measured::Run { outcome, outliers: cell.outliers, instructions };
                        figures::fill(&mut row, &run);
                    }
                    Err(why) => row.failure = Some(why),
                }
            }
        }
        let per_second = row.series.get("completed_per_s").cloned().unwrap_or_default();
        row.noise = match &self.run.workers {
            Some(_) => noise.map(|noise| noise.varying(&per_second)),
            None => meter.and_then(|meter| meter.noise(&per_second)),
        };
        row.validate(&measured::vocabulary())?;
        Ok(Measured::Row(Box::new(row)))
    }
}

/// Log of a run.
struct Log<'l> {
    row: &'l Row,
    ended: &'l Ended,
    began: SystemTime,
    took: Duration,
}

impl Log<'_> {
    fn text(&self) -> String {
        let Row { provenance, experiment, instrument, repetition, .. } = self.row;
        let host = provenance.host.as_ref().map(|host| format!("host: {host}\n")).unwrap_or_default();
        let end = match &self.ended.ending {
            Ending::Result(_) => "ended with a result",
            Ending::Failed(why) => why,
            Ending::Interrupted => "ended by a signal",
            Ending::Lost(why) => why,
        };
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        format!(
            "run: {experiment} {instrument}, repetition {repetition}\ncommand: {}\n{host}began: {began} s after 1970\n\
             took: {:.1} s\nend: {end}\n\n{}",
            provenance.command,
            self.took.as_secs_f64(),
            self.ended.said,
        )
    }
}
