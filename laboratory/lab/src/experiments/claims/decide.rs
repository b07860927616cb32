//! Decides a relation at one point.

use super::estimate::{Estimate, Truth, shown};
use crate::experiments::file::{Limits, Relation, Side, Tolerance};
use crate::experiments::names::Direction;

/// A term of a relation with its figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    pub label: String,
    /// Value on the relation's axis.
    pub at: Option<f64>,
    pub figure: Estimate,
}

/// Decides a relation, and returns the numbers behind the decision as text.
pub fn decide(relation: &Relation, readings: &[Reading]) -> (Truth, String) {
    match relation {
        Relation::Bound { limits } => {
            let truth = Truth::all(readings.iter().map(|own| own.figure.is_within(limits.min, limits.max)));
            (truth, format!("{}, claimed {}", list(readings), range(*limits)))
        }
        Relation::Order { margin_percent, .. } => {
            let factor = 1.0 + margin_percent / 100.0;
            let steps = readings.windows(2).map(|pair| pair[0].figure.times(factor).is_below(&pair[1].figure));
            (Truth::all(steps), list(readings))
        }
        Relation::Ratio { limits, .. } => {
            let [a, b] = readings else { return (Truth::Open, "a ratio needs two figures".to_owned()) };
            if b.figure.low == 0.0 && b.figure.high == 0.0 {
                // An undefined ratio lies within no limits, and repetitions do not change that.
                return (Truth::Fails, format!("{}: no ratio, as the denominator is 0", list(readings)));
            }
            let ratio = a.figure.over(&b.figure);
            let text = format!("{}: ratio {}, claimed {}", list(readings), ratio.shown(), range(*limits));
            (ratio.is_within(limits.min, limits.max), text)
        }
        Relation::Agreement { tolerance, is_share, .. } => agreement(*tolerance, *is_share, readings),
        Relation::Trend { direction, tolerance_percent, .. } => {
            (trend(*direction, *tolerance_percent, readings), list(readings))
        }
        Relation::Plateau { within_percent, .. } => (flat(readings, *within_percent), list(readings)),
        Relation::Saturation { rise_percent, limits, .. } => {
            let factor = 1.0 + rise_percent / 100.0;
            let last = readings.len().saturating_sub(1);
            let is_saturated = |at: usize| {
                let later = readings[at + 1..].iter();
                Truth::all(later.map(|later| later.figure.is_at_most(&readings[at].figure.times(factor))))
            };
            let found = first_of((0..last).map(|at| (readings[at].at, is_saturated(at))));
            (
                found.within(*limits),
                format!("saturates {}, claimed {}; {}", found.shown(), range(*limits), list(readings)),
            )
        }
        Relation::Crossing { side, limits, .. } => crossing(*side, *limits, readings),
    }
}

/// Compares a figure with another instrument's, over all values within both intervals.
fn agreement(tolerance: Tolerance, is_share: bool, readings: &[Reading]) -> (Truth, String) {
    let [Reading { figure: own, .. }, Reading { figure: other, .. }] = readings else {
        return (Truth::Open, "an agreement needs two figures".to_owned());
    };
    let (least, most) = (tolerance.around(other.high).0, tolerance.around(other.low).1);
    let (lowest, highest) = (tolerance.around(other.low).0, tolerance.around(other.high).1);
    let is_outside = is_share && (own.high < other.low || other.high < own.low);
    let truth = match is_outside {
        true => Truth::Fails,
        false => Truth::new(least <= own.low && own.high <= most, own.high < lowest || highest < own.low),
    };
    let claimed = match tolerance {
        Tolerance::Within(by) => shown(by),
        Tolerance::Percent(percent) => format!("{} %", shown(percent)),
    };
    (truth, format!("{}, claimed within {claimed}", list(readings)))
}

fn trend(direction: Direction, tolerance_percent: f64, readings: &[Reading]) -> Truth {
    if direction == Direction::Flat {
        return flat(readings, tolerance_percent);
    }
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return Truth::Open };
    let rising = |a: &Reading, b: &Reading| {
        if direction == Direction::Falls { (b.figure, a.figure) } else { (a.figure, b.figure) }
    };
    let is_strict = |a: &Reading, b: &Reading| {
        let (lower, upper) = rising(a, b);
        lower.is_below(&upper)
    };
    let is_step = |pair: &[Reading]| {
        let (lower, upper) = rising(&pair[0], &pair[1]);
        match tolerance_percent {
            0.0 => lower.is_below(&upper),
            _ => lower.is_at_most(&upper.times(1.0 + tolerance_percent / 100.0)),
        }
    };
    Truth::all(readings.windows(2).map(is_step).chain([is_strict(first, last)]))
}

/// Decides that no figure exceeds another by more than this percentage.
fn flat(readings: &[Reading], within_percent: f64) -> Truth {
    let factor = 1.0 + within_percent / 100.0;
    let pairs = readings.iter().enumerate().flat_map(|(at, a)| {
        readings.iter().enumerate().filter(move |(other, _)| *other != at).map(move |(_, b)| (a, b))
    });
    Truth::all(pairs.map(|(a, b)| a.figure.is_at_most(&b.figure.times(factor))))
}

fn crossing(side: Side, limits: Limits, readings: &[Reading]) -> (Truth, String) {
    let (first, second) = readings.split_at(readings.len() / 2);
    let ratios: Vec<Estimate> = first.iter().zip(second).map(|(a, b)| a.figure.over(&b.figure)).collect();
    let is_across = |ratio: &Estimate| match side {
        Side::Above(limit) => Estimate::exact(limit).is_below(ratio),
        Side::Below(limit) => ratio.is_below(&Estimate::exact(limit)),
    };
    let stays = |at: usize| Truth::all(ratios[at..].iter().map(is_across));
    let found = first_of((0..ratios.len()).map(|at| (first[at].at, stays(at))));
    let shown: Vec<String> =
        first.iter().zip(&ratios).map(|(own, ratio)| format!("{} {}", own.label, ratio.shown())).collect();
    let text = format!("crosses {}, claimed {}; ratios: {}", found.shown(), range(limits), shown.join("; "));
    (found.within(limits), text)
}

/// Position on an axis at which something first happens, between `earliest` and `latest`; infinite if it may never
/// happen.
struct Found {
    earliest: f64,
    latest: f64,
}

/// Finds the first value of an axis at which something holds.
fn first_of(truths: impl Iterator<Item = (Option<f64>, Truth)>) -> Found {
    let mut found = Found { earliest: f64::INFINITY, latest: f64::INFINITY };
    for (at, truth) in truths {
        let at = at.unwrap_or(f64::INFINITY);
        if truth != Truth::Fails {
            found.earliest = found.earliest.min(at);
        }
        if truth == Truth::Holds {
            found.latest = at;
            break;
        }
    }
    found
}

impl Found {
    /// Returns whether the position lies within limits.
    fn within(&self, limits: Limits) -> Truth {
        let outside =
            limits.min.is_some_and(|min| self.latest < min) || limits.max.is_some_and(|max| self.earliest > max);
        Truth::new(limits.contain(self.earliest) && limits.contain(self.latest), outside)
    }

    fn shown(&self) -> String {
        match (self.earliest.is_finite(), self.latest.is_finite()) {
            (false, _) => "nowhere".to_owned(),
            (true, false) => format!("at {} or later, or nowhere", shown(self.earliest)),
            (true, true) if self.earliest == self.latest => format!("at {}", shown(self.earliest)),
            (true, true) => format!("between {} and {}", shown(self.earliest), shown(self.latest)),
        }
    }
}

fn list(readings: &[Reading]) -> String {
    let one = |own: &Reading| format!("{} {}", own.label, own.figure.shown()).trim().to_owned();
    readings.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn range(limits: Limits) -> String {
    match (limits.min, limits.max) {
        (Some(min), Some(max)) if min == max => shown(min),
        (Some(min), Some(max)) => format!("{} to {}", shown(min), shown(max)),
        (Some(min), None) => format!("at least {}", shown(min)),
        (None, Some(max)) => format!("at most {}", shown(max)),
        (None, None) => "anything".to_owned(),
    }
}
