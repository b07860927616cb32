//! The share of the blocks that clients of one link get beside other links.

/// Checks that the clients of one link get their share of every sequence of blocks, however short or long, in which
/// their bundles wait: an equal part for each link. It sees committed blocks and no queue of a replica.
///
/// Loads have any unit, the same for all.
pub struct Share {
    links: u64,
    /// Maximum load by which the clients may be behind their share.
    max_behind: u64,
    /// How far they are behind, times the number of links.
    behind: u64,
}

impl Share {
    /// Returns a check for the clients of one of `links` links.
    pub fn new(links: u64, max_behind: u64) -> Share {
        Share { links, max_behind, behind: 0 }
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.behind = 0;
    }

    /// Returns the number of blocks of this size in which a load is due to the clients.
    pub fn blocks_for(&self, load: u64, block: u64) -> u64 {
        (self.links * load).div_ceil(block)
    }

    /// Observes the next block: the load that it could hold, the load of the clients that waited for it, and their load
    /// in it.
    ///
    /// # Errors
    /// How far the clients are behind their share, if that is too much.
    pub fn commits(&mut self, block: u64, waiting: u64, served: u64) -> Result<(), u64> {
        let due = (self.links * waiting).min(block);
        self.behind = (self.behind + due).saturating_sub(self.links * served);
        match self.behind > self.links * self.max_behind {
            true => Err(self.behind / self.links),
            false => Ok(()),
        }
    }
}
