//! Golden transcripts: runs of each protocol as text, in `testdata/<protocol>/<story>.txt`.
//!
//! `QUORATE_GOLDEN=write cargo test -p quorate-consensus --test tests golden` rewrites them. Review the differences
//! before you commit them.

use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::story::Story;
use crate::common::world::{Act, HOP, World};
use quorate_consensus::config::LeaderKind;
use quorate_consensus::protocols::basic::BasicHotStuff;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::engine::Chained;
use quorate_consensus::protocols::chained::rules::Jolteon;
use quorate_consensus::protocols::views::message::{FromView, Proposal, ViewMessage};
use quorate_consensus::{Action, Config, To};
use quorate_types::{Block, Certificate, Digest, Domain, ReplicaId, View, Vote};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1);
/// Size of a state with two chunks.
const STATE_BYTES: usize = 300_000;

crate::for_every_protocol! {
    /// Two commands, one after the other.
    happy,
    /// The leader crashes.
    silent_leader,
    /// A replica is offline for a while.
    lagging_replica,
    /// The leader signs two blocks in one view.
    equivocating_leader,
}

mod bodies {
    use super::*;

    pub fn happy<R: Viewed>() {
        let mut world = beginning::<R>();
        let mut commands = Vec::new();
        for _ in 0..2 {
            let start = world.now;
            let messages = world.messages;
            let command = world.submit(1);
            assert!(world.run_until_done(LONG, &command), "{} does not order the command", R::FACTS.name);
            commands.push((command, start, messages));
            world.run_for(Duration::from_millis(10));
        }
        assert_eq!(world.view_timeouts(), 0, "no view times out without faults");
        let certificates = certificates_to_commit::<R>();
        let optimistic = R::FACTS.optimistic_proposals;
        let hops = if optimistic { certificates + 1 } else { 2 * certificates };
        let (command, start, _) = &commands[0];
        let first = world.commit_time(0, command).map(|time| time.since(*start));
        assert_eq!(first, Some(HOP * hops as u32), "a QC takes two hops, or one more than its parent's");
        let mut margin =
            String::from("From a command's arrival at the replicas; the client's hop and the reply's come on top:\n");
        for (number, (command, start, messages)) in commands.iter().enumerate() {
            let _ = writeln!(margin, "{}", cost(&world, number + 1, command, *start, *messages as usize));
        }
        compare::<R>("happy", &world, &margin);
    }

    pub fn silent_leader<R: Viewed>() {
        let mut world = beginning::<R>();
        let first = world.submit(1);
        assert!(world.run_until_done(LONG, &first));
        world.run_for(Duration::from_millis(5));
        world.kill(0);
        let second = world.submit(1);
        assert!(world.run_until_done(LONG, &second), "{} does not survive its leader", R::FACTS.name);
        world.run_for(Duration::from_millis(5));
        assert_eq!(world.max_view_timeouts(), 1, "exactly one view times out");
        compare::<R>("silent-leader", &world, "");
    }

    pub fn lagging_replica<R: Viewed>() {
        let mut world = beginning::<R>();
        world.network.isolate(ReplicaId(3), true);
        world.tell_of_network("cuts R3 off");
        let missed = [world.submit_to(&[0, 1, 2], 1), world.submit_to(&[0, 1, 2], 1)];
        let done = |world: &World<R>| (0..3).all(|at| missed.iter().all(|one| world.commit_time(at, one).is_some()));
        assert!(world.run_until(LONG, done), "three of four replicas make progress");
        world.run_for(Duration::from_millis(4));
        world.network.heal();
        world.tell_of_network("joins R3 again");
        let last = world.submit(1);
        assert!(world.run_until_done(LONG, &last), "{}: R3 does not catch up", R::FACTS.name);
        world.run_for(Duration::from_millis(10));
        assert_eq!(world.commits(3).len(), world.commits(0).len(), "R3 has committed all blocks of the others");
        compare::<R>("lagging-replica", &world, "");
    }

    pub fn equivocating_leader<R: Viewed>() {
        let mut world = beginning::<R>();
        let first = world.submit(1);
        assert!(world.run_until_done(LONG, &first));
        world.run_for(Duration::from_millis(5));
        let view = world.replica(0).view();
        world.corrupt(0, Box::new(move |_, action, out| equivocate::<R>(view, action, out)));
        let second = world.submit(1);
        assert!(world.run_until_done(LONG, &second), "{} does not survive an equivocating leader", R::FACTS.name);
        world.run_for(Duration::from_millis(5));
        assert!(world.oracle.accused().contains(&ReplicaId(0)), "R0 is accused");
        compare::<R>("equivocating-leader", &world, "");
    }
}

/// A replica is offline for longer than the others keep blocks.
#[test]
fn state_transfer() {
    type R = Chained<Jolteon>;
    let small =
        Config { checkpoint_interval: 2, window: 4, retained_blocks: 4, pipeline: 1, ..crate::common::config::<R>() };
    let mut world = beginning_of::<R>(Config { leader: LeaderKind::Fixed, view_timeout_ms: 100, ..small });
    (world.keeps_every, world.state_bytes) = (1, STATE_BYTES);
    world.network.isolate(ReplicaId(3), true);
    world.tell_of_network("cuts R3 off");
    for _ in 0..4 {
        let command = world.submit_to(&[0, 1, 2], 1);
        let done = |world: &World<R>| (0..3).all(|replica| world.commit_time(replica, &command).is_some());
        assert!(world.run_until(LONG, done), "three of four replicas make progress");
        world.run_for(Duration::from_millis(4));
    }
    world.network.heal();
    world.tell_of_network("joins R3 again");
    let last = world.submit(1);
    assert!(world.run_until_done(LONG, &last), "R3 does not catch up");
    let level = |world: &World<R>| world.commits(3).len() == world.commits(0).len();
    assert!(world.run_until(LONG, level), "R3 is at the height of the others");
    world.run_for(Duration::from_millis(5));
    assert!(world.adopted(3).is_some(), "R3 catches up by the state of a checkpoint");
    compare::<R>("state-transfer", &world, "");
}

/// One replica is locked on a block on which the others are not locked.
#[test]
fn view_change_with_a_lock() {
    let mut world = beginning_with::<BasicHotStuff>(LeaderKind::RoundRobin);
    world.network.filter = Some(Box::new(|flight| {
        let Letter::Protocol(BasicMessage::Phase(certificate)) = flight.letter else { return false };
        certificate.subject.domain == Domain::PreCommit && certificate.view() == View(1)
    }));
    world.tell_of_network("loses what R1 begins commit with");
    let genesis = Certificate::genesis(&world.keys.epoch);
    world.corrupt(2, Box::new(move |_, action, out| rebase_and_fall_silent(&genesis, action, out)));
    let first = world.submit(1);
    assert!(world.run_until_done(LONG, &first), "a locked replica does not block the others");
    world.run_for(Duration::from_millis(5));
    let locked = world.replica(1).parts().safety.lock();
    assert_eq!(locked.view, View(3), "R1 has replaced its lock by a newer one");
    assert_eq!(world.max_view_timeouts(), 2, "v1, whose COMMIT was lost, and v2 of the Byzantine leader");
    let second = world.submit(1);
    assert!(world.run_until_done(LONG, &second));
    world.run_for(Duration::from_millis(5));
    compare::<BasicHotStuff>("view-change-with-a-lock", &world, "");
}

/// Proposes everything it has on genesis, shows the prepareQC, and then falls silent.
fn rebase_and_fall_silent(genesis: &Certificate, action: Act<BasicMessage>, out: &mut Vec<Act<BasicMessage>>) {
    let Action::Send { to, message: Letter::Protocol(message), after, sign } = action else {
        return out.push(action);
    };
    let (message, after) = match message {
        BasicMessage::View(ViewMessage::Proposal(proposal)) => {
            let Proposal { block, endorsement, .. } = &*proposal;
            let block = Arc::new(Block::new(block.view, block.author, genesis.clone(), vec![], block.time_ms));
            let endorsement = Vote { subject: block.subject(Domain::Proposal), ..endorsement.clone() };
            let rebased = Proposal { block, endorsement, bundles: Vec::new(), ..(*proposal).clone() };
            (ViewMessage::Proposal(Arc::new(rebased)).into(), None)
        }
        BasicMessage::Phase(certificate) if certificate.subject.domain != Domain::Prepare => return,
        BasicMessage::View(ViewMessage::Timeout(timeout)) if timeout.vote.subject.view > View(1) => return,
        BasicMessage::View(ViewMessage::Vote(vote)) if vote.subject.view > View(2) => return,
        message => (message, after),
    };
    out.push(Action::Send { to, message: Letter::Protocol(message), after, sign });
}

fn beginning<R: Viewed>() -> World<R> {
    beginning_with(LeaderKind::Fixed)
}

fn beginning_with<R: Viewed>(leader: LeaderKind) -> World<R> {
    beginning_of(Config { leader, view_timeout_ms: 100, ..crate::common::config::<R>() })
}

fn beginning_of<R: Viewed>(config: Config) -> World<R> {
    let mut world = World::new(4, config, 1);
    world.story = Some(Story::default());
    world.start();
    world
}

/// Returns the number of successive certificates in a commit: of a chain of blocks, or of the phases of one block.
fn certificates_to_commit<R: Viewed>() -> usize {
    match R::ENDS_VIEW {
        Domain::Vote => crate::common::config::<R>().protocol.chain_length(),
        _ => [Domain::Prepare, Domain::PreCommit, Domain::Commit].len(),
    }
}

/// In `view`, sends its block to R1 and R2 and a different, empty one to R2 and R3, votes for neither, and then falls
/// silent.
fn equivocate<R: Viewed>(view: View, action: Act<R::Message>, out: &mut Vec<Act<R::Message>>) {
    match action {
        Action::Send { message: Letter::Protocol(message), sign, .. } => {
            let Ok(ViewMessage::Proposal(proposal)) = message.into_view() else { return };
            if proposal.block.view != view {
                return;
            }
            let twin = twin(&proposal);
            for (to, proposal) in [(1, &*proposal), (2, &*proposal), (2, &twin), (3, &twin)] {
                let message = Letter::Protocol(ViewMessage::Proposal(Arc::new(proposal.clone())).into());
                out.push(Action::Send { to: To::One(ReplicaId(to)), message, after: None, sign });
            }
        }
        Action::Send { .. } => {}
        action => out.push(action),
    }
}

fn twin(proposal: &Proposal) -> Proposal {
    let block = Arc::new(Block::new(
        proposal.block.view,
        proposal.block.author,
        proposal.block.justify.clone(),
        vec![],
        proposal.block.time_ms,
    ));
    let endorsement = Vote { subject: block.subject(Domain::Proposal), ..proposal.endorsement.clone() };
    Proposal { block, endorsement, bundles: Vec::new(), ..proposal.clone() }
}

/// Describes the cost of ordering a command. All links have the same delay and nothing else takes time, so times are
/// multiples of a hop.
fn cost<R: Viewed>(
    world: &World<R>,
    number: usize,
    command: &Digest,
    start: quorate_types::Time,
    before: usize,
) -> String {
    let story = world.story.as_ref().expect("the world records a story");
    let commits: Vec<_> = story.milestones.iter().filter(|milestone| milestone.payload.contains(command)).collect();
    let at = |position: usize| {
        let milestone = commits[position];
        let hops = milestone.time.since(start).as_millis();
        format!("{hops} hops and {} messages", milestone.messages - before)
    };
    let weak = world.keys.quorum.weak();
    format!(
        "c{number}: first commit ({:?}) after {}; f+1 = {weak} commits after {}",
        commits[0].replica,
        at(0),
        at(weak - 1)
    )
}

fn compare<R: Viewed>(name: &str, world: &World<R>, margin: &str) {
    let story = world.story.as_ref().expect("the world records a story");
    let mut text = crate::golden_prose::title::<R>(name);
    let _ = write!(text, "\n{}", story.text());
    if !margin.is_empty() {
        let _ = write!(text, "\n{margin}");
    }
    crate::golden_files::compare(R::FACTS.name, name, &text);
}

#[test]
fn a_difference_names_the_lines_that_changed() {
    let shown = crate::golden_files::difference("a\nb\nc\nd\ne\nf\ng", "a\nb\nc\nd\nE\nf\ng");
    assert!(shown.starts_with("  c\n  d\n- e\n+ E\n  f\n  g\n"), "{shown}");
}
