//! Exhibits about the blocks that a chain commits, and the blocks that may extend one another.

use super::by_rules::by_rules;
use super::scene::{Ending, Play, Setting, builds_on, genesis, has_purpose, leaders, only, play, play_jolteon, run};
use crate::twins::participants::InstanceId;
use quorate_consensus::Envelope;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::chained::rules::SimpleMoonshot;
use quorate_consensus::replica::make::chained as replica;
use quorate_consensus::seam::Purpose;
use quorate_types::ReplicaId;

/// 1: four honest replicas; only R1 knows the certificate of view 4, and only R2 that of view 6.
pub fn two_chain_with_a_gap(how: &Play) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::FastHotStuff, 4), |world| {
        leaders(world, &[0, 0, 0, 0, 1, 0, 2, 1, 1, 2, 2, 3]);
        only(world, 5..=5, &[0, 2, 3]);
        only(world, 6..=6, &[0, 2, 3]);
        only(world, 7..=8, &[0, 1, 3]);
        only(world, 9..=11, &[0, 2, 3]);
        run(world, 1..=12);
        world.heal((0..4).map(ReplicaId));
    })
}

/// 2: only R0 knows the certificate of view 1 while a rival is certified in view 3; then R0's chain becomes longer, and
/// then the rival's.
pub fn three_chain_with_a_gap(how: &Play) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::ChainedHotStuff, 4), |world| {
        leaders(world, &[1, 0, 3, 3, 0, 0, 0, 3, 1, 2, 3, 1]);
        only(world, 2..=3, &[1, 2, 3]);
        only(world, 4..=6, &[0, 1, 2]);
        // The others receive from R3, but R3 receives nothing that was certified without it.
        only(world, 7..=8, &[1, 2]);
        for view in 7..=8 {
            world.links().pass(view, 1 << 3, 1 << 1 | 1 << 2);
        }
        only(world, 9..=11, &[1, 2, 3]);
        run(world, 1..=12);
        world.heal((0..4).map(ReplicaId));
    })
}

/// 3: R3 misses four views; then it receives everything except the answers to its requests.
pub fn missing_ancestor(how: &Play) -> Ending {
    play_jolteon(how, |world| {
        world.leaders_after((0..3).map(ReplicaId));
        only(world, 1..=4, &[0, 1, 2]);
        world.lose(Some(Box::new(|from, to, _, message| {
            let fetching = matches!(message, Envelope::FetchBlocks { .. } | Envelope::Blocks(_));
            fetching && (from == InstanceId(3) || to == InstanceId(3))
        })));
        run(world, 1..=9);
        world.heal((0..3).map(ReplicaId));
    })
}

/// 26: only the last replica knows that the first block is committed; after a view change R0 lies and proposes a rival.
fn lost_lock(how: &Play, replicas: usize) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::ChainedHotStuff, replicas), |world| {
        let replicas = world.participants().replicas();
        let last = replicas as u16 - 1;
        leaders(world, &[1, 2, 3, last, 0, 1, 2, 3]);
        let others: Vec<usize> = (0..replicas - 1).collect();
        only(world, 4..=9, &others);
        let genesis = genesis(world);
        world.misbehave(InstanceId(0), builds_on(5, genesis));
        run(world, 1..=9);
        world.heal((1..replicas as u16).map(ReplicaId));
    })
}

/// 26, with five replicas.
pub fn lost_lock_of_five(how: &Play) -> Ending {
    lost_lock(how, 5)
}

/// 26, with six replicas.
pub fn lost_lock_of_six(how: &Play) -> Ending {
    lost_lock(how, 6)
}

/// 28: only R3 knows that the first block is committed; R0 lies and proposes a rival on its parent, with genuine
/// timeouts.
pub fn old_parent_accepted(how: &Play) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::Jolteon, 4), |world| {
        leaders(world, &[1, 2, 3, 0, 1, 2, 1]);
        only(world, 3..=7, &[0, 1, 2]);
        let genesis = genesis(world);
        world.misbehave(InstanceId(0), builds_on(4, genesis));
        run(world, 1..=7);
        world.heal((1..4).map(ReplicaId));
    })
}

/// 36: the votes for the block of view 1 are lost, and only R1 receives the votes for the optimistic block on it; the
/// others continue from genesis.
pub fn uncertified_parent(how: &Play) -> Ending {
    let setting = Setting::new(ProtocolKind::SimpleMoonshot, 4);
    play(how, setting, replica::<SimpleMoonshot>, |world| {
        leaders(world, &[1, 2, 0, 0]);
        only(world, 1..=2, &[1, 2, 3]);
        only(world, 3..=5, &[0, 2, 3]);
        world.lose(Some(Box::new(|from, to, view, message| {
            let (informed, is_vote) = (InstanceId(1), has_purpose(message, Purpose::Vote));
            match view.0 {
                1 => is_vote,
                2 => is_vote && to != informed || from == informed,
                _ => false,
            }
        })));
        run(world, 1..=5);
        world.heal((0..4).map(ReplicaId));
    })
}

/// 28: the leader of view 3 is too slow; the next one has no newer certificate than its predecessor.
pub fn old_parent_refused(how: &Play) -> Ending {
    by_rules!(how, Setting::new(ProtocolKind::ChainedHotStuff, 4), |world| {
        leaders(world, &[0, 1, 2, 3]);
        only(world, 3..=3, &[0, 1, 3]);
        run(world, 1..=4);
        world.heal((0..4).map(ReplicaId));
    })
}
