//! Entry of the pool.

use super::certification::Absent;
use super::{Share, Source};
use crate::data::digest_table::Keyed;
use crate::data::lanes::Place;
use quorate_types::{Bundle, Digest};

/// Bundle in the pool.
pub(super) struct Held {
    pub bundle: Bundle,
    /// Number of its commands, kept here because the bundle's own memory is no longer cached when it is proposed.
    pub commands: u32,
    /// Number of blocks in the tree that refer to it.
    pub proposals: u32,
    /// Number of those blocks on abandoned branches.
    pub aside: u32,
    pub executed: bool,
    /// Whether a leader may propose it: its storage is certified, or need not be.
    pub certified: bool,
    /// Whether a block that names it arrived before it.
    pub came_late: bool,
    /// The share of the pool to which it is charged until it is executed.
    pub share: Option<Share>,
    /// Its place in the lanes while it is pending.
    pub place: Option<Place>,
    /// Whether it is counted in [`Totals`].
    pub is_own: bool,
    /// The source in whose lane it waits, or will wait if it is pending again.
    pub source: Source,
}

impl Held {
    /// Returns a new bundle that is not pending yet; `named` counts the earlier blocks that name it.
    pub fn new(bundle: Bundle, source: Source, share: Option<Share>, named: Option<Absent>) -> Held {
        let Absent { proposals, aside } = named.unwrap_or_default();
        Held {
            commands: bundle.len() as u32,
            bundle,
            proposals,
            aside,
            executed: false,
            certified: false,
            came_late: named.is_some(),
            share,
            place: None,
            is_own: false,
            source,
        }
    }

    pub fn is_pending(&self) -> bool {
        self.certified && self.proposals == self.aside && !self.executed
    }

    pub fn commands(&self) -> usize {
        self.commands as usize
    }
}

impl Keyed for Held {
    #[inline]
    fn key(&self) -> Digest {
        self.bundle.digest()
    }
}
