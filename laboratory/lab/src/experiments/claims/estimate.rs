//! Estimates of figures. A relation between them holds, fails or is undecided.

use crate::experiments::statistics::Summary;
use quorate_types::text::group;

/// A figure of a cell with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    pub mean: f64,
    /// Minus infinity if the uncertainty is unknown.
    pub low: f64,
    /// Infinity if the uncertainty is unknown.
    pub high: f64,
}

/// Result of comparing estimates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    /// True for all values within the intervals.
    Holds,
    /// True for none of the values within the intervals.
    Fails,
    /// True for some values within the intervals, and false for others.
    Open,
}

impl Truth {
    /// Returns `Holds` if `holds`, `Fails` if `fails`, else `Open`.
    pub fn new(holds: bool, fails: bool) -> Truth {
        match (holds, fails) {
            (true, _) => Truth::Holds,
            (_, true) => Truth::Fails,
            _ => Truth::Open,
        }
    }

    /// Returns `Fails` if one fails, otherwise `Open` if one is open.
    pub fn all(truths: impl IntoIterator<Item = Truth>) -> Truth {
        truths.into_iter().fold(Truth::Holds, |all, truth| match (all, truth) {
            (Truth::Fails, _) | (_, Truth::Fails) => Truth::Fails,
            (Truth::Open, _) | (_, Truth::Open) => Truth::Open,
            _ => Truth::Holds,
        })
    }
}

impl Estimate {
    /// Returns an estimate without uncertainty.
    pub fn exact(value: f64) -> Estimate {
        Estimate { mean: value, low: value, high: value }
    }

    /// Returns the estimate of a summary; without an interval the uncertainty is unknown.
    pub fn of(summary: &Summary) -> Estimate {
        let interval = summary.interval.map_or((f64::NEG_INFINITY, f64::INFINITY), |own| (own.low, own.high));
        Estimate { mean: summary.mean, low: interval.0, high: interval.1 }
    }

    /// Combines estimates by a function that is non-decreasing in each argument.
    pub fn monotone(estimates: &[Estimate], of: impl Fn(&[f64]) -> f64) -> Estimate {
        let apply = |part: fn(&Estimate) -> f64| of(&estimates.iter().map(part).collect::<Vec<_>>());
        Estimate { mean: apply(|own| own.mean), low: apply(|own| own.low), high: apply(|own| own.high) }
    }

    /// Returns the quotient `self / other`, from the smallest possible ratio to the largest, without assuming
    /// correlation. Its uncertainty is unknown if `other` may be 0 or less.
    pub fn over(&self, other: &Estimate) -> Estimate {
        let mean = self.mean / other.mean;
        if other.low <= 0.0 || ![self.low, self.high, other.high].iter().all(|end| end.is_finite()) {
            return Estimate { mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let low = self.low / if self.low < 0.0 { other.low } else { other.high };
        let high = self.high / if self.high < 0.0 { other.high } else { other.low };
        Estimate { mean, low, high }
    }

    /// Returns the estimate multiplied by a positive factor.
    pub fn times(&self, factor: f64) -> Estimate {
        Estimate { mean: self.mean * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Returns whether this value is below the other; open if their intervals overlap.
    pub fn is_below(&self, other: &Estimate) -> Truth {
        Truth::new(self.high < other.low, self.low >= other.high)
    }

    /// Returns whether this value is not above the other; open if their intervals overlap.
    pub fn is_at_most(&self, other: &Estimate) -> Truth {
        Truth::new(self.high <= other.low, self.low > other.high)
    }

    /// `min <= self <= max`.
    pub fn is_within(&self, min: Option<f64>, max: Option<f64>) -> Truth {
        let (min, max) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
        Truth::new(min <= self.low && self.high <= max, self.high < min || max < self.low)
    }

    /// Returns whether the uncertainty is known.
    pub fn is_bounded(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Formats the mean and the interval: `31,200 (29,900 to 32,500)`.
    pub fn shown(&self) -> String {
        match (self.is_bounded(), self.low == self.high) {
            (true, true) => shown(self.mean),
            (true, false) => format!("{} ({} to {})", shown(self.mean), shown(self.low), shown(self.high)),
            _ if !self.mean.is_finite() => "undefined".to_owned(),
            _ => format!("{} (uncertainty unknown)", shown(self.mean)),
        }
    }
}

/// Formats a number with three significant digits, or with all digits before the decimal point.
pub fn shown(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "undefined".to_owned() } else { "unlimited".to_owned() };
    }
    let decimals = match number.abs() {
        size if size >= 99.5 || size == 0.0 => 0,
        size => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{:.decimals$}", number.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let (sign, point) = (if number < 0.0 { "-" } else { "" }, if fraction.is_empty() { "" } else { "." });
    format!("{sign}{}{point}{fraction}", group(whole))
}
