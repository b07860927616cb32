//! Optimistic proposals: when they are valid, when they are not, and what they gain.

use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::story::Story;
use crate::common::world::{Act, HOP, World};
use quorate_consensus::config::LeaderKind;
use quorate_consensus::protocols::chained::engine::Chained;
use quorate_consensus::protocols::chained::rules::{HotStuff2, SimpleMoonshot};
use quorate_consensus::protocols::views::message::{FromView, Proposal, ViewMessage};
use quorate_consensus::seam::Drop;
use quorate_consensus::{Action, Config, To};
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, Height, ReplicaId, Subject, View, Vote};
use std::sync::Arc;
use std::time::Duration;

type Moonshot = Chained<SimpleMoonshot>;
const LONG: Duration = Duration::from_secs(1);

fn beginning<R: Viewed>() -> World<R> {
    let config = Config { leader: LeaderKind::RoundRobin, view_timeout_ms: 100, ..crate::common::config::<R>() };
    let mut world = World::new(4, config, 1);
    world.story = Some(Story::default());
    world.start();
    world
}

fn compare(name: &str, world: &World<Moonshot>) {
    let story = world.story.as_ref().expect("the world records a story");
    let text = format!("{}\n{}", crate::golden_prose::title::<Moonshot>(name), story.text());
    crate::golden_files::compare("simple-moonshot", name, &text);
}

#[test]
fn leader_crashes_after_proposing_ahead() {
    let mut world = beginning::<Moonshot>();
    let first = world.submit(1);
    let ahead = |world: &World<Moonshot>| world.replica(2).parts().safety.last(Domain::OptimisticProposal).is_some();
    assert!(world.run_until(LONG, ahead), "R2 proposes in v1 for v2");
    world.kill(2);
    assert!(world.run_until_done(LONG, &first));
    assert_eq!(world.view_timeouts(), 0, "the proposal of the dead leader is certified");
    compare("leader-crashes-after-proposing-ahead", &world);
}

/// Sends its block to R0 and R3 and an empty one to R2, votes for its block, and falls silent.
fn mislead(action: Act<ViewMessage>, out: &mut Vec<Act<ViewMessage>>) {
    match action {
        Action::Send { message: Letter::Protocol(message), sign, after, .. } => match message.into_view() {
            Ok(ViewMessage::Proposal(proposal)) if proposal.block.view == View(1) => {
                let Block { view, author, justify, time_ms, .. } = (*proposal.block).clone();
                let block = Arc::new(Block::new(view, author, justify, vec![], time_ms));
                let endorsement = Vote { subject: block.subject(Domain::Proposal), ..proposal.endorsement.clone() };
                let other = Arc::new(Proposal { block, endorsement, bundles: vec![], ..(*proposal).clone() });
                for (to, proposal) in [(0, &proposal), (3, &proposal), (2, &other)] {
                    let message = Letter::Protocol(ViewMessage::Proposal(proposal.clone()));
                    out.push(Action::Send { to: To::One(ReplicaId(to)), message, after: None, sign });
                }
            }
            Ok(ViewMessage::Vote(vote)) if vote.subject.view == View(1) => {
                let message = Letter::Protocol(ViewMessage::Vote(vote));
                out.push(Action::Send { to: To::All, message, after, sign });
            }
            _ => {}
        },
        Action::Send { .. } => {}
        action => out.push(action),
    }
}

#[test]
fn uncertified_parent() {
    let mut world = beginning::<Moonshot>();
    world.corrupt(1, Box::new(|_, action, out| mislead(action, out)));
    let first = world.submit(1);
    assert!(world.run_until_done(LONG, &first));
    assert!(world.oracle.accused().iter().all(|accused| *accused == ReplicaId(1)), "two kinds are no contradiction");
    let own = [Domain::OptimisticProposal, Domain::Proposal]
        .map(|kind| world.replica(2).parts().safety.last(kind).map(|promise| promise.subject.view));
    assert_eq!(own, [Some(View(2)); 2], "R2 proposes twice for v2");
    compare("uncertified-parent", &world);
}

/// Returns the number of hops from a view to the next, on average over 100 ms of constant load.
fn block_period<R: Viewed>() -> f64 {
    let config = Config { leader: LeaderKind::RoundRobin, view_timeout_ms: 100, ..crate::common::config::<R>() };
    let mut world = World::<R>::started(4, config, 1);
    for _ in 0..100 {
        world.submit(1);
        world.run_for(HOP);
    }
    assert_eq!(world.view_timeouts(), 0);
    100.0 / world.replica(0).view().0 as f64
}

#[test]
fn a_block_follows_its_parent_after_one_hop_instead_of_two() {
    let [moonshot, hotstuff_2] = [block_period::<Moonshot>(), block_period::<Chained<HotStuff2>>()];
    assert!((0.9..1.1).contains(&moonshot), "{moonshot} hops");
    assert!((1.9..2.2).contains(&hotstuff_2), "{hotstuff_2} hops");
}

/// Returns an optimistic proposal, as its author would sign it.
fn ahead(world: &World<Moonshot>, author: u16, view: u64, parent: &Block, high: Option<Certificate>) -> ViewMessage {
    let subject = parent.subject(Domain::Vote);
    proposal(world, Arc::new(Block::optimistic(View(view), ReplicaId(author), subject, vec![], 0)), high)
}

fn proposal(world: &World<Moonshot>, block: Arc<Block>, evidence: Option<Certificate>) -> ViewMessage {
    let endorsement = world.keys.vote(block.author, block.subject(Proposal::domain(&block)), Attachment::None);
    ViewMessage::Proposal(Arc::new(Proposal { block, evidence, endorsement, bundles: Vec::new() }))
}

fn dropped(world: &World<Moonshot>, replica: u16, why: Drop) -> u64 {
    world.replica(replica).dropped().get(&why).copied().unwrap_or(0)
}

/// Returns a world in which R2, the leader of v2, is Byzantine and silent, and the block that R1 proposes in v1.
fn with_a_silent_next_leader() -> (World<Moonshot>, Arc<Block>) {
    let mut world = beginning::<Moonshot>();
    world.corrupt(
        2,
        Box::new(|_, action, out| out.extend(Some(action).filter(|action| !matches!(action, Action::Send { .. })))),
    );
    world.submit(1);
    world.run_for(HOP);
    let voted = world.replica(0).parts().safety.last(Domain::Vote).expect("R0 votes in v1").subject;
    let block = world.replica(0).parts().store.tree.get(&voted.digest).expect("R0 has the block").clone();
    (world, block)
}

#[test]
fn two_optimistic_proposals_in_a_view_are_evidence() {
    let (mut world, parent) = with_a_silent_next_leader();
    let one = ahead(&world, 2, 2, &parent, None);
    let payload = world.replica(0).parts().store.tree.get(&parent.digest()).expect("it is here").payload.clone();
    let other = Block::optimistic(View(2), ReplicaId(2), parent.subject(Domain::Vote), payload, 0);
    let other = proposal(&world, Arc::new(other), None);
    world.inject(2, 0, one.clone());
    world.inject(2, 0, one.clone());
    assert!(world.oracle.accused().is_empty(), "a repeated proposal is none");
    world.inject(2, 0, other);
    world.run_for(HOP);
    assert!(world.oracle.accused().contains(&ReplicaId(2)));
}

#[test]
fn an_optimistic_proposal_that_cannot_stand_is_dropped() {
    let (mut world, parent) = with_a_silent_next_leader();
    let near = |view| Subject { view: View(view), ..parent.subject(Domain::Vote) };
    let optimistic = |view, on| Arc::new(Block::optimistic(View(view), ReplicaId(2), on, vec![], 0));
    let skips = proposal(&world, optimistic(3, near(1)), None);
    world.inject(2, 0, skips);
    world.run_for(HOP);
    assert_eq!(dropped(&world, 0, Drop::Malformed), 1, "it skips a view");
    let far = proposal(&world, optimistic(10, near(9)), None);
    world.inject(2, 0, far);
    world.run_for(HOP);
    assert_eq!(dropped(&world, 0, Drop::TooFarAhead), 1, "nothing shows that its view is near");
    let forged = Certificate { subject: near(5), ..Certificate::genesis(&world.keys.epoch) };
    let shows_forged = proposal(&world, optimistic(6, near(5)), Some(forged));
    world.inject(2, 0, shows_forged);
    world.run_for(HOP);
    assert_eq!(dropped(&world, 0, Drop::NotGenuine), 1, "it shows a certificate that nobody signed");
    let unasked = ahead(&world, 3, 2, &parent, None);
    world.inject(3, 0, unasked);
    world.run_for(HOP);
    assert!(dropped(&world, 0, Drop::NotTheLeader) > 0, "R2 leads v2");
}

#[test]
fn protocols_without_optimistic_proposals_refuse_them() {
    let mut world = beginning::<Chained<HotStuff2>>();
    world.submit(1);
    world.run_for(HOP);
    let voted = world.replica(0).parts().safety.last(Domain::Vote).expect("R0 votes in v1").subject;
    let block = Arc::new(Block::optimistic(View(2), ReplicaId(2), voted, vec![], 0));
    let endorsement = world.keys.vote(ReplicaId(2), block.subject(Domain::OptimisticProposal), Attachment::None);
    let message = Proposal { block, evidence: None, endorsement, bundles: Vec::new() };
    world.inject(2, 0, ViewMessage::Proposal(Arc::new(message)));
    world.run_for(HOP);
    assert_eq!(world.replica(0).dropped().get(&Drop::Malformed), Some(&1));
}

/// The block and the optimistic one on it become complete in one step.
#[test]
fn a_replica_that_fetches_the_parent_votes_for_the_optimistic_block_on_it() {
    let mut world = beginning::<Moonshot>();
    world.network.filter = Some(Box::new(|flight| {
        let Letter::Protocol(ViewMessage::Proposal(proposal)) = flight.letter else { return false };
        proposal.block.view == View(1) && flight.to == ReplicaId(0)
    }));
    let command = world.submit(1);
    world.run_for(HOP);
    world.kill(3); // It has voted in v1; in v2 the others need R0.
    assert!(world.run_until_done(LONG, &command));
    assert_eq!(world.view_timeouts(), 0, "R0 fetches the block of v1 and votes in v2");
}

/// Gives R0 an optimistic proposal of R2 for v2, which R2 leads, on a parent with this subject.
fn propose_ahead_on(world: &mut World<Moonshot>, parent: Subject) -> Arc<Block> {
    let block = Arc::new(Block::optimistic(View(2), ReplicaId(2), parent, vec![], 0));
    let message = proposal(world, block.clone(), None);
    world.inject(2, 0, message);
    world.run_for(HOP);
    block
}

#[test]
fn an_optimistic_proposal_that_misstates_the_height_of_its_parent_is_dropped() {
    let (mut world, parent) = with_a_silent_next_leader();
    let block = propose_ahead_on(&mut world, Subject { height: Height(1000), ..parent.subject(Domain::Vote) });
    assert!(!world.replica(0).parts().store.tree.contains(&block.digest()));
    assert_eq!(dropped(&world, 0, Drop::Malformed), 1);
    let command = world.submit(1);
    assert!(world.run_until_done(LONG, &command), "a block off the chain does not stop the replica");
}

#[test]
fn an_optimistic_proposal_that_waits_for_its_parent_is_dropped_if_it_misstates_it() {
    let mut world = beginning::<Moonshot>();
    world.corrupt(2, Box::new(|_, _, _| {}));
    let command = world.submit(1);
    world.network.filter = Some(Box::new(|flight| {
        let Letter::Protocol(ViewMessage::Proposal(proposal)) = flight.letter else { return false };
        proposal.block.view == View(1) && flight.to == ReplicaId(0)
    }));
    world.run_for(HOP);
    let voted = world.replica(1).parts().safety.last(Domain::Vote).expect("R1 votes in v1").subject;
    let block = propose_ahead_on(&mut world, Subject { height: Height(1000), ..voted });
    assert!(world.run_until_done(LONG, &command));
    assert!(!world.replica(0).parts().store.tree.contains(&block.digest()));
    assert_eq!(world.replica(0).parts().store.waiting(), 0);
}

/// A faulty leader invents the parent of its block, so no replica could ever answer a request for it.
#[test]
fn the_request_for_a_parent_that_nobody_certified_ends_with_the_view() {
    let (mut world, parent) = with_a_silent_next_leader();
    let missing = Block::new(View(1), ReplicaId(1), parent.justify.clone(), vec![Digest([7; 32])], 0);
    let far = Subject { height: Height(1000), ..missing.subject(Domain::Vote) };
    let block = propose_ahead_on(&mut world, far);
    let store = &world.replica(0).parts().store;
    assert!(store.wants_block(&block.parent()) && store.waiting() == 1);
    let command = world.submit(1);
    assert!(world.run_until_done(LONG, &command));
    assert!(world.replica(0).view() > View(2));
    let store = &world.replica(0).parts().store;
    assert_eq!((store.wants_block(&block.parent()), store.waiting()), (false, 0), "it can no longer be voted for");
}
