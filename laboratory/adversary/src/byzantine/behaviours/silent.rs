//! The fault `silent`.

use crate::byzantine::kind::{Exposure, Facts, Kind};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// `silent`: sends nothing and does not answer clients, but receives and executes. Like the silent leader of Gogada et
/// al., "An extensible framework", ApPLIED 2023, section 5.2.2, but it does not vote either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silent;

impl Kind for Silent {
    const FACTS: Facts = Facts { exposed_by: Exposure::Delays, ..Facts::omits("silent") };
    const DEFAULT: Silent = Silent;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Silent {
    fn send(&mut self, _: Sent<M>, _: &mut Step<'_, M>) {}

    fn ignores_clients(&self) -> bool {
        true
    }
}
