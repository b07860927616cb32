//! The fault `show-late`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use quorate_consensus::seam::Purpose;
use quorate_consensus::{Envelope, Input, To};
use quorate_types::{Certificate, Domain, ReplicaId, View};

/// `show-late`: keeps each certificate that it assembles to itself, reports an older one in its timeouts and proposes
/// nothing on it, so that the next view fails. It then presents the certificate to a single replica, the first one that
/// times out of a later view, so that the others cannot know it when they agree on how to continue. Yin et al., PODC
/// 2019, section 4.4, discusses a certificate that only some replicas know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShowLate;

impl Kind for ShowLate {
    const FACTS: Facts = Facts { needs: Needs::Inputs, exposed_by: Exposure::Delays, ..Facts::lies("show-late") };
    const DEFAULT: ShowLate = ShowLate;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Late::default()
    }
}

#[derive(Default)]
struct Late {
    /// Certificate that only this replica has.
    newest: Option<Certificate>,
    /// Last view in which it was presented.
    shown: View,
    /// Replicas to which to present a certificate.
    owed: Vec<(ReplicaId, Certificate)>,
}

impl Late {
    /// Returns whether a message contains the certificate that the replica hides.
    fn is_shown_by<M: Malleable>(&self, message: &M) -> bool {
        message.certificates().iter().any(|(_, shown)| Some(*shown) == self.newest.as_ref())
    }
}

impl<M: Malleable> Tactic<M> for Late {
    fn hear(&mut self, input: &Input<M>, context: &Context) {
        match input {
            Input::Assembled { result: Ok(certificate), .. } => {
                let of_block =
                    !matches!(certificate.subject.domain, Domain::Timeout | Domain::Checkpoint | Domain::Stored);
                if of_block && self.newest.as_ref().is_none_or(|newest| newest.view() < certificate.view()) {
                    self.newest = Some(certificate.clone());
                }
            }
            Input::Receive { from, message: Envelope::Protocol(message) } if *from != context.me => {
                let view = message.view().filter(|_| message.purpose() == Purpose::Timeout);
                let kept = self.newest.as_ref().filter(|newest| view.is_some_and(|view| newest.view() < view));
                if let (Some(view), Some(kept)) = (view.filter(|view| *view > self.shown), kept) {
                    self.shown = view;
                    self.owed.push((*from, kept.clone()));
                }
            }
            _ => {}
        }
    }

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let Some(message) = sent.said().filter(|message| self.is_shown_by(*message)) else { return step.pass(sent) };
        let older = match message.purpose() {
            Purpose::Timeout => lie::show_stale(message, step.memory, 1).or_else(|| lie::hide_prepared(message)),
            _ => None,
        };
        step.out.extend(older.map(|lie| sent.saying(lie).action()));
    }

    fn finish(&mut self, step: &mut Step<'_, M>) {
        for (to, certificate) in self.owed.drain(..) {
            let shown = M::showing(certificate, None).map(Envelope::Protocol);
            step.out.extend(shown.map(|message| unsigned(To::One(to), message)));
        }
    }
}
