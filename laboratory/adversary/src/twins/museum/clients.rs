//! Bugs that a faulty client exploits: bundles that some replicas accept and others refuse, and bundles that only one
//! replica receives.

use super::dice::{Dice, REPLICAS, honest_lead};
use super::scene::{Ending, Play, Scenes, Setting, play, run};
use crate::twins::hostile::HostileClient;
use crate::twins::participants::InstanceSet;
use crate::twins::world::{Divide, World};
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::chained::rules::Jolteon;
use quorate_consensus::replica::{MakeReplica, make};
use quorate_types::ReplicaId;

/// Views before the network heals.
const VIEWS: u64 = 4;
/// Views without a connected quorum, in which honest clients' bundles accumulate.
const DIVIDED_VIEWS: u64 = 30;
/// Subsequent views in which honest clients must get their share.
const CONTESTED_VIEWS: u64 = 40;
/// Rounds of a drawn scenario.
const ROUNDS: u64 = 8;
/// Maximum number of rounds with a partition.
const MAX_DIVIDED: u64 = 3;

/// Returns the replicas that accept an attack's bundles. With MACs, each replica checks its own. With signatures, a
/// bundle that is not valid for all is valid for none.
fn judged(by_macs: bool, everybody: InstanceSet, mut macs: Divide) -> Divide {
    Box::new(move |leader| {
        let good = macs(leader);
        if by_macs || good == everybody { good } else { 0 }
    })
}

/// Returns a setting in which a primary assigns one slot at a time. With more, a block that follows the divided one is
/// carried over into the next view, and each view still serves a few commands.
fn one_slot(protocol: ProtocolKind) -> Setting {
    let mut setting = Setting::new(protocol, REPLICAS);
    setting.config.pipeline = 1;
    setting
}

/// 15: in each view, a client sends a bundle whose MACs are valid only for the leader. Without the bug, clients sign.
pub fn macs_for_the_leader(how: &Play) -> Ending {
    play(how, one_slot(ProtocolKind::PbftMac), make::pbft_mac, |world| {
        let everybody = world.participants().everybody();
        world.divide(judged(how.broken, everybody, Box::new(|leader| 1 << leader.index())));
        run(world, 1..=VIEWS);
        world.heal((0..REPLICAS as u16).map(ReplicaId));
    })
}

/// 39: the network is divided in halves for some views. Then a client sends each leader bundles that no other replica
/// has.
pub fn other_bundles_for_each_leader(how: &Play) -> Ending {
    let setting = Setting::beside(HostileClient::LeaderOnly, ProtocolKind::Jolteon);
    play(how, setting, make::chained::<Jolteon>, |world| {
        for view in 1..=DIVIDED_VIEWS {
            world.links().partition(view, [0b0011, 0b1100]);
        }
        run(world, 1..=DIVIDED_VIEWS);
        world.heal_for((0..REPLICAS as u16).map(ReplicaId), CONTESTED_VIEWS);
    })
}

/// Returns random scenarios in which, to the end, a client's bundle in each view has valid MACs for some of the
/// replicas.
pub fn divided_at_random<P: Protocol + 'static>(protocol: ProtocolKind, make: MakeReplica<P>, how: Play) -> Scenes {
    Box::new(move |number| {
        let mut dice = Dice::new(number);
        play(&how, one_slot(protocol), make, |world| divide_at_random(world, &mut dice, how.broken)).violation
    })
}

fn divide_at_random<P: Protocol>(world: &mut World<P>, dice: &mut Dice, by_macs: bool) {
    let everybody = world.participants().everybody();
    let mut macs = dice.others();
    world.divide(judged(by_macs, everybody, Box::new(move |_| macs.some_of(everybody))));
    for view in 1..=ROUNDS {
        world.leader(view, ReplicaId(dice.below(REPLICAS as u64) as u16));
    }
    for _ in 0..dice.below(MAX_DIVIDED + 1) {
        let (view, group) = (1 + dice.below(ROUNDS), dice.some_of(everybody));
        world.links().partition(view, [group, everybody & !group]);
    }
    run(world, 1..=ROUNDS);
    honest_lead(world);
}
