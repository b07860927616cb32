//! The fault `flood-relays`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::collected::Collected;
use crate::byzantine::kind::{Facts, Kind, Needs, number};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Step, Tactic};
use quorate_consensus::Input;

/// `flood-relays`, `flood-relays=BUNDLES`: relays every client bundle to all others immediately, and after each of its
/// own messages this many earlier bundles, by default 16, even executed ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloodRelays {
    /// Earlier bundles relayed after each message.
    pub bundles: u32,
}

impl Kind for FloodRelays {
    const FACTS: Facts = Facts { needs: Needs::Load, ..Facts::omits("flood-relays") };
    const DEFAULT: FloodRelays = FloodRelays { bundles: 16 };

    fn parse(parameter: &str) -> Result<FloodRelays, String> {
        Ok(FloodRelays { bundles: number(parameter, 0)? as u32 })
    }

    fn parameter(&self) -> String {
        self.bundles.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Flooder { bundles: self.bundles as usize, collected: Collected::default() }
    }
}

struct Flooder {
    bundles: usize,
    collected: Collected,
}

impl<M: Malleable> Tactic<M> for Flooder {
    fn hear(&mut self, input: &Input<M>, _: &Context) {
        self.collected.hear(input);
    }

    fn finish(&mut self, step: &mut Step<'_, M>) {
        self.collected.flood(self.bundles, step.out);
    }
}
