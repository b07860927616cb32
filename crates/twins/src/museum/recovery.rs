//! Exhibits about a replica's memory after a restart.

use super::scene::{
    Ending, Keeper, Play, Setting, builds_on, genesis, go_on, has_purpose, leaders, let_go, only, play, play_jolteon,
    play_pbft, pre_prepare, proposal, run,
};
use crate::cast::ActorId;
use crate::stage::{Rewrite, Stage};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::basic::{self, BasicHotStuff};
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::protocols::views::ViewEngine;
use quorate_consensus::seam::{Action, Message, Purpose, Timer};
use quorate_consensus::{Envelope, Protocol};
use quorate_types::{Block, BundleBuilder, ClientId, Domain, ReplicaId, View};
use std::sync::{Arc, Mutex};

/// Time of a replica's crash: after this many actions, counted from a point of the scenario, or if `None`, once it has
/// sent everything.
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

/// Crashes an actor, now or after a number of actions, and restarts it.
fn crash_and_come_back<P: Protocol>(
    stage: &mut Stage<P>,
    actor: ActorId,
    crash: Crash,
    meanwhile: impl FnOnce(&mut Stage<P>),
) {
    if let Some(actions) = crash {
        stage.crash_after(actor, actions);
    }
    meanwhile(stage);
    if stage.is_up(actor) {
        stage.crash(actor);
    }
    stage.restart(actor);
    stage.settle();
}

/// 8: R1 votes for the block of R0, which lies; R1 crashes, restarts, and gets another block of the same view.
pub fn forgotten_vote(how: &Play, crash: Crash) -> Ending {
    play_jolteon(how, |stage| {
        let proposed = Proposed::default();
        stage.misbehave(ActorId(0), notes_proposals(&proposed));
        leaders(stage, &[1, 2, 0]);
        run(stage, 1..=2);
        crash_and_come_back(stage, ActorId(1), crash, |stage| stage.run_view(3));
        let Block { view, author, justify, .. } = (*last(&proposed)).clone();
        stage.inject(author, ActorId(1), view, proposal(Block::new(view, author, justify, Vec::new())));
        stage.settle();
        stage.heal((1..4).map(ReplicaId));
    })
}

/// 8: R1 has timed out of view 3 when it crashes; after the restart it learns of a higher certificate and times out
/// again.
pub fn forgotten_timeout(how: &Play, crash: Crash) -> Ending {
    play_jolteon(how, |stage| {
        let keeper = Keeper::default();
        stage.lose(Some(keeper.keep(|_, _, view, message| match view {
            View(2) => has_purpose(message, Purpose::Vote),
            View(3) => has_purpose(message, Purpose::Proposal),
            _ => false,
        })));
        leaders(stage, &[0, 1, 3]);
        run(stage, 1..=3);
        let mut late = keeper.take();
        late.retain(|kept| kept.view == View(2));
        crash_and_come_back(stage, ActorId(1), crash, |stage| {
            go_on(stage, 4);
            stage.ring(ActorId(1), Timer::View);
            stage.settle();
        });
        let_go(stage, late);
        let high = Box::new(stage.replica(ActorId(3)).protocol().high().clone());
        let advance = Envelope::Protocol(ChainedMessage::Advance { high, evidence: None });
        stage.inject(ReplicaId(3), ActorId(1), View(3), advance);
        go_on(stage, 5);
        stage.ring(ActorId(1), Timer::View);
        stage.settle();
        stage.heal((0..4).map(ReplicaId));
    })
}

/// 8: R1 sends PREPARE for the block that R0, a lying primary, assigns to a slot; R1 crashes, restarts, and gets
/// another block for that slot.
pub fn forgotten_prepare(how: &Play, crash: Crash) -> Ending {
    play_pbft(how, |stage| {
        let proposed = Proposed::default();
        stage.misbehave(ActorId(0), notes_proposals(&proposed));
        // R1 receives only proposals.
        stage.lose(Some(Box::new(|_, to, _, message| to == ActorId(1) && !has_purpose(message, Purpose::Proposal))));
        crash_and_come_back(stage, ActorId(1), crash, |stage| go_on(stage, 1));
        let bundle = BundleBuilder::single(ClientId(77), 1, b"other");
        stage.submit(ActorId(1), vec![bundle.clone()]);
        let Block { view, author, height, .. } = *last(&proposed);
        let rival = Block::of_slot(view, author, height, vec![bundle.digest()]);
        stage.inject(author, ActorId(1), view, pre_prepare(rival));
        stage.settle();
        stage.heal((1..4).map(ReplicaId));
    })
}

/// 8: only R1 knows that the first block is decided. R2, whose lock protects it, crashes and restarts. So does R0,
/// which proposes a rival in view 3: it may have proposed in view 2 before the crash. R3 was never locked.
pub fn forgotten_lock(how: &Play, crash: Crash) -> Ending {
    let setting = Setting::new(ProtocolKind::BasicHotStuff, 4);
    play(how, setting, basic::replica, |stage: &mut Stage<ViewEngine<BasicHotStuff>>| {
        let genesis = genesis(stage);
        stage.misbehave(ActorId(0), builds_on(3, genesis));
        stage.lose(Some(Box::new(|_, to, _, message| match message {
            Envelope::Protocol(BasicMessage::Phase(certificate)) => match certificate.subject.domain {
                Domain::PreCommit => to == ActorId(3),
                domain => domain == Domain::Commit,
            },
            _ => false,
        })));
        leaders(stage, &[1, 1, 0]);
        only(stage, 2..=5, &[0, 2, 3]);
        crash_and_come_back(stage, ActorId(2), crash, |stage| stage.run_view(1));
        crash_and_come_back(stage, ActorId(0), None, |_| {});
        stage.lose(None);
        run(stage, 2..=5);
        stage.heal((1..4).map(ReplicaId));
    })
}

/// 9: all replicas have timed out of views 3 and 4 when all crash, or R1 a little earlier.
pub fn forgotten_timeouts(how: &Play, crash: Crash) -> Ending {
    play_jolteon(how, |stage| {
        stage.lose(Some(Box::new(|_, _, view, message| view >= View(3) && has_purpose(message, Purpose::Proposal))));
        run(stage, 1..=3);
        if let Some(actions) = crash {
            stage.crash_after(ActorId(1), actions);
        }
        run(stage, 4..=5);
        let everybody: Vec<ActorId> = stage.cast().actors().collect();
        everybody.iter().for_each(|actor| {
            if stage.is_up(*actor) {
                stage.crash(*actor);
            }
        });
        everybody.iter().for_each(|actor| stage.restart(*actor));
        stage.settle();
        stage.heal((0..4).map(ReplicaId));
    })
}
