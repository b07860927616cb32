//! Runs of PBFT with MACs as text, in `testdata/pbft-mac/<story>.txt`: view changes, where it differs from PBFT.
//!
//! `QUORATE_GOLDEN=write cargo test -p quorate-consensus --test tests pbft` rewrites them. Review the differences
//! before you commit them.

use super::golden::record;
use crate::common::config;
use crate::common::network::Letter;
use crate::common::story::Story;
use crate::common::told_pbft::PbftMac;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::protocols::pbft::message::{Declaration, PbftMessage, bare};
use quorate_consensus::{Action, To};
use quorate_types::{Digest, Domain, Height, Quorum, Subject, View};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(2);
const ESSENCE: &str = "PREPAREs convince only their receivers, so a view change shows no proof. Its sender claims what \
     it prepared, P, and what it voted for, Q. The new view carries a block over that somebody prepared, if n-f \
     replicas claim nothing later (A1) and f+1 voted for it (A2), and a null request if n-f prepared nothing (B).";

fn beginning() -> World<PbftMac> {
    let mut world = World::new(4, Config { view_timeout_ms: 100, ..config::<PbftMac>() }, 1);
    let mut story = Story::default();
    story.names_blocks = true;
    story.claims_of = Some(Quorum::of(4).expect("the size is valid"));
    world.story = Some(story);
    world.start();
    world
}

fn tell(name: &str, heading: &str, shows: &str, world: &World<PbftMac>) {
    record(name, &format!("PBFT for MACs: {heading}"), [ESSENCE, shows], world);
}

#[test]
fn new_view() {
    let mut world = beginning();
    world.network.filter = Some(Box::new(|flight| match flight.letter {
        Letter::Protocol(PbftMessage::PrePrepare(message)) => message.block.height == Height(1),
        Letter::Protocol(PbftMessage::Commit(vote)) => vote.subject.view == View(1),
        _ => false,
    }));
    world.tell_of_network("will lose every PRE-PREPARE of h1 and every COMMIT of v1");
    let commands = [world.submit(1), world.submit(1)];
    world.run_for(Duration::from_millis(10));
    world.kill(0);
    let all = |world: &World<PbftMac>| commands.iter().all(|command| world.is_done(command));
    assert!(world.run_until(LONG, all), "the new view fills the gap of the old one");
    world.run_for(Duration::from_millis(5));
    let ordered: Vec<Vec<Digest>> = world.commits(1).iter().map(|commit| commit.block.payload.clone()).collect();
    assert_eq!(ordered, [vec![], vec![commands[1]], vec![commands[0]]], "null, the prepared and the lost command");
    tell(
        "new-view",
        "a new view that mends a gap",
        "R0 gives c1 to slot 1 and c2 to slot 2. Of slot 1 nobody hears; slot 2 is prepared, but no COMMIT gets \
         through, and R0 dies. All three claim that they prepared c2 and voted for it, and carry it over (A1, A2). \
         None prepared anything in slot 1, which becomes a null request (B).",
        &world,
    );
}

/// Claims in P and Q that another block was prepared in slot 1, in a later view than any real one.
fn lie(action: Action<PbftMessage>, out: &mut Vec<Action<PbftMessage>>) {
    let Action::Send { to, message: Letter::Protocol(PbftMessage::ViewChange(mut change)), after, sign } = action
    else {
        return out.push(action);
    };
    let last = View(change.view().0 - 1);
    let other = Subject { domain: Domain::Prepare, view: last, height: Height(1), digest: Digest([9; 32]) };
    (change.prepared, change.voted) = (vec![bare(other)], vec![other]);
    let Declaration { checkpoint, prepared, voted, .. } = change.declaration();
    change.vote.subject.digest = Declaration::digest(&checkpoint, &prepared, &voted);
    let to = if to == To::All { To::Others } else { to };
    out.push(Action::Send { to, message: Letter::Protocol(PbftMessage::ViewChange(change)), after, sign });
}

#[test]
fn lying_replica() {
    let mut world = beginning();
    world.network.filter = Some(Box::new(
        |flight| matches!(flight.letter, Letter::Protocol(PbftMessage::Commit(vote)) if vote.subject.view == View(1)),
    ));
    world.tell_of_network("will lose every COMMIT of v1");
    world.corrupt(3, Box::new(|_, action, out| lie(action, out)));
    let command = world.submit(1);
    assert!(world.run_until(LONG, |world| (0..3).all(|replica| world.commit_time(replica, &command).is_some())));
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.commits(1)[0].block.payload, [command], "the prepared command keeps its slot");
    tell(
        "lying-replica",
        "a replica that claims another block",
        "Slot 1 is prepared everywhere, and no COMMIT gets through. R3 is Byzantine: it claims that another block was \
         prepared there, and that it voted for it. Nobody else did, so A2 does not hold for that block; but R3's claim \
         opposes the right one (A1). R1 has to wait for a quorum without the liar.",
        &world,
    );
}
