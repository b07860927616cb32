//! Exhibits about a replica's memory after a restart.

use super::scene::{
    Ending, Keeper, Play, Setting, builds_on, genesis, go_on, has_purpose, leaders, let_go, only, play, play_jolteon,
    play_pbft, pre_prepare, proposal, run,
};
use crate::twins::participants::InstanceId;
use crate::twins::world::{Rewrite, World};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::basic::BasicHotStuff;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::protocols::views::ViewEngine;
use quorate_consensus::replica::make;
use quorate_consensus::seam::{Action, Message, Purpose, Timer};
use quorate_consensus::{Envelope, Protocol};
use quorate_types::{Block, BundleBuilder, ClientId, Domain, ReplicaId, View};
use std::sync::{Arc, Mutex};

/// Time of a replica's crash: after this many actions from a point of the scenario, or, if `None`, once it has sent
/// everything.
pub type Crash = Option<usize>;

/// The last proposal of a lying leader.
type Proposed = Arc<Mutex<Option<Arc<Block>>>>;

fn notes_proposals<M: Message>(proposed: &Proposed) -> Rewrite<M> {
    let proposed = proposed.clone();
    Box::new(move |_, actions| {
        for action in actions {
            if let Action::Send { message: Envelope::Protocol(message), .. } = action
                && let Some((block, _)) = message.proposed()
            {
                *proposed.lock().expect("nothing panics while it holds this lock") = Some(block.clone());
            }
        }
    })
}

fn last(proposed: &Proposed) -> Arc<Block> {
    let last = proposed.lock().expect("nothing panics while it holds this lock").clone();
    last.expect("the scenario makes it propose")
}

/// Crashes an instance, now or after a number of actions, and restarts it.
fn crash_and_come_back<P: Protocol>(
    world: &mut World<P>,
    instance: InstanceId,
    crash: Crash,
    meanwhile: impl FnOnce(&mut World<P>),
) {
    if let Some(actions) = crash {
        world.crash_after(instance, actions);
    }
    meanwhile(world);
    if world.is_up(instance) {
        world.crash(instance);
    }
    world.restart(instance);
    world.settle();
}

/// 8: R1 votes for the block of R0, which lies; R1 crashes, restarts, and receives another block of the same view.
pub fn forgotten_vote(how: &Play, crash: Crash) -> Ending {
    play_jolteon(how, |world| {
        let proposed = Proposed::default();
        world.misbehave(InstanceId(0), notes_proposals(&proposed));
        leaders(world, &[1, 2, 0]);
        run(world, 1..=2);
        crash_and_come_back(world, InstanceId(1), crash, |world| world.run_view(3));
        let Block { view, author, justify, time_ms, .. } = (*last(&proposed)).clone();
        world.inject(author, InstanceId(1), view, proposal(Block::new(view, author, justify, Vec::new(), time_ms)));
        world.settle();
        world.heal((1..4).map(ReplicaId));
    })
}

/// 8: R1 has timed out of view 3 when it crashes; after the restart it learns of a higher certificate and times out
/// again.
pub fn forgotten_timeout(how: &Play, crash: Crash) -> Ending {
    play_jolteon(how, |world| {
        let keeper = Keeper::default();
        world.lose(Some(keeper.keep(|_, _, view, message| match view {
            View(2) => has_purpose(message, Purpose::Vote),
            View(3) => has_purpose(message, Purpose::Proposal),
            _ => false,
        })));
        leaders(world, &[0, 1, 3]);
        run(world, 1..=3);
        let mut late = keeper.take();
        late.retain(|kept| kept.view == View(2));
        crash_and_come_back(world, InstanceId(1), crash, |world| {
            go_on(world, 4);
            world.ring(InstanceId(1), Timer::View);
            world.settle();
        });
        let_go(world, late);
        let high = Box::new(world.replica(InstanceId(3)).protocol().high().clone());
        let advance = Envelope::Protocol(ChainedMessage::Advance { high, evidence: None });
        world.inject(ReplicaId(3), InstanceId(1), View(3), advance);
        go_on(world, 5);
        world.ring(InstanceId(1), Timer::View);
        world.settle();
        world.heal((0..4).map(ReplicaId));
    })
}

/// 8: R1 sends PREPARE for the block that R0, a lying primary, assigns to a slot; R1 crashes, restarts, and receives
/// another block for that slot.
pub fn forgotten_prepare(how: &Play, crash: Crash) -> Ending {
    play_pbft(how, |world| {
        let proposed = Proposed::default();
        world.misbehave(InstanceId(0), notes_proposals(&proposed));
        // R1 receives only proposals.
        world.lose(Some(Box::new(|_, to, _, message| to == InstanceId(1) && !has_purpose(message, Purpose::Proposal))));
        crash_and_come_back(world, InstanceId(1), crash, |world| go_on(world, 1));
        let bundle = BundleBuilder::single(ClientId(77), 1, b"other");
        world.submit(InstanceId(1), vec![bundle.clone()]);
        let Block { view, author, height, time_ms, .. } = *last(&proposed);
        let rival = Block::of_slot(view, author, height, vec![bundle.digest()], time_ms);
        world.inject(author, InstanceId(1), view, pre_prepare(rival));
        world.settle();
        world.heal((1..4).map(ReplicaId));
    })
}

/// 8: only R1 knows that the first block is decided. R2, whose lock protects it, crashes and restarts. So does R0,
/// which proposes a rival in view 3, since it may have proposed in view 2 before the crash. R3 was never locked.
pub fn forgotten_lock(how: &Play, crash: Crash) -> Ending {
    let setting = Setting::new(ProtocolKind::BasicHotStuff, 4);
    play(how, setting, make::basic_hotstuff, |world: &mut World<ViewEngine<BasicHotStuff>>| {
        let genesis = genesis(world);
        world.misbehave(InstanceId(0), builds_on(3, genesis));
        world.lose(Some(Box::new(|_, to, _, message| match message {
            Envelope::Protocol(BasicMessage::Phase(certificate)) => match certificate.subject.domain {
                Domain::PreCommit => to == InstanceId(3),
                domain => domain == Domain::Commit,
            },
            _ => false,
        })));
        leaders(world, &[1, 1, 0]);
        only(world, 2..=5, &[0, 2, 3]);
        crash_and_come_back(world, InstanceId(2), crash, |world| world.run_view(1));
        crash_and_come_back(world, InstanceId(0), None, |_| {});
        world.lose(None);
        run(world, 2..=5);
        world.heal((1..4).map(ReplicaId));
    })
}

/// 9: all replicas have timed out of views 3 and 4 when they all crash, R1 possibly a little earlier.
pub fn forgotten_timeouts(how: &Play, crash: Crash) -> Ending {
    play_jolteon(how, |world| {
        world.lose(Some(Box::new(|_, _, view, message| view >= View(3) && has_purpose(message, Purpose::Proposal))));
        run(world, 1..=3);
        if let Some(actions) = crash {
            world.crash_after(InstanceId(1), actions);
        }
        run(world, 4..=5);
        let everybody: Vec<InstanceId> = world.participants().instances().collect();
        everybody.iter().for_each(|instance| {
            if world.is_up(*instance) {
                world.crash(*instance);
            }
        });
        everybody.iter().for_each(|instance| world.restart(*instance));
        world.settle();
        world.heal((0..4).map(ReplicaId));
    })
}
