//! Detection of blocks that are executed at a wrong feature level.

use crate::fixture::{certificate, genesis};
use quorate_adversary::oracles::{Levels, Property};
use quorate_types::{Block, Digest, FeatureLevel, Height, ReplicaId, Subject, View};

const DELAY: u64 = 64;
const CHANGE: Digest = Digest([1; 32]);
const HIGHER: Digest = Digest([2; 32]);
const LOWER: Digest = Digest([3; 32]);
const OTHER: Digest = Digest([4; 32]);

fn levels() -> Levels {
    let mut levels = Levels::default();
    for (bundle, level) in [(CHANGE, 2), (HIGHER, 3), (LOWER, 1)] {
        levels.orders(&bundle, FeatureLevel(level));
    }
    levels
}

fn commit(levels: &mut Levels, height: u64, bundles: &[Digest]) {
    let below = Subject { height: Height(height - 1), ..genesis().subject };
    let block = Block::new(View(height), ReplicaId(0), certificate(below, &[], Vec::new()), bundles.to_vec(), 1);
    assert_eq!(block.height, Height(height));
    levels.commits(&block);
}

fn is_right(levels: &Levels, height: u64, level: u16) -> bool {
    match levels.executes(ReplicaId(1), Height(height), FeatureLevel(level)) {
        Ok(()) => true,
        Err(violation) => {
            assert_eq!(violation.property, Property::Level);
            false
        }
    }
}

#[test]
fn only_a_signed_change_raises_the_level_and_at_one_height() {
    let mut levels = levels();
    commit(&mut levels, 1, &[OTHER]);
    assert!(!levels.has_changed());
    commit(&mut levels, 5, &[OTHER, CHANGE]);
    assert!(levels.has_changed());
    for (height, level) in [(1, 0), (5, 0), (4 + DELAY, 0), (5 + DELAY, 2), (1000, 2)] {
        assert!((0..4).all(|seen| is_right(&levels, height, seen) == (seen == level)), "height {height}");
    }
}

#[test]
fn a_change_that_comes_during_another_one_or_lowers_the_level_has_no_effect() {
    let mut levels = levels();
    commit(&mut levels, 5, &[CHANGE]);
    commit(&mut levels, 4 + DELAY, &[HIGHER]);
    commit(&mut levels, 5 + DELAY, &[LOWER, CHANGE]);
    assert!(is_right(&levels, 1000, 2) && !is_right(&levels, 1000, 3) && !is_right(&levels, 1000, 1));
    commit(&mut levels, 6 + DELAY, &[HIGHER]);
    assert!(is_right(&levels, 5 + 2 * DELAY, 2) && is_right(&levels, 6 + 2 * DELAY, 3));
}
