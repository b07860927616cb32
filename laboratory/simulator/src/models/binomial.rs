//! Binomial distributions in log space.

use crate::models::chance::{Chance, ln_one_minus_exp, times};

/// Tables for binomial distributions up to a maximum number of trials.
#[derive(Clone, Debug)]
pub struct Binomials {
    /// ln k!, by k.
    ln_factorials: Vec<f64>,
}

impl Binomials {
    /// Builds the tables for up to `max_trials` trials, in O(max_trials).
    pub fn new(max_trials: usize) -> Binomials {
        // Compensated summation, so that the error does not grow beyond the last addition's.
        let (mut sum, mut lost) = (0.0, 0.0);
        let mut ln_factorials = vec![0.0];
        for k in 1..=max_trials {
            let term = libm::log(k as f64) - lost;
            let next: f64 = sum + term;
            lost = (next - sum) - term;
            sum = next;
            ln_factorials.push(sum);
        }
        Binomials { ln_factorials }
    }

    /// Returns ln of the binomial coefficient; `k` must not exceed `n`.
    pub fn ln_choose(&self, n: usize, k: usize) -> f64 {
        self.ln_factorials[n] - self.ln_factorials[k] - self.ln_factorials[n - k]
    }

    /// Returns ln of the probability of exactly `k` successes in `n` trials.
    pub fn ln_exactly(&self, n: usize, chance: Chance, k: usize) -> f64 {
        if k > n {
            return f64::NEG_INFINITY;
        }
        self.ln_choose(n, k) + times(k, chance.ln()) + times(n - k, chance.ln_complement())
    }

    /// Returns the chance of at least `least` successes in `n` trials, with the chance of fewer at the same relative
    /// precision: each is a sum of positive terms. O(n).
    pub fn at_least(&self, n: usize, chance: Chance, least: usize) -> Chance {
        if least == 0 {
            return Chance::ALWAYS;
        }
        if least > n {
            return Chance::NEVER;
        }
        let ln_sum = |range: std::ops::RangeInclusive<usize>| {
            let terms: Vec<f64> = range.map(|k| self.ln_exactly(n, chance, k)).collect();
            let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if most == f64::NEG_INFINITY {
                return most;
            }
            most + libm::log(terms.iter().map(|term| libm::exp(term - most)).sum())
        };
        // The smaller sum is fully precise, and yields the other as its complement.
        let (tail, rest) = (ln_sum(least..=n), ln_sum(0..=least - 1));
        match tail < rest {
            true => Chance::from_ln(tail, ln_one_minus_exp(tail.min(0.0))),
            false => Chance::from_ln(ln_one_minus_exp(rest.min(0.0)), rest),
        }
    }
}
