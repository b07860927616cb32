//! Shared parts of directed scenarios.

use super::Mutant;
use crate::byzantine::Malleable;
use crate::twins::checker::{Property, Violation};
use crate::twins::hostile::HostileClient;
use crate::twins::participants::{InstanceId, Participants};
use crate::twins::play::panic_text;
use crate::twins::world::{Lose, Rewrite, World, contested_config, world_config};
use bytes::Bytes;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::chained::engine::ChainedEngine;
use quorate_consensus::protocols::chained::message::{ChainedMessage, Proposal};
use quorate_consensus::protocols::chained::rules::Jolteon;
use quorate_consensus::protocols::pbft::engine::PbftEngine;
use quorate_consensus::protocols::pbft::message::{PbftMessage, PrePrepare};
use quorate_consensus::replica::{MakeReplica, make};
use quorate_consensus::seam::{Action, Purpose, Role};
use quorate_consensus::{Config, Envelope, Message, Protocol};
use quorate_types::{Attachment, Block, Certificate, Domain, Quorum, ReplicaId, Subject, View, Vote};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// World whose replicas run Jolteon, in which most exhibits play.
pub type Jolteons = World<ChainedEngine<Jolteon>>;

/// Plays the scenario with a number, from 0, and returns its violation.
pub type Scenes = Box<dyn FnMut(u64) -> Option<Violation>>;

/// Options for playing a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Play {
    /// The bug in every replica.
    pub mutant: Option<Mutant>,
    /// Whether the defect is present: a mutant, or a configuration that cannot make progress.
    pub broken: bool,
    /// Whether to record a transcript.
    pub record: bool,
}

/// Result of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// First violation; the scenario ends with it.
    pub violation: Option<Violation>,
    /// Transcript, if it was recorded.
    pub transcript: String,
}

/// A protocol and a cluster size, with the settings of a world.
#[derive(Clone, Debug)]
pub struct Setting {
    pub config: Config,
    pub quorum: Quorum,
    pub hostile: Option<HostileClient>,
}

impl Setting {
    /// Returns a setting with the maximum number of faults that the replicas tolerate.
    pub fn new(protocol: ProtocolKind, replicas: usize) -> Setting {
        let quorum = Quorum::of(replicas).expect("an exhibit has a sound shape");
        Setting { config: world_config(protocol), quorum, hostile: None }
    }

    /// Returns a setting of four replicas with a hostile client that sends more than blocks can hold.
    pub fn beside(hostile: HostileClient, protocol: ProtocolKind) -> Setting {
        Setting { config: contested_config(protocol), hostile: Some(hostile), ..Setting::new(protocol, 4) }
    }
}

/// Plays a script in a world without twins. A panic counts as a violation.
pub fn play<P: Protocol + 'static>(
    play: &Play,
    setting: Setting,
    make: MakeReplica<P>,
    script: impl FnOnce(&mut World<P>),
) -> Ending {
    let participants = Participants::new(setting.quorum, 0).with_hostile(setting.hostile);
    let mut world = World::new(setting.config, participants, make);
    world.mutate(play.mutant);
    if play.record {
        world.record();
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| script(&mut world))) {
        world.checker().report(Property::Panic, panic_text(&*panic));
    }
    Ending { violation: world.violation().cloned(), transcript: world.transcript() }
}

/// Plays a script with four replicas of Jolteon.
pub fn play_jolteon(how: &Play, script: impl FnOnce(&mut Jolteons)) -> Ending {
    play_jolteon_with(how, |_| {}, script)
}

/// Plays a script with four replicas of Jolteon and changed settings.
pub fn play_jolteon_with(how: &Play, change: impl FnOnce(&mut Config), script: impl FnOnce(&mut Jolteons)) -> Ending {
    let mut setting = Setting::new(ProtocolKind::Jolteon, 4);
    change(&mut setting.config);
    play(how, setting, make::chained::<Jolteon>, script)
}

/// Plays a script with four replicas of PBFT.
pub fn play_pbft(how: &Play, script: impl FnOnce(&mut World<PbftEngine>)) -> Ending {
    play(how, Setting::new(ProtocolKind::Pbft, 4), make::pbft, script)
}

/// Makes replicas retain only the last two blocks.
pub fn short_memory(config: &mut Config) {
    config.retained_blocks = 2;
}

/// Plays consecutive views of the script, each until no message is in flight.
pub fn run<P: Protocol>(world: &mut World<P>, views: RangeInclusive<u64>) {
    views.for_each(|view| world.run_view(view));
}

/// Advances to another view of the script with new client commands, without forcing replicas into it.
pub fn go_on<P: Protocol>(world: &mut World<P>, view: u64) {
    world.open_view(view);
    world.send_commands();
    world.settle();
}

/// Restricts messages of some views to one group.
pub fn only<P: Protocol>(world: &mut World<P>, views: RangeInclusive<u64>, group: &[usize]) {
    let group: Vec<InstanceId> = group.iter().copied().map(InstanceId).collect();
    views.for_each(|view| world.partition(view, &[&group]));
}

/// Sets the leaders of consecutive views, from view 1.
pub fn leaders<P: Protocol>(world: &mut World<P>, leaders: &[u16]) {
    for (view, leader) in (1..).zip(leaders) {
        world.leader(view, ReplicaId(*leader));
    }
}

/// Returns the certificate of genesis in this world.
pub fn genesis<P: Protocol>(world: &World<P>) -> Certificate {
    Certificate::genesis(&world.replica(InstanceId(0)).parts().epoch)
}

/// Returns an unsigned vote of a replica on a subject.
pub fn unsigned(voter: ReplicaId, subject: Subject) -> Vote {
    Vote { subject, attachment: Attachment::None, voter, signature: Bytes::new() }
}

/// Returns an unsigned proposal of a block without commands.
pub fn proposal(block: Block) -> Envelope<ChainedMessage> {
    let endorsement = unsigned(block.author, block.subject(Domain::Proposal));
    let proposal = Proposal { block: Arc::new(block), evidence: None, endorsement, bundles: Vec::new() };
    Envelope::Protocol(ChainedMessage::Proposal(Arc::new(proposal)))
}

/// Returns an unsigned assignment of a block to its slot.
pub fn pre_prepare(block: Block) -> Envelope<PbftMessage> {
    let endorsement = unsigned(block.author, block.subject(Domain::Prepare));
    let pre_prepare = PrePrepare { endorsement, block: Arc::new(block), bundles: Vec::new() };
    Envelope::Protocol(PbftMessage::PrePrepare(Box::new(pre_prepare)))
}

/// Returns whether a message has this purpose in the protocol.
pub fn has_purpose<M: Message>(message: &Envelope<M>, purpose: Purpose) -> bool {
    matches!(message, Envelope::Protocol(message) if message.purpose() == purpose)
}

/// Returns a rewriting that changes nothing, but exempts the instance from the checks.
pub fn unjudged<M>() -> Rewrite<M> {
    Box::new(|_, _| {})
}

/// Returns a rewriting of an instance's protocol messages. Messages for which `change` returns false are dropped.
pub fn rewrite<M: Malleable>(mut change: impl FnMut(&mut M) -> bool + Send + 'static) -> Rewrite<M> {
    Box::new(move |_, actions| {
        actions.retain_mut(|action| match action {
            Action::Send { message: Envelope::Protocol(message), .. } => change(message),
            _ => true,
        });
    })
}

/// Returns a rewriting that makes the leader of a view build on this certificate instead of any other.
pub fn builds_on<M: Malleable>(view: u64, base: Certificate) -> Rewrite<M> {
    rewrite(move |message: &mut M| {
        if message.purpose() == Purpose::Proposal && message.view() == Some(View(view)) {
            message.show(&mut |role, shown| Some(if role == Role::Base { base.clone() } else { shown.clone() }));
        }
        true
    })
}

/// A message withheld from its recipient.
pub struct Kept<M> {
    pub from: InstanceId,
    pub to: InstanceId,
    /// The view of the message.
    pub view: View,
    pub message: Envelope<M>,
}

/// Messages withheld from their recipients until released.
#[derive(Clone)]
pub struct Keeper<M>(Arc<Mutex<Vec<Kept<M>>>>);

impl<M> Default for Keeper<M> {
    fn default() -> Keeper<M> {
        Keeper(Arc::default())
    }
}

impl<M: Clone + Send + 'static> Keeper<M> {
    /// Withholds the messages that `matches` selects.
    pub fn keep(
        &self,
        matches: impl Fn(InstanceId, InstanceId, View, &Envelope<M>) -> bool + Send + 'static,
    ) -> Lose<M> {
        let kept = self.0.clone();
        Box::new(move |from, to, view, message| {
            let keeps = matches(from, to, view, message);
            if keeps {
                let mut kept = kept.lock().expect("nothing panics while it holds this lock");
                kept.push(Kept { from, to, view, message: message.clone() });
            }
            keeps
        })
    }

    /// Returns the messages withheld so far, and empties the keeper.
    pub fn take(&self) -> Vec<Kept<M>> {
        std::mem::take(&mut self.0.lock().expect("nothing panics while it holds this lock"))
    }
}

/// Releases withheld messages.
pub fn let_go<P: Protocol>(world: &mut World<P>, kept: Vec<Kept<P::Message>>) {
    for Kept { from, to, view, message } in kept {
        let from = world.participants().identity(from);
        world.inject(from, to, view, message);
    }
    world.settle();
}
