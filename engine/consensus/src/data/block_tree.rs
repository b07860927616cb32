//! Tree of the complete blocks. The bundles of a complete block are in the pool, or certified to be stored elsewhere,
//! and its ancestors are in the tree, back to the oldest block that is kept.

use crate::data::digest_map::{DigestMap, Salt};
use quorate_types::{Block, Digest, Height, ReplicaId, Subject};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Node {
    block: Arc<Block>,
    candidates: Arc<[ReplicaId]>,
    /// Whether the journal contains the block.
    journaled: bool,
}

/// Blocks by digest, linked by their parents.
pub struct BlockTree {
    genesis: Digest,
    /// Block that replaces genesis after a restart from a snapshot. It is committed, but not in the tree.
    root: Digest,
    nodes: DigestMap<Node>,
    heights: BTreeMap<Height, Vec<Digest>>,
    committed: (Height, Digest),
    /// Height of the last block known to be final, at or above the committed height: blocks in between wait for
    /// bundles.
    decided: Height,
    /// Number of blocks with commands above the committed one that are not known to be final.
    open_payloads: usize,
    /// Whether a block was removed or committed since the last [`BlockTree::take_shrunk`].
    shrunk: bool,
}

impl BlockTree {
    /// Creates a tree that contains only genesis.
    pub fn new(genesis: Digest, salt: Salt) -> Self {
        BlockTree {
            genesis,
            root: genesis,
            nodes: DigestMap::with_hasher(salt),
            heights: BTreeMap::new(),
            committed: (Height(0), genesis),
            decided: Height(0),
            open_payloads: 0,
            shrunk: true,
        }
    }

    /// Returns whether a block is in the tree. Genesis and the root count as present.
    pub fn contains(&self, digest: &Digest) -> bool {
        *digest == self.genesis || *digest == self.root || self.nodes.contains_key(digest)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Replaces everything committed so far by a committed block that is not in the tree. Returns the tree's blocks
    /// above it, in ascending order of height, and whether the journal contains each of them.
    pub fn begin_on(&mut self, height: Height, digest: Digest) -> Vec<(Arc<Block>, bool)> {
        assert!(height >= self.committed.0, "the committed height never decreases");
        let above = self.heights.split_off(&height.next()).into_values().flatten();
        let nodes = &mut self.nodes;
        let blocks =
            above.filter_map(|digest| nodes.remove(&digest)).map(|node| (node.block, node.journaled)).collect();
        self.nodes.clear();
        self.heights.clear();
        (self.root, self.committed, self.decided, self.open_payloads) = (digest, (height, digest), height, 0);
        self.shrunk = true;
        blocks
    }

    /// Marks a block as journaled, if it is in the tree.
    pub fn set_journaled(&mut self, digest: &Digest) {
        if let Some(node) = self.nodes.get_mut(digest) {
            node.journaled = true;
        }
    }

    /// Restores a committed block, at the root or below it. Its parent, if it is kept, must be restored first.
    pub fn recall_committed(&mut self, block: Arc<Block>, candidates: Arc<[ReplicaId]>) {
        assert!(block.height <= self.committed.0, "a recalled block is at or below the committed height");
        self.heights.insert(block.height, vec![block.digest()]);
        self.nodes.insert(block.digest(), Node { block, candidates, journaled: true });
    }

    /// Returns the blocks up to `digest` that are not in the journal, oldest first, and marks them as journaled.
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

    /// Returns the uncommitted blocks in the journal, parents before children.
    pub fn journaled_above_commit(&self) -> impl Iterator<Item = &Arc<Block>> {
        let above = self.heights.range(self.committed.0.next()..).flat_map(|(_, digests)| digests);
        above.filter_map(|digest| self.nodes.get(digest)).filter(|node| node.journaled).map(|node| &node.block)
    }

    pub fn is_genesis(&self, digest: &Digest) -> bool {
        *digest == self.genesis
    }

    /// Returns a block, or `None` if it is not in the tree. Genesis has no block.
    pub fn get(&self, digest: &Digest) -> Option<&Arc<Block>> {
        self.nodes.get(digest).map(|node| &node.block)
    }

    /// Returns whether a block states the view and the height of its parent, which is in the tree, correctly. Only an
    /// optimistic block may be wrong: no quorum has signed its statement.
    pub fn links(&self, block: &Block) -> bool {
        let Subject { view, height, .. } = block.justify.subject;
        let is_parent = |parent: &Arc<Block>| (parent.view, parent.height) == (view, height);
        !block.is_optimistic() || self.parent(block).is_some_and(is_parent) || bug!(ParentMisstated)
    }

    /// Returns the candidates for leader on top of a block, as computed when it was inserted. Empty if the election
    /// does not need them.
    pub fn candidates(&self, digest: &Digest) -> Option<&Arc<[ReplicaId]>> {
        self.nodes.get(digest).map(|node| &node.candidates)
    }

    /// Returns the parent of `block`, or `None` if that is genesis or no longer kept.
    pub fn parent(&self, block: &Block) -> Option<&Arc<Block>> {
        self.get(&block.parent())
    }

    /// Returns whether `ancestor` at `height` is `block` or one of its ancestors.
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

    /// Returns the last committed block.
    pub fn committed(&self) -> (Height, Digest) {
        self.committed
    }

    /// Returns the height of the last block known to be final.
    pub fn decided(&self) -> Height {
        self.decided
    }

    /// Returns the number of uncommitted blocks that carry commands, on any fork.
    pub fn open_payloads(&self) -> usize {
        self.open_payloads
    }

    /// Inserts a block whose parent is in the tree.
    pub fn insert(&mut self, block: Arc<Block>, candidates: Arc<[ReplicaId]>) {
        assert!(block.is_unlinked() || self.contains(&block.parent()), "a block is inserted after its parent");
        assert!(block.height > self.committed.0, "a block is inserted above the committed height");
        self.open_payloads += usize::from(!block.payload.is_empty());
        self.heights.entry(block.height).or_default().push(block.digest());
        let earlier = self.nodes.insert(block.digest(), Node { block, candidates, journaled: false });
        assert!(earlier.is_none(), "a block is inserted once");
    }

    /// Returns the blocks above the committed one up to `digest`, oldest first, or `None` if `digest` does not extend
    /// the committed block.
    pub fn path_to(&self, digest: &Digest) -> Option<Vec<Arc<Block>>> {
        let mut path = Vec::new();
        let mut at = *digest;
        while at != self.committed.1 {
            let block = self.get(&at).filter(|block| block.height > self.committed.0)?;
            path.push(block.clone());
            if block.is_unlinked() {
                return (block.height == self.committed.0.next()).then_some(path);
            }
            at = block.parent();
        }
        path.reverse();
        Some(path)
    }

    /// Records that the blocks of a path from the committed block are final. They may still wait for bundles.
    pub fn decide(&mut self, path: &[Arc<Block>]) {
        for block in path.iter().filter(|block| block.height > self.decided) {
            self.open_payloads -= usize::from(!block.payload.is_empty());
        }
        self.decided = path.last().map_or(self.decided, |last| self.decided.max(last.height));
    }

    /// Commits the next block. Removes and returns the forks abandoned by this.
    pub fn commit(&mut self, block: &Block) -> Vec<Arc<Block>> {
        let follows = block.is_unlinked() && block.height == self.committed.0.next();
        assert!(follows || block.parent() == self.committed.1, "blocks are committed in the order of the chain");
        if block.height > self.decided {
            self.open_payloads -= usize::from(!block.payload.is_empty());
            self.decided = block.height;
        }
        self.committed = (block.height, block.digest());
        self.shrunk = true;
        let here = self.heights.get_mut(&block.height).expect("the height index covers every block in the tree");
        let mut dead: Vec<Digest> = here.iter().copied().filter(|digest| *digest != block.digest()).collect();
        here.retain(|digest| *digest == block.digest());
        let mut pruned = Vec::new();
        let mut height = block.height;
        while !dead.is_empty() {
            for digest in &dead {
                let node = self.nodes.remove(digest).expect("the height index names only blocks in the tree");
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

    /// Removes an uncommitted, unlinked block.
    pub fn remove(&mut self, digest: &Digest) -> Option<Arc<Block>> {
        let removable = |block: &&Arc<Block>| block.is_unlinked() && block.height > self.committed.0;
        let block = self.get(digest).filter(removable)?.clone();
        self.nodes.remove(digest);
        self.shrunk = true;
        self.open_payloads -= usize::from(!block.payload.is_empty());
        let here = self.heights.get_mut(&block.height).expect("the height index covers every block in the tree");
        here.retain(|other| other != digest);
        if here.is_empty() {
            self.heights.remove(&block.height);
        }
        Some(block)
    }

    /// Returns the kept committed blocks above `height`, in ascending order.
    pub fn committed_above(&self, height: Height) -> impl Iterator<Item = (Height, Digest)> {
        let range = if height < self.committed.0 { height.next()..self.committed.0.next() } else { height..height };
        self.heights.range(range).filter_map(|(height, digests)| Some((*height, *digests.first()?)))
    }

    /// Returns the block committed at `height`, if it is kept.
    pub fn committed_at(&self, height: Height) -> Option<Digest> {
        let here = self.heights.get(&height).filter(|_| height <= self.committed.0)?;
        here.first().copied()
    }

    /// Removes the lowest committed block.
    pub fn retire(&mut self, block: &Block) {
        assert!(block.height < self.committed.0, "the last committed block is not retired");
        self.nodes.remove(&block.digest()).expect("a committed block is retired once");
        self.shrunk = true;
        self.heights.remove(&block.height);
    }

    /// Returns whether a block may have been removed or committed since the last call.
    pub fn take_shrunk(&mut self) -> bool {
        std::mem::take(&mut self.shrunk)
    }

    /// Checks the invariants after a step. `shrunk` says whether to check also those that only the removal of a block
    /// can violate.
    pub fn invariants(&self, shrunk: bool) {
        assert!(self.open_payloads <= self.nodes.len(), "an open payload belongs to a block in the tree");
        assert!(!shrunk || self.contains(&self.committed.1), "the last committed block is in the tree");
    }
}
