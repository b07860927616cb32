//! Exhibits about state transfer, and about heights after a restart.

use super::scene::{Ending, Jolteons, Play, only, play_jolteon, play_jolteon_with, run, short_memory};
use crate::twins::checker::Property;
use crate::twins::participants::InstanceId;
use crate::twins::world::Rewrite;
use quorate_consensus::Envelope;
use quorate_consensus::recovery::transfer::MANIFEST;
use quorate_consensus::seam::{Action, Drop, Mark, To};
use quorate_types::ReplicaId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of views in which R3 is down: more than the retained blocks, even if fetching a state takes long.
const AWAY: u64 = 40;
/// Limit on requests: more than an honest replica needs to fetch a one-chunk state from three others.
const MAX_QUESTIONS: usize = 200;

/// Keeps R3 down until its missing blocks are gone, and then opens all links. The others keep the state at every second
/// height.
fn come_back_late(world: &mut Jolteons) {
    world.keep_states();
    world.leaders_after((0..3).map(ReplicaId));
    only(world, 1..=AWAY, &[0, 1, 2]);
    run(world, 1..=AWAY + 1);
}

/// Returns a rewriting that sends forged bytes of a state.
fn forges_chunks<M: Send>() -> Rewrite<M> {
    Box::new(|_, actions| {
        for action in actions {
            if let Action::Send { message: Envelope::StatePart { part, bytes, .. }, .. } = action
                && *part != MANIFEST
            {
                let mut forged = bytes.to_vec();
                forged.iter_mut().next_back().into_iter().for_each(|last| *last ^= 1);
                *bytes = forged.into();
            }
        }
    })
}

/// 22: R1 lies and sends R3 a forged chunk.
pub fn forged_chunk(how: &Play) -> Ending {
    play_jolteon_with(how, short_memory, |world| {
        world.misbehave(InstanceId(1), forges_chunks());
        come_back_late(world);
        world.heal((0..4).map(ReplicaId));
    })
}

/// Returns a rewriting that offers a state again whenever it is requested, counts the requests, and falls silent after
/// a limit.
fn repeats_offers<M: Clone + Send + 'static>(asked: Arc<AtomicUsize>) -> Rewrite<M> {
    let mut offered: Option<Envelope<M>> = None;
    Box::new(move |_, actions| {
        actions.retain_mut(|action| {
            // The wrapped replica does not answer a repeated request, but the Byzantine one does.
            if let Action::Mark(Mark::Dropped { from, why: Drop::Repeated }) = action
                && let Some(offer) = offered.clone()
                && asked.fetch_add(1, Ordering::Relaxed) < MAX_QUESTIONS
            {
                *action = Action::Send { to: To::One(*from), message: offer, after: None, sign: false };
                return true;
            }
            let Action::Send { message, .. } = action else { return true };
            match message {
                Envelope::Offer { .. } => offered = Some(message.clone()),
                Envelope::StatePart { .. } => {
                    let again = asked.fetch_add(1, Ordering::Relaxed) < MAX_QUESTIONS;
                    let Some(offer) = offered.clone().filter(|_| again) else { return false };
                    *message = offer;
                }
                _ => {}
            }
            true
        });
    })
}

/// 23: R0 lies and repeats its offer whenever R3 requests a part of the state.
pub fn repeated_offers(how: &Play) -> Ending {
    play_jolteon_with(how, short_memory, |world| {
        let asked = Arc::<AtomicUsize>::default();
        world.misbehave(InstanceId(0), repeats_offers(asked.clone()));
        come_back_late(world);
        let asked = asked.load(Ordering::Relaxed);
        if asked > MAX_QUESTIONS {
            let what = format!("R3 has requested parts of a state {asked} times from one peer, and has received none");
            world.checker().report(Property::Liveness, what);
        }
        world.heal((0..4).map(ReplicaId));
    })
}

/// 27: all replicas have committed blocks and restart after a crash.
pub fn everybody_restarts(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        run(world, 1..=5);
        let everybody: Vec<InstanceId> = world.participants().instances().collect();
        everybody.iter().for_each(|instance| world.crash(*instance));
        everybody.iter().for_each(|instance| world.restart(*instance));
        world.settle();
        world.heal((0..4).map(ReplicaId));
    })
}
