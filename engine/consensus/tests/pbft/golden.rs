//! Runs of PBFT as text, in `testdata/pbft/<story>.txt`.
//!
//! `QUORATE_GOLDEN=write cargo test -p quorate-consensus --test tests pbft` rewrites them. Review the differences
//! before you commit them.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::Play;
use crate::common::story::Story;
use crate::common::told_pbft::Pbft;
use crate::common::world::{Act, HOP, World};
use crate::golden_files::{compare, wrap};
use quorate_consensus::protocols::pbft::message::{PbftMessage, PrePrepare};
use quorate_consensus::{Action, Config, To};
use quorate_types::{Block, Digest, Domain, Height, ReplicaId, View, Vote};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1);
const ESSENCE: &str = "The primary gives a block to a slot with PRE-PREPARE, which is its PREPARE too. All say \
     PREPARE; n-f of these are a proof, upon which a replica says COMMIT; n-f of those decide the slot. Slots are \
     executed in order.";

fn beginning(config: Config) -> World<Pbft> {
    let mut world = World::new(4, Config { view_timeout_ms: 100, ..config }, 1);
    let mut story = Story::default();
    story.names_blocks = true;
    world.story = Some(story);
    world.start();
    world
}

fn tell(name: &str, heading: &str, shows: &str, world: &World<Pbft>) {
    record(name, &format!("PBFT: {heading}"), [ESSENCE, shows], world);
}

/// Compares the story of a run, below its heading and its introduction, with the file of that name.
pub fn record<P: Play>(name: &str, heading: &str, shows: [&str; 2], world: &World<P>) {
    let story = world.story.as_ref().expect("the run is recorded");
    let [essence, here] = shows.map(wrap);
    compare(P::NAME, name, &format!("{heading}\n\n{essence}\n{here}\n{}", story.text()));
}

#[test]
fn happy() {
    let mut world = beginning(config::<Pbft>());
    for _ in 0..2 {
        let start = world.now;
        let command = world.submit(1);
        assert!(world.run_until_done(LONG, &command), "the command is not ordered");
        assert_eq!(world.now.since(start), HOP * 3, "PRE-PREPARE, PREPARE, COMMIT");
        world.run_for(Duration::from_millis(10));
    }
    assert_eq!(world.view_timeouts(), 0, "no view times out without faults");
    tell(
        "happy",
        "a happy life",
        "Here nothing goes wrong. A commit takes three hops, at every replica at once, and then the cluster rests \
         without a message or an alarm: with the client's hop and the reply's that makes five. Every link takes 1 ms \
         and all else takes no time; `sent` counts messages, those to oneself left out.",
        &world,
    );
}

#[test]
fn silent_primary() {
    let mut world = beginning(config::<Pbft>());
    let first = world.submit(1);
    assert!(world.run_until_done(LONG, &first));
    world.run_for(Duration::from_millis(6));
    world.kill(0);
    let second = world.submit(1);
    assert!(world.run_until_done(LONG, &second), "the primary is not replaced");
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.max_view_timeouts(), 1, "exactly one view times out");
    tell(
        "silent-primary",
        "a silent primary",
        "R0 leads until it dies, before c2 comes. After half a view timeout of 100 ms the others remind it of c2 and \
         tell each other where they are; after a whole one they ask for the next view. Slot 1 is executed by all, but \
         only a checkpoint would prove that: so it is agreed on again, and executed no more. R1 leads from then on.",
        &world,
    );
}

#[test]
fn equivocating_primary() {
    let mut world = beginning(config::<Pbft>());
    let first = world.submit(1);
    assert!(world.run_until_done(LONG, &first));
    world.run_for(Duration::from_millis(6));
    let mut once = true;
    world.corrupt(0, Box::new(move |_, action, out| equivocate(first, &mut once, action, out)));
    let second = world.submit(1);
    assert!(world.run_until_done(LONG, &second), "an equivocating primary is not replaced");
    world.run_for(Duration::from_millis(5));
    assert!(world.oracle.accused().contains(&ReplicaId(0)), "R0 is accused");
    tell(
        "equivocating-primary",
        "a primary that says two things",
        "R0 turns Byzantine: it signs two blocks for slot 2, sends one to R1 and R2 and the other to R2 and R3, and \
         says no more. R2 has seen both and accuses R0: two genuine signatures are proof. A replica says PREPARE once \
         for a slot, so at most one block can be prepared. Here R1 and R2 make one so, with the PREPARE that R0's \
         PRE-PREPARE is, but two are too few to decide it. Their view changes prove that it was prepared; R3, which \
         has the other, follows the new view, and fetches it.",
        &world,
    );
}

/// Sends its next block to R1 and R2 and a different one to R2 and R3, and then falls silent.
fn equivocate(other: Digest, once: &mut bool, action: Act<PbftMessage>, out: &mut Vec<Act<PbftMessage>>) {
    match action {
        Action::Send { message: Letter::Protocol(PbftMessage::PrePrepare(honest)), sign, .. }
            if std::mem::take(once) =>
        {
            let block = &honest.block;
            let twin = Arc::new(Block::of_slot(block.view, block.author, block.height, vec![other], block.time_ms));
            let endorsement = Vote { subject: twin.subject(Domain::Prepare), ..honest.endorsement.clone() };
            let twin = PrePrepare { endorsement, block: twin, bundles: Vec::new() };
            for (to, chosen) in [(1, &*honest), (2, &*honest), (2, &twin), (3, &twin)] {
                let message = Letter::Protocol(PbftMessage::PrePrepare(Box::new(chosen.clone())));
                out.push(Action::Send { to: To::One(ReplicaId(to)), message, after: None, sign });
            }
        }
        Action::Send { .. } => {}
        action => out.push(action),
    }
}

#[test]
fn new_view() {
    let mut world = beginning(config::<Pbft>());
    world.network.filter = Some(Box::new(|flight| match flight.letter {
        Letter::Protocol(PbftMessage::PrePrepare(message)) => message.block.height == Height(1),
        Letter::Protocol(PbftMessage::Commit(vote)) => vote.subject.view == View(1),
        _ => false,
    }));
    world.tell_of_network("will lose every PRE-PREPARE of h1 and every COMMIT of v1");
    let commands = [world.submit(1), world.submit(1)];
    world.run_for(Duration::from_millis(10));
    world.kill(0);
    let all = |world: &World<Pbft>| commands.iter().all(|command| world.is_done(command));
    assert!(world.run_until(LONG, all), "the new view fills the gap of the old one");
    world.run_for(Duration::from_millis(5));
    let ordered: Vec<Vec<Digest>> = world.commits(1).iter().map(|commit| commit.block.payload.clone()).collect();
    assert_eq!(
        ordered,
        [vec![], vec![commands[1]], vec![commands[0]]],
        "slots 1 to 3 hold null, the prepared and the lost command"
    );
    tell(
        "new-view",
        "a new view that mends a gap",
        "R0 gives c1 to slot 1 and c2 to slot 2. Of slot 1 nobody hears; slot 2 is prepared, but no COMMIT gets \
         through, and R0 dies. Somebody may have executed c2, so the new view proposes it again in its slot: three \
         view changes show that it was prepared. Nobody can have executed anything in slot 1, which becomes a null \
         request. c1 gets a slot of its own after them.",
        &world,
    );
}

#[test]
fn state_transfer() {
    let small = Config { checkpoint_interval: 2, window: 4, retained_blocks: 4, ..config::<Pbft>() };
    let mut world = beginning(small);
    (world.keeps_every, world.state_bytes) = (1, 300_000);
    world.network.isolate(ReplicaId(3), true);
    world.tell_of_network("cuts R3 off");
    for _ in 0..7 {
        let command = world.submit_to(&[0, 1, 2], 1);
        let done = |world: &World<Pbft>| (0..3).all(|replica| world.commit_time(replica, &command).is_some());
        assert!(world.run_until(LONG, done), "three of four replicas make progress");
        world.run_for(Duration::from_millis(3));
    }
    world.network.heal();
    world.tell_of_network("joins R3 again");
    let last = world.submit(1);
    assert!(world.run_until_done(LONG, &last), "R3 does not catch up");
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.commits(3).len(), 8, "R3 is at the height of the others");
    assert!(world.adopted(3).is_some(), "R3 catches up by the state of a checkpoint");
    tell(
        "state-transfer",
        "a replica that comes back by the state",
        "After every second slot (checkpoint_interval) the replicas vouch for their state, and here they keep it each \
         time. R3 is cut off for longer than the four blocks that are kept (retained_blocks), or those above the \
         older of two states. When it says where it is, it is offered a state: of f+1 who do so one is honest. STABLE \
         names the manifest, and the manifest its chunks, so it does not matter who sends them; the peers are asked \
         in turn. R3 goes on from there, and is told the slots above.",
        &world,
    );
}

#[test]
fn checkpoint() {
    let small = Config { checkpoint_interval: 2, window: 4, ..config::<Pbft>() };
    let mut world = beginning(small);
    world.network.isolate(ReplicaId(3), true);
    world.tell_of_network("cuts R3 off");
    for _ in 0..3 {
        let command = world.submit_to(&[0, 1, 2], 1);
        let done = |world: &World<Pbft>| (0..3).all(|replica| world.commit_time(replica, &command).is_some());
        assert!(world.run_until(LONG, done), "three of four replicas make progress");
        world.run_for(Duration::from_millis(3));
    }
    for replica in 0..3 {
        let log = world.replica(replica).protocol().log();
        assert_eq!((log.low(), log.high()), (Height(2), Height(6)));
        assert_eq!(log.slots.keys().copied().collect::<Vec<_>>(), [Height(3)], "slots 1 and 2 are forgotten");
    }
    world.network.heal();
    world.tell_of_network("joins R3 again");
    let last = world.submit(1);
    assert!(world.run_until_done(LONG, &last), "R3 does not catch up");
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.commits(3).len(), 4, "R3 has executed all blocks of the others");
    assert_eq!(world.view_timeouts(), 0);
    tell(
        "checkpoint",
        "checkpoints, and a replica that missed one",
        "After every second slot (checkpoint_interval) the replicas vouch for their state; n-f who vouch for the same \
         make it stable, the window of four slots moves up, and the votes below are forgotten. R3 misses three slots, \
         and the votes on two of them are gone for good. It takes part in slot 4, but cannot execute it. After half a \
         view timeout it says where it is. What f+1 tell it is true, the checkpoint proves itself, and the blocks are \
         fetched by their digests.",
        &world,
    );
}
