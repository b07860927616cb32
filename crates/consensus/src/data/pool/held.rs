//! Entry of the pool.

use super::certification::Absent;
use super::{Share, Source};
use crate::data::digest_table::Keyed;
use crate::data::lanes::Place;
use quorate_types::{Bundle, Digest};

/// Bundle in the pool.
pub(super) struct Held {
    pub bundle: Bundle,
    /// Number of its commands: the bundle's own memory is cold by the time it is proposed.
    pub commands: u32,
    /// Number of blocks in the tree that refer to it.
    pub proposals: u32,
    /// Number of those blocks that lie on abandoned branches.
    pub aside: u32,
    pub executed: bool,
    /// Whether a leader may propose it: its storage is certified, or need not be.
    pub certified: bool,
    /// Whether a block that names it was here first.
    pub came_late: bool,
    /// The share of the pool that it counts against, until it is executed.
    pub share: Option<Share>,
    /// Its place in the lanes while it is pending.
    pub place: Option<Place>,
    /// Whether it arrived over a client's link.
    pub has_crowd: bool,
    /// Whether it counts in [`Totals`].
    pub is_own: bool,
    /// The address of that link.
    pub crowd: u64,
}

impl Held {
    /// Returns a new bundle that is not pending yet; `named` counts the blocks that named it before.
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
            has_crowd: source.crowd().is_some(),
            is_own: false,
            crowd: source.crowd().unwrap_or_default(),
        }
    }

    pub fn is_pending(&self) -> bool {
        self.certified && self.proposals == self.aside && !self.executed
    }

    pub fn has_ticket(&self, ticket: u64) -> bool {
        self.place.is_some_and(|place| place.ticket() == ticket)
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
