//! Functions that modify a message. Each takes an honest message and returns its replacement, or `None` if the lie does
//! not apply or the required data is missing.

use crate::byzantine::behaviour::Context;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::memory::Memory;
use bytes::Bytes;
use quorate_consensus::recovery::transfer::Part;
use quorate_consensus::seam::{Purpose, Role};
use quorate_types::identity::ProofShape;
use quorate_types::{
    Attachment, Block, Bundle, Certificate, CoverNames, Digest, Domain, Height, ReplicaId, Signers, Subject, View, Vote,
};
use std::sync::Arc;

/// Byte that fills invalid signatures.
const NOT_A_SIGNATURE: u8 = 0xa5;
/// Age of the highest certificate in a forged aggregate, in certificates.
const FORGED_AGE: usize = 2;

/// Returns the proposal on its grandparent; with slots, for the previous slot.
pub fn fork<M: Malleable>(message: &M, memory: &Memory) -> Option<M> {
    let (block, bundles) = message.proposed()?;
    let mut lie = message.clone();
    if block.is_unlinked() {
        let slot = block.height.0.checked_sub(1).map(Height).filter(|slot| *slot > Height(0))?;
        let moved = Block::of_slot(block.view, block.author, slot, block.payload.clone(), block.time_ms);
        let block = moved.with_covers(block.covers().clone());
        lie.propose(block.into(), bundles.to_vec());
    } else {
        let base = memory.block(&block.parent())?.justify.clone();
        lie.show(&mut |role, shown| Some(if role == Role::Base { base.clone() } else { shown.clone() }));
    }
    Some(lie)
}

/// Returns the proposal on its grandparent, with the commands of the parent before its own. Slots have no parents to
/// skip.
pub fn barren<M: Malleable>(message: &M, memory: &Memory) -> Option<M> {
    let (block, bundles) = message.proposed().filter(|(block, _)| !block.is_unlinked())?;
    let mut payload = memory.block(&block.parent())?.payload.clone();
    payload.extend(block.payload.iter().copied().filter(|own| !payload.contains(own)).collect::<Vec<_>>());
    let mut lie = fork(message, memory)?;
    let moved = lie.proposed().map(|(block, _)| with_payload(block, payload))?;
    lie.propose(moved, bundles.to_vec());
    Some(lie)
}

/// Returns another valid proposal for the same position: with its commands in another order, or with other commands if
/// it has fewer than two.
pub fn rival<M: Malleable>(message: &M, memory: &Memory) -> Option<M> {
    let (block, bundles) = message.proposed()?;
    let mut payload = block.payload.clone();
    let mut carried = bundles.to_vec();
    if payload.len() > 1 {
        payload.reverse();
    } else if let Some(other) = memory.other_bundle(payload.first()) {
        payload = vec![other.digest()];
        carried = if bundles.is_empty() { Vec::new() } else { vec![Bundle::clone(other)] };
    } else if !payload.is_empty() && !block.is_unlinked() {
        (payload, carried) = (Vec::new(), Vec::new());
    } else {
        return None;
    }
    let mut lie = message.clone();
    lie.propose(with_payload(block, payload), carried);
    Some(lie)
}

/// Returns the block with other commands. Commands from the original block keep the certificates of their storage.
pub fn with_payload(block: &Block, payload: Vec<Digest>) -> Arc<Block> {
    let covers = CoverNames::new(payload.iter().map(|bundle| {
        let before = block.payload.iter().position(|known| known == bundle)?;
        block.covers().of(before).copied()
    }));
    Block::new(block.view, block.author, block.justify.clone(), payload, block.time_ms).with_covers(covers).into()
}

/// Returns the proposal with another time: that which `misdated` makes of its own.
pub fn misdate<M: Malleable>(message: &M, misdated: impl FnOnce(u64) -> u64) -> Option<M> {
    let (block, bundles) = message.proposed()?;
    let Block { view, author, justify, payload, time_ms, .. } = Block::clone(block);
    let other = Block::new(view, author, justify, payload, misdated(time_ms)).with_covers(block.covers().clone());
    let mut lie = message.clone();
    lie.propose(other.into(), bundles.to_vec());
    Some(lie)
}

/// Returns a vote for another block at the same position, or for a nonexistent one.
pub fn contradict<M: Malleable>(message: &M, memory: &Memory) -> Option<M> {
    let mut lie = message.clone();
    let vote = lie.vote_to_sign().filter(|_| message.purpose() == Purpose::Vote)?;
    vote.subject = match memory.rival(&vote.subject) {
        Some(block) => block.subject(vote.subject.domain),
        None => Subject { digest: invented(&vote.subject.digest), ..vote.subject },
    };
    Some(lie)
}

/// Returns the vote for the given block.
pub fn vote_for<M: Malleable>(message: &M, block: &Block) -> Option<M> {
    let mut lie = message.clone();
    let vote = lie.vote_to_sign().filter(|_| message.purpose() == Purpose::Vote)?;
    vote.subject = block.subject(vote.subject.domain);
    Some(lie)
}

/// Returns the message without its prepared certificates.
pub fn hide_prepared<M: Malleable>(message: &M) -> Option<M> {
    message.certificates().into_iter().find(|(role, _)| *role == Role::Prepared)?;
    let mut lie = message.clone();
    lie.show(&mut |role, shown| (role != Role::Prepared).then(|| shown.clone()));
    Some(lie)
}

/// Returns the message with genuine certificates that are `steps` certificates older.
pub fn show_stale<M: Malleable>(message: &M, memory: &Memory, steps: usize) -> Option<M> {
    let (mut lie, mut changed) = (message.clone(), false);
    lie.show(&mut |role, shown| {
        let older = match role {
            Role::Evidence => None,
            Role::Prepared => memory.older_of_slot(shown),
            Role::Base | Role::Phase | Role::Checkpoint => memory.older(shown, steps),
        };
        changed |= older.is_some();
        Some(older.unwrap_or(shown).clone())
    });
    changed.then_some(lie)
}

/// Returns the message with forged certificates. If an aggregate of timeouts limits the age of a certificate, forges an
/// aggregate that allows an older one, and includes that; otherwise forges certificates of nonexistent blocks.
pub fn forge<M: Malleable>(message: &M, memory: &Memory, context: &Context) -> Option<M> {
    let shown = message.certificates();
    let find = |wanted: Role| shown.iter().find(|(role, _)| *role == wanted).map(|(_, certificate)| *certificate);
    let aggregate = find(Role::Evidence).filter(|evidence| evidence.highest_attached_view().is_some());
    let older = find(Role::Base).and_then(|base| memory.older(base, FORGED_AGE));
    let mut lie = message.clone();
    if let (Some(_), Some(older)) = (aggregate, older) {
        lie.show(&mut |role, shown| {
            Some(match role {
                Role::Base => older.clone(),
                _ => forged_aggregate(shown, older),
            })
        });
        return Some(lie);
    }
    let view = message.view();
    let mut changed = false;
    lie.show(&mut |role, shown| {
        if role == Role::Evidence {
            return Some(shown.clone());
        }
        let of_view = match role {
            Role::Base => view.map_or(Some(shown.view().next()), |view| view.0.checked_sub(1).map(View)),
            _ => Some(shown.view()),
        };
        let forged = of_view.map(|view| forged_certificate(shown, view, context));
        changed |= forged.is_some();
        Some(forged.unwrap_or_else(|| shown.clone()))
    });
    changed.then_some(lie)
}

/// Returns a certificate of an invented block, in the names of the signers of `like`, or of a quorum.
fn forged_certificate(like: &Certificate, view: View, context: &Context) -> Certificate {
    let subject = Subject { view, digest: invented(&like.subject.digest), ..like.subject };
    let signers = match like.signers.is_empty() {
        true => (0..context.quorum.quorum() as u16).map(ReplicaId).collect(),
        false => like.signers,
    };
    let proof = not_signatures(context.shape.proof_bytes(signers.len()));
    Certificate { subject, signers, attachments: Vec::new(), proof }
}

/// Returns a forged certificate in the names of a quorum, all with the attachment `said`.
pub fn in_the_names_of_a_quorum(subject: Subject, said: Attachment, context: &Context) -> Certificate {
    let signers: Signers = (0..context.quorum.quorum() as u16).map(ReplicaId).collect();
    let attachments = if said == Attachment::None { Vec::new() } else { vec![said; signers.len()] };
    let proof = not_signatures(context.shape.proof_bytes(signers.len()));
    Certificate { subject, signers, attachments, proof }
}

/// Returns the VIEW-CHANGE with an additional claim: a nonexistent block was prepared in the previous view, in the slot
/// after the last reported one.
pub fn claim_prepared<M: Malleable>(message: &M, context: &Context) -> Option<M> {
    let view = View(message.view()?.0.checked_sub(1)?);
    let shown = message.certificates();
    let last = shown.iter().map(|(_, shown)| shown.subject).max_by_key(|subject| subject.height)?;
    let subject = Subject { domain: Domain::Prepare, view, height: last.height.next(), digest: invented(&last.digest) };
    let mut lie = message.clone();
    lie.claim_prepared(in_the_names_of_a_quorum(subject, Attachment::None, context)).then_some(lie)
}

/// Returns a forged aggregate whose signers report `highest` as their highest certificate.
fn forged_aggregate(like: &Certificate, highest: &Certificate) -> Certificate {
    let said = |attachment: &Attachment| match attachment {
        Attachment::HighCertificate(_) => Attachment::HighCertificate(Box::new(highest.clone())),
        _ => Attachment::HighView(highest.view()),
    };
    let attachments = like.attachments.iter().map(said).collect();
    Certificate { attachments, proof: not_signatures(like.proof.len()), ..like.clone() }
}

/// Returns the vote or timeout with an invalid signature, which the host must not replace with a valid one.
pub fn corrupt<M: Malleable>(message: &M, shape: ProofShape) -> Option<M> {
    let mut lie = message.clone();
    let share = matches!(message.purpose(), Purpose::Vote | Purpose::Timeout);
    let vote: &mut Vote = lie.vote_to_sign().filter(|_| share)?;
    vote.signature = not_signatures(shape.signature_bytes);
    Some(lie)
}

/// Returns a checkpoint vote for a nonexistent state.
pub fn contradict_checkpoint(vote: &Vote) -> Vote {
    Vote { subject: Subject { digest: invented(&vote.subject.digest), ..vote.subject }, ..vote.clone() }
}

/// Returns the checkpoint vote with an invalid signature, which the host must not replace with a valid one.
pub fn corrupt_vote(vote: &Vote, shape: ProofShape) -> Vote {
    Vote { signature: not_signatures(shape.signature_bytes), ..vote.clone() }
}

/// Returns a part of a state with one flipped bit, whose position depends on the part.
pub fn forge_part(part: Part, bytes: &Bytes) -> Bytes {
    let mut forged = bytes.to_vec();
    let at = part as usize % forged.len().max(1);
    forged.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (part % 8));
    forged.into()
}

/// Returns the message with its view increased by `by`.
pub fn inflate<M: Malleable>(message: &M, by: u64) -> Option<M> {
    let view = message.view()?;
    let mut lie = message.clone();
    lie.claim_view(View(view.0.saturating_add(by)));
    Some(lie)
}

/// Returns an invalid signature of this length. If genuine signatures are empty it has one byte, since an empty one
/// would be valid.
pub(crate) fn not_signatures(length: usize) -> Bytes {
    vec![NOT_A_SIGNATURE; length.max(1)].into()
}

/// Returns a digest without a preimage, derived from a real digest.
fn invented(digest: &Digest) -> Digest {
    Digest(digest.0.map(|byte| !byte))
}
