//! The fault `slow`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs, number};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::seam::Purpose;

/// `slow`, `slow=PERCENT`: delays its proposals by a percentage of the base view timeout, by default 80 %, so that its
/// views narrowly avoid a timeout. Amir et al., "Byzantine replication under attack", DSN 2008, section 3; Clement et
/// al., "Making Byzantine fault tolerant systems tolerate Byzantine faults", NSDI 2009 (Aardvark).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slow {
    /// Percentage of the base view timeout.
    pub percent: u32,
}

impl Kind for Slow {
    const FACTS: Facts = Facts { needs: Needs::Time, exposed_by: Exposure::Delays, ..Facts::omits("slow") };
    const DEFAULT: Slow = Slow { percent: 80 };

    fn parse(parameter: &str) -> Result<Slow, String> {
        Ok(Slow { percent: number(parameter, 0)? as u32 })
    }

    fn parameter(&self) -> String {
        self.percent.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Slow {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        match sent.is(Purpose::Proposal) {
            true => step.hold(step.now + step.context.view_timeout * self.percent / 100, sent.action()),
            false => step.pass(sent),
        }
    }
}
