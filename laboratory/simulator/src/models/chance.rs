//! Probabilities, stored as logarithms of themselves and of their complements.
//!
//! A loss of 1e-12 disappears in `1.0 - 1e-12` after a few products, and a quorum of 667 of 1000 underflows. With both
//! logarithms, neither end loses digits.

use quorate_types::Fault;

/// Probability of an event. Both logarithms are natural, at most 0, and minus infinity for probability 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Chance {
    ln: f64,
    ln_complement: f64,
}

impl Chance {
    pub const ALWAYS: Chance = Chance { ln: 0.0, ln_complement: f64::NEG_INFINITY };
    pub const NEVER: Chance = Chance { ln: f64::NEG_INFINITY, ln_complement: 0.0 };

    /// Returns the chance that a packet arrives, given its probability of loss.
    pub fn of_loss(loss: f64) -> Chance {
        assert!((0.0..=1.0).contains(&loss), "{loss} is a probability");
        Chance { ln: libm::log1p(-loss), ln_complement: libm::log(loss) }
    }

    /// Returns the chance with this probability.
    pub fn of(probability: f64) -> Chance {
        Chance::of_loss(probability).complement()
    }

    /// Returns the chance with these logarithms of the probability and its complement, which rounding may have pushed
    /// above 0.
    pub(crate) fn from_ln(ln: f64, ln_complement: f64) -> Chance {
        Chance { ln: ln.min(0.0), ln_complement: ln_complement.min(0.0) }
    }

    /// Returns it as a number from 0 to 1; the tiniest chances become 0.
    pub fn probability(self) -> f64 {
        libm::exp(self.ln)
    }

    /// Returns the probability that the event does not happen. More precise than `1.0 - probability()` for small
    /// values.
    pub fn loss(self) -> f64 {
        libm::exp(self.ln_complement)
    }

    /// Returns the natural logarithm of the probability.
    pub fn ln(self) -> f64 {
        self.ln
    }

    /// Returns the natural logarithm of the complement.
    pub fn ln_complement(self) -> f64 {
        self.ln_complement
    }

    /// Returns the chance that it does not happen, without loss of precision.
    pub fn complement(self) -> Chance {
        Chance { ln: self.ln_complement, ln_complement: self.ln }
    }

    /// Returns the chance that `count` independent events of this kind all happen.
    pub fn all_of(self, count: u32) -> Chance {
        if count == 0 {
            return Chance::ALWAYS;
        }
        let ln = f64::from(count) * self.ln;
        Chance { ln, ln_complement: ln_one_minus_exp(ln) }
    }

    /// Returns the chance that at least one of `count` independent events of this kind happens.
    pub fn any_of(self, count: u32) -> Chance {
        self.complement().all_of(count).complement()
    }

    /// Returns the chance that this event and an independent one both happen.
    pub fn and(self, other: Chance) -> Chance {
        let ln = self.ln + other.ln;
        Chance { ln, ln_complement: ln_one_minus_exp(ln) }
    }
}

/// Returns ln(1 - e^x) for x <= 0 without cancellation (Mächler 2012).
pub(crate) fn ln_one_minus_exp(x: f64) -> f64 {
    match x > -std::f64::consts::LN_2 {
        true => libm::log(-libm::expm1(x)),
        false => libm::log1p(-libm::exp(x)),
    }
}

/// Returns ln(e^a + e^b).
pub(crate) fn ln_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    match high == f64::NEG_INFINITY {
        true => high,
        false => high + libm::log1p(libm::exp(low - high)),
    }
}

/// Returns `count` times a logarithm; 0 for a count of 0, even if the logarithm is minus infinity.
pub(crate) fn times(count: usize, ln: f64) -> f64 {
    if count == 0 { 0.0 } else { count as f64 * ln }
}

/// Checks a probability given by a flag.
///
/// # Errors
/// If it is not between 0 and 1.
pub fn probability(flag: &str, value: f64) -> Result<(), Fault> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(Fault::new(flag, format!("{value} is no probability"), "set it between 0 and 1")),
    }
}
