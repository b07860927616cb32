//! Feature levels: each block is executed at one level everywhere, which begins where a signed change says.

use crate::oracles::property::{Property, Violation};
use crate::oracles::words::Words;
use quorate_types::{Block, Digest, FeatureLevel, Height, ReplicaId};

/// Number of blocks from the one with a change to the first one at the new level.
const DELAY_BLOCKS: u64 = 64;

/// Checks the levels at which applications execute blocks. It sees the committed blocks, the bundles with changes that
/// all replicas signed, and the levels that applications see, but no state of an executor.
#[derive(Default)]
pub struct Levels {
    /// Levels of signed changes, by bundle.
    signed: Words<u16>,
    /// First height and level of each change, ascending.
    begins: Vec<(u64, u16)>,
}

impl Levels {
    /// Observes that a client sends a bundle with a change that all replicas have signed.
    pub fn orders(&mut self, bundle: &Digest, level: FeatureLevel) {
        self.signed.insert(bundle.prefix(), level.0);
    }

    /// Observes that a block is committed, for the first time at its height. A change has an effect if no other one is
    /// pending, and the level rises.
    pub fn commits(&mut self, block: &Block) {
        for level in block.payload.iter().filter_map(|bundle| self.signed.get(&bundle.prefix())) {
            let (begins, last) = self.begins.last().copied().unwrap_or_default();
            if *level > last && begins <= block.height.0 {
                self.begins.push((block.height.0 + DELAY_BLOCKS, *level));
            }
        }
    }

    /// Returns whether a signed change was committed.
    pub fn has_changed(&self) -> bool {
        !self.begins.is_empty()
    }

    /// Observes that the application of a replica executes commands of a committed block at a level.
    ///
    /// # Errors
    /// If the level does not follow from the blocks before.
    pub fn executes(&self, replica: ReplicaId, height: Height, level: FeatureLevel) -> Result<(), Violation> {
        let expected = self.begins.iter().rev().find(|(begins, _)| *begins <= height.0).map_or(0, |(_, level)| *level);
        if level.0 == expected {
            return Ok(());
        }
        let what =
            format!("replica {replica} executes height {height} at feature level {level}, where it is {expected}");
        Err(Violation { property: Property::Level, what })
    }
}
