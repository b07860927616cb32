//! A leader that censors some commands. It acknowledges them like an honest leader and orders all others at full speed,
//! so no view times out.

use crate::lie;
use crate::malleable::Malleable;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Bundle, Digest, ReplicaId};

/// A bundle is censored if the first byte of its digest is below this: one in eight.
const LEFT_OUT_BELOW: u8 = 32;

/// State of a censoring leader.
#[derive(Default)]
pub struct Censor {
    /// Most recent bundle that is not censored.
    other: Option<Bundle>,
    /// Acknowledgements to send, by recipient.
    owed: Vec<(ReplicaId, Digest)>,
}

fn is_left_out(bundle: &Digest) -> bool {
    bundle.0[0] < LEFT_OUT_BELOW
}

impl Censor {
    /// Observes bundles from clients and relays from peers.
    pub fn hear<M: Malleable>(&mut self, input: &Input<M>) {
        match input {
            Input::Submit { bundles, .. } => {
                let other = bundles.iter().rev().find(|bundle| !is_left_out(&bundle.digest()));
                self.other = other.or(self.other.as_ref()).cloned();
            }
            Input::Receive { from, message: Envelope::Relay(bundles) } => {
                let first = bundles.first().map(Bundle::digest).filter(is_left_out);
                self.owed.extend(first.map(|first| (*from, first)));
            }
            _ => {}
        }
    }

    /// Acknowledges the relayed bundles. The replica inside assumes that it has proposed them, and would not
    /// acknowledge them.
    pub fn acknowledge<M>(&mut self, actions: &mut Vec<Action<M>>) {
        let note = |(to, bundle)| {
            let message = Envelope::Noted { bundle };
            Action::Send { to: To::One(to), message, after: None, sign: false }
        };
        actions.extend(self.owed.drain(..).map(note));
    }

    /// Returns the proposal without the censored bundles. A slot that would be empty gets the latest uncensored bundle.
    pub fn pass_over<M: Malleable>(&self, message: &M) -> Option<M> {
        let (block, carried) = message.proposed()?;
        let mut payload: Vec<Digest> = block.payload.iter().copied().filter(|digest| !is_left_out(digest)).collect();
        if payload.len() == block.payload.len() {
            return None;
        }
        if payload.is_empty() && block.is_unlinked() {
            payload.push(self.other.as_ref()?.digest());
        }
        let carried = carried.iter().filter(|bundle| !is_left_out(&bundle.digest())).cloned().collect();
        let mut lie = message.clone();
        lie.propose(lie::with_payload(block, payload), carried);
        Some(lie)
    }
}
