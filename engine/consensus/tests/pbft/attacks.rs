//! Byzantine replicas.

use crate::common::config;
use crate::common::keys::{Keys, forged_certificate};
use crate::common::network::Letter;
use crate::common::told_pbft::Pbft;
use crate::common::world::{Act, World};
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, PbftMessage, PrePrepare, ViewChange};
use quorate_consensus::seam::Drop;
use quorate_consensus::{Action, Config};
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, Height, ReplicaId, Subject, View, Vote};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn small() -> Config {
    Config { window: 20, checkpoint_interval: 10, retained_blocks: 64, view_timeout_ms: 100, ..config::<Pbft>() }
}

fn dropped(world: &World<Pbft>, replica: u16, why: Drop) -> u64 {
    world.replica(replica).dropped().get(&why).copied().unwrap_or(0)
}

fn pre_prepare(keys: &Keys, primary: u16, view: u64, slot: u64, payload: Vec<Digest>) -> PbftMessage {
    let block = Arc::new(Block::of_slot(View(view), ReplicaId(primary), Height(slot), payload, 0));
    let endorsement = keys.vote(ReplicaId(primary), block.subject(Domain::Prepare), Attachment::None);
    PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement, block, bundles: Vec::new() }))
}

fn prepared(view: u64, slot: u64, digest: u8) -> Subject {
    Subject { domain: Domain::Prepare, view: View(view), height: Height(slot), digest: Digest([digest; 32]) }
}

fn view_change(keys: &Keys, voter: u16, view: u64, prepared: Vec<Certificate>) -> ViewChange {
    let checkpoint = Certificate::genesis(&keys.epoch);
    let subjects: Vec<Subject> = prepared.iter().map(|proof| proof.subject).collect();
    let digest = Declaration::digest(&checkpoint.subject, &subjects, &[]);
    let subject = Subject { domain: Domain::ViewChange, view: View(view), height: Height(0), digest };
    ViewChange {
        vote: keys.vote(ReplicaId(voter), subject, Attachment::None),
        checkpoint,
        prepared,
        voted: Vec::new(),
        committed: Height(0),
    }
}

fn new_view(keys: &Keys, primary: u16, changes: &[ViewChange], prepared: Vec<Certificate>) -> NewView {
    let changes: Vec<Declaration> = changes.iter().map(ViewChange::declaration).collect();
    let (view, digest) = (changes[0].vote.subject.view, NewView::digest(&changes));
    let subject = Subject { domain: Domain::Proposal, view, height: Height(0), digest };
    let endorsement = keys.vote(ReplicaId(primary), subject, Attachment::None);
    NewView { endorsement, changes, checkpoint: Certificate::genesis(&keys.epoch), prepared }
}

/// A primary that leaves gaps does not exhaust any replica: proposals above the watermark are ignored, and the gaps
/// cause the primary's replacement.
#[test]
fn a_primary_that_skips_slots_is_replaced() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    world.corrupt(
        0,
        Box::new(|_, action, out| match action {
            Action::Send { to, message: Letter::Protocol(PbftMessage::PrePrepare(honest)), sign, .. } => {
                for skipped in [3, 19, 20, 1_000_000, u64::MAX - 1] {
                    let block = &honest.block;
                    let slot = Height(block.height.0.saturating_add(skipped).min(u64::MAX - 1));
                    let block =
                        Arc::new(Block::of_slot(block.view, block.author, slot, block.payload.clone(), block.time_ms));
                    let endorsement = Vote { subject: block.subject(Domain::Prepare), ..honest.endorsement.clone() };
                    let far = PrePrepare { endorsement, block, bundles: honest.bundles.clone() };
                    let message = Letter::Protocol(PbftMessage::PrePrepare(Box::new(far)));
                    let others = if to == quorate_consensus::To::All { quorate_consensus::To::Others } else { to };
                    out.push(Action::Send { to: others, message, after: None, sign });
                }
            }
            action => out.push(action),
        }),
    );
    let command = world.submit(1);
    assert!(world.run_until_done(SECOND, &command), "a primary that leaves gaps is replaced");
    for replica in 1..4 {
        assert!(dropped(&world, replica, Drop::TooFarAhead) >= 3, "no proposal above the high watermark is accepted");
        assert!(world.replica(replica).protocol().log().slots.len() <= 20);
        let heights: Vec<u64> = world.commits(replica).iter().map(|commit| commit.block.height.0).collect();
        assert!(heights.iter().copied().eq(1..=heights.len() as u64), "blocks are executed without gaps");
    }
}

#[test]
fn statements_in_another_replicas_name_are_dropped() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    let command = world.bundle(1).digest();
    world.inject(2, 1, pre_prepare(&world.keys, 2, 1, 1, vec![command]));
    world.inject(2, 1, pre_prepare(&world.keys, 0, 1, 1, vec![command]));
    let vote = world.keys.vote(ReplicaId(3), prepared(1, 1, 9), Attachment::None);
    world.inject(2, 1, PbftMessage::Prepare(vote.clone()));
    world.inject(2, 1, PbftMessage::Commit(vote));
    world.inject(0, 1, pre_prepare(&world.keys, 0, 1, 1, Vec::new()));
    world.run_for(Duration::from_millis(10));
    assert_eq!(dropped(&world, 1, Drop::NotTheLeader), 1);
    assert_eq!(dropped(&world, 1, Drop::NotTheSender), 3);
    assert_eq!(dropped(&world, 1, Drop::Malformed), 1, "an empty PRE-PREPARE is dropped");
    assert!(world.replica(1).protocol().log().slots.is_empty());
}

/// A single replica moves no other replica, neither with a view change far ahead nor with invalid proofs.
#[test]
fn a_single_view_change_moves_no_replica() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    let forged = forged_certificate(prepared(1, 1, 9), 0..3);
    let few = world.keys.certificate(prepared(1, 1, 9), 0..2);
    for change in [
        view_change(&world.keys, 3, 1_000_000, Vec::new()),
        view_change(&world.keys, 3, 1_000_001, vec![forged]),
        view_change(&world.keys, 3, 1_000_002, vec![few]),
    ] {
        world.inject(3, 1, PbftMessage::ViewChange(Box::new(change)));
    }
    let signed_by_another = ViewChange {
        vote: Vote { voter: ReplicaId(2), ..view_change(&world.keys, 3, 7, Vec::new()).vote },
        ..view_change(&world.keys, 3, 7, Vec::new())
    };
    world.inject(2, 1, PbftMessage::ViewChange(Box::new(signed_by_another)));
    world.run_for(Duration::from_millis(10));
    assert_eq!(world.replica(1).view(), View(1));
    assert_eq!(dropped(&world, 1, Drop::NotGenuine), 3);
    let command = world.submit(1);
    assert!(world.run_until_done(Duration::from_millis(20), &command));
    // A second view change moves the replica, because at least one of f+1 senders is honest. It does not follow the
    // highest view.
    world.inject(2, 1, PbftMessage::ViewChange(Box::new(view_change(&world.keys, 2, 5, Vec::new()))));
    world.run_for(Duration::from_millis(2));
    assert_eq!(world.replica(1).view(), View(5));
}

/// A new view must follow from its view changes. It is refused if it omits a prepared slot, if a proof is missing, void
/// or for another block, or if there are too few or repeated view changes.
#[test]
fn an_inconsistent_new_view_is_refused() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    let keys = world.keys;
    let proof = keys.certificate(prepared(1, 2, 9), 0..3);
    let forged = forged_certificate(prepared(1, 2, 9), 0..3);
    let other = keys.certificate(prepared(1, 2, 8), 0..3);
    let with = view_change(&keys, 0, 2, vec![proof.clone()]);
    let without = |voter| view_change(&keys, voter, 2, Vec::new());
    let good = [with.clone(), without(1), without(2)];
    let contested = [with.clone(), view_change(&keys, 1, 2, vec![other.clone()]), without(2)];
    let malformed = [
        new_view(&keys, 1, &good, Vec::new()),
        new_view(&keys, 1, &good, vec![other.clone()]),
        new_view(&keys, 1, &good, vec![proof.clone(), other]),
        new_view(&keys, 1, &contested, vec![proof.clone()]),
        new_view(&keys, 1, &good[..2], vec![proof.clone()]),
        new_view(&keys, 1, &[with.clone(), without(1), without(1)], vec![proof.clone()]),
        NewView { changes: vec![], ..new_view(&keys, 1, &good, vec![proof.clone()]) },
    ];
    let refused = malformed.len() as u64;
    for new_view in malformed {
        world.inject(1, 3, PbftMessage::NewView(Box::new(new_view)));
    }
    world.inject(1, 3, PbftMessage::NewView(Box::new(new_view(&keys, 2, &good, vec![proof.clone()]))));
    world.inject(1, 3, PbftMessage::NewView(Box::new(new_view(&keys, 1, &good, vec![forged]))));
    let mut unsigned = new_view(&keys, 1, &good, vec![proof.clone()]);
    unsigned.changes[2].vote.signature = vec![0; 32].into();
    world.inject(1, 3, PbftMessage::NewView(Box::new(unsigned)));
    world.run_for(Duration::from_millis(5));
    assert_eq!(dropped(&world, 3, Drop::Malformed), refused);
    assert_eq!(dropped(&world, 3, Drop::NotTheLeader), 1);
    assert_eq!(dropped(&world, 3, Drop::NotGenuine), 2);
    assert_eq!(world.replica(3).view(), View(1));
    // The genuine one is accepted, from any sender.
    world.inject(2, 3, PbftMessage::NewView(Box::new(new_view(&keys, 1, &good, vec![proof]))));
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.replica(3).view(), View(2));
}

/// f replicas that report false decisions are not believed.
#[test]
fn f_false_decisions_are_not_believed() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    for _ in 0..3 {
        let digests = vec![Digest([9; 32]); 200];
        world.inject(3, 1, PbftMessage::Decided { above: Height(0), digests, checkpoint: None });
    }
    let state = Subject { domain: Domain::Checkpoint, view: View(0), height: Height(10), digest: Digest([9; 32]) };
    let checkpoint = Some(Box::new(forged_certificate(state, 0..3)));
    world.inject(3, 1, PbftMessage::Decided { above: Height(0), digests: Vec::new(), checkpoint });
    world.run_for(Duration::from_millis(10));
    assert!(world.replica(1).protocol().log().decided.is_empty());
    assert_eq!(world.replica(1).protocol().log().low(), Height(0));
    let command = world.submit(1);
    assert!(world.run_until_done(Duration::from_millis(20), &command));
}

/// A replica whose votes have invalid signatures and arrive first delays no other replica.
#[test]
fn forged_votes_delay_no_replica() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    for to in 0..3 {
        world.network.set_delay(ReplicaId(3), ReplicaId(to), Duration::from_micros(100));
    }
    let spoil = |_: &Keys, action: Act<PbftMessage>, out: &mut Vec<Act<PbftMessage>>| match action {
        Action::Send { to, message: Letter::Protocol(PbftMessage::Prepare(mut vote)), .. } => {
            vote.signature = vec![1; 32].into();
            out.push(Action::Send {
                to,
                message: Letter::Protocol(PbftMessage::Prepare(vote)),
                after: None,
                sign: false,
            });
        }
        action => out.push(action),
    };
    world.corrupt(3, Box::new(spoil));
    for _ in 0..25 {
        let command = world.submit(1);
        assert!(world.run_until_done(Duration::from_millis(20), &command), "an invalid vote delays the others");
    }
    assert!(dropped(&world, 0, Drop::NotGenuine) > 0, "R0 finds the invalid votes");
    assert_eq!(world.view_timeouts(), 0);
}
