//! Runs an experiment with two programs in turns, so that the machine treats both alike.

use crate::catalogue::Source;
use crate::cells::{Cells, HERE, Measured};
use crate::error::RunnerError;
use crate::options::Run;
use crate::progress::{Observer, Step};
use quorate_lab::experiments::{Plan, Row};
use quorate_node::interrupt;

/// Two programs, each with a directory of results.
#[derive(Clone, Debug)]
pub struct Turns {
    pub before: Run,
    pub after: Run,
}

/// Names of the two in progress reports.
const NAMES: [&str; 2] = ["before", "after"];

impl Turns {
    /// Runs the minimum repetitions of an experiment with both programs: each cell with one directly after the other,
    /// where the first one alternates. Rows that exist are not made again. Returns false if a signal ended the runs
    /// early.
    ///
    /// # Errors
    /// If the experiment is invalid, or results cannot be stored. A failed run is a row.
    pub fn run(&self, source: &Source, observer: &mut dyn Observer) -> Result<bool, RunnerError> {
        let experiment = self.after.read(source)?;
        let plan = experiment.plan(self.after.profile, self.after.instruments.as_deref())?;
        let sides = [Side::new(&self.before, source, &plan)?, Side::new(&self.after, source, &plan)?];
        let turns = plan.turns();
        let (mut done, total) = (0, NAMES.len() * turns.len());
        for (repetition, cell) in turns {
            let first = (repetition as usize + cell) % NAMES.len();
            for at in [first, 1 - first] {
                let time = sides[at].cells.runnable[cell].call.load_time();
                let step = |done: usize| Step {
                    experiment: NAMES[at],
                    instrument: plan.cells[cell].instrument,
                    cell: plan.cells[cell].label(),
                    repetition,
                    done,
                    total,
                    left: time * (total - done) as u32,
                };
                observer.on_start(&step(done));
                let Some(row) = sides[at].row(repetition, cell)? else { return Ok(false) };
                done += 1;
                observer.on_end(&step(done), &row);
            }
        }
        Ok(true)
    }
}

/// One of the two programs, with its cells.
struct Side<'r> {
    cells: Cells<'r>,
}

impl<'r> Side<'r> {
    fn new(run: &'r Run, source: &Source, plan: &'r Plan<'r>) -> Result<Side<'r>, RunnerError> {
        let runnable = run.runnable(plan)?;
        run.store.record(&plan.experiment.name(), &run.record(source, plan, &runnable))?;
        Ok(Side { cells: Cells { run, plan, name: plan.experiment.name(), runnable } })
    }

    /// Returns the row of a repetition, which is measured unless it exists. `None` if a signal ended it.
    fn row(&self, repetition: u32, cell: usize) -> Result<Option<Row>, RunnerError> {
        let (store, runnable) = (&self.cells.run.store, &self.cells.runnable[cell]);
        if let Some(row) = store.load(&runnable.key, repetition)?.filter(|row| row.failure.is_none()) {
            return Ok(Some(row));
        }
        if interrupt::requested().is_some() {
            return Ok(None);
        }
        let row = match &runnable.obstacle {
            Some(why) => {
                let row = self.cells.row(repetition, cell, &runnable.call);
                Some(Row { not_measurable: Some(why.clone()), ..row })
            }
            None => match self.cells.measure(repetition, cell, HERE)? {
                Measured::Row(row) => Some(*row),
                Measured::Cut => None,
                Measured::Lost(_) => unreachable!("this machine is not lost"),
            },
        };
        if let Some(row) = &row {
            store.save(&runnable.key, row)?;
        }
        Ok(row)
    }
}
