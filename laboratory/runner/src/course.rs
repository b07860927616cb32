//! The course of an experiment: which run comes next, until the claims are decided.

use crate::cells::{Cells, Measured};
use crate::claim::{Claim, Share};
use crate::error::RunnerError;
use crate::judged::Left;
use crate::progress::{Observer, Step};
use crate::report::stamped;
use quorate_lab::experiments::claims::claimed_cells;
use quorate_lab::experiments::{Instrument, Row, needs};
use quorate_node::interrupt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant, SystemTime};

/// Assumed ratio of a run's time to its time under load, until one has been measured.
const EXPECTED_RATIO: f64 = 1.5;
/// Interval at which to look for runs of others that share the directory.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// State of a running experiment.
pub(crate) struct Course<'r> {
    cells: &'r Cells<'r>,
    rows: Vec<Row>,
    done: usize,
    total: usize,
    /// Cells whose runs were ended by a signal; they are not retried.
    cut: Vec<usize>,
    /// Total time and time under load of the runs so far, by instrument, in seconds.
    paces: BTreeMap<&'static str, (f64, f64)>,
    began: SystemTime,
    /// Cells to run; `None` for all.
    only: Option<BTreeSet<usize>>,
    /// Places whose failure was reported.
    lost: BTreeSet<usize>,
    /// Runs that are left when no run may begin any more.
    left: Option<Left>,
}

/// Run of a cell that has begun, with the locks that it needs in a shared directory.
struct Begun {
    repetition: u32,
    cell: usize,
    place: usize,
    at: Instant,
    _locks: Option<(Claim, Share)>,
}

/// Result of the run of a repetition of a cell.
type Ended = (u32, usize, Result<Measured, RunnerError>);

impl<'r> Course<'r> {
    pub fn new(cells: &'r Cells<'r>) -> Course<'r> {
        Course {
            cells,
            rows: Vec::new(),
            done: 0,
            total: 0,
            cut: Vec::new(),
            paces: BTreeMap::new(),
            began: SystemTime::now(),
            only: cells.run.only_claims.then(|| claimed_cells(cells.plan)),
            lost: BTreeSet::new(),
            left: None,
        }
    }

    /// Returns the rows, why some are missing, and the runs that were left when the time was over.
    pub fn finish(self) -> (Vec<Row>, Option<String>, Option<Left>) {
        let Course { cells, done, total, cut, .. } = &self;
        let name = &cells.name;
        let partial = match interrupt::requested() {
            Some(signal) => Some(format!("{name} ended by {signal} after {done} of {total} runs")),
            None if !self.has_place() && done < total => Some(format!(
                "{name}: all hosts have failed after {done} of {total} runs; run it again to add the rest"
            )),
            None => (!cut.is_empty())
                .then(|| format!("{name}: a signal ended {} of {total} runs; run it again to add them", cut.len())),
        };
        (self.rows, partial, self.left)
    }

    /// Loads the existing rows, except failures, which are retried.
    pub fn reuse(&mut self, observer: &mut dyn Observer) {
        for (cell, runnable) in self.cells.plan.cells.iter().zip(&self.cells.runnable) {
            for repetition in 0..self.cells.plan.repeat.max {
                match self.cells.run.store.load(&runnable.key, repetition) {
                    Ok(row) => {
                        let row = row.filter(|row| row.failure.is_none() && row.not_measurable.is_none());
                        self.rows.extend(row.map(|row| stamped(self.cells.plan, cell, row)));
                    }
                    Err(error) => observer.warn(&format!("{error}; the cell is run again")),
                }
            }
        }
        self.done = self.rows.len();
        if self.done > 0 {
            observer.on_reuse(&self.cells.name, self.done);
        }
    }

    /// Adds a row for each cell that cannot be run here, with the reason.
    pub fn note_obstacles(&mut self, observer: &mut dyn Observer) -> Result<(), RunnerError> {
        for (cell, runnable) in self.cells.runnable.iter().enumerate() {
            let Some(why) = &runnable.obstacle else { continue };
            let place = &self.cells.plan.cells[cell];
            observer.warn(&format!(
                "{} {}, {}: not measurable here: {why}",
                self.cells.name,
                place.instrument,
                place.label()
            ));
            let row = Row { not_measurable: Some(why.clone()), ..self.cells.row(0, cell, &runnable.call) };
            self.cells.run.store.save(&runnable.key, &row)?;
            self.rows.push(row);
        }
        Ok(())
    }

    fn can_run(&self, cell: usize) -> bool {
        let is_chosen = self.only.as_ref().is_none_or(|only| only.contains(&cell));
        is_chosen && self.cells.runnable[cell].obstacle.is_none() && !self.cut.contains(&cell)
    }

    /// Returns whether a run may begin: no signal and no time limit ends the course, and a place is left.
    fn goes_on(&self) -> bool {
        interrupt::requested().is_none() && !self.cells.run.is_over() && self.has_place()
    }

    fn has_place(&self) -> bool {
        (0..self.cells.run.places()).any(|place| self.cells.run.slots_at(place) > 0)
    }

    /// Runs the minimum of the file, and then the repetitions that the claims need.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<(), RunnerError> {
        let turns = self.cells.plan.turns().into_iter().filter(|(repetition, cell)| !self.has(*repetition, *cell));
        let mut queue: VecDeque<(u32, usize)> = turns.filter(|(_, cell)| self.can_run(*cell)).collect();
        self.total = self.done + queue.len();
        while !queue.is_empty() && self.goes_on() {
            self.run_queue(&mut queue, observer)?;
            let needs = needs(self.cells.plan, &self.rows).into_iter().filter(|need| self.can_run(need.cell));
            let needs: Vec<_> = needs.collect();
            if !queue.is_empty() {
                break;
            }
            if let Some(first) = needs.first().filter(|_| self.goes_on()) {
                observer.on_need(&self.cells.name, needs.len(), &first.why);
                self.total = self.done + needs.len();
            }
            queue.extend(needs.iter().map(|need| (need.repetition, need.cell)));
        }
        if !queue.is_empty() && self.cells.run.is_over() {
            let expected: f64 = queue.iter().map(|(_, cell)| self.expected(*cell)).sum();
            self.left = Some(Left { runs: queue.len(), expected_s: expected.ceil() as u64 });
        }
        Ok(())
    }

    fn has(&self, repetition: u32, cell: usize) -> bool {
        let (values, instrument) = (self.cells.plan.cells[cell].values(), self.cells.plan.cells[cell].instrument);
        self.rows.iter().any(|row| row.repetition == repetition && row.instrument == instrument && row.cell == values)
    }

    fn has_failed(&self, cell: usize) -> bool {
        let (values, instrument) = (self.cells.plan.cells[cell].values(), self.cells.plan.cells[cell].instrument);
        self.rows.iter().any(|row| row.failure.is_some() && row.instrument == instrument && row.cell == values)
    }

    /// Runs the queue, and several simulations or formulas at a time. Returns once it is empty, or no run may begin.
    fn run_queue(
        &mut self,
        queue: &mut VecDeque<(u32, usize)>,
        observer: &mut dyn Observer,
    ) -> Result<(), RunnerError> {
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            let mut under_way: Vec<Begun> = Vec::new();
            loop {
                while self.goes_on() {
                    let Some(begun) = self.next(queue, &under_way)? else { break };
                    self.start(scope, &begun, &sender);
                    under_way.push(begun);
                    let step = self.step(&under_way[under_way.len() - 1], &under_way, queue);
                    observer.on_start(&step);
                }
                match under_way.is_empty() {
                    true if queue.is_empty() || !self.goes_on() => return Ok(()),
                    // Others run all that is left.
                    true => thread::sleep(LOOK_INTERVAL),
                    false => self.take_end(&receiver, &mut under_way, queue, observer)?,
                }
            }
        })
    }

    fn start<'s>(&self, scope: &'s Scope<'s, '_>, begun: &Begun, sender: &Sender<Ended>)
    where
        'r: 's,
    {
        let (cells, sender) = (self.cells, sender.clone());
        let (repetition, cell, place) = (begun.repetition, begun.cell, begun.place);
        scope.spawn(move || {
            let row = cells.measure(repetition, cell, place);
            // Nobody receives it if the course has failed.
            let _ = sender.send((repetition, cell, row));
        });
    }

    /// Waits until a run ends, and keeps its row. The run of a host that has failed begins again elsewhere.
    fn take_end(
        &mut self,
        receiver: &Receiver<Ended>,
        under_way: &mut Vec<Begun>,
        queue: &mut VecDeque<(u32, usize)>,
        observer: &mut dyn Observer,
    ) -> Result<(), RunnerError> {
        let (repetition, cell, measured) = receiver.recv().expect("a run does not panic");
        let at = under_way.iter().position(|begun| (begun.repetition, begun.cell) == (repetition, cell));
        let begun = under_way.swap_remove(at.expect("only runs under way end"));
        let row = match measured? {
            Measured::Row(row) => *row,
            Measured::Cut => {
                self.cut.push(cell);
                return Ok(());
            }
            Measured::Lost(why) => {
                let host = self.cells.run.workers.as_ref().map_or("", |workers| workers.name(begun.place));
                if self.lost.insert(begun.place) {
                    observer.warn(&format!("host {host} failed, and its runs go to the others: {why}"));
                }
                queue.push_front((repetition, cell));
                return Ok(());
            }
        };
        let runnable = &self.cells.runnable[cell];
        let pace = self.paces.entry(row.instrument.name()).or_default();
        let share = begun.at.elapsed().as_secs_f64() / (under_way.len() + 1) as f64;
        *pace = (pace.0 + share, pace.1 + runnable.call.load_time().as_secs_f64());
        self.cells.run.store.save(&runnable.key, &row)?;
        self.done += 1;
        observer.on_end(&self.step(&begun, under_way, queue), &row);
        self.rows.push(row);
        Ok(())
    }

    /// Takes the next run from the queue; `None` if none can begin now. Simulations and formulas run beside others of
    /// their kind, on as many cores as the run may use. A failed cell is not repeated. In a shared directory, runs of
    /// others go to the end of the queue, and their rows are taken over.
    fn next(&mut self, queue: &mut VecDeque<(u32, usize)>, under_way: &[Begun]) -> Result<Option<Begun>, RunnerError> {
        for _ in 0..queue.len() {
            let Some((repetition, cell)) = queue.front().copied() else { break };
            if self.has_failed(cell) || self.cut.contains(&cell) {
                queue.pop_front();
                self.total -= 1;
                continue;
            }
            let Some(place) = self.place_for(cell, under_way) else { break };
            queue.pop_front();
            let at = Instant::now();
            if !self.cells.run.shared {
                return Ok(Some(Begun { repetition, cell, place, at, _locks: None }));
            }
            match self.take_locks(repetition, cell)? {
                Some(locks) if !self.take_over(repetition, cell)? => {
                    return Ok(Some(Begun { repetition, cell, place, at, _locks: Some(locks) }));
                }
                Some(_) => {}
                None => queue.push_back((repetition, cell)),
            }
        }
        Ok(None)
    }

    /// Returns the place with the fewest runs among those at which a cell may begin now.
    fn place_for(&self, cell: usize, under_way: &[Begun]) -> Option<usize> {
        let cells = &self.cells.plan.cells;
        let own = cells[cell].instrument;
        let beside = |other: &&Begun| is_undisturbed(own) && other.cell != cell && cells[other.cell].instrument == own;
        let at = |place: usize| under_way.iter().filter(move |begun| begun.place == place);
        let fits =
            |place: &usize| at(*place).count() < self.cells.run.slots_at(*place) && at(*place).all(|run| beside(&run));
        (0..self.cells.run.places()).filter(fits).min_by_key(|place| at(*place).count())
    }

    /// Locks a repetition of a cell, and the machine; `None` if others hold either.
    fn take_locks(&self, repetition: u32, cell: usize) -> Result<Option<(Claim, Share)>, RunnerError> {
        let store = &self.cells.run.store;
        let Some(claim) = store.claim(&self.cells.runnable[cell].key, repetition)? else { return Ok(None) };
        let whole = !is_undisturbed(self.cells.plan.cells[cell].instrument);
        Ok(store.share_of_machine(whole)?.map(|share| (claim, share)))
    }

    /// Takes over the row that another process has written since this course began. Returns false if there is none.
    fn take_over(&mut self, repetition: u32, cell: usize) -> Result<bool, RunnerError> {
        let store = &self.cells.run.store;
        let key = &self.cells.runnable[cell].key;
        let Some(row) = store.load(key, repetition)? else { return Ok(false) };
        // A failure from before is retried.
        let is_old = || store.written_at(key, repetition).is_none_or(|written| written < self.began);
        if (row.failure.is_some() || row.not_measurable.is_some()) && is_old() {
            return Ok(false);
        }
        self.rows.push(stamped(self.cells.plan, &self.cells.plan.cells[cell], row));
        self.done += 1;
        Ok(true)
    }

    fn step(&self, begun: &Begun, under_way: &[Begun], queue: &VecDeque<(u32, usize)>) -> Step<'_> {
        let (repetition, cell) = (begun.repetition, begun.cell);
        let cells = under_way.iter().map(|begun| begun.cell).chain(queue.iter().map(|(_, cell)| *cell));
        let left: f64 = cells.map(|cell| self.expected(cell)).sum();
        Step {
            experiment: &self.cells.name,
            instrument: self.cells.plan.cells[cell].instrument,
            cell: self.cells.plan.cells[cell].label(),
            repetition,
            done: self.done,
            total: self.total,
            left: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
        }
    }

    /// Returns the expected time of a run in seconds.
    fn expected(&self, cell: usize) -> f64 {
        let pace = self.paces.get(self.cells.plan.cells[cell].instrument.name());
        let ratio = pace.filter(|(_, load)| *load > 0.0).map_or(EXPECTED_RATIO, |(took, load)| took / load);
        self.cells.runnable[cell].call.load_time().as_secs_f64() * ratio
    }
}

/// Returns whether other runs on the machine do not change the results of this instrument.
fn is_undisturbed(instrument: Instrument) -> bool {
    matches!(instrument, Instrument::Simulated | Instrument::Analytical)
}
