//! A collector that keeps the certificate of a view to itself, so that the next view fails, and shows it to a single
//! replica once that one has timed out: the others cannot know it when they agree on how to go on.

use crate::behaviour::Context;
use crate::malleable::Malleable;
use quorate_consensus::seam::Purpose;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Certificate, Domain, ReplicaId, View};

/// Certificate that only this replica has, and the replicas to which it is shown.
#[derive(Default)]
pub struct Late {
    newest: Option<Certificate>,
    /// Last view in which it was shown.
    shown: View,
    owed: Vec<(ReplicaId, Certificate)>,
}

impl Late {
    /// Records certificates that the replica assembles, and timeouts of others.
    pub fn hear<M: Malleable>(&mut self, context: &Context, input: &Input<M>) {
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

    /// Returns whether a message shows the certificate that the replica keeps.
    pub fn is_shown_by<M: Malleable>(&self, message: &M) -> bool {
        message.certificates().iter().any(|(_, shown)| Some(*shown) == self.newest.as_ref())
    }

    /// Shows the certificate to the replicas that timed out first in their views.
    pub fn show<M: Malleable>(&mut self, actions: &mut Vec<Action<M>>) {
        for (to, certificate) in self.owed.drain(..) {
            let shown = M::showing(certificate, None).map(Envelope::Protocol);
            actions.extend(shown.map(|message| Action::Send { to: To::One(to), message, after: None, sign: false }));
        }
    }
}
