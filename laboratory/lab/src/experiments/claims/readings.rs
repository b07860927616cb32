//! Figures of cells, from rows.

use super::cases::Term;
use super::decide::Reading;
use super::estimate::Estimate;
use crate::experiments::axes::Plan;
use crate::experiments::figures::Vocabulary;
use crate::experiments::file::{Claim, Relation};
use crate::experiments::names::Take;
use crate::experiments::row::Row;
use crate::experiments::statistics::{AGREEMENT_CONFIDENCE, CONFIDENCE, Summary, chance_interval, mean};

/// The rows of each cell of a plan.
pub struct Readings<'r> {
    vocabulary: Vocabulary,
    exact: Vec<bool>,
    /// Reasons why cells could not be run.
    obstacles: Vec<Option<&'r str>>,
    rows: Vec<Vec<&'r Row>>,
}

impl<'r> Readings<'r> {
    /// Sorts rows by cell. Ignores rows of other experiments, profiles and cells, and duplicate repetitions.
    pub fn new(plan: &Plan, rows: &'r [Row]) -> Readings<'r> {
        let mut sorted: Vec<Vec<&Row>> = vec![Vec::new(); plan.cells.len()];
        let mut obstacles = vec![None; plan.cells.len()];
        let name = plan.experiment.name();
        for row in rows.iter().filter(|row| row.experiment == name && row.profile == plan.profile) {
            let Some(cell) = plan.find(row.instrument, &row.cell) else { continue };
            if let Some(why) = &row.not_measurable {
                obstacles[cell] = Some(why.as_str());
            } else if sorted[cell].iter().all(|own| own.repetition != row.repetition) {
                sorted[cell].push(row);
            }
        }
        let exact = plan.cells.iter().map(|cell| cell.instrument.is_exact()).collect();
        Readings { vocabulary: plan.experiment.vocabulary, exact, obstacles, rows: sorted }
    }

    /// Returns the reason why a cell could not be run here.
    pub fn obstacle(&self, cell: usize) -> Option<&'r str> {
        self.obstacles[cell]
    }

    /// Returns the rows of a cell.
    pub fn rows(&self, cell: usize) -> &[&'r Row] {
        &self.rows[cell]
    }

    /// Returns the summary of a cell's figure. A share of counted things is pooled over all runs and has its exact
    /// interval.
    ///
    /// # Errors
    /// If there are no rows, a run failed, or a row lacks the figure.
    pub fn summary(&self, cell: usize, figure: &str) -> Result<Summary, String> {
        let rows = self.rows(cell);
        if let Some(failure) = rows.iter().find_map(|row| row.failure.as_deref()) {
            return Err(format!("failed: {failure}"));
        }
        if let (Some(why), true) = (self.obstacle(cell), rows.is_empty()) {
            return Err(why.to_owned());
        }
        if rows.is_empty() {
            return Err("was not run".to_owned());
        }
        let values: Option<Vec<f64>> = rows.iter().map(|row| row.figures.get(figure).copied()).collect();
        let values = values.ok_or_else(|| format!("has no {figure}"))?;
        let summary = Summary::of(&values).ok_or_else(|| format!("has a {figure} that is no number"))?;
        Ok(match self.counts(cell, figure) {
            Some((hits, trials)) => {
                let interval = chance_interval(hits, trials, CONFIDENCE);
                Summary { mean: hits as f64 / trials as f64, interval, ..summary }
            }
            None => summary,
        })
    }

    /// Returns the hits and trials behind a share of counted things, pooled over all runs; `None` if the figure is no
    /// such share, or a run did not count.
    fn counts(&self, cell: usize, figure: &str) -> Option<(u64, u64)> {
        let count = self.vocabulary.count_of(figure)?;
        let counted = self.rows(cell).iter().map(|row| {
            let (share, all) = (row.figures.get(figure)?, row.figures.get(count)?);
            Some(((share * all).round() as u64, *all as u64))
        });
        let sum = |(hits, trials): (u64, u64), (more, all): (u64, u64)| (hits + more, trials + all);
        counted.collect::<Option<Vec<_>>>()?.into_iter().reduce(sum).filter(|(_, trials)| *trials > 0)
    }

    fn estimate(&self, cell: usize, figure: &str) -> Result<Estimate, String> {
        let summary = self.summary(cell, figure)?;
        let is_exact = self.exact[cell] && summary.interval.is_none();
        Ok(if is_exact { Estimate::exact(summary.mean) } else { Estimate::of(&summary) })
    }

    /// Reads a term of a claim that is judged at `points` points.
    ///
    /// # Errors
    /// As for [`Readings::summary`], with the cell.
    pub fn read(&self, plan: &Plan, claim: &Claim, term: &Term, points: usize) -> Result<Reading, String> {
        let is_agreement = matches!(claim.relation, Relation::Agreement { .. });
        // Bonferroni: all points together fail by chance no more often than a single one would.
        let confidence = 1.0 - (1.0 - AGREEMENT_CONFIDENCE) / points.max(1) as f64;
        let one = |cell: &usize| {
            let mut estimate = self.estimate(*cell, &claim.figure);
            let counts = self.counts(*cell, &claim.figure).filter(|_| is_agreement);
            if let (Ok(estimate), Some((hits, trials))) = (&mut estimate, counts) {
                let interval = chance_interval(hits, trials, confidence);
                interval.into_iter().for_each(|own| (estimate.low, estimate.high) = (own.low, own.high));
            }
            estimate.map_err(|why| format!("{} {why}", plan.cells[*cell].label()))
        };
        let estimates: Vec<Estimate> = term.cells.iter().map(one).collect::<Result<_, _>>()?;
        let reduce = |values: &[f64]| match claim.take {
            Take::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Take::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Take::Mean => mean(values).unwrap_or(f64::NAN),
        };
        Ok(Reading { label: term.label.clone(), at: term.at, figure: Estimate::monotone(&estimates, reduce) })
    }
}
