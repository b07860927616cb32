//! Agreement: the chains that replicas commit are prefixes of one chain.

use crate::oracles::property::Property;
use quorate_types::{Block, Bundle, Digest, Domain, Height, ReplicaId, Signers, Subject};
use std::collections::BTreeMap;
use std::fmt;

/// Contradiction between a commit and earlier commits or the block itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discord {
    /// A height was skipped or repeated.
    Gap { height: Height, after: Height },
    /// The block does not extend the block committed below it.
    Detached { height: Height },
    /// Another block was committed at this height before.
    Fork { height: Height, digest: Digest, agreed: Digest },
    /// The executed bundles differ from those named by the block.
    OtherBundles { height: Height },
    /// No replica has had this state.
    StrangeState { height: Height },
}

impl Discord {
    /// Returns the name of the violated invariant.
    pub fn property(&self) -> Property {
        match self {
            Discord::Gap { .. } | Discord::Detached { .. } => Property::Contiguity,
            Discord::Fork { .. } | Discord::StrangeState { .. } => Property::Agreement,
            Discord::OtherBundles { .. } => Property::Validity,
        }
    }
}

/// Predicate of a sentence about the replica.
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
                write!(f, "takes over a state of height {height} that no other replica reached")
            }
        }
    }
}

/// The agreed chain so far, and each watched replica's height on it.
#[derive(Debug)]
pub struct Chain {
    /// Genesis first.
    agreed: Vec<Digest>,
    heights: Vec<u64>,
    /// Replicas that signed the absence of a bundle of a block, by the block and the bundle's position.
    absent: BTreeMap<(Digest, u64), Signers>,
    /// Number of such signatures that permit executing a block without the bundle.
    quorum: usize,
}

impl Chain {
    /// Creates a chain of genesis only, for `watched` replicas numbered from 0.
    pub fn new(genesis: Digest, watched: usize) -> Chain {
        let (agreed, heights, absent) = (vec![genesis], vec![0; watched], BTreeMap::new());
        Chain { agreed, heights, absent, quorum: usize::MAX }
    }

    /// Drops everything except genesis.
    pub fn clear(&mut self) {
        self.agreed.truncate(1);
        self.heights.fill(0);
        self.absent.clear();
    }

    /// Permits executing blocks without a bundle if at least `honest_quorum` honest replicas signed its absence.
    pub fn allow_voids(&mut self, honest_quorum: usize) {
        self.quorum = honest_quorum;
    }

    /// Returns whether a block may be executed without one of its bundles.
    pub fn has_void(&self, block: &Digest) -> bool {
        let mut signers = self.absent.range((*block, 0)..=(*block, u64::MAX)).map(|(_, signers)| signers);
        signers.any(|signers| signers.len() >= self.quorum)
    }

    /// Observes a statement of an honest replica.
    pub fn signs(&mut self, replica: ReplicaId, subject: &Subject) {
        if subject.domain == Domain::Absent {
            self.absent.entry((subject.digest, subject.view.0)).or_default().insert(replica);
        }
    }

    /// Returns whether the executed bundles are those named by a block, except for void ones.
    fn are_of(&self, block: &Block, bundles: &[Bundle]) -> bool {
        let mut executed = bundles.iter().map(Bundle::digest).peekable();
        let names = (0u64..).zip(&block.payload).all(|(position, named)| {
            let signers = || self.absent.get(&(block.digest(), position)).map_or(0, Signers::len);
            executed.next_if_eq(named).is_some() || signers() >= self.quorum
        });
        names && executed.next().is_none()
    }

    /// Records that a replica commits a block and executes bundles. Returns whether it is the first at that height.
    ///
    /// # Errors
    /// The contradiction to the agreed chain.
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
        let is_first = self.agreed.get(position).is_none_or(|agreed| *agreed == Digest::ZERO);
        if position == self.agreed.len() {
            self.agreed.push(block.digest());
        }
        if is_first {
            self.agreed[position] = block.digest();
        }
        let (digest, agreed) = (block.digest(), self.agreed[position]);
        if digest != agreed {
            return Err(Discord::Fork { height, digest, agreed });
        }
        if !self.are_of(block, bundles) {
            return Err(Discord::OtherBundles { height });
        }
        Ok(is_first)
    }

    /// Records that a replica adopts the state after these blocks, listed without genesis.
    ///
    /// # Errors
    /// If these are not the agreed blocks.
    pub fn adopts(&mut self, replica: usize, blocks: &[Digest]) -> Result<(), Discord> {
        let height = Height(blocks.len() as u64);
        self.goes_to(replica, height);
        match self.agreed.get(1..=blocks.len()) {
            Some(agreed) if agreed == blocks => Ok(()),
            _ => Err(Discord::StrangeState { height }),
        }
    }

    /// Records that a replica skips a height without executing anything, which is permitted if only PBFT's three phases
    /// run. Others may agree on a block there.
    ///
    /// # Errors
    /// If it is not the replica's next height.
    pub fn passes_over(&mut self, replica: usize, height: Height) -> Result<(), Discord> {
        let after = std::mem::replace(&mut self.heights[replica], height.0);
        if height.0 != after + 1 {
            return Err(Discord::Gap { height, after: Height(after) });
        }
        if height.0 as usize == self.agreed.len() {
            self.agreed.push(Digest::ZERO);
        }
        Ok(())
    }

    /// Sets a replica's height without a commit, because it has restarted or is not checked.
    pub fn goes_to(&mut self, replica: usize, height: Height) {
        self.heights[replica] = height.0;
    }

    /// Returns a replica's executed height.
    pub fn height(&self, replica: usize) -> u64 {
        self.heights[replica]
    }

    /// Returns the longest committed chain, genesis first.
    pub fn agreed(&self) -> &[Digest] {
        &self.agreed
    }
}
