//! The fault `invent-answers`.

use crate::byzantine::behaviour::Context;
use crate::byzantine::kind::{Facts, Kind, Needs};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use quorate_consensus::recovery::journal::Standing;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{
    Attachment, Block, Bundle, BundleBuilder, Certificate, ClientId, Digest, Height, ReplicaId, Subject, View,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of inventions of each kind to keep.
const MAX_KEPT: usize = 64;
/// Ratio of an invented state's height to a real one's. Checkpoint heights are multiples of the first one.
const TIMES_AS_HIGH: u64 = 2;
/// Lead of an invented view over the real one.
const VIEWS_AHEAD: u64 = 1000;
/// Origin of invented commands.
const NOBODY: ClientId = ClientId(0xdead);

/// `invent-answers`: answers every request with invented data: the state of a nonexistent checkpoint, with bytes that
/// can be fetched; other blocks and bundles; a view far ahead; under PBFT a block that was not decided. This is why
/// Castro and Liskov, "Practical Byzantine fault tolerance", OSDI 1999, section 4.4, require f+1 matching answers.
///
/// The inventions are as consistent as possible: an offered state can be fetched, and an allegedly decided block comes
/// with its bytes. They test the recipient's checks, not its timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InventAnswers;

impl Kind for InventAnswers {
    const FACTS: Facts = Facts { needs: Needs::Questions, ..Facts::lies("invent-answers") };
    const DEFAULT: InventAnswers = InventAnswers;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Inventor { states: BTreeMap::new(), fetching: BTreeMap::new(), blocks: BTreeMap::new(), answers: Vec::new() }
    }
}

struct Inventor<M> {
    /// Maps the height of each invented state to the height of the real state whose bytes it uses.
    states: BTreeMap<Height, Height>,
    /// Invented state that each replica is fetching.
    fetching: BTreeMap<ReplicaId, Height>,
    /// Invented decided blocks, by slot.
    blocks: BTreeMap<Height, Arc<Block>>,
    /// Answers to send next.
    answers: Vec<(ReplicaId, Envelope<M>)>,
}

impl<M: Malleable> Inventor<M> {
    fn decided(&mut self, me: ReplicaId, slot: Height) -> Arc<Block> {
        if self.blocks.len() == MAX_KEPT {
            self.blocks.pop_first();
        }
        self.blocks.entry(slot).or_insert_with(|| Block::of_slot(View(0), me, slot, Vec::new(), 0).into()).clone()
    }

    /// Returns the replacement of a message, or `None` to send it unchanged.
    fn instead(&mut self, context: &Context, to: To, message: &Envelope<M>) -> Option<Envelope<M>> {
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
        if self.states.len() > MAX_KEPT {
            self.states.pop_first();
        }
        if let To::One(one) = to {
            self.fetching.insert(one, claimed);
        }
        let subject = Subject { height: claimed, ..checkpoint.subject };
        let checkpoint = Box::new(lie::in_the_names_of_a_quorum(subject, Attachment::None, context));
        Envelope::Offer { checkpoint }
    }
}

impl<M: Malleable> Tactic<M> for Inventor<M> {
    /// Observes a request, and queues an invented answer if the wrapped replica has none or would answer differently.
    fn hear(&mut self, input: &Input<M>, context: &Context) {
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

    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let instead = self.instead(&step.context, sent.to, &sent.message);
        step.pass(instead.map_or(sent.clone(), |message| Sent { message, ..sent }));
    }

    /// Appends the queued answers, and redirects reads of invented states to real states.
    fn finish(&mut self, step: &mut Step<'_, M>) {
        for action in step.out.iter_mut() {
            if let Action::ReadState { height, .. } = action
                && let Some(real) = self.states.get(height)
            {
                *height = *real;
            }
        }
        step.out.extend(self.answers.drain(..).map(|(to, message)| unsigned(To::One(to), message)));
    }
}

/// Returns the same block in the next view.
fn other_block(block: &Block) -> Arc<Block> {
    let (view, payload) = (block.view.next(), block.payload.clone());
    let other = Block::new(view, block.author, block.justify.clone(), payload, block.time_ms);
    other.with_covers(block.covers().clone()).into()
}

/// Returns an invented bundle with the same expiry as this one.
fn other_bundle(bundle: &Bundle) -> Bundle {
    let mut builder = BundleBuilder::new(NOBODY, bundle.expires());
    let Digest(name) = bundle.digest();
    builder.push(NOBODY, 1, &name);
    builder.finish()
}
