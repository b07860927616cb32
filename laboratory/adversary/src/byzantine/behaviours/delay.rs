//! The fault `delay`.

use crate::byzantine::kind::{Exposure, Facts, Kind, Needs, number};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use std::time::Duration;

/// `delay`, `delay=MILLISECONDS`: delays each message, by default by 20 ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// Delay in milliseconds.
    pub ms: u64,
}

impl Kind for Delay {
    const FACTS: Facts = Facts { needs: Needs::Time, exposed_by: Exposure::Delays, ..Facts::omits("delay") };
    const DEFAULT: Delay = Delay { ms: 20 };

    fn parse(parameter: &str) -> Result<Delay, String> {
        Ok(Delay { ms: number(parameter, 0)? })
    }

    fn parameter(&self) -> String {
        self.ms.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Delay {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.hold(step.now + Duration::from_millis(self.ms), sent.action());
    }
}
