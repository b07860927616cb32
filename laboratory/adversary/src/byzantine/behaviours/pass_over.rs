//! The fault `pass-over`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Exposure, Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use quorate_consensus::{Envelope, Input, To};
use quorate_types::{Bundle, Digest, ReplicaId};

/// Threshold for the first byte of a bundle's digest, below which the bundle is censored: one in eight.
const LEFT_OUT_BELOW: u8 = 32;

/// `pass-over`: as a leader, acknowledges every relayed bundle, but never proposes one in eight (chosen by digest). It
/// orders all others at full speed, so no view times out. The timers of backups protect against this: Castro and
/// Liskov, "Practical Byzantine fault tolerance", OSDI 1999, section 4.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassOver;

impl Kind for PassOver {
    const FACTS: Facts = Facts { needs: Needs::Load, exposed_by: Exposure::Delays, ..Facts::lies("pass-over") };
    const DEFAULT: PassOver = PassOver;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Censor::default()
    }
}

#[derive(Default)]
struct Censor {
    /// Most recent bundle that is not censored.
    other: Option<Bundle>,
    /// Acknowledgements to send, by recipient.
    owed: Vec<(ReplicaId, Digest)>,
}

fn is_left_out(bundle: &Digest) -> bool {
    bundle.0[0] < LEFT_OUT_BELOW
}

impl<M: Malleable> Tactic<M> for Censor {
    fn hear(&mut self, input: &Input<M>, _: &Context) {
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

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        step.propose_rival(sent, |message, _| without_censored(message, self.other.as_ref()));
    }

    /// Acknowledges the relayed bundles. The wrapped replica assumes that it has proposed them, and would not
    /// acknowledge them.
    fn finish(&mut self, step: &mut Step<'_, M>) {
        let note = |(to, bundle)| unsigned(To::One(to), Envelope::Noted { bundle });
        step.out.extend(self.owed.drain(..).map(note));
    }
}

/// Returns the proposal without the censored bundles. A slot that would be empty gets another bundle.
fn without_censored<M: Malleable>(message: &M, other: Option<&Bundle>) -> Option<M> {
    let (block, carried) = message.proposed()?;
    let mut payload: Vec<Digest> = block.payload.iter().copied().filter(|digest| !is_left_out(digest)).collect();
    if payload.len() == block.payload.len() {
        return None;
    }
    if payload.is_empty() && block.is_unlinked() {
        payload.push(other?.digest());
    }
    let carried = carried.iter().filter(|bundle| !is_left_out(&bundle.digest())).cloned().collect();
    let mut lie = message.clone();
    lie.propose(lie::with_payload(block, payload), carried);
    Some(lie)
}
