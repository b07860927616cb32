//! The fault `selective`.

use crate::byzantine::kind::{Exposure, Facts, Kind, replica};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_types::Signers;

/// `selective`, `selective=R+R`: sends nothing to these replicas; by default, to the next f replicas in ring order.
/// Bano et al., OPODIS 2021, section 4: partitions by sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selective {
    /// Replicas that receive nothing. Empty means the default.
    pub deaf: Signers,
}

impl Kind for Selective {
    const FACTS: Facts = Facts { exposed_by: Exposure::Delays, ..Facts::omits("selective") };
    const DEFAULT: Selective = Selective { deaf: Signers::empty() };

    fn parse(parameter: &str) -> Result<Selective, String> {
        Ok(Selective { deaf: parameter.split('+').map(replica).collect::<Result<Signers, String>>()? })
    }

    fn parameter(&self) -> String {
        let deaf: Vec<String> = self.deaf.iter().map(|replica| replica.to_string()).collect();
        deaf.join("+")
    }

    fn named(&self) -> Signers {
        self.deaf
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Selective {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let context = step.context;
        let deaf = match self.deaf.is_empty() {
            true => context.others().take(context.quorum.faults()).collect(),
            false => self.deaf,
        };
        step.pass_to(context.others().filter(|replica| !deaf.contains(*replica)), &sent);
    }
}
