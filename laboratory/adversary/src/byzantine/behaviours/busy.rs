//! The fault `busy`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::Tactic;
use quorate_consensus::config::Dissemination;

/// `busy`: refuses every bundle of its clients as if it were overloaded, and is honest otherwise. A client that does
/// not turn to other replicas is censored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl Kind for Busy {
    const FACTS: Facts = Facts {
        needs: Needs::Load,
        dissemination: Dissemination::Replicas,
        exposed_by: Exposure::Refusals,
        ..Facts::omits("busy")
    };
    const DEFAULT: Busy = Busy;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Busy {
    fn refuses_clients(&self) -> bool {
        true
    }
}
