//! The fault `forge-certificate`.

use crate::byzantine::kind::{Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// `forge-certificate`: presents certificates of blocks without votes, in the names of replicas that did not sign. If
/// timeouts limit the age of a certificate, it forges an aggregate of timeouts that permits an old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForgeCertificate;

impl Kind for ForgeCertificate {
    const FACTS: Facts = Facts { may_wait: true, ..Facts::lies("forge-certificate") };
    const DEFAULT: ForgeCertificate = ForgeCertificate;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for ForgeCertificate {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let lie = sent.said().and_then(|message| lie::forge(message, step.memory, &step.context));
        let lie = lie.filter(|_| step.seizes());
        step.replace(sent, lie);
    }
}
