//! Hunt with a Byzantine replica that stays active to the end and is closer to all others than they are to each other:
//! it receives signed statements, assembles certificates from them, and presents these first. Liveness is checked while
//! it is active.

use super::certificates::checker_view_gap;
use super::dice::{Dice, REPLICAS, context_of, honest_lead};
use super::scene::run;
use crate::byzantine::behaviours::{
    AssembleCertificate, Equivocate, ForgeCertificate, ForgeEvidence, Fork, ShowLate, StaleCertificate,
};
use crate::byzantine::{Fault, Malleable, Misbehaviour};
use crate::twins::world::World;
use quorate_consensus::Protocol;
use quorate_types::ReplicaId;

/// Rounds before the network heals.
const ROUNDS: u64 = 8;
/// Maximum number of rounds with a partition.
const MAX_DIVIDED: u64 = 3;
/// Latest opportunity at which it starts to lie.
const LATEST_CHANCE: u64 = 6;
/// One in this many scenarios has a Byzantine replica that is no closer than the others.
const FAR: u64 = 4;

fn lie(dice: &mut Dice) -> Fault {
    let chance = 1 + dice.below(LATEST_CHANCE) as u32;
    let later = |kind: Fault| kind.from_opportunity(chance).expect("it lies at opportunities");
    let assembles = |views| AssembleCertificate { views }.into();
    dice.pick(&[
        assembles(1 << 63),
        assembles(1),
        assembles(0),
        ForgeEvidence.into(),
        later(StaleCertificate.into()),
        later(ForgeCertificate.into()),
        later(Fork.into()),
        later(Equivocate.into()),
        ShowLate.into(),
    ])
}

/// Plays a random scenario.
pub fn lie_in_ambush<P: Protocol<Message: Malleable>>(world: &mut World<P>, dice: &mut Dice) {
    let (liar, everybody) = (dice.instance(), world.participants().everybody());
    let me = ReplicaId(liar.0 as u16);
    let context = context_of(world.participants(), me);
    world.behave(liar, Misbehaviour::always(lie(dice)).behaviour(context));
    if !dice.one_in(FAR) {
        world.bring_near(me);
    }
    for view in 1..=ROUNDS {
        world.leader(view, ReplicaId(dice.below(REPLICAS as u64) as u16));
    }
    for _ in 0..dice.below(MAX_DIVIDED + 1) {
        let (view, group) = (1 + dice.below(ROUNDS), dice.some_of(everybody));
        world.links().partition(view, [group, everybody & !group]);
    }
    run(world, 1..=ROUNDS);
    checker_view_gap(world, ROUNDS);
    honest_lead(world);
}
