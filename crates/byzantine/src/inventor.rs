//! Invented answers to every kind of question.
//!
//! What it invents fits together as far as it can: the state that it offers can be fetched, of the block that it says is decided it
//! has the bytes. So it is the checks of the one who asks that are tried, and not its patience.

use crate::behaviour::Context;
use crate::lie;
use crate::malleable::Malleable;
use quorate_consensus::journal::Standing;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{
    Attachment, Block, Bundle, BundleBuilder, Certificate, ClientId, Digest, Height, ReplicaId, Subject, View,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inventions of each kind that are remembered.
const KEPT: usize = 64;
/// The height of an invented state, as a multiple of the real one's: the height of every checkpoint is a multiple of the first one's.
const TIMES_AS_HIGH: u64 = 2;
/// An invented standing is so many views further on than the real one.
const VIEWS_AHEAD: u64 = 1000;
/// Who is said to have sent an invented command.
const NOBODY: ClientId = ClientId(0xdead);

/// What it has made up so far.
pub struct Inventor<M> {
    /// By the height of each state that there is not, the height of the one whose bytes it has.
    states: BTreeMap<Height, Height>,
    /// Which of them each replica fetches.
    fetching: BTreeMap<ReplicaId, Height>,
    /// By slot, the block that it says was decided.
    blocks: BTreeMap<Height, Arc<Block>>,
    /// What it will say next.
    answers: Vec<(ReplicaId, Envelope<M>)>,
}

impl<M> Default for Inventor<M> {
    fn default() -> Inventor<M> {
        Inventor { states: BTreeMap::new(), fetching: BTreeMap::new(), blocks: BTreeMap::new(), answers: Vec::new() }
    }
}

impl<M: Malleable> Inventor<M> {
    /// Hears a question that the replica inside has no answer to, or another one.
    pub fn hear(&mut self, context: &Context, input: &Input<M>) {
        let Input::Receive { from, message } = input else { return };
        match message {
            Envelope::Protocol(message) => {
                let Some(above) = message.asks_above().filter(|_| *from != context.me) else { return };
                let block = self.decided(context.me, above.next());
                let told = M::telling(above, vec![block.digest()]).map(Envelope::Protocol);
                self.answers.extend(told.map(|told| (*from, told)));
            }
            Envelope::FetchBlocks { digest, .. } => {
                let block = self.blocks.values().find(|block| block.digest() == *digest).cloned();
                self.answers.extend(block.map(|block| (*from, Envelope::Blocks(vec![block]))));
            }
            _ => {}
        }
    }

    fn decided(&mut self, me: ReplicaId, slot: Height) -> Arc<Block> {
        if self.blocks.len() == KEPT {
            self.blocks.pop_first();
        }
        self.blocks.entry(slot).or_insert_with(|| Block::of_slot(View(0), me, slot, Vec::new()).into()).clone()
    }

    /// What is said in place of a message; nothing if it is said as it is.
    pub fn instead(&mut self, context: &Context, to: To, message: &Envelope<M>) -> Option<Envelope<M>> {
        Some(match message {
            Envelope::Offer { checkpoint } => self.offer(context, to, checkpoint),
            Envelope::StatePart { height, part, bytes } => {
                let To::One(one) = to else { return None };
                let claimed = *self.fetching.get(&one).filter(|claimed| self.states.get(claimed) == Some(height))?;
                Envelope::StatePart { height: claimed, part: *part, bytes: bytes.clone() }
            }
            Envelope::Blocks(blocks) => Envelope::Blocks(blocks.iter().map(|block| other_block(block)).collect()),
            Envelope::Bundles(bundles) => Envelope::Bundles(bundles.iter().map(other_bundle).collect()),
            Envelope::Standing { nonce, standing } => {
                let further = |certificate: &Certificate| {
                    let view = View(certificate.view().0 + VIEWS_AHEAD);
                    let subject = Subject { view, ..certificate.subject };
                    let said = certificate.attachments.first().cloned().unwrap_or(Attachment::None);
                    lie::in_the_names_of_a_quorum(subject, said, context)
                };
                let certificates = standing.certificates.iter().map(further).collect();
                Envelope::Standing { nonce: *nonce, standing: Standing { certificates, votes: standing.votes.clone() } }
            }
            _ => return None,
        })
    }

    fn offer(&mut self, context: &Context, to: To, checkpoint: &Certificate) -> Envelope<M> {
        let real = checkpoint.subject.height;
        let claimed = Height(real.0.saturating_mul(TIMES_AS_HIGH));
        self.states.insert(claimed, real);
        if self.states.len() > KEPT {
            self.states.pop_first();
        }
        if let To::One(one) = to {
            self.fetching.insert(one, claimed);
        }
        let subject = Subject { height: claimed, ..checkpoint.subject };
        let checkpoint = Box::new(lie::in_the_names_of_a_quorum(subject, Attachment::None, context));
        Envelope::Offer { checkpoint }
    }

    /// Adds the answers that the replica inside has not got, and has the parts of states that there are not read from those that there
    /// are.
    pub fn act(&mut self, actions: &mut Vec<Action<M>>) {
        for action in actions.iter_mut() {
            if let Action::ReadState { height, .. } = action
                && let Some(real) = self.states.get(height)
            {
                *height = *real;
            }
        }
        let say = |(to, message)| Action::Send { to: To::One(to), message, after: None, sign: false };
        actions.extend(self.answers.drain(..).map(say));
    }
}

/// The block as it would be in the next view.
fn other_block(block: &Block) -> Arc<Block> {
    let (view, payload) = (block.view.next(), block.payload.clone());
    Block::new(view, block.author, block.justify.clone(), payload).into()
}

/// A bundle that nobody sent, as long-lived as this one.
fn other_bundle(bundle: &Bundle) -> Bundle {
    let mut builder = BundleBuilder::new(NOBODY, bundle.expires());
    let Digest(name) = bundle.digest();
    builder.push(NOBODY, 1, &name);
    builder.finish()
}
