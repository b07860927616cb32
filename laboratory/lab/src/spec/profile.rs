//! Loads that change over time, and their text form.

use super::Pacing;
use quorate_client::load::{LoadStep, MAX_STEPS};
use quorate_operator::{BadValue, Interval, as_text};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Rows of a ramp in the result, each covering an equal part of its time.
pub const RAMP_ROWS: u32 = 10;
/// Steps of a doubling load without an upper bound.
pub const DEFAULT_DOUBLING_STEPS: u32 = 6;

/// Course of the load over the measured time. The last value holds until the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadProfile {
    /// `ramp:1000..50000/30s`: the rate changes linearly from one value to another, in commands per second.
    Ramp { from: u64, to: u64, over: Interval },
    /// `steps:1000,2000,4000/10s`: these rates, each for this duration.
    Steps { rates: Vec<u64>, each: Interval },
    /// `double:20/5s`, `double:20..640/5s`: commands outstanding per client double after this time.
    Double(Doubling),
    /// `double-rate:1000/5s`, `double-rate:1000..64000/5s`: the rate doubles after this time.
    DoubleRate(Doubling),
}

/// Values that double.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubling {
    pub first: u64,
    /// Upper bound; [`DEFAULT_DOUBLING_STEPS`] values without it.
    pub most: Option<u64>,
    pub each: Interval,
}

impl Doubling {
    fn values(self) -> Vec<u64> {
        let values = std::iter::successors(Some(self.first), |value| value.checked_mul(2));
        match self.most {
            Some(most) => values.take_while(|value| *value <= most).collect(),
            None => values.take(DEFAULT_DOUBLING_STEPS as usize).collect(),
        }
    }
}

impl LoadProfile {
    /// Returns the steps, in commands per second over all clients or commands outstanding per client.
    pub fn steps(&self) -> Vec<LoadStep> {
        let constant =
            |each: Interval| move |value: u64| LoadStep { lasts: each.into(), from: value as f64, to: value as f64 };
        match self {
            LoadProfile::Ramp { from, to, over } => {
                let rate =
                    |row: u32| *from as f64 + (*to as f64 - *from as f64) * f64::from(row) / f64::from(RAMP_ROWS);
                let lasts = Duration::from(*over) / RAMP_ROWS;
                (0..RAMP_ROWS).map(|row| LoadStep { lasts, from: rate(row), to: rate(row + 1) }).collect()
            }
            LoadProfile::Steps { rates, each } => rates.iter().copied().map(constant(*each)).collect(),
            LoadProfile::Double(doubling) | LoadProfile::DoubleRate(doubling) => {
                doubling.values().into_iter().map(constant(doubling.each)).collect()
            }
        }
    }

    /// Returns the end of the last step, from the start.
    pub fn lasts(&self) -> Interval {
        let (each, steps) = match self {
            LoadProfile::Ramp { over, .. } => (*over, 1),
            LoadProfile::Steps { rates, each } => (*each, rates.len()),
            LoadProfile::Double(doubling) | LoadProfile::DoubleRate(doubling) => {
                (doubling.each, doubling.values().len())
            }
        };
        let milliseconds = each.as_millis().saturating_mul(steps as u64);
        Interval::from_millis(milliseconds.min(super::MAX_INTERVAL_MS))
    }

    /// Returns the pace before the first step, the same as at its start.
    pub fn first(&self) -> Pacing {
        match self {
            LoadProfile::Ramp { from: rate, .. } | LoadProfile::DoubleRate(Doubling { first: rate, .. }) => {
                Pacing::Open { rate: *rate }
            }
            LoadProfile::Steps { rates, .. } => Pacing::Open { rate: rates[0] },
            LoadProfile::Double(doubling) => Pacing::Closed { outstanding: outstanding(doubling.first) },
        }
    }

    /// Returns the fastest pace.
    pub fn most(&self) -> Pacing {
        let most = self.steps().iter().map(|step| step.from.max(step.to) as u64).max().unwrap_or(0);
        match self.first() {
            Pacing::Open { .. } => Pacing::Open { rate: most },
            Pacing::Closed { .. } => Pacing::Closed { outstanding: outstanding(most) },
        }
    }
}

fn outstanding(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl fmt::Display for LoadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadProfile::Ramp { from, to, over } => write!(f, "ramp:{from}..{to}/{over}"),
            LoadProfile::Steps { rates, each } => {
                let rates: Vec<String> = rates.iter().map(u64::to_string).collect();
                write!(f, "steps:{}/{each}", rates.join(","))
            }
            LoadProfile::Double(doubling) => write!(f, "double:{doubling}"),
            LoadProfile::DoubleRate(doubling) => write!(f, "double-rate:{doubling}"),
        }
    }
}

impl fmt::Display for Doubling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) => write!(f, "{}..{most}/{}", self.first, self.each),
            None => write!(f, "{}/{}", self.first, self.each),
        }
    }
}

const FORMS: &str = "ramp:1000..50000/30s or steps:1000,2000,4000/10s (commands per second), double:20/5s or \
                     double:20..640/5s (outstanding per client), or double-rate:1000/5s; the time after / is that of \
                     the whole ramp, or of each step";

impl FromStr for LoadProfile {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<LoadProfile, BadValue> {
        parse(text).map_err(|why| BadValue {
            kind: "load profile",
            given: text.to_owned(),
            why: format!(" ({why})"),
            forms: FORMS,
        })
    }
}

fn parse(text: &str) -> Result<LoadProfile, String> {
    let (kind, rest) = text.split_once(':').ok_or("the values are missing")?;
    let (values, time) = rest.rsplit_once('/').ok_or("the time is missing")?;
    let time = time.parse::<Interval>().map_err(|error| error.to_string())?;
    if time.as_millis() == 0 {
        return Err(format!("`{time}` is no time"));
    }
    let profile = match kind {
        "ramp" => {
            let (from, to) = values.split_once("..").ok_or("a ramp has two rates, as in 1000..50000")?;
            LoadProfile::Ramp { from: number(from)?, to: number(to)?, over: time }
        }
        "steps" => LoadProfile::Steps { rates: values.split(',').map(number).collect::<Result<_, _>>()?, each: time },
        "double" => LoadProfile::Double(doubling(values, time)?),
        "double-rate" => LoadProfile::DoubleRate(doubling(values, time)?),
        other => return Err(format!("`{other}` is not a kind of profile")),
    };
    let steps = profile.steps().len();
    if steps > MAX_STEPS {
        return Err(format!("{steps} steps are more than {MAX_STEPS}"));
    }
    if time.as_millis().saturating_mul(steps as u64) > super::MAX_INTERVAL_MS {
        return Err("it lasts longer than a week".to_owned());
    }
    Ok(profile)
}

fn doubling(values: &str, each: Interval) -> Result<Doubling, String> {
    let (first, most) = values.split_once("..").map_or((values, None), |(first, most)| (first, Some(most)));
    let (first, most) = (number(first)?, most.map(number).transpose()?);
    match most.filter(|most| *most < first) {
        Some(most) => Err(format!("`{values}` ends before it starts: {most} is less than {first}")),
        None => Ok(Doubling { first, most, each }),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=super::MAX_RATE).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1 to {}", super::MAX_RATE))
}

as_text!(LoadProfile);
