//! Random trees of blocks in random order, compared with a model without indices.

use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use proptest::sample::Index;
use quorate_consensus::Config;
use quorate_consensus::config::LeaderKind;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::store::{Store, Taken};
use quorate_consensus::voting::leader::LeaderElection;
use quorate_types::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BUNDLES: usize = 8;

/// For each block, its parent among the earlier ones (or genesis) and the bundles that it names.
type Shape = Vec<(Index, Vec<usize>)>;

fn shape(most: usize) -> impl Strategy<Value = Shape> {
    collection::vec((any::<Index>(), collection::vec(0..BUNDLES, 0..3)), 1..most)
}

struct Forest {
    bundles: Vec<Bundle>,
    blocks: Vec<Arc<Block>>,
    payloads: Vec<Vec<usize>>,
}

impl Forest {
    fn grow(shape: Shape) -> Forest {
        let bundles: Vec<Bundle> = (0..BUNDLES as u64).map(|number| bundle(number, 1 + number % 3, 5)).collect();
        let (mut blocks, mut payloads): (Vec<Arc<Block>>, _) = (Vec::new(), Vec::new());
        for (view, (parent, payload)) in (1..).zip(shape) {
            // Only the younger half of the blocks has children, which makes branches long.
            let parent = (blocks.len() / 2 + parent.index(blocks.len() / 2 + 2)).min(blocks.len());
            let justify = parent.checked_sub(1).map_or(genesis(), |parent| certify(&blocks[parent]));
            let digests = payload.iter().map(|number| bundles[*number].digest()).collect();
            blocks.push(block(view, 0, justify, digests));
            payloads.push(payload);
        }
        Forest { bundles, blocks, payloads }
    }

    fn number(&self, digest: &Digest) -> Option<usize> {
        self.blocks.iter().position(|block| block.digest() == *digest)
    }
}

#[derive(Clone, Copy, Default)]
struct Held {
    executed: bool,
}

/// Model that recomputes from the definitions which blocks and bundles are whole, kept and pending.
struct Naive<'a> {
    forest: &'a Forest,
    held: BTreeMap<usize, Held>,
    offered: BTreeSet<usize>,
    tree: BTreeSet<usize>,
    committed: Vec<usize>,
    /// The end of the branch to build on.
    tip: Option<usize>,
    retained: usize,
}

impl Naive<'_> {
    fn new(forest: &Forest, retained: usize) -> Naive<'_> {
        Naive {
            forest,
            held: BTreeMap::new(),
            offered: BTreeSet::new(),
            tree: BTreeSet::new(),
            committed: Vec::new(),
            tip: None,
            retained,
        }
    }

    fn height(&self) -> u64 {
        self.committed.len() as u64
    }

    fn may_enter(&self, number: usize) -> bool {
        let block = &self.forest.blocks[number];
        let parent = match self.forest.number(&block.parent()) {
            None => self.committed.is_empty(),
            Some(parent) => self.tree.contains(&parent),
        };
        let bundles = self.forest.payloads[number].iter().all(|bundle| self.held.contains_key(bundle));
        !self.tree.contains(&number) && block.height.0 > self.height() && parent && bundles
    }

    /// Returns the blocks that become whole now, in no particular order.
    fn settle(&mut self) -> BTreeSet<usize> {
        let mut entered = BTreeSet::new();
        while let Some(number) = self.offered.iter().copied().find(|number| self.may_enter(*number)) {
            self.tree.insert(number);
            entered.insert(number);
        }
        entered
    }

    fn ancestors(&self, number: usize) -> BTreeSet<usize> {
        std::iter::successors(Some(number), |at| self.forest.number(&self.forest.blocks[*at].parent())).collect()
    }

    /// Moves the tip to the newest block, in the order in which blocks become whole.
    fn follow(&mut self, told: &[Digest]) {
        for number in told.iter().map(|digest| self.forest.number(digest).expect("the digest is of a known block")) {
            self.tip = self.tip.max(Some(number));
        }
    }

    fn commit(&mut self, path: &[usize]) {
        for number in path {
            self.forest.payloads[*number]
                .iter()
                .for_each(|bundle| self.held.get_mut(bundle).expect("held").executed = true);
            self.committed.push(*number);
        }
        let head = *path.last().expect("the path is not empty");
        if !self.tip.is_some_and(|tip| self.ancestors(tip).contains(&head)) {
            self.tip = Some(head);
        }
        let keep = self.committed.len().saturating_sub(self.retained.max(1));
        let kept: BTreeSet<usize> = self.committed[keep..].iter().copied().collect();
        let tree = self.tree.iter().copied();
        self.tree = tree.filter(|number| kept.contains(number) || self.ancestors(*number).contains(&head)).collect();
        let used: BTreeSet<usize> =
            self.tree.iter().flat_map(|number| self.forest.payloads[*number].iter().copied()).collect();
        self.held.retain(|bundle, held| !held.executed || used.contains(bundle));
        self.offered.retain(|number| self.forest.blocks[*number].height.0 > self.committed.len() as u64);
    }

    fn pending(&self) -> BTreeSet<usize> {
        let branch = self.tip.map(|tip| self.ancestors(tip)).unwrap_or_default();
        let used = |bundle: &usize| {
            self.tree.intersection(&branch).any(|number| self.forest.payloads[*number].contains(bundle))
        };
        let pending = self.held.iter().filter(|(bundle, held)| !held.executed && !used(bundle));
        pending.map(|(bundle, _)| *bundle).collect()
    }

    fn check(&self, store: &mut Store) {
        for (number, block) in self.forest.blocks.iter().enumerate() {
            assert_eq!(store.tree.contains(&block.digest()), self.tree.contains(&number), "block {number}");
        }
        for (number, bundle) in self.forest.bundles.iter().enumerate() {
            assert_eq!(store.pool.contains(&bundle.digest()), self.held.contains_key(&number), "bundle {number}");
        }
        let pending = self.pending();
        let commands: usize = pending.iter().map(|number| self.forest.bundles[*number].len()).sum();
        assert_eq!(store.pool.pending_commands(), commands, "the pending bundles are {pending:?}");
        let listed: BTreeSet<Digest> = store.pool.oldest_pending(99).iter().map(Bundle::digest).collect();
        assert_eq!(listed, pending.iter().map(|number| self.forest.bundles[*number].digest()).collect());
        let open = self.tree.iter().filter(|number| {
            !self.forest.payloads[**number].is_empty() && self.forest.blocks[**number].height.0 > self.height()
        });
        assert_eq!(store.tree.open_payloads(), open.count());
        store.invariants();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer(Index),
    Supply(Index),
    Commit(Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<Index>().prop_map(Step::Offer),
        4 => any::<Index>().prop_map(Step::Supply),
        1 => any::<Index>().prop_map(Step::Commit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_store_agrees_with_a_naive_model(
        shape in shape(24),
        steps in collection::vec(step(), 1..150),
        retained in 1..5usize,
    ) {
        let forest = Forest::grow(shape);
        let config = Config { retained_blocks: retained, ..config() };
        let leaders = LeaderElection::new(LeaderKind::Fixed, quorum(4));
        let mut store = Store::new(&config, quorum(4), ReplicaId(0), genesis().subject.digest, Salt(1));
        store.keep_above(Height(u64::MAX));
        let mut naive = Naive::new(&forest, retained);
        for step in steps {
            let mut whole = Vec::new();
            match step {
                Step::Offer(which) => {
                    let number = which.index(forest.blocks.len());
                    let block = forest.blocks[number].clone();
                    let late = block.height.0 <= naive.height() && !naive.tree.contains(&number);
                    let taken = store.offer(at(1), block, ReplicaId(1), &leaders, &mut whole);
                    if !late {
                        naive.offered.insert(number);
                    }
                    let before = naive.tree.contains(&number);
                    let entered = naive.settle();
                    let expected = match (late, naive.tree.contains(&number)) {
                        (true, _) => Taken::Late,
                        (false, true) => Taken::Whole,
                        (false, false) => Taken::Waiting,
                    };
                    prop_assert_eq!(taken, expected);
                    prop_assert!(!before || entered.is_empty());
                    check_order(&forest, &whole, &entered);
                    naive.follow(&whole);
                }
                Step::Supply(which) => {
                    let number = which.index(BUNDLES);
                    store.supply(forest.bundles[number].clone(), &leaders, &mut whole);
                    naive.held.entry(number).or_default();
                    let entered = naive.settle();
                    check_order(&forest, &whole, &entered);
                    naive.follow(&whole);
                }
                Step::Commit(which) => {
                    let open = naive.tree.iter().copied();
                    let open: Vec<usize> = open.filter(|number| !naive.committed.contains(number)).collect();
                    if open.is_empty() {
                        continue;
                    }
                    let target = *which.get(&open);
                    let path = naive.ancestors(target).into_iter();
                    let path: Vec<usize> = path.filter(|number| !naive.committed.contains(number)).collect();
                    let mut handed = Vec::new();
                    let done = store.commit(&forest.blocks[target].digest(), |block, bundles, _| {
                        let named: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
                        assert_eq!(named, block.payload, "a block is committed with its bundles");
                        handed.push(forest.number(&block.digest()).expect("the digest is of a known block"));
                    });
                    prop_assert!(done);
                    prop_assert_eq!(&handed, &path, "blocks are committed oldest first, without gaps");
                    naive.commit(&path);
                }
            }
            naive.check(&mut store);
        }
    }

    /// For any order of arrival, everything is whole in the end, and nothing is requested any more.
    #[test]
    fn everything_becomes_whole(shape in shape(30), order in Just((0..64).collect::<Vec<usize>>()).prop_shuffle()) {
        let forest = Forest::grow(shape);
        let leaders = LeaderElection::new(LeaderKind::Fixed, quorum(4));
        let mut store = Store::new(&config(), quorum(4), ReplicaId(0), genesis().subject.digest, Salt(2));
        let mut whole = Vec::new();
        for at_once in order {
            if let Some(bundle) = forest.bundles.get(at_once) {
                store.supply(bundle.clone(), &leaders, &mut whole);
            } else if let Some(block) = forest.blocks.get(at_once - BUNDLES) {
                store.offer(at(1), block.clone(), ReplicaId(1), &leaders, &mut whole);
            }
        }
        check_order(&forest, &whole, &(0..forest.blocks.len()).collect());
        prop_assert_eq!(store.next_request(), None);
    }

    #[test]
    fn extends_agrees_with_following_the_parents(shape in shape(20), one in any::<Index>(), other in any::<Index>()) {
        let forest = Forest::grow(shape);
        let leaders = LeaderElection::new(LeaderKind::Fixed, quorum(4));
        let mut store = Store::new(&config(), quorum(4), ReplicaId(0), genesis().subject.digest, Salt(3));
        let mut whole = Vec::new();
        for bundle in &forest.bundles {
            store.supply(bundle.clone(), &leaders, &mut whole);
        }
        for block in &forest.blocks {
            store.offer(at(1), block.clone(), ReplicaId(1), &leaders, &mut whole);
        }
        let (block, ancestor) = (one.get(&forest.blocks), other.get(&forest.blocks));
        let mut above = vec![block.digest()];
        while let Some(number) = forest.number(above.last().expect("the path is not empty")) {
            above.push(forest.blocks[number].parent());
        }
        let extends = store.tree.extends(block, ancestor.digest(), ancestor.height);
        prop_assert_eq!(extends, above.contains(&ancestor.digest()));
        prop_assert!(store.tree.extends(block, genesis().subject.digest, Height(0)));
        prop_assert!(
            !store.tree.extends(block, ancestor.digest(), ancestor.height.next()),
            "no ancestor is at another height"
        );
    }
}

/// Checks that the reported blocks are the expected ones, with parents before children and each reported once.
fn check_order(forest: &Forest, told: &[Digest], expected: &BTreeSet<usize>) {
    let numbers: Vec<usize> =
        told.iter().map(|digest| forest.number(digest).expect("the digest is of a known block")).collect();
    assert_eq!(numbers.len(), expected.len());
    assert_eq!(numbers.iter().copied().collect::<BTreeSet<_>>(), *expected);
    for (at, digest) in told.iter().enumerate() {
        let parent = forest.blocks[numbers[at]].parent();
        assert!(!told[at..].contains(&parent), "{digest:?} came before its parent");
    }
}
