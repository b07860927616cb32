//! The share of blocks that one link's clients get next to other links.

/// Checks that one link's clients get their share of every sequence of blocks of any length in which their bundles
/// wait: an equal part for each link. It sees committed blocks, but no queue of a replica.
///
/// Loads have an arbitrary common unit.
pub struct Share {
    links: u64,
    /// Maximum deficit of the clients relative to their share.
    max_behind: u64,
    /// Their deficit, multiplied by the number of links.
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

    /// Returns the number of blocks of this size within which the clients are entitled to a load.
    pub fn blocks_for(&self, load: u64, block: u64) -> u64 {
        (self.links * load).div_ceil(block)
    }

    /// Observes the next block: its capacity, the clients' load that waited for it, and their load in it.
    ///
    /// # Errors
    /// The clients' deficit, if it is too large.
    pub fn commits(&mut self, block: u64, waiting: u64, served: u64) -> Result<(), u64> {
        let due = (self.links * waiting).min(block);
        self.behind = (self.behind + due).saturating_sub(self.links * served);
        match self.behind > self.links * self.max_behind {
            true => Err(self.behind / self.links),
            false => Ok(()),
        }
    }
}
