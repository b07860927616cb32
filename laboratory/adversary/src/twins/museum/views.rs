//! Exhibits about views: their beginning, stalls, and leaders.

use super::by_rules::by_rules;
use super::certificates::checker_view_gap;
use super::scene::{
    Ending, Keeper, Play, Setting, go_on, has_purpose, leaders, let_go, only, play, play_jolteon, play_pbft, proposal,
    run, unjudged,
};
use crate::byzantine::Malleable;
use crate::twins::bugs::{Mutant, Rule, TwoPhases, of_family};
use crate::twins::checker::Property;
use crate::twins::participants::InstanceId;
use crate::twins::world::{Rewrite, World};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::engine::ChainedEngine;
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::protocols::chained::rules::{ChainedHotStuff, Jolteon};
use quorate_consensus::protocols::pbft::engine::PbftEngine;
use quorate_consensus::protocols::views::{Family, ViewEngine};
use quorate_consensus::replica::make::chained as replica;
use quorate_consensus::replica::{MakeReplica, make};
use quorate_consensus::seam::{Action, Purpose, Role, Timer, To};
use quorate_consensus::{Envelope, Message, Protocol, Replica};
use quorate_types::{Block, Certificate, Quorum, ReplicaId, View};
use std::ops::RangeInclusive;

/// View to which a liar tries to move the others; R3 leads it.
const FAR_VIEW: u64 = 1004;

/// 7: R3 lies and proposes in a view far ahead that it would lead.
pub fn proposal_from_afar(how: &Play) -> Ending {
    let setting = Setting::new(ProtocolKind::ChainedHotStuff, 4);
    play(how, setting, replica::<ChainedHotStuff>, |world: &mut World<ChainedEngine<ChainedHotStuff>>| {
        world.misbehave(InstanceId(3), unjudged());
        run(world, 1..=3);
        let justify = world.replica(InstanceId(3)).protocol().high().clone();
        let proposal = proposal(Block::new(View(FAR_VIEW), ReplicaId(3), justify, Vec::new(), 0));
        for to in (0..3).map(InstanceId) {
            world.inject(ReplicaId(3), to, View(3), proposal.clone());
        }
        world.settle();
        checker_view_gap(world, 3);
        world.heal((0..4).map(ReplicaId));
    })
}

/// 7: R3 lies and asks for a view far ahead.
pub fn view_change_from_afar(how: &Play) -> Ending {
    play_pbft(how, |world| {
        world.misbehave(InstanceId(3), unjudged());
        go_on(world, 1);
        let keeper = Keeper::default();
        world.lose(Some(keeper.keep(|from, _, _, _| from == InstanceId(3))));
        world.force(InstanceId(3), View(FAR_VIEW));
        world.lose(None);
        for asked in keeper.take() {
            world.inject(ReplicaId(3), asked.to, View(1), asked.message);
        }
        world.settle();
        checker_view_gap(world, 1);
        world.heal((0..4).map(ReplicaId));
    })
}

/// 10: the messages that time out of view 3 are lost, once.
pub fn lost_timeouts(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        world.lose(Some(Box::new(|_, _, view, _| view == View(3))));
        run(world, 1..=3);
        go_on(world, 4);
        world.give_up_below(View(4));
        world.settle();
        world.heal((0..4).map(ReplicaId));
    })
}

/// 11: only R0, the primary, is connected to the others while they time out of its view.
pub fn only_the_primary_is_linked(how: &Play) -> Ending {
    play_pbft(how, |world| {
        for view in 1..=2 {
            only(world, view..=view, &[]);
            for backup in 1..4 {
                world.links().pass(view, 1, 1 << backup);
                world.links().pass(view, 1 << backup, 1);
            }
        }
        go_on(world, 1);
        go_on(world, 2);
        world.give_up_below(View(2));
        world.settle();
        world.heal((0..4).map(ReplicaId));
    })
}

/// 12: the last checkpoints of R1, R2 and R3 are at the slots 0, 2 and 4, and R0, the primary, has failed.
pub fn checkpoints_of_different_age(how: &Play) -> Ending {
    let mut setting = Setting::new(ProtocolKind::Pbft, 4);
    (setting.config.checkpoint_interval, setting.config.window) = (2, 64);
    by_rules!(how, setting, |world| {
        world.lose(Some(Box::new(|_, to, _, message| match message {
            Envelope::Checkpoint(vote) => {
                let slot = vote.subject.height.0;
                (to == InstanceId(1)) || (to == InstanceId(2) && slot > 2)
            }
            _ => false,
        })));
        (1..=5).for_each(|view| go_on(world, view));
        world.crash(InstanceId(0));
        world.heal((0..4).map(ReplicaId));
    })
}

/// Returns a rewriting for the leader of every other view: it gets a block prepared, sends the certificate only to R3,
/// and sends the previous certificate to the others.
fn hides_what_is_prepared() -> Rewrite<BasicMessage> {
    let mut base: Option<Certificate> = None;
    Box::new(move |_, actions| {
        actions.retain_mut(|action| {
            let Action::Send { to, message: Envelope::Protocol(message), .. } = action else { return true };
            match message.purpose() {
                Purpose::Proposal => {
                    base = message.proposed().map(|(block, _)| block.justify.clone());
                    true
                }
                Purpose::Certificate => {
                    *to = To::One(ReplicaId(3));
                    matches!(message, BasicMessage::Phase(_))
                }
                Purpose::Timeout => {
                    let older = |shown: &Certificate| base.clone().filter(|base| base.view() < shown.view());
                    message.show(&mut |role, shown| match role {
                        Role::Base => older(shown).or_else(|| Some(shown.clone())),
                        _ => Some(shown.clone()),
                    });
                    true
                }
                _ => *to == To::One(ReplicaId(0)),
            }
        });
    })
}

/// 13: R0 lies and leads every other view, and R1 the rest; R3's messages arrive last.
pub fn hidden_lock(how: &Play) -> Ending {
    match how.mutant {
        Some(Mutant::Rule(Rule::TwoPhases)) => play_hidden_lock(how, of_family::<TwoPhases>),
        _ => play_hidden_lock(how, make::basic_hotstuff),
    }
}

fn play_hidden_lock<F: Family<Message = BasicMessage>>(how: &Play, make: MakeReplica<ViewEngine<F>>) -> Ending {
    let setting = Setting::new(ProtocolKind::BasicHotStuff, 4);
    play(how, setting, make, |world: &mut World<ViewEngine<F>>| {
        world.misbehave(InstanceId(0), hides_what_is_prepared());
        leaders(world, &[1, 2]);
        run(world, 1..=2);
        world.leaders_after([ReplicaId(0), ReplicaId(1)]);
        watch_for_lasso(world, 3..=18, 2, |world| standing(world, &[1, 2, 3]));
        world.heal([ReplicaId(0), ReplicaId(1)]);
    })
}

/// Returns the positions of some replicas, relative to the highest view among them.
fn standing<F: Family>(world: &World<ViewEngine<F>>, of: &[usize]) -> Vec<[u64; 4]> {
    let replicas: Vec<_> = of.iter().map(|at| world.replica(InstanceId(*at))).collect();
    let top = replicas.iter().map(|replica| replica.view().0).max().unwrap_or(0);
    let place = |replica: &&Replica<ViewEngine<F>>| {
        let (high, lock) = (replica.protocol().high().view(), replica.parts().safety.lock().view);
        [top - replica.view().0, top - high.0, top - lock.0, replica.committed_height().0]
    };
    replicas.iter().map(place).collect()
}

/// Runs views with `leaders` in rotation. Reports a violation if a state recurs in which only the view has changed: a
/// lasso, which continues forever.
fn watch_for_lasso<P: Protocol, S: PartialEq>(
    world: &mut World<P>,
    views: RangeInclusive<u64>,
    leaders: u64,
    state: impl Fn(&World<P>) -> S,
) {
    let mut seen: Vec<S> = Vec::new();
    for view in views {
        world.run_view(view);
        let now = state(world);
        // A state recurs only if the same leader is next.
        let again =
            |(at, earlier): &(usize, &S)| ((seen.len() - at) as u64).is_multiple_of(leaders) && **earlier == now;
        if let Some((before, _)) = seen.iter().enumerate().rev().find(again) {
            let period = seen.len() - before;
            let what = format!("the state repeats itself after {period} views, and nothing is executed in between");
            world.checker().report(Property::Liveness, what);
        }
        seen.push(now);
    }
}

/// Returns whether anything commits with these replicas silent, under rotating leaders.
fn commits<P: Protocol + 'static>(
    how: &Play,
    setting: Setting,
    make: MakeReplica<P>,
    silent: &[usize],
    expected: bool,
) -> Ending {
    let replicas = setting.quorum.replicas();
    let names: Vec<ReplicaId> = silent.iter().map(|at| ReplicaId(*at as u16)).collect();
    let warning = setting.config.stalls_with_silent(setting.quorum, &names);
    play(how, setting, make, |world: &mut World<P>| {
        silent.iter().for_each(|at| world.crash(InstanceId(*at)));
        run(world, 1..=5 * replicas as u64);
        let height = (0..replicas).map(|at| world.checker().height(InstanceId(at))).max().unwrap_or(0);
        let what = match (&warning, height) {
            (Some(warning), 0) => format!("nothing is committed in {} views, as predicted: {warning}", 5 * replicas),
            (None, 0) => format!("nothing is committed in {} views, without a warning", 5 * replicas),
            (Some(warning), _) => format!("{height} blocks are committed, despite the warning: {warning}"),
            (None, _) if expected => return,
            (None, _) => format!("{height} blocks are committed unexpectedly"),
        };
        world.checker().report(Property::Liveness, what);
    })
}

/// 14: a three-chain under rotating leaders; without the bug, a two-chain.
fn silent_leaders(how: &Play, replicas: usize, silent: &[usize]) -> Ending {
    match how.broken {
        true => {
            let setting = Setting::new(ProtocolKind::ChainedHotStuff, replicas);
            commits(how, setting, replica::<ChainedHotStuff>, silent, false)
        }
        false => commits(how, Setting::new(ProtocolKind::Jolteon, replicas), replica::<Jolteon>, silent, true),
    }
}

/// 14, with one of four replicas silent.
pub fn one_of_four_silent(how: &Play) -> Ending {
    silent_leaders(how, 4, &[3])
}

/// 14, with two of seven replicas silent that are not adjacent. Without the bug, a two-chain, and a three-chain whose
/// silent replicas are adjacent.
pub fn two_of_seven_silent(how: &Play) -> Ending {
    let ending = silent_leaders(how, 7, &[2, 5]);
    if how.broken || ending.violation.is_some() {
        return ending;
    }
    let setting = Setting::new(ProtocolKind::ChainedHotStuff, 7);
    commits(how, setting, replica::<ChainedHotStuff>, &[5, 6], true)
}

/// 14: every tolerated set of silent replicas, one after the other, from single ones to the largest.
pub fn silent_set(how: &Play, replicas: usize, number: usize) -> Ending {
    let faults = Quorum::of(replicas).expect("an exhibit has a sound shape").faults();
    let sets = (1u64..1 << replicas).filter(|set| set.count_ones() as usize <= faults);
    let mut sets: Vec<u64> = sets.collect();
    sets.sort_by_key(|set| set.count_ones());
    let set = sets[number];
    let silent: Vec<usize> = (0..replicas).filter(|at| set >> at & 1 == 1).collect();
    match how.broken {
        true => stands_still(
            how,
            Setting::new(ProtocolKind::ChainedHotStuff, replicas),
            replica::<ChainedHotStuff>,
            &silent,
        ),
        false => stands_still(how, Setting::new(ProtocolKind::Jolteon, replicas), replica::<Jolteon>, &silent),
    }
}

/// Runs views until a state recurs in which only the view has changed.
fn stands_still<F: Family>(how: &Play, setting: Setting, make: MakeReplica<ViewEngine<F>>, silent: &[usize]) -> Ending {
    let replicas = setting.quorum.replicas() as u64;
    play(how, setting, make, |world: &mut World<ViewEngine<F>>| {
        silent.iter().for_each(|at| world.crash(InstanceId(*at)));
        let speaking: Vec<usize> = (0..replicas as usize).filter(|at| !silent.contains(at)).collect();
        watch_for_lasso(world, 1..=5 * replicas, replicas, |world| standing(world, &speaking));
    })
}

/// Number of steps led by the slow primary.
const SLOW_STEPS: u64 = 12;

/// 16: R0 leads, and delays each block by two thirds of the timeout; there are always pending commands.
pub fn slow_primary(how: &Play) -> Ending {
    let mut setting = Setting::new(ProtocolKind::Pbft, 4);
    setting.config.view_timeout_ms = 1500;
    play(how, setting, make::pbft, |world: &mut World<PbftEngine>| {
        let keeper = Keeper::default();
        world.lose(Some(keeper.keep(|_, _, _, message| has_purpose(message, Purpose::Proposal))));
        for step in 1..=SLOW_STEPS {
            let late = keeper.take();
            go_on(world, step);
            let_go(world, late);
            for instance in world.participants().instances() {
                world.ring(instance, Timer::View);
            }
            world.settle();
        }
        for instance in world.participants().instances() {
            let (view, height) = (world.replica(instance).view(), world.checker().height(instance));
            if view > View(1) || height + 2 < SLOW_STEPS {
                let name = world.participants().name(instance);
                let what = format!(
                    "{name} is in {view:?}, although its primary serves, after {height} blocks of {SLOW_STEPS}"
                );
                world.checker().report(Property::Liveness, what);
            }
        }
        world.heal((0..4).map(ReplicaId));
    })
}

/// Returns a rewriting that proposes to R1 in its own name whenever a view begins with timeouts, and never leads
/// otherwise.
fn usurps() -> Rewrite<ChainedMessage> {
    let mut high: Option<Certificate> = None;
    Box::new(move |_, actions| {
        let mut entered = None;
        actions.retain(|action| match action {
            Action::Send { message: Envelope::Protocol(message), .. } => {
                if let ChainedMessage::Timeout(timeout) = message {
                    high = Some(timeout.high.clone());
                }
                !matches!(message.purpose(), Purpose::Proposal | Purpose::Vote)
            }
            Action::Mark(quorate_consensus::Mark::EnteredView { view, .. }) => {
                entered = Some(*view);
                true
            }
            _ => true,
        });
        if let (Some(view), Some(justify)) = (entered, high.clone()) {
            let message = proposal(Block::new(view, ReplicaId(0), justify, Vec::new(), 0));
            actions.push(Action::Send { to: To::One(ReplicaId(1)), message, after: None, sign: true });
        }
    })
}

/// 21: R0, which does not lead, is the first to propose in each view, to R1.
pub fn usurper(how: &Play) -> Ending {
    let setting = Setting::new(ProtocolKind::ChainedHotStuff, 4);
    play(how, setting, replica::<ChainedHotStuff>, |world: &mut World<ChainedEngine<ChainedHotStuff>>| {
        world.misbehave(InstanceId(0), usurps());
        leaders(world, &[1, 2, 0]);
        run(world, 1..=3);
        world.heal((1..4).map(ReplicaId));
    })
}
