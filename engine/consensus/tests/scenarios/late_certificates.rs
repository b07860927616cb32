//! A faulty leader certifies its block with the votes of two others and keeps the certificate. It shows the
//! certificate to one honest replica at the worst time, or that replica learns it just before the others time out. All
//! links are nearly as slow as `max_delay_ms` allows, and no message is lost.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::world::World;
use quorate_consensus::config::{LeaderKind, VotesTo};
use quorate_consensus::protocols::views::message::{FromView, Timeout, ViewMessage};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Action, Config, Mark, To};
use quorate_types::{Attachment, Certificate, ReplicaId, View};
use std::sync::Arc;
use std::time::Duration;

/// Leader of the view whose certificate is kept.
const LIAR: u16 = 3;
const KEPT: View = View(3);
/// Honest leader of the next view.
const LEADER: u16 = 0;
const NEXT: View = View(4);
const MAX_DELAY_MS: u64 = 50;
const LINK: Duration = Duration::from_millis(MAX_DELAY_MS - 1);
/// Time within which views 3 and 4 fail or succeed.
const LONG: Duration = Duration::from_secs(10);

crate::for_every_protocol! {
    /// The liar shows the certificate to one replica that has timed out, at various times until the leader's block is
    /// certified.
    a_certificate_shown_late_costs_an_honest_leader_its_view,
    /// The certificate moves one replica to the next view before the others time out, so the leader hears of it only in
    /// answer to timeouts.
    one_delay_is_too_short_to_hear_the_highest_lock,
}

/// Creates a cluster whose liar takes part until it leads, then proposes to two replicas only, keeps its own vote, and
/// falls silent.
fn world<R: Viewed>(proposes_to: [u16; 2]) -> World<R> {
    let defaults = config::<R>();
    // Honest replicas then collect the votes themselves and see that two are not enough.
    let votes = if defaults.protocol.is_chained() { VotesTo::All } else { VotesTo::Collector };
    let config = Config { leader: LeaderKind::RoundRobin, votes, max_delay_ms: MAX_DELAY_MS, ..defaults };
    let mut world = World::<R>::new(4, config, 1);
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        world.network.set_delay(ReplicaId(from), ReplicaId(to), LINK);
    }
    world.corrupt(
        LIAR,
        Box::new(move |_, action, out| {
            let Action::Send { to, message, after, sign } = action else { return out.push(action) };
            let view = match &message {
                Letter::Protocol(message) => message.as_view().map(|message| match message {
                    ViewMessage::Proposal(proposal) => (proposal.block.view, true),
                    ViewMessage::Vote(vote) => (vote.subject.view, false),
                    ViewMessage::Timeout(timeout) => (timeout.vote.subject.view, false),
                    ViewMessage::Advance { high, .. } => (high.view().next(), false),
                }),
                _ => Some((View(0), false)),
            };
            match view {
                Some((view, _)) if view < KEPT => out.push(Action::Send { to, message, after, sign }),
                Some((KEPT, true)) => {
                    for to in proposes_to.into_iter().chain([LIAR]).map(ReplicaId) {
                        out.push(Action::Send { to: To::One(to), message: message.clone(), after, sign });
                    }
                }
                _ => out.push(Action::Send { to: To::One(ReplicaId(LIAR)), message, after, sign }),
            }
        }),
    );
    world.start();
    world
}

/// Runs under constant load until `done` holds.
fn run_until<R: Viewed>(world: &mut World<R>, what: &str, done: impl Fn(&World<R>) -> bool) {
    let end = world.now + LONG;
    while !done(world) {
        assert!(world.now < end, "{what} within {LONG:?}");
        world.submit(1);
        world.run_for(Duration::from_millis(1));
    }
}

fn timed_out<R: Viewed>(world: &World<R>, replica: u16, view: View) -> bool {
    world.marks(replica).contains(&Mark::TimedOut(view))
}

/// Runs until the liar alone has the certificate of its view, and returns it.
fn kept<R: Viewed>(world: &mut World<R>) -> Certificate {
    run_until(world, "the liar certifies its block", |world| world.replica(LIAR).protocol().high().view() == KEPT);
    for replica in world.honest() {
        assert!(world.replica(replica).protocol().high().view() < KEPT, "R{replica} knows the certificate");
    }
    world.replica(LIAR).protocol().high().clone()
}

fn show<R: Viewed>(world: &mut World<R>, to: u16, certificate: &Certificate) {
    world.network.set_delay(ReplicaId(LIAR), ReplicaId(to), Duration::ZERO);
    world.inject(LIAR, to, ViewMessage::Advance { high: Box::new(certificate.clone()), evidence: None }.into());
}

/// Runs until the view of the honest leader is over, and checks that it succeeded.
fn expect_success<R: Viewed>(world: &mut World<R>, case: &str) {
    let over = |world: &World<R>| world.honest().iter().all(|replica| world.replica(*replica).view() > NEXT);
    run_until(world, "the view of the honest leader ends", over);
    for replica in world.honest() {
        assert!(!timed_out(world, replica, NEXT), "{case}: R{replica} times out of the view of honest R{LEADER}");
    }
    let command = world.submit(1);
    assert!(world.run_until_done(LONG, &command), "{case}: nothing is ordered afterwards");
}

mod bodies {
    use super::*;

    pub fn a_certificate_shown_late_costs_an_honest_leader_its_view<R: Viewed>() {
        for proposes_to in [[1, 2], [LEADER, 1]] {
            for after_ms in (0..5 * MAX_DELAY_MS).step_by(7) {
                let mut world = world::<R>(proposes_to);
                let certificate = kept(&mut world);
                run_until(&mut world, "the victim times out", |world| timed_out(world, 1, KEPT));
                world.run_for(Duration::from_millis(after_ms));
                show(&mut world, 1, &certificate);
                if after_ms == 0 && R::FACTS.awaited_delays > 0 {
                    world.run_for(Duration::from_millis(1));
                    let (high, lock) =
                        (world.replica(1).protocol().high().view(), world.replica(1).parts().safety.lock());
                    assert_eq!((high, lock.view < KEPT), (KEPT, true), "R1 knows the certificate and locks on none");
                }
                expect_success(&mut world, &format!("proposed to {proposes_to:?}, shown after {after_ms} ms"));
            }
        }
    }

    pub fn one_delay_is_too_short_to_hear_the_highest_lock<R: Viewed>() {
        for proposes_to in [[1, 2], [LEADER, 1]] {
            for early_ms in (1..MAX_DELAY_MS).step_by(3) {
                let mut world = world::<R>(proposes_to);
                // R2 learns of the liar's view earlier than the others, and therefore times out of it earlier.
                for from in [0, 1] {
                    world.network.set_delay(ReplicaId(from), ReplicaId(2), LINK / 3);
                }
                let certificate = kept(&mut world);
                let entered = |world: &World<R>| world.replica(LEADER).parts().pacemaker.entered();
                let timeout = world.replica(LEADER).parts().pacemaker.duration();
                let due = entered(&world) + (timeout - Duration::from_millis(early_ms));
                world.run_for(due.since(world.now));
                show(&mut world, 1, &certificate);
                let high = world.replica(2).protocol().high().clone();
                for to in [LEADER, 2] {
                    world.inject(LIAR, to, timeout_of_liar(&world, &high));
                }
                expect_success(&mut world, &format!("proposed to {proposes_to:?}, shown {early_ms} ms early"));
            }
        }
    }

    /// Returns the liar's timeout of the view whose certificate it keeps.
    fn timeout_of_liar<R: Viewed>(world: &World<R>, high: &Certificate) -> R::Message {
        let attachment = match R::FACTS.timeouts_carry_certificates {
            true => Attachment::HighCertificate(Box::new(high.clone())),
            false => Attachment::HighView(high.view()),
        };
        let vote = world.keys.vote(ReplicaId(LIAR), timeout_subject(KEPT), attachment);
        ViewMessage::Timeout(Arc::new(Timeout { vote, high: high.clone(), evidence: None })).into()
    }
}
