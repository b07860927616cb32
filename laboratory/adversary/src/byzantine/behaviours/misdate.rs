//! The fault `misdate`.

use crate::byzantine::kind::{Facts, Kind, Needs, number};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// `misdate`, `misdate=MS`: as a leader, gives its blocks times this many milliseconds ahead of its clock and behind
/// it, in turn, by default an hour. It would make applications expire entries too early or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misdate {
    /// Distance from the true time, in milliseconds.
    pub by_ms: u64,
}

impl Kind for Misdate {
    const FACTS: Facts = Facts { may_wait: true, needs: Needs::Clocks, ..Facts::lies("misdate") };
    const DEFAULT: Misdate = Misdate { by_ms: 3_600_000 };

    fn parse(parameter: &str) -> Result<Misdate, String> {
        Ok(Misdate { by_ms: number(parameter, 1)? })
    }

    fn parameter(&self) -> String {
        self.by_ms.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Misdating { by_ms: self.by_ms, lies: 0 }
    }
}

struct Misdating {
    by_ms: u64,
    lies: u64,
}

impl<M: Malleable> Tactic<M> for Misdating {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.propose_rival(sent, |message, _| {
            self.lies += 1;
            lie::misdate(message, |time_ms| match self.lies % 2 {
                1 => time_ms.saturating_add(self.by_ms),
                _ => time_ms.saturating_sub(self.by_ms),
            })
        });
    }
}
