//! Agreement: what replicas commit are prefixes of one chain.

use quorate_types::{Block, Bundle, Digest, Height};
use std::fmt;

/// How a commit contradicts what was committed before, or itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discord {
    /// Heights do not come one after another.
    Gap { height: Height, after: Height },
    /// The block does not extend the one that was committed below it.
    Detached { height: Height },
    /// Another block was committed at this height before.
    Fork { height: Height, digest: Digest, agreed: Digest },
    /// The bundles are not those that the block names.
    OtherBundles { height: Height },
    /// No replica was in the state that is taken over.
    StrangeState { height: Height },
}

impl Discord {
    /// Returns the name of the law that is broken.
    pub fn law(&self) -> &'static str {
        match self {
            Discord::Gap { .. } | Discord::Detached { .. } => "contiguity",
            Discord::Fork { .. } | Discord::StrangeState { .. } => "agreement",
            Discord::OtherBundles { .. } => "validity",
        }
    }
}

/// The predicate of a sentence about the replica.
impl fmt::Display for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discord::Gap { height, after } => write!(f, "commits height {height} after height {after}"),
            Discord::Detached { height } => {
                write!(f, "commits at height {height} a block that does not extend the last")
            }
            Discord::Fork { height, digest, agreed } => {
                write!(f, "disagrees: it commits {digest:?} at height {height}, where another committed {agreed:?}")
            }
            Discord::OtherBundles { height } => {
                write!(f, "executes other bundles at height {height} than the block names")
            }
            Discord::StrangeState { height } => {
                write!(f, "takes over a state of height {height} that nobody else came to")
            }
        }
    }
}

/// The one chain that all committed chains are prefixes of, and how far each of those who are watched is.
#[derive(Debug)]
pub struct Chain {
    /// Genesis first.
    agreed: Vec<Digest>,
    heights: Vec<u64>,
}

impl Chain {
    /// Nothing is committed but genesis; `watched` replicas have numbers from 0 on.
    pub fn new(genesis: Digest, watched: usize) -> Chain {
        Chain { agreed: vec![genesis], heights: vec![0; watched] }
    }

    /// Forgets everything but genesis.
    pub fn clear(&mut self) {
        self.agreed.truncate(1);
        self.heights.fill(0);
    }

    /// A replica commits a block and executes bundles. Returns whether it is the first at that height.
    ///
    /// # Errors
    /// What contradicts the one chain.
    pub fn commits(&mut self, replica: usize, block: &Block, bundles: &[Bundle]) -> Result<bool, Discord> {
        let height = block.height;
        let after = std::mem::replace(&mut self.heights[replica], height.0);
        if height.0 != after + 1 {
            return Err(Discord::Gap { height, after: Height(after) });
        }
        let position = height.0 as usize;
        if block.parent() != self.agreed[position - 1] && block.parent() != Digest::ZERO {
            return Err(Discord::Detached { height });
        }
        let is_first = position == self.agreed.len();
        if is_first {
            self.agreed.push(block.digest());
        }
        let (digest, agreed) = (block.digest(), self.agreed[position]);
        if digest != agreed {
            return Err(Discord::Fork { height, digest, agreed });
        }
        if !bundles.iter().map(Bundle::digest).eq(block.payload.iter().copied()) {
            return Err(Discord::OtherBundles { height });
        }
        Ok(is_first)
    }

    /// A replica takes over the state after these blocks, genesis left out.
    ///
    /// # Errors
    /// If they are not the blocks that others committed.
    pub fn adopts(&mut self, replica: usize, blocks: &[Digest]) -> Result<(), Discord> {
        let height = Height(blocks.len() as u64);
        self.goes_to(replica, height);
        match self.agreed.get(1..=blocks.len()) {
            Some(agreed) if agreed == blocks => Ok(()),
            _ => Err(Discord::StrangeState { height }),
        }
    }

    /// A replica is at a height from now on, without a commit: it has restarted, or is not judged.
    pub fn goes_to(&mut self, replica: usize, height: Height) {
        self.heights[replica] = height.0;
    }

    /// Returns the height up to which a replica has executed.
    pub fn height(&self, replica: usize) -> u64 {
        self.heights[replica]
    }

    /// Returns the longest chain that was committed, genesis first.
    pub fn agreed(&self) -> &[Digest] {
        &self.agreed
    }
}
