//! Distributions of times on a grid.
//!
//! A time is rounded to the nearest point of the grid. Sums of times add points, so a sum of h hops is off by at most
//! h/2 steps, and its mean by far less, since the roundings cancel. Distribution functions are known half-way between
//! the points, where the rounding changes nothing, so order statistics are exact there. The mass beyond the end of the
//! grid is kept as one number, `late`; times that are infinite are missing from the total.

use crate::models::binomial::Binomials;
use crate::models::chance::Chance;

/// Masses below this are not convolved. Even all of them together do not affect a percentile.
const NEGLIGIBLE_MASS: f64 = 1e-11;
/// Threshold below which terms of a tail are dropped.
const NEGLIGIBLE: f64 = 1e-16;
/// Points beyond the requested end, so that rounding never leaves the grid.
const MARGIN_POINTS: usize = 8;

/// Points in time at multiples of a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grid {
    pub step_ms: f64,
    pub points: usize,
}

impl Grid {
    /// Returns a grid of `points` from 0 to a time.
    pub fn up_to(end_ms: f64, points: usize) -> Grid {
        assert!(points > 2 * MARGIN_POINTS, "a grid has more points than its margin");
        Grid { step_ms: end_ms / (points - MARGIN_POINTS) as f64, points }
    }
}

/// Distribution of a time that may be infinite.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    grid: Grid,
    /// Probability of each point.
    mass: Vec<f64>,
    /// Probability of a finite time beyond the grid.
    late: f64,
}

impl Distribution {
    /// Returns the distribution of a constant, split between the two nearest points so that the mean is exact.
    pub fn constant(grid: Grid, ms: f64) -> Distribution {
        let at = ms / grid.step_ms;
        let (low, share) = (at.floor() as usize, at - at.floor());
        let mut distribution = Distribution { grid, mass: vec![0.0; grid.points], late: 0.0 };
        for (point, weight) in [(low, 1.0 - share), (low + 1, share)] {
            match distribution.mass.get_mut(point) {
                Some(mass) => *mass += weight,
                None => distribution.late += weight,
            }
        }
        distribution
    }

    /// Returns the distribution with this distribution function of the time in ms, which is 0 below 0.
    pub fn with_cdf(grid: Grid, cdf: impl Fn(f64) -> f64) -> Distribution {
        let cumulative: Vec<f64> = (0..grid.points).map(|point| cdf((point as f64 + 0.5) * grid.step_ms)).collect();
        Distribution::from_cumulative(grid, &cumulative, cdf(f64::INFINITY))
    }

    /// Returns the distribution whose distribution function has these values half a step after each point; `total` is
    /// its limit.
    pub fn from_cumulative(grid: Grid, cumulative: &[f64], total: f64) -> Distribution {
        let mut before = 0.0;
        let mass = cumulative.iter().map(|sum| (sum - std::mem::replace(&mut before, *sum)).max(0.0)).collect();
        Distribution { grid, mass, late: (total - before).max(0.0) }
    }

    /// Returns the probability that the time is finite.
    pub fn total(&self) -> f64 {
        self.mass.iter().sum::<f64>() + self.late
    }

    /// Returns the distribution function half a step after each point.
    pub fn cumulative(&self) -> Vec<f64> {
        let mut sum = 0.0;
        self.mass
            .iter()
            .map(|mass| {
                sum += mass;
                sum.min(1.0)
            })
            .collect()
    }

    /// Returns the distribution with all probabilities multiplied by a factor.
    pub fn scaled(mut self, factor: f64) -> Distribution {
        self.mass.iter_mut().for_each(|mass| *mass *= factor);
        self.late *= factor;
        self
    }

    /// Splits the distribution at a time.
    pub fn split(&self, ms: f64) -> (Distribution, Distribution) {
        let end = (ms / self.grid.step_ms).min(self.grid.points as f64) as usize;
        let (mut early, mut late) = (self.clone(), self.clone());
        early.mass[end..].fill(0.0);
        late.mass[..end].fill(0.0);
        if ms < f64::INFINITY {
            early.late = 0.0
        } else {
            late.late = 0.0
        }
        (early, late)
    }

    /// Returns the distribution conditioned on a finite time; unchanged if the time is never finite.
    pub fn given_that_it_comes(self) -> Distribution {
        let total = self.total();
        if total > 0.0 { self.scaled(1.0 / total) } else { self }
    }

    /// Adds another distribution on the same grid: the mixture of the two.
    pub fn add(&mut self, other: &Distribution) {
        assert_eq!(self.grid, other.grid);
        self.mass.iter_mut().zip(&other.mass).for_each(|(mass, more)| *mass += more);
        self.late += other.late;
    }

    /// Returns the distribution of a time that is always infinite.
    pub fn never(grid: Grid) -> Distribution {
        Distribution { grid, mass: vec![0.0; grid.points], late: 0.0 }
    }

    /// Returns the distribution of the sum of two independent times. O(points^2) at most.
    pub fn then(&self, other: &Distribution) -> Distribution {
        assert_eq!(self.grid, other.grid);
        let mut sum = Distribution::never(self.grid);
        let support = |distribution: &Distribution| {
            distribution.mass.iter().rposition(|mass| *mass > NEGLIGIBLE_MASS).map_or(0, |last| last + 1)
        };
        let (mine, theirs) = (support(self), support(other));
        let first = other.mass[..theirs].iter().position(|mass| *mass > NEGLIGIBLE_MASS).unwrap_or(theirs);
        for (at, weight) in self.mass[..mine].iter().enumerate().filter(|(_, weight)| **weight > NEGLIGIBLE_MASS) {
            let end = theirs.min(self.grid.points - at);
            if first < end {
                let target = &mut sum.mass[at + first..at + end];
                target.iter_mut().zip(&other.mass[first..end]).for_each(|(mass, more)| *mass += weight * more);
            }
        }
        let reached: f64 = sum.mass.iter().sum();
        sum.late = (self.total() * other.total() - reached).max(0.0);
        sum
    }

    /// Returns the distribution of the maximum of `count` independent times.
    pub fn last_of(&self, count: u32) -> Distribution {
        let raise = |sum: f64| sum.powi(count.min(i32::MAX as u32) as i32);
        let cumulative: Vec<f64> = self.cumulative().into_iter().map(raise).collect();
        Distribution::from_cumulative(self.grid, &cumulative, raise(self.total()))
    }

    /// Returns the distribution of the minimum of `count` independent times.
    pub fn first_of(&self, count: u32) -> Distribution {
        let count = count.min(i32::MAX as u32) as i32;
        let any = |sum: f64| 1.0 - (1.0 - sum.min(1.0)).powi(count);
        let cumulative: Vec<f64> = self.cumulative().into_iter().map(any).collect();
        Distribution::from_cumulative(self.grid, &cumulative, any(self.total()))
    }

    /// Returns the mean of the times on the grid, in ms; `None` if there are none.
    pub fn mean_ms(&self) -> Option<f64> {
        let here: f64 = self.mass.iter().sum();
        let sum: f64 = self.mass.iter().enumerate().map(|(at, mass)| at as f64 * mass).sum();
        (here > 0.0).then(|| sum / here * self.grid.step_ms)
    }

    /// Returns the quantile of the finite times, in ms; `None` beyond the grid.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let wanted = share * self.total();
        if self.total() <= 0.0 {
            return None;
        }
        let mut sum = 0.0;
        for (at, mass) in self.mass.iter().enumerate() {
            if sum + mass >= wanted && *mass > 0.0 {
                let part = (wanted - sum) / mass;
                return Some(((at as f64 - 0.5 + part) * self.grid.step_ms).max(0.0));
            }
            sum += mass;
        }
        None
    }

    /// Returns the probability of a time of at most `ms`, interpolated linearly between the points.
    pub fn within(&self, ms: f64) -> f64 {
        let at = ms / self.grid.step_ms + 0.5;
        let whole = at.floor().max(0.0) as usize;
        let below: f64 = self.mass.iter().take(whole).sum();
        below + self.mass.get(whole).map_or(0.0, |mass| mass * (at - at.floor()))
    }

    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Returns the probability of each point of the grid.
    pub fn masses(&self) -> &[f64] {
        &self.mass
    }
}

/// Independent events awaited together: two groups of one kind each, and single ones.
#[derive(Clone, Debug)]
pub struct Awaited<'a> {
    /// Number of events of each kind, and their distribution.
    pub groups: &'a [(usize, &'a Distribution); 2],
    /// Events of other kinds.
    pub single: &'a [&'a Distribution],
}

impl Awaited<'_> {
    /// Returns the distribution of the time at which `needed` of the events have happened.
    pub fn at_least(&self, needed: usize, tables: &Binomials) -> Distribution {
        let [(_, distribution), _] = self.groups;
        let sums = self.groups.map(|(_, distribution)| distribution.cumulative());
        let singles: Vec<Vec<f64>> = self.single.iter().map(|own| own.cumulative()).collect();
        let at = |point: usize| {
            let single: Vec<f64> = singles.iter().map(|own| own[point]).collect();
            self.chance([sums[0][point], sums[1][point]], &single, needed, tables)
        };
        let cumulative: Vec<f64> = (0..distribution.grid().points).map(at).collect();
        let single: Vec<f64> = self.single.iter().map(|own| own.total().min(1.0)).collect();
        let total =
            self.chance(self.groups.map(|(_, distribution)| distribution.total().min(1.0)), &single, needed, tables);
        Distribution::from_cumulative(distribution.grid(), &cumulative, total)
    }

    /// Returns the probability that at least `needed` events happen, given the chance of each kind.
    fn chance(&self, chances: [f64; 2], single: &[f64], needed: usize, tables: &Binomials) -> f64 {
        if let Some((own, rest)) = single.split_last() {
            let with = if *own > 0.0 { self.chance(chances, rest, needed.saturating_sub(1), tables) } else { 0.0 };
            let without = if *own < 1.0 { self.chance(chances, rest, needed, tables) } else { 0.0 };
            return own * with + (1.0 - own) * without;
        }
        let [(many, _), (few, _)] = *self.groups;
        if few == 0 || chances[1] <= 0.0 {
            return at_least(tables, many, chances[0], needed);
        }
        let of_few = Chance::of(chances[1].min(1.0));
        let term = |hits: usize| {
            let weight = libm::exp(tables.ln_exactly(few, of_few, hits));
            let other =
                if weight > NEGLIGIBLE { at_least(tables, many, chances[0], needed.saturating_sub(hits)) } else { 0.0 };
            weight * other
        };
        (0..=few).map(term).sum::<f64>().min(1.0)
    }
}

/// Returns P(Bin(count, chance) >= needed) with an absolute error of 1e-13. Sums the shorter tail from its largest term
/// until the terms vanish, in O(sqrt(count)).
pub fn at_least(binomials: &Binomials, count: usize, chance: f64, needed: usize) -> f64 {
    if needed == 0 {
        return 1.0;
    }
    if needed > count || chance <= 0.0 {
        return 0.0;
    }
    if chance >= 1.0 {
        return 1.0;
    }
    let odds = chance / (1.0 - chance);
    let first = |k: usize| libm::exp(binomials.ln_exactly(count, Chance::of(chance), k));
    let mut sum = 0.0;
    if needed as f64 > chance * count as f64 {
        let mut term = first(needed);
        for k in needed..=count {
            sum += term;
            term *= odds * (count - k) as f64 / (k + 1) as f64;
            if term < NEGLIGIBLE {
                break;
            }
        }
        return sum.min(1.0);
    }
    let mut term = first(needed - 1);
    for k in (0..needed).rev() {
        sum += term;
        term *= k as f64 / (odds * (count - k + 1) as f64);
        if term < NEGLIGIBLE {
            break;
        }
    }
    (1.0 - sum).max(0.0)
}
