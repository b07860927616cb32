//! The fault `stale-certificate`.

use crate::byzantine::kind::{Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// Ages of the certificates that it cycles through, in certificates.
const STEPS: std::ops::RangeInclusive<u64> = 2..=8;

/// `stale-certificate`: extends, presents and reports certificates that are two to eight older than the highest. Locks
/// and the highest certificate in a timeout protect against this: Yin et al., PODC 2019, section 4.4; Gelashvili et
/// al., "Jolteon and Ditto", FC 2022, figure 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaleCertificate;

impl Kind for StaleCertificate {
    const FACTS: Facts = Facts { may_wait: true, ..Facts::lies("stale-certificate") };
    const DEFAULT: StaleCertificate = StaleCertificate;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Stale { messages: 0 }
    }
}

struct Stale {
    /// Number of messages so far.
    messages: u64,
}

impl<M: Malleable> Tactic<M> for Stale {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let Some(message) = sent.said() else { return step.pass(sent) };
        self.messages += 1;
        let steps = STEPS.start() + self.messages % (STEPS.end() - STEPS.start() + 1);
        let lie = lie::show_stale(message, step.memory, steps as usize).filter(|_| step.seizes());
        step.replace(sent, lie);
    }
}
