//! The fault `withhold-certificates`.

use crate::byzantine::kind::{Exposure, Facts, Kind};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};
use quorate_consensus::seam::Purpose;

/// `withhold-certificates`: sends a certificate only where a proposal or a timeout requires one. It announces no new
/// view, starts no later phase, sends no NEW-VIEW, and reports nothing as prepared in its VIEW-CHANGE. Yin et al.,
/// "HotStuff", PODC 2019, section 4.4, discusses a replica that hides the highest certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithholdCertificates;

impl Kind for WithholdCertificates {
    const FACTS: Facts = Facts { exposed_by: Exposure::Nothing, ..Facts::lies("withhold-certificates") };
    const DEFAULT: WithholdCertificates = WithholdCertificates;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for WithholdCertificates {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if !sent.is(Purpose::Certificate) {
            let lie = sent.said().and_then(lie::hide_prepared);
            step.replace(sent, lie);
        }
    }
}
