//! Runs the cells of an experiment, one repetition after another, and repeats cells for undecided claims.

use crate::call::{Call, Files, known};
use crate::catalogue::Source;
use crate::error::RunnerError;
use crate::figures;
use crate::here::Here;
use crate::judged::Judged;
use crate::process::{self, Ending};
use crate::report::stamped;
use crate::store::{Record, Store, seed};
use quorate_lab::experiments::row::Provenance;
use quorate_lab::experiments::{Experiment, Instrument, Plan, Profile, Row, Surroundings, needs};
use quorate_lab::figures as measured;
use quorate_lab::noise::Meter;
use quorate_node::interrupt;
use quorate_types::Fault;
use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time of a deployed run beyond its load: the program may have to be copied.
const MAX_DEPLOYED_OVERHEAD: Duration = Duration::from_secs(1200);
/// Maximum time of a real or emulated run beyond its load, after which it counts as hung.
const MAX_REAL_OVERHEAD: Duration = Duration::from_secs(120);
/// Maximum time of a simulated run, after which it counts as hung.
const MAX_SIMULATED_TIME: Duration = Duration::from_secs(1800);
/// Assumed ratio of a run's time to its time under load, until one has been measured.
const EXPECTED_RATIO: f64 = 1.5;

/// Options of running experiments.
#[derive(Clone, Debug)]
pub struct Run {
    pub here: Here,
    pub store: Store,
    pub profile: Profile,
    /// Instruments; `None` for the profile's.
    pub instruments: Option<Vec<Instrument>>,
    /// Seed of repetition 0; `None` for the file's.
    pub seed: Option<u64>,
}

/// One run of a cell, for progress reports.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    pub experiment: &'s str,
    pub instrument: Instrument,
    /// The coordinates in words.
    pub cell: String,
    pub repetition: u32,
    /// Number of completed runs.
    pub done: usize,
    /// Number of runs known so far; undecided claims may add more.
    pub total: usize,
    /// Expected remaining time.
    pub left: Duration,
}

/// Observer of a run.
pub trait Observer {
    fn on_start(&mut self, step: &Step<'_>);
    fn on_end(&mut self, step: &Step<'_>, row: &Row);
    /// Reports that `count` runs of an experiment already exist.
    fn on_reuse(&mut self, experiment: &str, count: usize);
    /// Reports that more runs are needed, with the first one's reason.
    fn on_need(&mut self, experiment: &str, count: usize, why: &str);
    fn warn(&mut self, text: &str);
}

struct Runnable {
    call: Call,
    surroundings: Surroundings,
    /// Key under which its rows are kept.
    key: String,
    /// Reason why this machine or build cannot run it.
    obstacle: Option<String>,
}

/// State of a running experiment.
struct Course<'r> {
    run: &'r Run,
    plan: &'r Plan<'r>,
    name: String,
    cells: Vec<Runnable>,
    rows: Vec<Row>,
    done: usize,
    total: usize,
    /// Cells whose runs were ended by a signal; they are not retried.
    cut: Vec<usize>,
    /// Total time and time under load of the runs so far, by instrument, in seconds.
    paces: BTreeMap<&'static str, (f64, f64)>,
}

impl Run {
    /// Checks an experiment without running it.
    ///
    /// # Errors
    /// If a key or a value of a specification is invalid: its place and the remedy.
    pub fn check(&self, source: &Source) -> Result<(), RunnerError> {
        let experiment = self.experiment(source)?;
        let plan = experiment.plan(self.profile, self.instruments.as_deref())?;
        self.runnable(&plan).map(|_| ())
    }

    /// Runs an experiment and judges its claims. A signal ends it after the cell in progress, whose run is lost.
    ///
    /// # Errors
    /// If the experiment is invalid, or results cannot be stored. A failed run is a row.
    pub fn experiment_with(&self, source: &Source, observer: &mut dyn Observer) -> Result<Judged, RunnerError> {
        let experiment = self.experiment(source)?;
        let plan = experiment.plan(self.profile, self.instruments.as_deref())?;
        let cells = self.runnable(&plan)?;
        self.store.record(&experiment.name(), &self.record(source, &plan, &cells))?;
        let name = experiment.name();
        let mut course = Course {
            run: self,
            plan: &plan,
            name,
            cells,
            rows: Vec::new(),
            done: 0,
            total: 0,
            cut: Vec::new(),
            paces: BTreeMap::new(),
        };
        course.reuse(observer);
        course.note_obstacles(observer)?;
        course.run(observer)?;
        let Course { name, done, total, cut, .. } = &course;
        let partial = match interrupt::requested() {
            Some(signal) => Some(format!("{name} ended by {signal} after {done} of {total} runs")),
            None => (!cut.is_empty())
                .then(|| format!("{name}: a signal ended {} of {total} runs; run it again to add them", cut.len())),
        };
        Ok(Judged { partial, ..Judged::of(&plan, course.rows) })
    }

    fn experiment(&self, source: &Source) -> Result<Experiment, RunnerError> {
        let mut experiment = source.experiment()?;
        experiment.check_keys(known)?;
        seed(&mut experiment, self.seed);
        Ok(experiment)
    }

    fn runnable(&self, plan: &Plan) -> Result<Vec<Runnable>, RunnerError> {
        let of_cell = |cell| {
            let files = Files { costs: self.here.costs.as_deref(), hosts: self.here.hosts.as_deref() };
            let call = Call::of(plan, cell, files)?;
            let surroundings = self.here.surroundings(&call)?;
            let key = cell.key(&surroundings).to_hex();
            let obstacle = call.obstacle();
            Ok(Runnable { call, surroundings, key, obstacle })
        };
        plan.cells.iter().map(of_cell).collect()
    }

    fn record(&self, source: &Source, plan: &Plan, cells: &[Runnable]) -> Record {
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for instrument in &plan.instruments {
            keys.entry(instrument.name().to_owned()).or_default();
        }
        for (cell, runnable) in plan.cells.iter().zip(cells) {
            let own = keys.entry(cell.instrument.name().to_owned()).or_default();
            own.push(runnable.key.clone());
        }
        Record {
            file: source.file.clone(),
            text: source.text.clone(),
            profile: self.profile,
            seed: self.seed,
            cells: keys,
        }
    }
}

impl Course<'_> {
    /// Loads the existing rows, except failures, which are retried.
    fn reuse(&mut self, observer: &mut dyn Observer) {
        for (cell, runnable) in self.plan.cells.iter().zip(&self.cells) {
            for repetition in 0..self.plan.repeat.max {
                match self.run.store.load(&runnable.key, repetition) {
                    Ok(row) => {
                        let row = row.filter(|row| row.failure.is_none() && row.not_measurable.is_none());
                        self.rows.extend(row.map(|row| stamped(self.plan, cell, row)));
                    }
                    Err(error) => observer.warn(&format!("{error}; the cell is run again")),
                }
            }
        }
        self.done = self.rows.len();
        if self.done > 0 {
            observer.on_reuse(&self.name, self.done);
        }
    }

    /// Adds a row for each cell that cannot be run here, with the reason.
    fn note_obstacles(&mut self, observer: &mut dyn Observer) -> Result<(), RunnerError> {
        for (cell, runnable) in self.cells.iter().enumerate() {
            let Some(why) = &runnable.obstacle else { continue };
            let place = &self.plan.cells[cell];
            observer.warn(&format!(
                "{} {}, {}: not measurable here: {why}",
                self.name,
                place.instrument,
                place.label()
            ));
            let row = Row { not_measurable: Some(why.clone()), ..self.row(0, cell, &runnable.call) };
            self.run.store.save(&runnable.key, &row)?;
            self.rows.push(row);
        }
        Ok(())
    }

    fn can_run(&self, cell: usize) -> bool {
        self.cells[cell].obstacle.is_none() && !self.cut.contains(&cell)
    }

    /// Runs the minimum of the file, and then the repetitions that the claims need.
    fn run(&mut self, observer: &mut dyn Observer) -> Result<(), RunnerError> {
        let turns = self.plan.turns().into_iter().filter(|(repetition, cell)| !self.has(*repetition, *cell));
        let mut queue: VecDeque<(u32, usize)> = turns.filter(|(_, cell)| self.can_run(*cell)).collect();
        self.total = self.done + queue.len();
        while !queue.is_empty() && interrupt::requested().is_none() {
            self.run_queue(&mut queue, observer)?;
            let needs = needs(self.plan, &self.rows).into_iter().filter(|need| self.can_run(need.cell));
            let needs: Vec<_> = needs.collect();
            if let Some(first) = needs.first().filter(|_| interrupt::requested().is_none()) {
                observer.on_need(&self.name, needs.len(), &first.why);
                self.total = self.done + needs.len();
            }
            queue.extend(needs.iter().map(|need| (need.repetition, need.cell)));
        }
        Ok(())
    }

    fn has(&self, repetition: u32, cell: usize) -> bool {
        let (values, instrument) = (self.plan.cells[cell].values(), self.plan.cells[cell].instrument);
        self.rows.iter().any(|row| row.repetition == repetition && row.instrument == instrument && row.cell == values)
    }

    fn has_failed(&self, cell: usize) -> bool {
        let (values, instrument) = (self.plan.cells[cell].values(), self.plan.cells[cell].instrument);
        self.rows.iter().any(|row| row.failure.is_some() && row.instrument == instrument && row.cell == values)
    }

    fn run_queue(
        &mut self,
        queue: &mut VecDeque<(u32, usize)>,
        observer: &mut dyn Observer,
    ) -> Result<(), RunnerError> {
        while interrupt::requested().is_none() {
            let batch = self.next_batch(queue);
            let Some((repetition, cell)) = batch.first().copied() else { break };
            let step = self.step(repetition, cell, &batch, queue);
            observer.on_start(&step);
            let rows = self.measure_all(&batch)?;
            for ((_, cell), row) in batch.iter().zip(rows) {
                let Some((row, took)) = row else {
                    self.cut.push(*cell);
                    continue;
                };
                let runnable = &self.cells[*cell];
                let pace = self.paces.entry(row.instrument.name()).or_default();
                *pace = (pace.0 + took.as_secs_f64(), pace.1 + runnable.call.load_time().as_secs_f64());
                self.run.store.save(&runnable.key, &row)?;
                self.done += 1;
                let step = self.step(row.repetition, *cell, &[], queue);
                observer.on_end(&step, &row);
                self.rows.push(row);
            }
        }
        Ok(())
    }

    /// Takes the next run from the queue, or several, one per core, if they are simulated or formulas. A failed cell is
    /// not repeated.
    fn next_batch(&mut self, queue: &mut VecDeque<(u32, usize)>) -> Vec<(u32, usize)> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut batch: Vec<(u32, usize)> = Vec::new();
        while let Some((repetition, cell)) = queue.front().copied() {
            if self.has_failed(cell) || self.cut.contains(&cell) {
                queue.pop_front();
                self.total -= 1;
                continue;
            }
            let own = self.plan.cells[cell].instrument;
            let is_undisturbed = matches!(own, Instrument::Simulated | Instrument::Analytical);
            let fits = batch
                .iter()
                .all(|(_, other)| is_undisturbed && *other != cell && self.plan.cells[*other].instrument == own);
            if batch.len() >= cores || !fits {
                break;
            }
            queue.pop_front();
            batch.push((repetition, cell));
        }
        batch
    }

    fn step(
        &self,
        repetition: u32,
        cell: usize,
        under_way: &[(u32, usize)],
        queue: &VecDeque<(u32, usize)>,
    ) -> Step<'_> {
        let left: f64 = under_way.iter().chain(queue).map(|(_, cell)| self.expected(*cell)).sum();
        Step {
            experiment: &self.name,
            instrument: self.plan.cells[cell].instrument,
            cell: self.plan.cells[cell].label(),
            repetition,
            done: self.done,
            total: self.total,
            left: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
        }
    }

    /// Returns the expected time of a run in seconds.
    fn expected(&self, cell: usize) -> f64 {
        let pace = self.paces.get(self.plan.cells[cell].instrument.name());
        let ratio = pace.filter(|(_, load)| *load > 0.0).map_or(EXPECTED_RATIO, |(took, load)| took / load);
        self.cells[cell].call.load_time().as_secs_f64() * ratio
    }

    /// Runs a batch, with a thread per run. A row is `None` if a signal ended its run. Each has the time of its run,
    /// divided among simultaneous runs.
    fn measure_all(&self, batch: &[(u32, usize)]) -> Result<Vec<Option<(Row, Duration)>>, RunnerError> {
        let start = Instant::now();
        let rows: Result<Vec<Option<Row>>, RunnerError> = thread::scope(|scope| {
            let threads: Vec<_> =
                batch.iter().map(|(repetition, cell)| scope.spawn(move || self.measure(*repetition, *cell))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a run does not panic")).collect()
        });
        let share = start.elapsed() / batch.len().max(1) as u32;
        Ok(rows?.into_iter().map(|row| Some((row?, share))).collect())
    }

    /// Returns a row without figures for a run of a cell.
    fn row(&self, repetition: u32, cell: usize, call: &Call) -> Row {
        let runnable = &self.cells[cell];
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
            },
        }
    }

    fn measure(&self, repetition: u32, cell: usize) -> Result<Option<Row>, RunnerError> {
        let runnable = &self.cells[cell];
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
        match process::run(&self.run.here.program, &call.arguments(), limit, &scratch)? {
            Ending::Interrupted => return Ok(None),
            Ending::Failed(why) => row.failure = Some(why),
            Ending::Result(json) => match call.outcome(&json) {
                Ok(outcome) => figures::fill(&mut row, &measured::Run { outcome, outliers: cell.outliers }),
                Err(error) => row.failure = Some(format!("its result cannot be read: {error}")),
            },
        }
        let per_second = row.series.get("completed_per_s").cloned().unwrap_or_default();
        row.noise = meter.and_then(|meter| meter.noise(&per_second));
        row.validate(&measured::vocabulary())?;
        Ok(Some(row))
    }
}

/// Returns the error for a name without anything to run on the chosen instruments.
pub fn nothing_to_run(name: &str) -> Fault {
    Fault::new(name, "has no instrument that this program has", "run another experiment, or another --instrument")
}
