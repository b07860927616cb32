//! Leader election.

use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::config::LeaderKind;
use quorate_consensus::data::block_tree::BlockTree;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::store::Store;
use quorate_consensus::voting::leader::LeaderElection;
use quorate_types::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Chain, as seen by one replica.
struct Chain {
    replicas: u16,
    leaders: LeaderElection,
    tree: BlockTree,
    head: Certificate,
    blocks: Vec<Arc<Block>>,
}

impl Chain {
    fn new(kind: LeaderKind, replicas: usize) -> Chain {
        let tree = BlockTree::new(genesis().subject.digest, Salt(0));
        let leaders = LeaderElection::new(kind, quorum(replicas));
        Chain { replicas: replicas as u16, leaders, tree, head: genesis(), blocks: Vec::new() }
    }

    /// Returns the leader after this number of skipped views.
    fn leader(&self, skipped: u64) -> u16 {
        self.leaders
            .leader(View(self.head.view().0 + 1 + skipped), &self.head.subject, &self.tree)
            .expect("the head is in the tree")
            .0
    }

    /// Appends a block after this number of skipped views, with a certificate by these signers.
    fn extend(&mut self, skipped: u64, signers: &[u16]) {
        let block = block(self.head.view().0 + 1 + skipped, self.leader(skipped), self.head.clone(), Vec::new());
        self.tree.insert(block.clone(), self.leaders.candidates(&block, &self.tree));
        self.head = certify_by(&block, signers);
        self.blocks.push(block);
    }

    fn candidates(&self) -> Vec<u16> {
        self.tree
            .candidates(&self.head.subject.digest)
            .expect("the head is in the tree")
            .iter()
            .map(|replica| replica.0)
            .collect()
    }
}

#[test]
fn a_fixed_leader_stays_until_a_view_is_skipped() {
    let mut chain = Chain::new(LeaderKind::Fixed, 4);
    assert_eq!([0, 1, 2, 3, 4].map(|skipped| chain.leader(skipped)), [0, 1, 2, 3, 0]);
    chain.extend(0, &[0, 1, 2]);
    chain.extend(0, &[0, 1, 2]);
    assert_eq!([0, 1, 2, 3, 4].map(|skipped| chain.leader(skipped)), [0, 1, 2, 3, 0]);
    chain.extend(2, &[0, 1, 2]);
    assert_eq!(chain.leader(0), 2, "the new leader stays");
    assert_eq!([1, 2, 3].map(|skipped| chain.leader(skipped)), [3, 0, 1]);
}

#[test]
fn a_leader_is_unknown_without_the_block_of_its_basis() {
    let missing = certify(&block(7, 2, genesis(), Vec::new())).subject;
    for (kind, known) in
        [(LeaderKind::Fixed, None), (LeaderKind::Reputation, None), (LeaderKind::RoundRobin, Some(ReplicaId(1)))]
    {
        let chain = Chain::new(kind, 4);
        assert_eq!(chain.leaders.leader(View(9), &missing, &chain.tree), known);
    }
}

#[test]
#[should_panic(expected = "a view is higher than its basis")]
fn a_view_that_is_not_above_its_basis_has_no_leader() {
    let chain = Chain::new(LeaderKind::RoundRobin, 4);
    let _ = chain.leaders.leader(View(0), &genesis().subject, &chain.tree);
}

impl Chain {
    /// Returns the number of views until the next certificate while these replicas are silent, or `None` if `most`
    /// views yield none. A view succeeds if neither its leader nor the collector of its votes is silent.
    fn live(&mut self, silent: &[u16], most: u64) -> Option<u64> {
        let signers: Vec<u16> = (0..self.replicas).filter(|replica| !silent.contains(replica)).collect();
        for skipped in 0..most {
            let (basis, leader) = (self.head.clone(), self.leader(skipped));
            if silent.contains(&leader) {
                continue;
            }
            self.extend(skipped, &signers);
            if !silent.contains(&self.leader(0)) {
                return Some(skipped);
            }
            (self.head, _) = (basis, self.blocks.pop());
        }
        None
    }
}

/// One silent replica of four, as in the figures of the design.
#[test]
fn reputation_soon_excludes_a_silent_replica() {
    let mut chain = Chain::new(LeaderKind::Reputation, 4);
    for _ in 0..40 {
        chain.extend(0, &[0, 1, 2, 3]);
    }
    let skipped: Vec<u64> =
        (0..100).map(|_| chain.live(&[3], 10).expect("three live replicas form certificates")).collect();
    assert!(skipped.iter().sum::<u64>() <= 4, "{skipped:?}");
    assert_eq!(skipped[20..].iter().sum::<u64>(), 0, "{skipped:?}");
    assert!(!chain.candidates().contains(&3));
}

/// One of four replicas signs everything but makes each view fail that it leads or for which it collects votes. The
/// election must repeatedly elect three of the others in a row, as a three-chain requires.
#[test]
fn reputation_excludes_a_replica_that_votes_but_fails_its_views() {
    for failing in 0..4 {
        let mut chain = Chain::new(LeaderKind::Reputation, 4);
        let signers: Vec<u16> = (0..4).filter(|replica| *replica != (failing + 1) % 4).collect();
        let mut skipped = Vec::new();
        for _ in 0..400 {
            let before = chain.head.clone();
            let skips = (0..10).find(|skips| {
                if chain.leader(*skips) == failing {
                    return false;
                }
                chain.extend(*skips, &signers);
                let fails = chain.leader(0) == failing;
                if fails {
                    (chain.head, _) = (before.clone(), chain.blocks.pop());
                }
                !fails
            });
            skipped.push(skips.expect("three live replicas form certificates"));
        }
        let failed = skipped.iter().filter(|skips| **skips > 0).count();
        assert!(failed < 100, "replica {failing} fails {failed} of 400 views");
        let calm = skipped.split(|skips| *skips > 0).map(<[u64]>::len).max();
        assert!(calm >= Some(8), "replica {failing}: {skipped:?}");
    }
}

/// Generates the number of views skipped before each block, and the signers of its certificate.
fn history(replicas: u16) -> impl Strategy<Value = Vec<(u64, Vec<u16>)>> {
    let enough = quorum(usize::from(replicas)).quorum();
    let signers = Just((0..replicas).collect::<Vec<u16>>())
        .prop_shuffle()
        .prop_flat_map(move |order| (enough..=order.len()).prop_map(move |count| order[..count].to_vec()));
    collection::vec((prop_oneof![6 => Just(0u64), 2 => 1..4u64, 1 => 4..40u64], signers), 1..90)
}

fn histories() -> impl Strategy<Value = (u16, Vec<(u64, Vec<u16>)>)> {
    (1..11u16).prop_flat_map(|replicas| (Just(replicas), history(replicas)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn round_robin_is_view_modulo_n((replicas, history) in histories(), skipped in 0..100u64) {
        let mut chain = Chain::new(LeaderKind::RoundRobin, usize::from(replicas));
        for (skipped, signers) in history {
            chain.extend(skipped, &signers);
        }
        let view = chain.head.view().0 + 1 + skipped;
        prop_assert_eq!(u64::from(chain.leader(skipped)), view % u64::from(replicas));
    }

    #[test]
    fn skipped_views_elect_every_replica_in_turn((replicas, history) in histories()) {
        for kind in LeaderKind::ALL {
            let mut chain = Chain::new(*kind, usize::from(replicas));
            for (skipped, signers) in &history {
                let leaders: Vec<u16> = (0..3 * u64::from(replicas)).map(|skipped| chain.leader(skipped)).collect();
                prop_assert!(leaders.iter().all(|leader| *leader < replicas));
                prop_assert!(replicas == 1 || leaders.windows(2).all(|pair| pair[0] != pair[1]), "{kind}: {leaders:?}");
                prop_assert_eq!(
                    leaders.iter().collect::<BTreeSet<_>>().len(), usize::from(replicas),
                    "{}: {:?}", kind, leaders
                );
                chain.extend(*skipped, signers);
            }
        }
    }

    #[test]
    fn a_replica_that_signs_nothing_in_the_window_is_no_candidate(
        (replicas, history) in histories(),
        silent in any::<prop::sample::Index>(),
    ) {
        let shape = quorum(usize::from(replicas));
        let silent = silent.index(usize::from(replicas)) as u16;
        let mut chain = Chain::new(LeaderKind::Reputation, usize::from(replicas));
        let window = chain.leaders.lookback();
        prop_assert_eq!(window, 4 * usize::from(replicas));
        for (skipped, signers) in &history {
            chain.extend(*skipped, signers);
        }
        let others: Vec<u16> = (0..replicas).filter(|replica| *replica != silent).collect();
        if others.len() < shape.quorum() {
            return Ok(());
        }
        // The silent replica may have signed the certificate in the first of these blocks, but none after it.
        for _ in 0..window + 1 {
            chain.extend(0, &others);
        }
        for (skipped, _) in &history {
            let candidates = chain.candidates();
            prop_assert!(!candidates.contains(&silent), "{candidates:?}");
            prop_assert!(candidates.len() >= (2 * shape.faults()).max(1), "{candidates:?}");
            prop_assert!(candidates.is_sorted(), "the candidates have one order");
            for skipped in 0..candidates.len() as u64 {
                prop_assert_ne!(chain.leader(skipped), silent);
            }
            chain.extend(*skipped, &others);
        }
    }

    /// After any history, when any f replicas fall silent, certificates continue to form, and after a while no view
    /// times out any more.
    #[test]
    fn reputation_keeps_live_replicas_making_progress(
        (replicas, history) in histories(),
        order in Just((0..11u16).collect::<Vec<u16>>()).prop_shuffle(),
    ) {
        let faults = quorum(usize::from(replicas)).faults();
        let silent: Vec<u16> = order.into_iter().filter(|replica| *replica < replicas).take(faults).collect();
        let mut chain = Chain::new(LeaderKind::Reputation, usize::from(replicas));
        for (skipped, signers) in &history {
            chain.extend(*skipped, signers);
        }
        let most = 4 * u64::from(replicas);
        let blocks = 3 * chain.leaders.lookback();
        let skipped: Vec<Option<u64>> = (0..blocks).map(|_| chain.live(&silent, most)).collect();
        prop_assert!(
            skipped.iter().all(Option::is_some),
            "silent {silent:?} of {replicas} stop all certificates: {skipped:?}"
        );
        prop_assert!(
            skipped[2 * blocks / 3..].iter().all(|skipped| *skipped == Some(0)),
            "{silent:?} of {replicas}: {skipped:?}"
        );
    }

    /// The arrival time of a block determines how much history is kept by then, but must not affect the leader.
    #[test]
    fn replicas_with_the_same_chain_elect_the_same_leaders(
        (replicas, history) in histories(),
        delays in collection::vec(0..6usize, 90),
        retained_blocks in 1..4usize,
    ) {
        for kind in LeaderKind::ALL {
            let mut chain = Chain::new(*kind, usize::from(replicas));
            for (skipped, signers) in &history {
                chain.extend(*skipped, signers);
            }
            let config = Config { leader: *kind, retained_blocks, ..config() };
            let shape = quorum(usize::from(replicas));
            let mut store = Store::new(&config, shape, ReplicaId(0), genesis().subject.digest, Salt(9));
            for (number, block) in chain.blocks.iter().enumerate() {
                store.offer(at(1), block.clone(), ReplicaId(0), &chain.leaders, &mut Vec::new());
                if let Some(overtaken) = number.checked_sub(delays[number]) {
                    let digest = chain.blocks[overtaken].digest();
                    if chain.blocks[overtaken].height > store.committed() {
                        let extends = store.commit(&digest, |_, _, _| {});
                        prop_assert!(extends);
                    }
                }
                let subject = block.subject(Domain::Vote);
                for skipped in 0..2 * u64::from(replicas) {
                    let view = View(subject.view.0 + 1 + skipped);
                    prop_assert_eq!(
                        chain.leaders.leader(view, &subject, &store.tree),
                        chain.leaders.leader(view, &subject, &chain.tree)
                    );
                }
            }
        }
    }
}
