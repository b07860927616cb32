//! Decides which replica receives which message of a misbehaving replica.
//!
//! Messages of a replica to itself are left alone: they are part of its operation, and no other replica sees them. The
//! replica inside therefore stays honest and consistent, independently of the messages to others. It may hear of blocks
//! that were invented in its name, and gets them as soon as it requests them.

use crate::assembler::Assembler;
use crate::availability;
use crate::behaviour::{Behaviour, Context};
use crate::censor::Censor;
use crate::collected::Collected;
use crate::fault::{Fault, Misbehaviour};
use crate::hoarder::{Hoarder, Instead};
use crate::inventor::Inventor;
use crate::late::Late;
use crate::lie;
use crate::malleable::Malleable;
use crate::memory::Memory;
use crate::times::Times;
use quorate_consensus::seam::Purpose;
use quorate_consensus::seam::{MAX_FETCHED_BLOCKS, RecordId};
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Block, Digest, Height, ReplicaId, Signers, Time, Vote};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Number of invented proposals to keep, since others may request them or vote for them.
const MAX_MADE_UP_KEPT: usize = 64;
/// Messages to keep for replay.
const MAX_REPEATED_KEPT: usize = 64;
/// Range of ages of stale certificates, in certificates, which the wrapper cycles through.
const STALE_STEPS: std::ops::RangeInclusive<u64> = 2..=8;

/// A message on its way to others.
#[derive(Clone)]
struct Sent<M> {
    to: To,
    message: Envelope<M>,
    after: Option<RecordId>,
    sign: bool,
}

impl<M> Sent<M> {
    fn action(self) -> Action<M> {
        let Sent { to, message, after, sign } = self;
        Action::Send { to, message, after, sign }
    }

    fn saying(&self, message: M) -> Sent<M>
    where
        M: Clone,
    {
        Sent { message: Envelope::Protocol(message), ..self.clone() }
    }
}

impl Misbehaviour {
    /// Returns the behaviour, boxed for a host.
    pub fn behaviour<M: Malleable>(self, context: Context) -> Box<dyn Behaviour<M>> {
        Box::new(Wrapper::new(self, context))
    }
}

/// The behaviour of a replica with one fault.
pub struct Wrapper<M> {
    fault: Fault,
    times: Times,
    context: Context,
    memory: Memory,
    /// Delayed actions, in order of time.
    held: VecDeque<(Time, Action<M>)>,
    /// Invented proposals, by the digest of the honest proposal that they replace or accompany.
    made_up: VecDeque<(Digest, M)>,
    /// Messages to replay. The flag is true for the replica's own messages, which need a signature.
    repeated: VecDeque<(M, bool)>,
    /// Last state offered to each replica.
    offered: BTreeMap<ReplicaId, Envelope<M>>,
    assembler: Assembler<M>,
    inventor: Inventor<M>,
    censor: Censor,
    collected: Collected,
    hoarder: Hoarder,
    late: Late,
    lies: u64,
    /// Number of opportunities to lie that are still to be skipped.
    patience: u32,
}

impl<M: Malleable> Wrapper<M> {
    /// Returns a wrapper that is honest while the misbehaviour is not active.
    pub fn new(misbehaviour: Misbehaviour, context: Context) -> Wrapper<M> {
        let (fault, patience) = match misbehaviour.fault {
            Fault::Later { lie, chance } => (lie.fault(), chance - 1),
            fault => (fault, 0),
        };
        Wrapper {
            fault,
            patience,
            assembler: Assembler::default(),
            inventor: Inventor::default(),
            censor: Censor::default(),
            collected: Collected::default(),
            hoarder: Hoarder::default(),
            late: Late::default(),
            times: misbehaviour.times,
            context,
            memory: Memory::default(),
            held: VecDeque::new(),
            made_up: VecDeque::new(),
            repeated: VecDeque::new(),
            offered: BTreeMap::new(),
            lies: 0,
        }
    }

    /// Applies the fault to a message for others.
    fn misbehave(&mut self, now: Time, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        let fault = self.fault;
        let purpose = match &sent.message {
            Envelope::Protocol(message) => Some(message.purpose()),
            Envelope::Checkpoint(_) => Some(Purpose::Vote),
            _ => None,
        };
        match fault {
            Fault::Silent => {}
            Fault::Slow { percent } if purpose == Some(Purpose::Proposal) => {
                let until = now + self.context.view_timeout * percent / 100;
                self.held.push_back((until, sent.action()));
            }
            Fault::Delay { ms } => self.held.push_back((now + Duration::from_millis(ms), sent.action())),
            Fault::WithholdVotes if purpose == Some(Purpose::Vote) => {}
            // An own block would help the replicas that its certificates have stalled.
            Fault::AssembleCertificate { .. } if purpose == Some(Purpose::Proposal) => {}
            Fault::WithholdCertificates if purpose == Some(Purpose::Certificate) => {}
            Fault::WithholdAnswers if is_answer(&sent.message) => {}
            Fault::InventAnswers => {
                let instead = self.inventor.instead(&self.context, sent.to, &sent.message);
                out.push(instead.map_or(sent.clone(), |message| Sent { message, ..sent }).action());
            }
            Fault::Selective { deaf } => self.select(deaf, sent, out),
            Fault::WithholdBundles if matches!(sent.message, Envelope::Spread(_) | Envelope::Relay(_)) => {}
            Fault::SpreadToOne { recipient } if matches!(sent.message, Envelope::Spread(_)) => {
                let one = recipient.or_else(|| self.context.others().next());
                out.extend(one.map(|one| Sent { to: To::One(one), ..sent }.action()));
            }
            Fault::WithholdAcknowledgements if matches!(sent.message, Envelope::Stored(_)) => {}
            Fault::ForgeAcknowledgements | Fault::EquivocateBatches => {
                match availability::instead(&self.context, fault, sent.to, &sent.message) {
                    Some(lies) => out.extend(lies.into_iter().map(|(to, message)| Action::Send {
                        to,
                        message,
                        after: sent.after,
                        sign: false,
                    })),
                    None => out.push(sent.action()),
                }
            }
            Fault::HoardCertificates => {
                let Instead { before, sends, later } = self.hoarder.instead(&self.context, now, &sent.message);
                out.extend(before);
                out.extend(sends.then(|| sent.action()));
                later.into_iter().for_each(|(due, action)| self.hold(due, action));
            }
            Fault::ShowLate => self.keep_back(sent, out),
            Fault::RepeatOffers => self.repeat_offers(sent, out),
            Fault::Pester { questions } => self.pester(questions, sent, out),
            _ => match &sent.message {
                Envelope::Protocol(message) => self.lie(&message.clone(), sent, out),
                Envelope::Checkpoint(vote) => self.lie_of_checkpoint(&vote.clone(), sent, out),
                Envelope::StatePart { height, part, bytes } => match fault {
                    Fault::StallState => {}
                    Fault::ForgeState if self.seizes() => {
                        let (height, part, bytes) = (*height, *part, lie::forge_part(*part, bytes));
                        out.push(Sent { message: Envelope::StatePart { height, part, bytes }, ..sent }.action());
                    }
                    _ => out.push(sent.action()),
                },
                _ => out.push(sent.action()),
            },
        }
    }

    /// Sends a message unless it shows the certificate that only this replica has. Timeouts show an older one.
    fn keep_back(&mut self, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        match &sent.message {
            Envelope::Protocol(message) if self.late.is_shown_by(message) => {
                let older = match message.purpose() {
                    Purpose::Timeout => {
                        lie::show_stale(message, &self.memory, 1).or_else(|| lie::hide_prepared(message))
                    }
                    _ => None,
                };
                out.extend(older.map(|lie| sent.saying(lie).action()));
            }
            _ => out.push(sent.action()),
        }
    }

    /// Keeps an action until it is due.
    fn hold(&mut self, due: Time, action: Action<M>) {
        let at = self.held.partition_point(|(earlier, _)| *earlier <= due);
        self.held.insert(at, (due, action));
    }

    /// Returns whether to take this opportunity to lie.
    fn seizes(&mut self) -> bool {
        let waits = self.patience > 0;
        self.patience -= u32::from(waits);
        !waits
    }

    fn lie_of_checkpoint(&mut self, vote: &Vote, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        let saying =
            |vote: Vote, sign: bool| Sent { message: Envelope::Checkpoint(vote), sign, ..sent.clone() }.action();
        let fault = self.fault;
        match fault {
            Fault::DoubleVote if self.seizes() => {
                out.extend([vote.clone(), lie::contradict_checkpoint(vote)].map(|vote| saying(vote, true)))
            }
            Fault::CorruptShare if self.seizes() => {
                out.push(saying(lie::corrupt_vote(vote, self.context.shape), false))
            }
            _ => out.push(sent.action()),
        }
    }

    fn pester(&mut self, questions: u32, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        let view = if let Envelope::Protocol(message) = &sent.message { message.view() } else { None };
        let decided = view.and_then(M::asking).map(Envelope::Protocol);
        let last = self.memory.last_block();
        let blocks =
            last.map(|digest| Envelope::FetchBlocks { digest, above: Height(0), most: MAX_FETCHED_BLOCKS as u16 });
        out.push(sent.action());
        for message in (0..questions).flat_map(|_| decided.iter().chain(&blocks)) {
            out.push(Action::Send { to: To::Others, message: message.clone(), after: None, sign: false });
        }
    }

    fn repeat_offers(&mut self, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        if let (To::One(one), Envelope::Offer { .. }) = (sent.to, &sent.message) {
            self.offered.insert(one, sent.message.clone());
        }
        let again = self.offered.iter().filter(|(one, _)| sent.to == To::Others || sent.to == To::One(**one));
        let again = again.map(|(one, offer)| (To::One(*one), offer.clone()));
        let again: Vec<_> = again.map(|(to, message)| Action::Send { to, message, after: None, sign: false }).collect();
        out.push(sent.action());
        out.extend(again);
    }

    fn lie(&mut self, message: &M, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        self.lies += 1;
        let instead = match self.fault {
            Fault::Replay => return self.replay(message, sent, out),
            Fault::Equivocate => return self.equivocate(message, sent, out),
            Fault::DoubleVote => {
                let second = lie::contradict(message, &self.memory).filter(|_| self.seizes());
                let second = second.map(|lie| sent.saying(lie));
                out.push(sent.action());
                return out.extend(second.map(Sent::action));
            }
            Fault::Fork => self.proposal_instead(message, lie::fork).or_else(|| self.vote_instead(message)),
            Fault::PassOver => self.without_the_victim(message).or_else(|| self.vote_instead(message)),
            Fault::Overfill { bundles } => self.overfilled(message, bundles).or_else(|| self.vote_instead(message)),
            Fault::Barren => self.proposal_instead(message, lie::barren).or_else(|| self.vote_instead(message)),
            Fault::WithholdCertificates => lie::hide_prepared(message),
            Fault::StaleCertificate => {
                let (least, most) = (*STALE_STEPS.start(), *STALE_STEPS.end());
                let steps = least + self.lies % (most - least + 1);
                lie::show_stale(message, &self.memory, steps as usize)
            }
            Fault::ForgeCertificate => lie::forge(message, &self.memory, &self.context),
            Fault::CorruptShare if sent.sign => {
                let Some(lie) = lie::corrupt(message, self.context.shape).filter(|_| self.seizes()) else {
                    return out.push(sent.action());
                };
                return out.push(Sent { sign: false, ..sent.saying(lie) }.action());
            }
            Fault::InflateView { by } => lie::inflate(message, by),
            Fault::ForgeEvidence => lie::claim_prepared(message, &self.context),
            _ => None,
        };
        let waits = matches!(self.fault, Fault::StaleCertificate | Fault::ForgeCertificate);
        let instead = instead.filter(|_| !waits || self.seizes());
        out.push(instead.map_or(sent.clone(), |lie| sent.saying(lie)).action());
    }

    /// Returns the invented rival of a proposal, which the first call creates.
    fn proposal_instead(&mut self, message: &M, make: fn(&M, &Memory) -> Option<M>) -> Option<M> {
        self.made_up_before(message).or_else(|| {
            let lie = make(message, &self.memory).filter(|_| self.seizes())?;
            self.make_up(message, lie)
        })
    }

    fn without_the_victim(&mut self, message: &M) -> Option<M> {
        self.made_up_before(message).or_else(|| {
            let lie = self.censor.pass_over(message)?;
            self.make_up(message, lie)
        })
    }

    fn overfilled(&mut self, message: &M, bundles: u32) -> Option<M> {
        self.made_up_before(message).or_else(|| {
            let lie = self.collected.overfill(message, bundles as usize)?;
            self.make_up(message, lie)
        })
    }

    fn made_up_before(&self, message: &M) -> Option<M> {
        let honest = message.proposed()?.0.digest();
        self.made_up.iter().find(|(digest, _)| *digest == honest).map(|(_, lie)| lie.clone())
    }

    fn make_up(&mut self, message: &M, lie: M) -> Option<M> {
        let honest = message.proposed()?.0.digest();
        self.memory.read(&Envelope::Protocol(lie.clone()));
        if self.made_up.len() == MAX_MADE_UP_KEPT {
            self.made_up.pop_front();
        }
        self.made_up.push_back((honest, lie.clone()));
        Some(lie)
    }

    /// Returns a vote for the invented rival of the block that this vote is for.
    fn vote_instead(&self, message: &M) -> Option<M> {
        let honest = message.clone().vote_to_sign()?.subject.digest;
        let (_, lie) = self.made_up.iter().find(|(digest, _)| *digest == honest)?;
        lie::vote_for(message, lie.proposed()?.0)
    }

    /// Sends the honest proposal to one group of the others and a rival to another; replicas in both groups receive
    /// both. The vote collector gets a vote for each.
    fn equivocate(&mut self, message: &M, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        let second_vote = self.vote_instead(message).map(|lie| sent.saying(lie));
        let rival = self.proposal_instead(message, lie::rival).map(|lie| sent.saying(lie));
        let Some(rival) = rival else {
            out.push(sent.action());
            return out.extend(second_vote.map(Sent::action));
        };
        let others: Vec<ReplicaId> = self.context.others().collect();
        let half = (self.context.quorum.quorum() - 1).min(others.len());
        for (part, sent) in [(&others[..half], &sent), (&others[others.len() - half..], &rival)] {
            let hears = |replica: &ReplicaId| sent.to == To::Others || sent.to == To::One(*replica);
            out.extend(
                part.iter().copied().filter(hears).map(|one| Sent { to: To::One(one), ..sent.clone() }.action()),
            );
        }
    }

    fn replay(&mut self, message: &M, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        let old = self.repeated.front().cloned();
        self.repeated.rotate_left(self.repeated.len().min(1));
        self.remember(message.clone(), sent.sign);
        let again = old.map(|(message, sign)| Sent { after: None, sign, ..sent.saying(message) });
        out.push(sent.action());
        out.extend(again.map(Sent::action));
    }

    fn remember(&mut self, message: M, own: bool) {
        if self.repeated.len() == MAX_REPEATED_KEPT {
            self.repeated.pop_front();
        }
        self.repeated.push_back((message, own));
    }

    fn select(&mut self, deaf: Signers, sent: Sent<M>, out: &mut Vec<Action<M>>) {
        let deaf = match deaf.is_empty() {
            true => self.context.others().take(self.context.quorum.faults()).collect(),
            false => deaf,
        };
        let hears = |replica: &ReplicaId| sent.to == To::Others || sent.to == To::One(*replica);
        let hearing = self.context.others().filter(|replica| !deaf.contains(*replica)).filter(hears);
        out.extend(hearing.map(|one| Sent { to: To::One(one), ..sent.clone() }.action()));
    }

    /// Adds invented answers to the actions of the replica.
    fn add_inventions(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        match self.fault {
            _ if !self.times.include(now) => {}
            Fault::InventAnswers => self.inventor.act(actions),
            Fault::PassOver => self.censor.acknowledge(actions),
            Fault::ShowLate => self.late.show(actions),
            Fault::FloodRelays { bundles } => self.collected.flood(bundles as usize, actions),
            Fault::AssembleCertificate { views } => self.assembler.assemble(&self.context, views, actions),
            Fault::ForgeEvidence => {
                let said = actions.iter().filter_map(|action| match action {
                    Action::Send { message: Envelope::Protocol(message), .. } => message.view(),
                    _ => None,
                });
                if let Some(view) = said.max() {
                    self.assembler.forge(&self.context, view, actions);
                }
            }
            _ => {}
        }
    }

    /// Returns the block that was invented in the replica's name, if the replica requests it.
    fn own_lie(&self, wanted: &Envelope<M>) -> Option<Arc<Block>> {
        let Envelope::FetchBlocks { digest, .. } = wanted else { return None };
        let blocks = self.made_up.iter().filter_map(|(_, lie)| lie.proposed());
        blocks.map(|(block, _)| block).find(|block| block.digest() == *digest).cloned()
    }
}

impl<M: Malleable> Behaviour<M> for Wrapper<M> {
    fn observe(&mut self, input: &Input<M>) {
        self.memory.hear(input);
        if let Fault::AssembleCertificate { .. } | Fault::ForgeEvidence = self.fault {
            self.assembler.hear(&self.context, input);
        }
        match self.fault {
            Fault::InventAnswers => self.inventor.hear(&self.context, input),
            Fault::PassOver => self.censor.hear(input),
            Fault::HoardCertificates => self.hoarder.hear(&self.context, input),
            Fault::ShowLate => self.late.hear(&self.context, input),
            Fault::FloodRelays { .. } | Fault::Overfill { .. } => self.collected.hear(input),
            _ => {}
        }
        if let Input::Receive { from, message: Envelope::Protocol(message) } = input
            && self.fault == Fault::Replay
            && *from != self.context.me
        {
            self.remember(message.clone(), false);
        }
    }

    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        let me = self.context.me;
        for action in std::mem::take(actions) {
            let Action::Send { to, message, after, sign } = action else {
                actions.push(action);
                continue;
            };
            self.memory.read(&message);
            if !self.times.include(now) {
                actions.push(Action::Send { to, message, after, sign });
                continue;
            }
            if let Some(block) = self.own_lie(&message) {
                let message = Envelope::Blocks(vec![block]);
                actions.push(Action::Send { to: To::One(me), message, after: None, sign: false });
                continue;
            }
            if self.fault == Fault::HoardCertificates && to == To::One(me) && matches!(message, Envelope::Stored(_)) {
                let due = Hoarder::acknowledges_at(&self.context, now);
                self.hold(due, Action::Send { to, message, after, sign });
                continue;
            }
            if to == To::All || to == To::One(me) {
                actions.push(Action::Send { to: To::One(me), message: message.clone(), after, sign });
            }
            if to != To::One(me) {
                let to = if to == To::All { To::Others } else { to };
                self.misbehave(now, Sent { to, message, after, sign }, actions);
            }
        }
        self.add_inventions(now, actions);
    }

    fn next(&self) -> Option<Time> {
        self.held.front().map(|(due, _)| *due)
    }

    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            actions.extend(self.held.pop_front().map(|(_, action)| action));
        }
    }

    fn answers_clients(&self, now: Time) -> bool {
        self.fault != Fault::Silent || !self.times.include(now)
    }

    fn refuses_clients(&self, now: Time) -> bool {
        self.fault == Fault::Busy && self.times.include(now)
    }
}

/// Returns whether a message answers a request of its recipient.
fn is_answer<M>(message: &Envelope<M>) -> bool {
    matches!(
        message,
        Envelope::Blocks(_)
            | Envelope::Bundles(_)
            | Envelope::Offer { .. }
            | Envelope::StatePart { .. }
            | Envelope::Standing { .. }
    )
}
