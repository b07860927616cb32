//! Exhibits about certificates: their meaning, their verification, and the views that they begin.

use super::scene::{
    Ending, Keeper, Play, Setting, go_on, has_purpose, leaders, let_go, only, play, play_jolteon, rewrite, run,
    unjudged,
};
use crate::byzantine::Malleable;
use crate::twins::checker::Property;
use crate::twins::participants::InstanceId;
use crate::twins::world::{Rewrite, World};
use bytes::Bytes;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::chained::engine::ChainedEngine;
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::protocols::chained::rules::FastHotStuff;
use quorate_consensus::replica::make::chained as replica;
use quorate_consensus::seam::{Action, Purpose, Role, To};
use quorate_consensus::{Envelope, Message, Protocol};
use quorate_types::{Attachment, Certificate, Digest, Domain, Height, ReplicaId, Signers, Subject, View, Vote};
use std::sync::Arc;

/// Maximum lead of a replica's view over the script's.
const VIEW_GAP: u64 = 8;
/// Lead of a replayed certificate, in views.
const REPLAYED_AHEAD: u64 = 90;

/// View of the highest certificate that a liar claims to have.
const CLAIMED: View = View(1 << 63);
/// Views with honest leaders within which something must be executed, although the Byzantine replica is always first.
const POISONED_VIEWS: u64 = 12;

/// Checks that no honest replica is far ahead of the script.
pub fn checker_view_gap<P: Protocol>(world: &mut World<P>, view: u64) {
    for instance in world.participants().instances() {
        let at = world.replica(instance).view();
        if world.checker().trusts(instance) && at.0 > view + VIEW_GAP {
            let what = format!("{} is in {at:?} while the others are in v{view}", world.participants().name(instance));
            world.checker().report(Property::Views, what);
        }
    }
}

/// 4: R3 lies and presents to each replica its own highest certificate, with a view far ahead.
pub fn replayed_certificate(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        world.misbehave(InstanceId(3), unjudged());
        run(world, 1..=10);
        for to in (0..3).map(InstanceId) {
            let mut high = world.replica(to).protocol().high().clone();
            high.subject.view.0 += REPLAYED_AHEAD;
            let advance = ChainedMessage::Advance { high: Box::new(high), evidence: None };
            world.inject(ReplicaId(3), to, View(10), Envelope::Protocol(advance));
        }
        world.settle();
        checker_view_gap(world, 10);
        world.heal((0..4).map(ReplicaId));
    })
}

/// Returns a certificate of the previous view for an unknown block, with forged signatures.
fn forged(view: View) -> Certificate {
    let digest = Digest([0xf0; 32]);
    let subject = Subject { domain: Domain::Vote, view: View(view.0 - 1), height: Height(view.0), digest };
    let signers: Signers = (1..4).map(ReplicaId).collect();
    Certificate { subject, signers, attachments: Vec::new(), proof: Bytes::new() }
}

/// 5: R0 completes no view that it leads, and its timeouts contain a forged certificate that ranks above all others.
pub fn poisoned_timeouts(how: &Play) -> Ending {
    let setting = Setting::new(ProtocolKind::FastHotStuff, 4);
    play(how, setting, replica::<FastHotStuff>, |world: &mut World<ChainedEngine<FastHotStuff>>| {
        let poison = |message: &mut ChainedMessage| {
            if let (Purpose::Timeout, Some(view)) = (message.purpose(), message.view()) {
                let choose = |role, shown: &Certificate| if role == Role::Base { forged(view) } else { shown.clone() };
                message.show(&mut |role, shown| Some(choose(role, shown)));
            }
            message.purpose() != Purpose::Proposal
        };
        world.misbehave(InstanceId(0), rewrite(poison));
        leaders(world, &[1, 2, 3]);
        run(world, 1..=3);
        // R0 leads two views in a row: its certificate, of the previous view, then ranks above every genuine one.
        world.heal([0, 0, 1, 2, 3].map(ReplicaId));
    })
}

/// 6: R3 is down for ten views.
pub fn away_for_ten_views(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        world.leaders_after((0..3).map(ReplicaId));
        only(world, 1..=10, &[0, 1, 2]);
        run(world, 1..=10);
        world.heal((0..3).map(ReplicaId));
    })
}

/// Returns a rewriting that sends each vote twice, the second time with an invalid signature.
fn spoils_its_votes<M: Malleable>() -> Rewrite<M> {
    Box::new(|_, actions| {
        let said = std::mem::take(actions);
        for action in said {
            actions.push(action.clone());
            if let Action::Send { to, message: Envelope::Protocol(mut message), after, sign } = action
                && matches!(message.purpose(), Purpose::Vote | Purpose::Timeout)
                && let Some(vote) = message.vote_to_sign()
            {
                vote.signature = Bytes::from_static(b"none");
                actions.push(Action::Send { to, message: Envelope::Protocol(message), after, sign });
            }
        }
    })
}

/// 18: R0, the first to vote, sends each vote again without a signature.
pub fn spoilt_votes(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        world.misbehave(InstanceId(0), spoils_its_votes());
        run(world, 1..=2);
        world.heal((1..4).map(ReplicaId));
    })
}

/// 19: the votes of view 3 reach their collector R3 only after that view's timeouts.
pub fn votes_after_timeouts(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        let keeper = Keeper::default();
        world.lose(Some(keeper.keep(|_, _, view, message| view == View(3) && has_purpose(message, Purpose::Vote))));
        leaders(world, &[0, 1, 2, 3, 0]);
        run(world, 1..=4);
        world.lose(None);
        let_go(world, keeper.take());
        run(world, 5..=6);
        world.heal((0..4).map(ReplicaId));
    })
}

/// Suppresses all messages of a replica except one: once it has the others' timeouts, it sends a certificate of these
/// and its own timeout, which reports a nonexistent certificate.
fn poisons_timeouts() -> Rewrite<ChainedMessage> {
    let me = ReplicaId(3);
    let mut given_up = None;
    Box::new(move |_, actions| {
        let mut lies = Vec::new();
        actions.retain_mut(|action| match action {
            Action::Send { to, message: Envelope::Protocol(message), .. } => {
                if let ChainedMessage::Timeout(timeout) = message {
                    given_up = Some(timeout.clone());
                }
                *to = To::One(me);
                true
            }
            Action::Assemble { subject, votes, .. } if subject.domain == Domain::Timeout => {
                let mut timeout = given_up.clone().expect("a replica that counts timeouts has timed out itself");
                Arc::make_mut(&mut timeout).vote.attachment = Attachment::HighView(CLAIMED);
                let others = votes.iter().filter(|vote| vote.voter != me).take(2);
                let votes: Vec<&Vote> = others.chain([&timeout.vote]).collect();
                let evidence = Some(Box::new(Certificate {
                    subject: *subject,
                    signers: votes.iter().map(|vote| vote.voter).collect(),
                    attachments: votes.iter().map(|vote| vote.attachment.clone()).collect(),
                    proof: Bytes::new(),
                }));
                let high = Box::new(timeout.high.clone());
                let advance = Envelope::Protocol(ChainedMessage::Advance { high, evidence });
                // Its message to itself gets a signature, which the certificate needs.
                let signed = Envelope::Protocol(ChainedMessage::Timeout(timeout));
                lies.push(Action::Send { to: To::One(me), message: signed, after: None, sign: true });
                lies.push(Action::Send { to: To::Others, message: advance, after: None, sign: false });
                true
            }
            _ => true,
        });
        actions.append(&mut lies);
    })
}

/// 29: R3 lies and receives the others' timeouts before they receive each other's, in every view that fails.
pub fn timeouts_alone(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        leaders(world, &[0, 1, 3]);
        world.leaders_after((0..3).map(ReplicaId));
        world.misbehave(InstanceId(3), poisons_timeouts());
        run(world, 1..=3);
        let height = |world: &mut World<_>| (0..3).map(|at| world.checker().height(InstanceId(at))).max();
        let mut poisoned = |view| {
            go_on(world, view);
            let (keeper, liar) = (Keeper::default(), InstanceId(3));
            world.lose(Some(keeper.keep(move |from, to, _, message| {
                from != liar && to != liar && has_purpose(message, Purpose::Timeout)
            })));
            world.give_up_below(View(view));
            world.settle();
            world.lose(None);
            let_go(world, keeper.take());
            height(world)
        };
        // The first lie comes with a certificate that the others did not have.
        let before = poisoned(4);
        let after = (5..5 + POISONED_VIEWS).map(&mut poisoned).max().flatten();
        if after == before {
            let what = format!("nothing is executed in {POISONED_VIEWS} views with honest leaders");
            world.checker().report(Property::Liveness, what);
        }
        world.heal((0..3).map(ReplicaId));
    })
}
