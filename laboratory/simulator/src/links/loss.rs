//! Models of packet loss.

use crate::links::random::Random;
use serde::{Deserialize, Serialize};

/// Model of packet loss.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// Each packet independently.
    Independent { probability: f64 },
    /// In bursts (Gilbert 1960, Elliott 1963): a link is in a good or a bad state, which may change with each packet.
    Bursts {
        /// Probability of a change from good to bad.
        enter: f64,
        /// Probability of a change from bad to good.
        leave: f64,
        /// Probability of loss in the good state.
        good: f64,
        /// Probability of loss in the bad state.
        bad: f64,
    },
}

impl Default for Loss {
    fn default() -> Loss {
        Loss::Independent { probability: 0.0 }
    }
}

impl Loss {
    /// Returns whether it can lose packets.
    pub fn loses(&self) -> bool {
        match *self {
            Loss::Independent { probability } => probability > 0.0,
            Loss::Bursts { good, bad, .. } => good > 0.0 || bad > 0.0,
        }
    }
}

/// Loss of a link, with its current state.
#[derive(Clone, Copy, Debug)]
pub struct LossProcess {
    loss: Loss,
    is_bad: bool,
}

impl LossProcess {
    /// Returns a process that begins in the good state.
    pub fn new(loss: Loss) -> LossProcess {
        LossProcess { loss, is_bad: false }
    }

    /// Replaces the model; the state remains.
    pub fn set(&mut self, loss: Loss) {
        self.loss = loss;
    }

    /// Draws whether all of the next `packets` packets arrive.
    pub fn passes(&mut self, random: &mut Random, packets: u64) -> bool {
        let mut passed = true;
        for _ in 0..packets {
            match self.loss {
                Loss::Independent { probability } => passed &= !random.chance(probability),
                Loss::Bursts { enter, leave, good, bad } => {
                    let change = if self.is_bad { leave } else { enter };
                    self.is_bad ^= random.chance(change);
                    passed &= !random.chance(if self.is_bad { bad } else { good });
                }
            }
        }
        passed
    }
}
