//! What directed scenarios have in common.

use super::Mutant;
use crate::cast::{ActorId, Cast};
use crate::judge::{Complaint, Law};
use crate::play::panic_text;
use crate::stage::{Lose, Rewrite, Stage, stage_config};
use quorate_byzantine::Malleable;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::MakeReplica;
use quorate_consensus::replica::Protocol;
use quorate_consensus::seam::Action;
use quorate_consensus::seam::{Purpose, Role};
use quorate_consensus::{Config, Envelope};
use quorate_types::{Certificate, Quorum, ReplicaId, View};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// How a scenario is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Play {
    /// The bug that every replica has.
    pub mutant: Option<Mutant>,
    /// Whether what is wrong is there: a mutant, or a configuration that cannot work.
    pub broken: bool,
    /// Whether to write down what happens.
    pub record: bool,
}

/// How a scenario ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The first thing that was wrong.
    pub complaint: Option<Complaint>,
    /// What happened, if it was to be written down.
    pub transcript: String,
}

/// A protocol and a number of replicas, with the settings of a stage.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The settings.
    pub config: Config,
    /// n and f.
    pub quorum: Quorum,
}

impl Setting {
    /// As many faults as so many replicas can tolerate.
    pub fn new(protocol: ProtocolKind, replicas: usize) -> Setting {
        let quorum = Quorum::of(replicas).expect("an exhibit has a sound shape");
        Setting { config: stage_config(protocol), quorum }
    }
}

/// Plays a script on a stage without twins. A panic breaks a law like any other.
pub fn play<P: Protocol + 'static>(
    play: &Play,
    setting: Setting,
    make: MakeReplica<P>,
    script: impl FnOnce(&mut Stage<P>),
) -> Ending {
    let mut stage = Stage::new(setting.config, Cast::new(setting.quorum, 0), make);
    stage.mutate(play.mutant);
    if play.record {
        stage.record();
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| script(&mut stage))) {
        stage.judge().complain(Law::Panic, panic_text(&*panic));
    }
    Ending { complaint: stage.complaint().cloned(), transcript: stage.transcript() }
}

/// Runs views one after the other.
pub fn run<P: Protocol>(stage: &mut Stage<P>, views: RangeInclusive<u64>) {
    views.for_each(|view| stage.run_view(view));
}

/// Time moves on to another view of the script, clients send commands, and nobody is forced anywhere.
pub fn go_on<P: Protocol>(stage: &mut Stage<P>, view: u64) {
    stage.open_view(view);
    stage.send_commands();
    stage.settle();
}

/// In some views, messages pass within one group only.
pub fn only<P: Protocol>(stage: &mut Stage<P>, views: RangeInclusive<u64>, group: &[usize]) {
    let group: Vec<ActorId> = group.iter().copied().map(ActorId).collect();
    views.for_each(|view| stage.partition(view, &[&group]));
}

/// Has these lead the views from the first one on.
pub fn leaders<P: Protocol>(stage: &mut Stage<P>, leaders: &[u16]) {
    for (view, leader) in (1..).zip(leaders) {
        stage.leader(view, ReplicaId(*leader));
    }
}

/// The certificate of genesis on this stage.
pub fn genesis<P: Protocol>(stage: &Stage<P>) -> Certificate {
    Certificate::genesis(&stage.replica(ActorId(0)).parts().cluster)
}

/// Nothing is changed, but what the actor does is not judged.
pub fn unjudged<M>() -> Rewrite<M> {
    Box::new(|_, _| {})
}

/// Changes the messages of the protocol that an actor sends; those for which `change` says no are not sent.
pub fn rewrite<M: Malleable>(mut change: impl FnMut(&mut M) -> bool + Send + 'static) -> Rewrite<M> {
    Box::new(move |_, actions| {
        actions.retain_mut(|action| match action {
            Action::Send { message: Envelope::Protocol(message), .. } => change(message),
            _ => true,
        });
    })
}

/// Builds on this certificate as the leader of a view, whatever else is known.
pub fn builds_on<M: Malleable>(view: u64, base: Certificate) -> Rewrite<M> {
    rewrite(move |message: &mut M| {
        if message.purpose() == Purpose::Proposal && message.view() == Some(View(view)) {
            message.show(&mut |role, shown| Some(if role == Role::Base { base.clone() } else { shown.clone() }));
        }
        true
    })
}

/// A message that was kept from its recipient.
pub struct Kept<M> {
    /// Whose it is.
    pub from: ActorId,
    /// For whom.
    pub to: ActorId,
    /// The view it belongs to.
    pub view: View,
    /// What it says.
    pub message: Envelope<M>,
}

/// Messages that are kept from their recipients until they are let go.
#[derive(Clone)]
pub struct Keeper<M>(Arc<Mutex<Vec<Kept<M>>>>);

impl<M> Default for Keeper<M> {
    /// Nothing is kept.
    fn default() -> Keeper<M> {
        Keeper(Arc::default())
    }
}

impl<M: Clone + Send + 'static> Keeper<M> {
    /// Keeps what `matches` says.
    pub fn keep(&self, matches: impl Fn(ActorId, ActorId, View, &Envelope<M>) -> bool + Send + 'static) -> Lose<M> {
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

    /// What is kept so far, which is kept no longer.
    pub fn take(&self) -> Vec<Kept<M>> {
        std::mem::take(&mut self.0.lock().expect("nothing panics while it holds this lock"))
    }
}

/// Lets kept messages go.
pub fn let_go<P: Protocol>(stage: &mut Stage<P>, kept: Vec<Kept<P::Message>>) {
    for Kept { from, to, view, message } in kept {
        let from = stage.cast().identity(from);
        stage.inject(from, to, view, message);
    }
    stage.settle();
}
