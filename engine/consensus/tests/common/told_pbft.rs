//! PBFT in the harness, and descriptions of its messages.

use super::play::{Play, Told};
use super::story::{Story, certificate_name};
use super::world::World;
use quorate_adversary::copies::CopyRules;
use quorate_consensus::protocols::pbft::engine::{Engine, PbftEngine, PbftMacEngine};
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::pbft::phases::PhasesEngine;
use quorate_consensus::protocols::pbft::selection::Selection;
use quorate_consensus::protocols::pbft::sets::Sets;
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_consensus::replica::make;
use quorate_consensus::{Config, Replica};
use quorate_types::{Block, Domain, EpochId, Height, Quorum, ReplicaId, Subject, Time, View};

/// PBFT, as a protocol that the harness can run.
pub struct Pbft;

impl Play for Pbft {
    const NAME: &'static str = "pbft";
    const VOTED_IN: Domain = Domain::Prepare;
    const ORDERS_TWICE: bool = true;
    type Message = PbftMessage;
    type Engine = PbftEngine;

    fn replica(config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Replica<Self::Engine> {
        make::pbft(config, quorum, epoch, me, salt)
    }

    fn claims(replica: &Replica<Self::Engine>) -> Vec<Subject> {
        claims(replica.protocol())
    }

    fn slot(subject: &Subject) -> Height {
        slot(subject)
    }
}

/// PBFT with MACs.
pub struct PbftMac;

impl Play for PbftMac {
    const NAME: &'static str = "pbft-mac";
    const VOTED_IN: Domain = Domain::Prepare;
    const ORDERS_TWICE: bool = true;
    type Message = PbftMessage;
    type Engine = PbftMacEngine;

    fn replica(config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Replica<Self::Engine> {
        let replica = make::pbft_mac(config, quorum, epoch, me, salt);
        #[cfg(feature = "mutants")]
        let replica = super::mutant::mutate(replica);
        replica
    }

    fn claims(replica: &Replica<Self::Engine>) -> Vec<Subject> {
        claims(replica.protocol())
    }

    fn slot(subject: &Subject) -> Height {
        slot(subject)
    }
}

/// PBFT's three phases alone.
pub struct Phases;

impl Play for Phases {
    const NAME: &'static str = "pbft-phases";
    const VOTED_IN: Domain = Domain::Prepare;
    const ORDERS_TWICE: bool = true;
    type Message = PbftMessage;
    type Engine = PhasesEngine;

    fn replica(config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Replica<Self::Engine> {
        make::pbft_phases(config, quorum, epoch, me, salt)
    }

    fn slot(subject: &Subject) -> Height {
        slot(subject)
    }
}

/// Has the replicas of a world send copies of their messages.
pub fn copy_messages<P: Play<Message = PbftMessage>>(world: &mut World<P>, copies: CopyRules) {
    let quorum = world.keys.quorum;
    if copies.any() {
        world.rewrite_all(|me| {
            let mut copier = copies.wrap(me, quorum, None).expect("there are copies");
            Box::new(move |actions| copier.rewrite(Time(0), actions))
        });
    }
}

/// Returns P and Q, and the checkpoint above which they apply.
pub(super) fn claims<S: ViewChangeEvidence>(engine: &Engine<S>) -> Vec<Subject> {
    let log = engine.log();
    let prepared = log.prepared().into_iter().map(|claim| claim.subject);
    [log.stable.subject].into_iter().chain(prepared).chain(log.voted()).collect()
}

pub(super) fn slot(subject: &Subject) -> Height {
    match subject.domain {
        Domain::Prepare | Domain::Commit => subject.height,
        _ => Height(0),
    }
}

impl Told for PbftMessage {
    fn view(&self) -> Option<View> {
        match self {
            PbftMessage::PrePrepare(message) => Some(message.view()),
            PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) => Some(vote.subject.view),
            PbftMessage::ViewChange(change) => Some(change.view()),
            PbftMessage::NewView(new_view) => Some(new_view.view()),
            PbftMessage::Status { .. } | PbftMessage::Decided { .. } => None,
        }
    }

    fn arrival(&self, story: &mut Story) -> Option<String> {
        match self {
            PbftMessage::PrePrepare(message) => Some(format!("receives {}", story.block(&message.block))),
            PbftMessage::NewView(new_view) => Some(format!("receives NEW-VIEW({:?})", new_view.view())),
            _ => None,
        }
    }

    fn departure(&self, story: &mut Story, to: &[ReplicaId], others: &str) -> String {
        let only = if to.len() == 1 { format!(" -> {others}") } else { String::new() };
        match self {
            PbftMessage::PrePrepare(message) => {
                let (view, slot) = (message.view(), message.block.height);
                let load = story.load(&message.block.payload);
                let name = story.block(&message.block);
                format!("says PRE-PREPARE({view:?}, {slot:?}) of {name} with {load}{only}")
            }
            PbftMessage::Prepare(vote) => {
                let Subject { view, height, .. } = vote.subject;
                format!("says PREPARE({view:?}, {height:?}) of {}{only}", story.subject(&vote.subject))
            }
            PbftMessage::Commit(vote) => {
                let Subject { view, height, .. } = vote.subject;
                format!("says COMMIT({view:?}, {height:?}) of {}{only}", story.subject(&vote.subject))
            }
            PbftMessage::ViewChange(change) => {
                let prepared: Vec<String> = change.prepared.iter().map(|proof| claim(story, &proof.subject)).collect();
                let prepared = if prepared.is_empty() { "nothing".into() } else { prepared.join(", ") };
                let above = change.checkpoint.subject.height;
                let voted: Vec<String> = change.voted.iter().map(|vote| claim(story, vote)).collect();
                let voted = if voted.is_empty() { String::new() } else { format!("; voted for {}", voted.join(", ")) };
                format!("says VIEW-CHANGE({:?}): above {above:?} prepared {prepared}{voted}", change.view())
            }
            PbftMessage::NewView(new_view) => {
                let from: Vec<String> = new_view.voters().map(|voter| format!("{voter:?}")).collect();
                let selection = match story.claims_of {
                    Some(quorum) => Sets::select(&new_view.changes, quorum),
                    None => Selection::of(&new_view.changes),
                };
                let selection = selection.expect("an honest primary's view changes are consistent");
                let slots: Vec<String> = selection
                    .iter()
                    .map(|(slot, chosen)| match chosen {
                        Some(subject) => format!("{slot:?} {}", story.subject(subject)),
                        None => {
                            let null = Block::of_slot(new_view.view(), new_view.endorsement.voter, slot, Vec::new(), 0);
                            format!("{slot:?} null = {}", story.block(&null))
                        }
                    })
                    .collect();
                let slots = if slots.is_empty() { "nothing again".into() } else { slots.join(", ") };
                format!("says NEW-VIEW({:?}) from {}: {slots}{only}", new_view.view(), from.join(" "))
            }
            PbftMessage::Status { view, committed } => {
                format!("says STATUS: in {view:?}, executed up to {committed:?}")
            }
            PbftMessage::Decided { above, digests, checkpoint } => {
                let checkpoint = checkpoint.as_ref().map(|proof| format!(", {}", certificate_name(proof)));
                let last = Height(above.0 + digests.len() as u64);
                format!("tells {others} what is decided up to {last:?}{}", checkpoint.unwrap_or_default())
            }
        }
    }
}

fn claim(story: &Story, subject: &Subject) -> String {
    format!("{:?} {} in {:?}", subject.height, story.subject(subject), subject.view)
}
