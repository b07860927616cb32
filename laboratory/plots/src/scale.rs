//! Scales: map values to positions, with ticks. A position is a fraction of the plot's side, from 0 to 1.

/// Intended number of steps on a linear axis whose ends are ticks, which includes vertical axes.
const STEPS: f64 = 5.0;
/// Intended number of steps on other axes: horizontal ones are longer, and omit labels that would overlap.
const MANY_STEPS: f64 = 8.0;
/// Fraction of a padded axis left empty beyond its first and last value.
const PADDING: f64 = 0.04;
/// Maximum span of the values, as a fraction of their maximum, for a linear axis that does not start at 0.
const MAX_SPAN_WITHOUT_ZERO: f64 = 0.3;
/// Rounding error allowed in comparisons of a value with a tick, in steps.
const SLACK: f64 = 1e-6;
/// Minimum number of decades for a logarithmic axis with labels only at powers of ten.
const MIN_DECADES_LABELLED: f64 = 3.0;
/// Maximum ratio of the ends for a logarithmic axis with evenly spaced ticks.
const MAX_RATIO_OF_EVEN_TICKS: f64 = 8.0;
/// Maximum number of labelled powers of ten.
const MAX_DECADES: i32 = 9;
/// Fraction of a logarithmic axis before its break, if it has a place for 0.
pub(crate) const ZERO_PART: f64 = 0.08;
/// Maximum number of distinct values for labels at the values themselves.
pub(crate) const MAX_VALUES_LABELLED: usize = 9;

/// Choice of an axis's ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// At the nearest ticks outside of the values.
    Round,
    /// A little beyond the values.
    Padded,
    /// At the smallest and the largest value.
    Exact,
}

/// Labelled or unlabelled position on an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    pub value: f64,
    /// Label; empty for a minor tick.
    pub label: String,
}

/// Numeric axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    pub log: bool,
    /// Whether a logarithmic axis has a place for 0 at its start, before a break. `low` is behind the break.
    pub zero: bool,
    /// Ticks in ascending order, within the ends.
    pub ticks: Vec<Tick>,
}

impl Scale {
    /// Creates a scale that covers finite values, which must not be negative on a logarithmic scale. A 0 there gets a
    /// place before a break. Without values it covers 0 to 1, or 1 to 10.
    pub fn covering(values: impl Iterator<Item = f64>, log: bool, ends: Ends, zero: bool) -> Scale {
        let mut has_zero = false;
        let range = values.fold(None, |range: Option<(f64, f64)>, value| {
            if log && value <= 0.0 {
                has_zero = true;
                return range;
            }
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let scale = match (range, log) {
            (None, false) => Scale::linear(0.0, 1.0, ends, zero),
            (None, true) => Scale::logarithmic(1.0, 10.0, ends),
            (Some((low, high)), false) => Scale::linear(low, high, ends, zero),
            (Some((low, high)), true) => Scale::logarithmic(low, high, ends),
        };
        if has_zero { scale.with_zero() } else { scale }
    }

    fn with_zero(mut self) -> Scale {
        self.zero = true;
        self.ticks.insert(0, Tick { value: 0.0, label: "0".into() });
        self
    }

    fn linear(low: f64, high: f64, ends: Ends, zero: bool) -> Scale {
        let largest = low.abs().max(high.abs());
        let (mut low, mut high) = (low, high);
        if zero || (ends != Ends::Exact && high - low > MAX_SPAN_WITHOUT_ZERO * largest) {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        // A single value, or values that differ only by rounding.
        if high - low <= largest * 1e-9 {
            (low, high) = match high {
                0.0 => (0.0, 1.0),
                value => (value - value.abs() * 0.1, value + value.abs() * 0.1),
            };
        }
        let mut step = round_step((high - low) / if ends == Ends::Round { STEPS } else { MANY_STEPS });
        match ends {
            Ends::Exact => {}
            Ends::Padded => {
                let padding = (high - low) * PADDING;
                low -= if low == 0.0 { 0.0 } else { padding };
                high += if high == 0.0 { 0.0 } else { padding };
            }
            Ends::Round => {
                low = (low / step + SLACK).floor() * step;
                high = (high / step - SLACK).ceil() * step;
            }
        }
        let mut ticks = even_ticks(low, high, step);
        while ticks.len() < 2 {
            step = round_step(step / 2.5);
            ticks = even_ticks(low, high, step);
        }
        Scale { low, high, log: false, zero: false, ticks }
    }

    fn logarithmic(low: f64, high: f64, ends: Ends) -> Scale {
        let (mut low, mut high) = (low, high);
        if high / low < 1.0 + 1e-9 {
            (low, high) = (low / 1.5, high * 1.5);
        }
        match ends {
            Ends::Exact => {}
            Ends::Padded => {
                let factor = (high / low).powf(PADDING);
                (low, high) = (low / factor, high * factor);
            }
            Ends::Round => (low, high) = (round_below(low), round_above(high)),
        }
        Scale { low, high, log: true, zero: false, ticks: log_ticks(low, high) }
    }

    /// Labels the given values rather than round ones.
    pub fn with_ticks_at(mut self, values: &[f64]) -> Scale {
        self.ticks = values.iter().map(|value| Tick { value: *value, label: exact(*value) }).collect();
        self
    }

    /// Returns the position of a value: 0 is `low`, or the place for 0, and 1 is `high`.
    pub fn place(&self, value: f64) -> f64 {
        if !self.zero {
            return self.part(value);
        }
        if value <= 0.0 { 0.0 } else { ZERO_PART + (1.0 - ZERO_PART) * self.part(value) }
    }

    /// Returns the value that a logarithmic axis without a break has at the place for 0.
    pub(crate) fn stand_in(&self) -> f64 {
        self.low * (self.low / self.high).powf(ZERO_PART / (1.0 - ZERO_PART))
    }

    fn part(&self, value: f64) -> f64 {
        let scale = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).log10() } else { v };
        let (from, to) = (scale(self.low), scale(self.high));
        ((scale(value) - from) / (to - from)).clamp(0.0, 1.0)
    }
}

/// Names side by side, each with an equal share of an axis.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bands {
    pub names: Vec<String>,
}

impl Bands {
    /// Creates a band for each distinct name, in order of appearance.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Bands {
        let mut bands = Bands::default();
        for name in names {
            if !bands.names.iter().any(|known| known == name) {
                bands.names.push(name.into());
            }
        }
        bands
    }

    /// Returns the index of a name; 0 if it has no band.
    pub fn index(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or(0)
    }

    /// Returns the middle of a band.
    pub fn middle(&self, index: usize) -> f64 {
        (index as f64 + 0.5) * self.share()
    }

    /// Returns the width of each band.
    pub fn share(&self) -> f64 {
        1.0 / self.names.len().max(1) as f64
    }
}

/// Returns 1, 2, 2.5, 5 or 10 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|digit| digit * power >= least * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

fn even_ticks(low: f64, high: f64, step: f64) -> Vec<Tick> {
    let (first, last) = ((low / step - SLACK).ceil(), (high / step + SLACK).floor());
    let largest = low.abs().max(high.abs());
    let count = (last - first).clamp(0.0, 4.0 * MANY_STEPS) as usize;
    let values = (0..=count).map(|at| (first + at as f64) * step).filter(|value| *value <= high + step * SLACK);
    // The sum of a whole number of steps may miss the end by a rounding error, and 0 may become -0.
    values
        .map(|value| value.clamp(low, high) + 0.0)
        .map(|value| Tick { value, label: stepped(value, step, largest) })
        .collect()
}

/// Returns the digits and powers of ten between two values, with their digit.
fn digits(low: f64, high: f64) -> Vec<(u32, i32, f64)> {
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
    let all = (first..=last).flat_map(|power| (1..=9).map(move |digit| (digit, power)));
    all.map(|(digit, power)| (digit, power, power_of_ten(f64::from(digit), power)))
        .filter(|(_, _, value)| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9))
        .collect()
}

/// Returns the double nearest to `digit` times a power of ten.
fn power_of_ten(digit: f64, power: i32) -> f64 {
    if power < 0 { digit / 10f64.powi(-power) } else { digit * 10f64.powi(power) }
}

fn log_ticks(low: f64, high: f64) -> Vec<Tick> {
    let ratio = high / low;
    if ratio < MAX_RATIO_OF_EVEN_TICKS {
        let ticks = even_ticks(low, high, round_step((high - low) / STEPS));
        return ticks;
    }
    let decades = ratio.log10();
    let every = (decades.ceil() as i32).div_euclid(MAX_DECADES).max(0) + 1;
    let labelled = |digit: u32, power: i32| match digit {
        1 => power.rem_euclid(every) == 0,
        2 | 5 => decades < MIN_DECADES_LABELLED,
        _ => false,
    };
    let kept = digits(low, high).into_iter().filter(|(digit, power, _)| every == 1 || labelled(*digit, *power));
    kept.map(|(digit, power, value)| Tick {
        value: value.clamp(low, high),
        label: if labelled(digit, power) { exact(value) } else { String::new() },
    })
    .collect()
}

/// Returns 1, 2 or 5 times a power of ten, at most `value`.
fn round_below(value: f64) -> f64 {
    let power = value.log10().floor() as i32;
    let all = [(5.0, power), (2.0, power), (1.0, power), (5.0, power - 1)];
    all.into_iter().map(|(digit, power)| power_of_ten(digit, power)).find(|round| *round <= value).unwrap_or(value)
}

/// Returns 1, 2 or 5 times a power of ten, at least `value`.
fn round_above(value: f64) -> f64 {
    let power = value.log10().floor() as i32;
    let all = [(1.0, power), (2.0, power), (5.0, power), (1.0, power + 1)];
    all.into_iter().map(|(digit, power)| power_of_ten(digit, power)).find(|round| *round >= value).unwrap_or(value)
}

/// Maximum number of decimals of a tick: the precision of a double.
const MAX_DECIMALS: i32 = 15;
/// Decimals of a tick if its step is not round.
const USUAL_DECIMALS: i32 = 9;

/// Formats a tick so that neighbours one step apart differ, in thousands or millions for large ranges.
fn stepped(value: f64, step: f64, largest: f64) -> String {
    let (unit, suffix) = match largest {
        largest if !(1e-3..1e13).contains(&largest) => return exponent(value, step, largest),
        largest if largest >= 1e9 => (1e9, "G"),
        largest if largest >= 1e6 => (1e6, "M"),
        largest if largest >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    if value == 0.0 {
        return "0".into();
    }
    let decimals = decimals(step / unit);
    format!("{:.decimals$}{suffix}", value / unit)
}

/// Formats a tick in scientific notation.
fn exponent(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let power = largest.log10().floor() as i32;
    let unit = power_of_ten(1.0, power);
    format!("{:.*}e{power}", decimals(step / unit), value / unit)
}

/// Returns the number of decimals of a round step.
fn decimals(step: f64) -> usize {
    (0..=MAX_DECIMALS)
        .find(|decimals| {
            let shifted = step * 10f64.powi(*decimals);
            (shifted - shifted.round()).abs() < 1e-3 * shifted.min(1.0) && shifted >= 0.5
        })
        .unwrap_or(USUAL_DECIMALS) as usize
}

/// Formats a value without visible rounding: 4, 0.05, 1024, 20k, 1M.
pub(crate) fn exact(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e13).contains(&size) {
        return format!("{value:e}");
    }
    for (unit, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        let tenths = value / unit * 10.0;
        if size >= unit.max(1e4) && (tenths - tenths.round()).abs() < 1e-6 {
            return format!("{}{suffix}", tenths.round() / 10.0);
        }
    }
    let rounded = format!("{value:.6}");
    rounded.trim_end_matches('0').trim_end_matches('.').into()
}

/// Formats a value for a tooltip or a table: four significant digits, whole numbers from 1000 on, grouped.
pub(crate) fn figure(value: f64) -> String {
    // 0 has no sign.
    let value = value + 0.0;
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e13).contains(&size) {
        return format!("{value:.3e}");
    }
    if size >= 1000.0 {
        let digits = format!("{size:.0}");
        let mut grouped = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        return if value < 0.0 { format!("-{grouped}") } else { grouped };
    }
    let whole = if size < 1.0 { 0 } else { size.log10().floor() as usize + 1 };
    let leading = if size > 0.0 && size < 1.0 { (-size.log10().floor()) as usize - 1 } else { 0 };
    let text = format!("{value:.*}", (4 + leading).saturating_sub(whole));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}
