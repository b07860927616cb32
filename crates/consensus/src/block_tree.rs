//! The blocks that are whole: their bundles are here and so is every ancestor back to the last committed block that is kept.

use crate::digest_map::{DigestMap, Salt};
use quorate_types::{Block, Digest, Height, ReplicaId};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Node {
    block: Arc<Block>,
    candidates: Arc<[ReplicaId]>,
    /// Whether the journal has it.
    journaled: bool,
}

/// Blocks by digest, linked by their parents.
pub struct BlockTree {
    genesis: Digest,
    /// The block that stands in for genesis after a restart from a snapshot: it is committed, and not here.
    root: Digest,
    nodes: DigestMap<Node>,
    heights: BTreeMap<Height, Vec<Digest>>,
    committed: (Height, Digest),
    /// Blocks above the committed one that carry commands.
    open_payloads: usize,
    /// Whether a block has gone, or another is the committed one, since somebody last [looked](BlockTree::take_shrunk).
    shrunk: bool,
}

impl BlockTree {
    /// A tree of nothing but genesis.
    pub fn new(genesis: Digest, salt: Salt) -> Self {
        BlockTree {
            genesis,
            root: genesis,
            nodes: DigestMap::with_hasher(salt),
            heights: BTreeMap::new(),
            committed: (Height(0), genesis),
            open_payloads: 0,
            shrunk: true,
        }
    }

    /// Whether a block is here, genesis included.
    pub fn contains(&self, digest: &Digest) -> bool {
        *digest == self.genesis || *digest == self.root || self.nodes.contains_key(digest)
    }

    /// How many blocks are here.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none but genesis, or the block on which it began.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Begins on a committed block that is not here, in place of what was committed before. Returns the blocks above it that were
    /// here, lower ones first, and whether the journal has them.
    pub fn begin_on(&mut self, height: Height, digest: Digest) -> Vec<(Arc<Block>, bool)> {
        assert!(height >= self.committed.0, "what is committed stays committed");
        let above = self.heights.split_off(&height.next()).into_values().flatten();
        let nodes = &mut self.nodes;
        let blocks =
            above.filter_map(|digest| nodes.remove(&digest)).map(|node| (node.block, node.journaled)).collect();
        self.nodes.clear();
        self.heights.clear();
        (self.root, self.committed, self.open_payloads) = (digest, (height, digest), 0);
        self.shrunk = true;
        blocks
    }

    /// The journal has a block, if it is here.
    pub fn set_journaled(&mut self, digest: &Digest) {
        if let Some(node) = self.nodes.get_mut(digest) {
            node.journaled = true;
        }
    }

    /// Takes in a committed block, at the root or below it, after its parent if that is to be kept at all.
    pub fn recall_committed(&mut self, block: Arc<Block>, candidates: Arc<[ReplicaId]>) {
        assert!(block.height <= self.committed.0, "it was committed");
        self.heights.insert(block.height, vec![block.digest()]);
        self.nodes.insert(block.digest(), Node { block, candidates, journaled: true });
    }

    /// The blocks up to `digest` that the journal has not got, oldest first; from now on it has them.
    pub fn take_unjournaled(&mut self, digest: &Digest) -> Vec<Arc<Block>> {
        let mut taken = Vec::new();
        let mut at = *digest;
        while let Some(node) = self.nodes.get_mut(&at).filter(|node| !node.journaled) {
            node.journaled = true;
            at = node.block.parent();
            taken.push(node.block.clone());
        }
        taken.reverse();
        taken
    }

    /// The uncommitted blocks that the journal has, parents before children.
    pub fn journaled_above_commit(&self) -> impl Iterator<Item = &Arc<Block>> {
        let above = self.heights.range(self.committed.0.next()..).flat_map(|(_, digests)| digests);
        above.filter_map(|digest| self.nodes.get(digest)).filter(|node| node.journaled).map(|node| &node.block)
    }

    /// Whether it is the root of every chain.
    pub fn is_genesis(&self, digest: &Digest) -> bool {
        *digest == self.genesis
    }

    /// A block; genesis is none.
    pub fn get(&self, digest: &Digest) -> Option<&Arc<Block>> {
        self.nodes.get(digest).map(|node| &node.block)
    }

    /// Who may be elected on top of a block, as was found when it came in; empty where election does not ask.
    pub fn candidates(&self, digest: &Digest) -> Option<&Arc<[ReplicaId]>> {
        self.nodes.get(digest).map(|node| &node.candidates)
    }

    /// The block that `block` extends; none for genesis and for what is no longer kept.
    pub fn parent(&self, block: &Block) -> Option<&Arc<Block>> {
        self.get(&block.parent())
    }

    /// Whether `ancestor` at `height` lies on the chain that ends in `block`, which itself counts.
    pub fn extends(&self, block: &Block, ancestor: Digest, height: Height) -> bool {
        let (mut digest, mut at, mut parent) = (block.digest(), block.height, block.parent());
        while at > height {
            digest = parent;
            at = Height(at.0 - 1);
            match self.get(&digest) {
                Some(block) => parent = block.parent(),
                None => break,
            }
        }
        at == height && digest == ancestor
    }

    /// The last committed block.
    pub fn committed(&self) -> (Height, Digest) {
        self.committed
    }

    /// How many uncommitted blocks carry commands, on whatever fork.
    pub fn open_payloads(&self) -> usize {
        self.open_payloads
    }

    /// Adds a block whose parent is here.
    pub fn insert(&mut self, block: Arc<Block>, candidates: Arc<[ReplicaId]>) {
        let gap = bug!(CommitsOverMissing);
        assert!(gap || block.is_unlinked() || self.contains(&block.parent()), "a block enters after its parent");
        assert!(block.height > self.committed.0, "nothing enters at or below the committed height");
        self.open_payloads += usize::from(!block.payload.is_empty());
        self.heights.entry(block.height).or_default().push(block.digest());
        let earlier = self.nodes.insert(block.digest(), Node { block, candidates, journaled: false });
        assert!(earlier.is_none(), "a block enters once");
    }

    /// The blocks from above the committed one up to `digest`, oldest first; none if `digest` does not extend it.
    pub fn path_to(&self, digest: &Digest) -> Option<Vec<Arc<Block>>> {
        let mut path = Vec::new();
        let mut at = *digest;
        while at != self.committed.1 {
            let Some(block) = self.get(&at).filter(|block| block.height > self.committed.0) else {
                let gap = bug!(CommitsOverMissing) && !self.contains(&at);
                if gap {
                    break;
                }
                return None;
            };
            path.push(block.clone());
            if block.is_unlinked() {
                return (block.height == self.committed.0.next()).then_some(path);
            }
            at = block.parent();
        }
        path.reverse();
        Some(path)
    }

    /// Moves the committed block up by one and takes out the forks that it leaves behind, which are returned.
    pub fn commit(&mut self, block: &Block) -> Vec<Arc<Block>> {
        let gap = bug!(CommitsOverMissing);
        let follows = gap || block.is_unlinked() && block.height == self.committed.0.next();
        assert!(follows || block.parent() == self.committed.1, "blocks are committed in the order of the chain");
        self.open_payloads -= usize::from(!block.payload.is_empty());
        self.committed = (block.height, block.digest());
        self.shrunk = true;
        let here = self.heights.get_mut(&block.height).expect("the block is in the tree");
        let mut dead: Vec<Digest> = here.iter().copied().filter(|digest| *digest != block.digest()).collect();
        here.retain(|digest| *digest == block.digest());
        let mut pruned = Vec::new();
        let mut height = block.height;
        while !dead.is_empty() {
            for digest in &dead {
                let node = self.nodes.remove(digest).expect("the index names what is in the tree");
                self.open_payloads -= usize::from(!node.block.payload.is_empty());
                pruned.push(node.block);
            }
            height = height.next();
            let Some(above) = self.heights.get_mut(&height) else { break };
            let nodes = &self.nodes;
            let orphans = |digest: &Digest| dead.contains(&nodes[digest].block.parent());
            let next: Vec<Digest> = above.iter().copied().filter(orphans).collect();
            above.retain(|digest| !next.contains(digest));
            if above.is_empty() {
                self.heights.remove(&height);
            }
            dead = next;
        }
        pruned
    }

    /// Takes an unlinked block out that is not committed.
    pub fn remove(&mut self, digest: &Digest) -> Option<Arc<Block>> {
        let removable = |block: &&Arc<Block>| block.is_unlinked() && block.height > self.committed.0;
        let block = self.get(digest).filter(removable)?.clone();
        self.nodes.remove(digest);
        self.shrunk = true;
        self.open_payloads -= usize::from(!block.payload.is_empty());
        let here = self.heights.get_mut(&block.height).expect("the block is in the tree");
        here.retain(|other| other != digest);
        if here.is_empty() {
            self.heights.remove(&block.height);
        }
        Some(block)
    }

    /// The committed blocks that are kept, in ascending order from above a height.
    pub fn committed_above(&self, height: Height) -> impl Iterator<Item = (Height, Digest)> {
        let range = if height < self.committed.0 { height.next()..self.committed.0.next() } else { height..height };
        self.heights.range(range).filter_map(|(height, digests)| Some((*height, *digests.first()?)))
    }

    /// The block that was committed at a height, if it is kept.
    pub fn committed_at(&self, height: Height) -> Option<Digest> {
        let here = self.heights.get(&height).filter(|_| height <= self.committed.0)?;
        here.first().copied()
    }

    /// Takes a committed block out, the lowest one that is kept.
    pub fn retire(&mut self, block: &Block) {
        assert!(block.height < self.committed.0, "the committed head stays");
        self.nodes.remove(&block.digest()).expect("a committed block is retired once");
        self.shrunk = true;
        self.heights.remove(&block.height);
    }

    /// Whether a block that was here may not be any more, or another one is committed, since this was last asked.
    pub fn take_shrunk(&mut self) -> bool {
        std::mem::take(&mut self.shrunk)
    }

    /// Holds after every step; what only the loss of a block can break, if there may have been one.
    pub fn invariants(&self, shrunk: bool) {
        assert!(self.open_payloads <= self.nodes.len(), "an open payload belongs to a block");
        assert!(!shrunk || self.contains(&self.committed.1), "the committed head is kept");
    }
}
