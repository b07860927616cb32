//! Contents of a page.

use quorate_lab::experiments::{Judgement, Plan, Row, Verdict};

/// An experiment with its rows and the verdicts on its claims.
#[derive(Clone, Copy, Debug)]
pub struct Finding<'f> {
    pub plan: &'f Plan<'f>,
    pub rows: &'f [Row],
    pub claims: &'f [Judgement],
}

impl Finding<'_> {
    /// Returns the number of runs. Cells that cannot be run here have none.
    pub fn runs(&self) -> usize {
        self.rows.iter().filter(|row| row.not_measurable.is_none()).count()
    }

    /// Returns the number of claims with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}
