//! Non-negative least squares with a preference for values measured in isolation.

const MAX_SWEEPS: usize = 10_000;
/// Convergence threshold: largest change of a factor in the last sweep.
const PRECISION: f64 = 1e-9;

/// A factor to fit.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Factor already included in the parts.
    pub so_far: f64,
    /// Weight of the preference for a value of 1, relative to one row with an error of 100 %.
    pub preference: f64,
}

/// A measured sum and the parts charged for it.
#[derive(Clone, Debug)]
pub struct Row {
    pub measured: f64,
    /// Charged parts whose factors are fitted.
    pub parts: Vec<f64>,
    /// Charged parts with a fixed factor.
    pub known: f64,
}

impl Row {
    /// Returns the charged sum divided by the measured one, with these factors.
    pub fn ratio(&self, factors: &[f64]) -> f64 {
        let parts: f64 = self.parts.iter().zip(factors).map(|(part, factor)| part * factor).sum();
        (self.known + parts) / self.measured
    }
}

/// Returns the factors, relative to the present ones, with which the charges come closest to the measured sums.
pub fn fit(rows: &[Row], wanted: &[Wanted]) -> Vec<f64> {
    let mut factors = vec![1.0; wanted.len()];
    for _ in 0..MAX_SWEEPS {
        let mut change: f64 = 0.0;
        for (at, Wanted { so_far, preference }) in wanted.iter().enumerate() {
            let (mut slope, mut product) = (preference * so_far * so_far, preference * so_far);
            for row in rows {
                let part = row.parts[at] / row.measured;
                let others = row.ratio(&factors) - part * factors[at];
                slope += part * part;
                product += part * (1.0 - others);
            }
            let factor = (product / slope).max(0.0);
            change = change.max((factor - factors[at]).abs());
            factors[at] = factor;
        }
        if change < PRECISION {
            break;
        }
    }
    factors
}

/// Returns the root mean square of the rows' relative errors.
pub fn residual(rows: &[Row], factors: &[f64]) -> f64 {
    let square = |row: &Row| (row.ratio(factors) - 1.0).powi(2);
    (rows.iter().map(square).sum::<f64>() / rows.len().max(1) as f64).sqrt()
}
