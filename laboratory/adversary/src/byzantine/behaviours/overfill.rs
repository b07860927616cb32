//! The fault `overfill`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::collected::Collected;
use crate::byzantine::kind::{Exposure, Facts, Kind, Needs, number};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::Input;

/// `overfill`, `overfill=BUNDLES`: as a leader, adds this many bundles, by default 16, to each block that it proposes,
/// as far as it has further ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overfill {
    /// Bundles added to each block.
    pub bundles: u32,
}

impl Kind for Overfill {
    const FACTS: Facts = Facts { needs: Needs::Load, exposed_by: Exposure::Delays, ..Facts::lies("overfill") };
    const DEFAULT: Overfill = Overfill { bundles: 16 };

    fn parse(parameter: &str) -> Result<Overfill, String> {
        Ok(Overfill { bundles: number(parameter, 1)? as u32 })
    }

    fn parameter(&self) -> String {
        self.bundles.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Overfiller { bundles: self.bundles as usize, collected: Collected::default() }
    }
}

struct Overfiller {
    bundles: usize,
    collected: Collected,
}

impl<M: Malleable> Tactic<M> for Overfiller {
    fn hear(&mut self, input: &Input<M>, _: &Context) {
        self.collected.hear(input);
    }

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.propose_rival(sent, |message, _| self.collected.overfill(message, self.bundles));
    }
}
