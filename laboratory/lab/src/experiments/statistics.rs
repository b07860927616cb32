//! Means with confidence intervals over repetitions, and fences against outliers.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF, StudentsT};

/// Confidence level of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// Confidence level at which a share of counted things is compared with another instrument's share.
pub const AGREEMENT_CONFIDENCE: f64 = 0.99;
/// A latency is an outlier if it is this many interquartile ranges below the first or above the third quartile.
pub const FENCE_IQRS: f64 = 1.5;

/// Confidence interval, which contains its ends.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Summary of the repetitions of a cell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    pub median: f64,
    /// Confidence interval of the mean; `None` for a single value, whose uncertainty is unknown.
    pub interval: Option<Interval>,
}

impl Summary {
    /// Summarizes values; `None` if there are none, or one is not finite.
    pub fn of(values: &[f64]) -> Option<Summary> {
        if !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        Some(Summary { count: values.len(), mean: mean(values)?, median: median(values)?, interval: interval(values) })
    }

    /// Returns half the width of the interval in percent of the mean; `None` without an interval, or if the mean is 0
    /// and the width is not.
    pub fn half_width_percent(&self) -> Option<f64> {
        let Interval { low, high } = self.interval?;
        let half = (high - low) / 2.0;
        if half == 0.0 {
            return Some(0.0);
        }
        Some(half / self.mean.abs() * 100.0).filter(|percent| percent.is_finite())
    }
}

/// Returns the arithmetic mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    // Divides before adding, so that the sum of large values cannot overflow.
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().map(|value| value / count).sum())
}

/// Returns the median; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile_of(values, 0.5)
}

/// Returns the quantile `p` (0 to 1), interpolated linearly between ranks; `None` if there are no values.
pub fn quantile_of(values: &[f64], p: f64) -> Option<f64> {
    let sorted = sorted(values);
    (!sorted.is_empty()).then(|| quantile(sorted.len(), p.clamp(0.0, 1.0), |rank| sorted[rank]))
}

/// Returns the sample standard deviation, with n - 1; `None` for fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Returns the confidence interval of the mean: mean ± t s / √n, with Student's t for n - 1 degrees of freedom at
/// [`CONFIDENCE`], two-sided. It assumes that the repetitions are independent and about normally distributed. `None`
/// for fewer than two values.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let (mean, deviation) = (mean(values)?, deviation(values)?);
    // Rounding may make the mean of equal values differ from them.
    if values.iter().all(|value| *value == values[0]) {
        return Some(Interval { low: values[0], high: values[0] });
    }
    let student = StudentsT::new(0.0, 1.0, (values.len() - 1) as f64).ok()?;
    let half = student.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * deviation / (values.len() as f64).sqrt();
    Some(Interval { low: mean - half, high: mean + half })
}

/// Ratio of a figure after a change to the same figure before it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// Ratio of the geometric means.
    pub ratio: f64,
    /// Confidence interval of the ratio; `None` if one side has a single value.
    pub interval: Option<Interval>,
}

impl Ratio {
    /// Returns whether the interval excludes 1; `None` without an interval.
    pub fn is_significant(&self) -> Option<bool> {
        self.interval.map(|own| own.low > 1.0 || own.high < 1.0)
    }
}

/// Returns the ratio of two figures over repetitions, with Welch's two-sided interval for the difference of the log
/// means at [`CONFIDENCE`], which allows different variances. `None` if a side is empty or a value is not positive.
pub fn ratio(before: &[f64], after: &[f64]) -> Option<Ratio> {
    let (before, after) = (logarithms(before)?, logarithms(after)?);
    let difference = mean(&after)? - mean(&before)?;
    let ratio = difference.exp();
    Some(Ratio { ratio, interval: welch(&before, &after, difference) })
}

/// Returns the ratio of two figures over repetitions that belong together in pairs, because a pair has the same random
/// choices. The interval is Student's for the mean of the log ratios at [`CONFIDENCE`]. `None` if there is no pair, or
/// a value is not positive.
///
/// # Panics
/// If the sides differ in length.
pub fn ratio_of_pairs(before: &[f64], after: &[f64]) -> Option<Ratio> {
    assert_eq!(before.len(), after.len(), "values in pairs");
    let (before, after) = (logarithms(before)?, logarithms(after)?);
    let differences: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let interval = interval(&differences).map(|own| Interval { low: own.low.exp(), high: own.high.exp() });
    Some(Ratio { ratio: mean(&differences)?.exp(), interval })
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

/// Returns Welch's interval for the difference of two log means, as factors.
fn welch(before: &[f64], after: &[f64], difference: f64) -> Option<Interval> {
    let error = |values: &[f64]| Some(deviation(values)?.powi(2) / values.len() as f64);
    let (one, other) = (error(before)?, error(after)?);
    // Rounding may make the mean of equal values differ from them.
    let is_exact = |values: &[f64]| values.iter().all(|value| *value == values[0]);
    if is_exact(before) && is_exact(after) {
        let factor = (after[0] - before[0]).exp();
        return Some(Interval { low: factor, high: factor });
    }
    let degree = |error: f64, count: usize| error.powi(2) / (count - 1) as f64;
    let freedom = (one + other).powi(2) / (degree(one, before.len()) + degree(other, after.len()));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = student.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * (one + other).sqrt();
    Some(Interval { low: (difference - half).exp(), high: (difference + half).exp() })
}

/// Returns the exact interval (Clopper and Pearson) of a probability, given `hits` among `trials`: each tail has at
/// most half of `1 - confidence`. `None` without trials, or with more hits than trials.
pub fn chance_interval(hits: u64, trials: u64, confidence: f64) -> Option<Interval> {
    let misses = trials.checked_sub(hits).filter(|_| trials > 0)?;
    let tail = (1.0 - confidence) / 2.0;
    let beta = |a: u64, b: u64| Beta::new(a as f64, b as f64).ok();
    let low = if hits == 0 { 0.0 } else { beta(hits, misses + 1)?.inverse_cdf(tail) };
    let high = if misses == 0 { 1.0 } else { beta(hits + 1, misses)?.inverse_cdf(1.0 - tail) };
    Some(Interval { low, high })
}

/// A latency outside this range is an outlier: [Q1 - 1.5 IQR, Q3 + 1.5 IQR].
///
/// Quartiles are interpolated linearly between ranks: quantile p of n sorted values is at rank (n - 1) p.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fences(Interval);

impl Fences {
    /// Returns the fences of values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Fences> {
        let sorted = sorted(values);
        (!sorted.is_empty()).then(|| Fences::between(|p| quantile(sorted.len(), p, |rank| sorted[rank])))
    }

    /// Returns the fences of a histogram, given as ascending values with their counts; `None` if all counts are 0.
    pub fn of_counts(counts: &[(f64, u64)]) -> Option<Fences> {
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        let at = |rank: usize| {
            let mut seen = 0;
            let found = counts.iter().find(|(_, count)| {
                seen += count;
                seen > rank as u64
            });
            found.map_or(f64::NAN, |(value, _)| *value)
        };
        (total > 0).then(|| Fences::between(|p| quantile(total as usize, p, at)))
    }

    fn between(quantile: impl Fn(f64) -> f64) -> Fences {
        let (first, third) = (quantile(0.25), quantile(0.75));
        let reach = FENCE_IQRS * (third - first);
        Fences(Interval { low: first - reach, high: third + reach })
    }

    /// Returns whether a value lies within the fences.
    pub fn contain(&self, value: f64) -> bool {
        self.0.low <= value && value <= self.0.high
    }

    pub fn interval(&self) -> Interval {
        self.0
    }
}

/// Returns the values without outliers, in their order.
pub fn without_outliers(values: &[f64]) -> Vec<f64> {
    let Some(fences) = Fences::of(values) else { return Vec::new() };
    values.iter().copied().filter(|value| fences.contain(*value)).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn quantile(count: usize, p: f64, at: impl Fn(usize) -> f64) -> f64 {
    let rank = (count - 1) as f64 * p;
    let below = rank.floor() as usize;
    let (low, high) = (at(below), at((below + 1).min(count - 1)));
    low + (high - low) * (rank - below as f64)
}
