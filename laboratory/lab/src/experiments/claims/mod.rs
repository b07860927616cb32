//! Judges claims on rows.
//!
//! A relation holds if it is true for all values within its figures' intervals, does not hold if it is false for all of
//! them, and is undecided otherwise. The intervals of different cells count as independent, so narrower intervals can
//! decide an undecided claim but never reverse a decision. A single run does not show its uncertainty and decides
//! nothing, unless its instrument is exact.
//!
//! A claim covers all its points. It does not hold if it fails at one of them, even if others could not be measured.

mod cases;
mod decide;
mod estimate;
mod readings;

pub use cases::{Case, Term, cases, instrument_of, select};
pub use decide::{Reading, decide};
pub use estimate::{Estimate, Truth};
pub use readings::Readings;

use crate::experiments::axes::Plan;
use crate::experiments::file::Claim;
use crate::experiments::names::{Instrument, Verdict};
use crate::experiments::row::Row;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of points that a judgement lists; the rest are counted.
const MAX_POINTS_SHOWN: usize = 3;

/// Result of judging a claim.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    pub id: String,
    pub text: String,
    pub verdict: Verdict,
    /// The numbers, or the reason why there are none.
    pub measured: String,
    /// The paper's measurement, with its section or figure.
    pub paper: String,
    pub instrument: Instrument,
    /// Why our results overturn the paper's; only with [`Verdict::Fails`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overturned: Option<String>,
}

/// Judges all claims of a plan's experiment.
pub fn judge(plan: &Plan, rows: &[Row]) -> Vec<Judgement> {
    let readings = Readings::new(plan, rows);
    plan.experiment.claims.iter().map(|claim| judge_one(plan, claim, &readings)).collect()
}

pub fn judge_one(plan: &Plan, claim: &Claim, readings: &Readings) -> Judgement {
    let (verdict, measured) = match cases(plan, claim) {
        Ok(cases) => {
            let found: Vec<_> = cases.iter().map(|case| judge_case(plan, claim, readings, case, cases.len())).collect();
            let verdict = worst(found.iter().map(|(verdict, _)| *verdict));
            (verdict, describe(claim, verdict, &found))
        }
        Err(why) => (Verdict::NotMeasurable, why),
    };
    Judgement {
        id: claim.id.clone(),
        text: claim.text.clone(),
        verdict,
        measured,
        paper: claim.paper.clone(),
        instrument: instrument_of(claim, plan),
        overturned: claim.overturned.clone().filter(|_| verdict == Verdict::Fails),
    }
}

/// Returns the cells of the undecided points of a claim; none if the claim as a whole is decided or not measurable.
pub fn undecided_cells(plan: &Plan, claim: &Claim, readings: &Readings) -> BTreeSet<usize> {
    let cases = cases(plan, claim).unwrap_or_default();
    let judge = |case: &Case| judge_case(plan, claim, readings, case, cases.len()).0;
    let verdicts: Vec<Verdict> = cases.iter().map(judge).collect();
    if worst(verdicts.iter().copied()) != Verdict::Undecided {
        return BTreeSet::new();
    }
    let open = cases.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Verdict::Undecided);
    open.flat_map(|(case, _)| &case.terms).flat_map(|term| term.cells.iter().copied()).collect()
}

/// Returns the cells that the claims of a plan's experiment are judged on.
pub fn claimed_cells(plan: &Plan) -> BTreeSet<usize> {
    let cases = plan.experiment.claims.iter().flat_map(|claim| cases(plan, claim).unwrap_or_default());
    cases.flat_map(|case| case.terms).flat_map(|term| term.cells).collect()
}

/// Judges a claim at one of its `points`.
fn judge_case(plan: &Plan, claim: &Claim, readings: &Readings, case: &Case, points: usize) -> (Verdict, String) {
    let read = case.terms.iter().map(|term| readings.read(plan, claim, term, points));
    let read: Result<Vec<Reading>, String> = read.collect();
    let (verdict, text) = match read {
        Err(why) => (Verdict::NotMeasurable, why),
        Ok(read) => {
            let (truth, text) = decide(&claim.relation, &read);
            (verdict_of(truth), text)
        }
    };
    (verdict, if case.at.is_empty() { text } else { format!("{}: {text}", case.at) })
}

/// Returns the verdict on all points together.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let order = [Verdict::Fails, Verdict::NotMeasurable, Verdict::Undecided, Verdict::Holds];
    order.into_iter().find(|verdict| verdicts.contains(verdict)).unwrap_or(Verdict::NotMeasurable)
}

fn verdict_of(truth: Truth) -> Verdict {
    match truth {
        Truth::Holds => Verdict::Holds,
        Truth::Fails => Verdict::Fails,
        Truth::Open => Verdict::Undecided,
    }
}

/// Lists the decisive points, and counts the others.
fn describe(claim: &Claim, verdict: Verdict, found: &[(Verdict, String)]) -> String {
    let deciding: Vec<&str> = found.iter().filter(|(own, _)| *own == verdict).map(|(_, text)| text.as_str()).collect();
    let shown = deciding[..deciding.len().min(MAX_POINTS_SHOWN)].join(" | ");
    let mut text = if verdict == Verdict::NotMeasurable { shown } else { format!("{}: {shown}", claim.figure) };
    if deciding.len() > MAX_POINTS_SHOWN {
        text.push_str(&format!(" | and {} more points", deciding.len() - MAX_POINTS_SHOWN));
    }
    for other in Verdict::ALL.iter().filter(|other| **other != verdict) {
        match found.iter().filter(|(own, _)| own == other).count() {
            0 => {}
            count => text.push_str(&format!("; at {count} of {} points: {other}", found.len())),
        }
    }
    text
}
