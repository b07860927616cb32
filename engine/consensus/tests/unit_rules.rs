//! Truth table of each protocol's rules.

use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::data::block_tree::BlockTree;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::protocols::chained::rules::*;
use quorate_consensus::protocols::views::Known;
use quorate_types::*;
use std::sync::Arc;

fn tree(blocks: &[Arc<Block>]) -> BlockTree {
    let mut tree = BlockTree::new(genesis().subject.digest, Salt(0));
    blocks.iter().for_each(|block| tree.insert(block.clone(), Arc::new([])));
    tree
}

fn voted(block: &Block) -> Subject {
    block.subject(Domain::Vote)
}

fn may_vote<R: Rules>(block: &Block, evidence: Option<&Certificate>, lock: Subject, tree: &BlockTree) -> bool {
    R::may_vote(Candidate { block, evidence, lock }, tree).is_ok()
}

/// Returns the view of the block that is committed when the last block of a chain with these views is certified.
fn commits<R: Rules>(views: &[u64]) -> Option<u64> {
    let blocks = chain(views);
    R::commits(blocks.last().expect("the chain is not empty"), &tree(&blocks)).map(|block| block.view.0)
}

#[test]
fn chained_hotstuff_algorithm_1_line_26_votes_for_a_block_that_extends_the_lock() {
    let blocks = chain(&[1, 2, 3]);
    let tree = tree(&blocks);
    // The certificate of the lock itself is no newer than the lock, so the liveness rule does not apply.
    let child = block(9, 0, certify(&blocks[1]), vec![]);
    assert!(may_vote::<ChainedHotStuff>(&child, None, voted(&blocks[1]), &tree));
    assert!(may_vote::<ChainedHotStuff>(&block(1, 0, genesis(), vec![]), None, genesis().subject, &tree));
}

#[test]
fn chained_hotstuff_algorithm_1_line_27_votes_for_a_certificate_newer_than_the_lock() {
    let blocks = chain(&[1, 2]);
    let fork = block(3, 0, certify(&blocks[0]), vec![]);
    let tree = tree(&[blocks[0].clone(), blocks[1].clone(), fork.clone()]);
    let on_fork = block(4, 0, certify(&fork), vec![]);
    assert!(may_vote::<ChainedHotStuff>(&on_fork, None, voted(&blocks[1]), &tree));
}

#[test]
fn chained_hotstuff_algorithm_1_lines_26_and_27_refuse_a_fork_below_the_lock() {
    let blocks = chain(&[1, 2]);
    let tree = tree(&blocks);
    let fork = block(3, 0, certify(&blocks[0]), vec![]);
    assert!(!may_vote::<ChainedHotStuff>(&fork, None, voted(&blocks[1]), &tree));
}

#[test]
fn chained_hotstuff_algorithm_3_line_18_locks_the_head_of_a_two_chain() {
    let blocks = chain(&[1, 3]);
    assert_eq!(
        ChainedHotStuff::lock_after(&blocks[1], &tree(&blocks)),
        Some(voted(&blocks[0])),
        "the lock does not need consecutive views"
    );
    assert_eq!(ChainedHotStuff::lock_after(&blocks[0], &tree(&blocks)), Some(genesis().subject));
}

#[test]
fn chained_hotstuff_algorithm_3_line_20_decides_the_head_of_a_consecutive_three_chain() {
    assert_eq!(commits::<ChainedHotStuff>(&[1, 2, 3]), Some(1));
    assert_eq!(commits::<ChainedHotStuff>(&[1, 4, 5, 6]), Some(4));
    assert_eq!(commits::<ChainedHotStuff>(&[1, 3, 4]), None, "a dummy node between b and b'");
    assert_eq!(commits::<ChainedHotStuff>(&[1, 2, 4]), None, "a dummy node between b' and b''");
    assert_eq!(commits::<ChainedHotStuff>(&[1, 2]), None, "genesis is not committed");
}

#[test]
fn basic_hotstuff_algorithm_1_safe_node_and_the_effects_of_certificates() {
    use quorate_consensus::protocols::basic::rules::{answer, basis_after_timeout, locks, safe_node};
    let blocks = chain(&[1, 2]);
    let fork = block(3, 0, certify(&blocks[0]), vec![]);
    let tree = tree(&[blocks[0].clone(), blocks[1].clone(), fork.clone()]);
    let lock = Subject { domain: Domain::PreCommit, ..voted(&blocks[1]) };
    let safe = |block: &Block| safe_node(Candidate { block, evidence: None, lock }, &tree).is_ok();
    assert!(safe(&block(9, 0, certify(&blocks[1]), vec![])), "line 26: it extends the lock");
    assert!(safe(&block(4, 0, certify(&fork), vec![])), "line 27: its certificate is newer");
    assert!(!safe(&block(4, 0, certify(&blocks[0]), vec![])), "neither");
    let of = |domain| Certificate { subject: Subject { domain, ..voted(&blocks[1]) }, ..certify(&blocks[1]) };
    for domain in Domain::ALL {
        let is_lock = domain == Domain::PreCommit || domain == Domain::Commit;
        assert_eq!(locks(&of(domain)), is_lock.then_some(lock), "algorithm 2, line 25: {domain:?}");
        let next = [(Domain::Prepare, Domain::PreCommit), (Domain::PreCommit, Domain::Commit)];
        assert_eq!(answer(domain), next.into_iter().find(|(phase, _)| *phase == domain).map(|(_, next)| next));
    }
    for (view, basis) in [(3, 1), (4, 2), (9, 2)] {
        assert_eq!(
            basis_after_timeout(View(view), &of(Domain::Prepare)).view,
            View(basis),
            "the evidence shows that v2 or v3 failed"
        );
    }
    assert_eq!(basis_after_timeout(View(2), &genesis()), genesis().subject);
}

#[test]
fn hotstuff_2_votes_if_the_justification_ranks_no_lower_than_the_lock() {
    let blocks = chain(&[1, 3, 5]);
    let tree = tree(&blocks);
    for (parent, locked, votes) in [(0, 1, false), (1, 2, false), (1, 1, true), (2, 1, true)] {
        let candidate = block(9, 0, certify(&blocks[parent]), vec![]);
        assert_eq!(may_vote::<HotStuff2>(&candidate, None, voted(&blocks[locked]), &tree), votes);
    }
    let same_view = block(3, 3, certify(&blocks[0]), vec![]);
    let on_fork = block(9, 0, certify(&same_view), vec![]);
    assert!(may_vote::<HotStuff2>(&on_fork, None, voted(&blocks[1]), &tree), "the rule compares ranks, not ancestry");
}

#[test]
fn hotstuff_2_locks_the_certified_block_and_commits_its_parent_of_the_previous_view() {
    let blocks = chain(&[1, 4]);
    assert_eq!(
        HotStuff2::lock_after(&blocks[1], &tree(&blocks)),
        Some(voted(&blocks[1])),
        "the lock does not need consecutive views"
    );
    assert_eq!(commits::<HotStuff2>(&[1, 2]), Some(1));
    assert_eq!(commits::<HotStuff2>(&[1, 3, 4]), Some(3));
    assert_eq!(commits::<HotStuff2>(&[1, 3]), None, "views that are not consecutive commit nothing");
    assert_eq!(commits::<HotStuff2>(&[1]), None, "genesis is not committed");
}

#[test]
fn hotstuff_2_leaders_wait_unless_they_have_the_certificate_of_the_previous_view() {
    let blocks = chain(&[1, 3]);
    for (view, waits) in [(4, false), (5, true), (9, true)] {
        assert_eq!(HotStuff2::awaits_higher(View(view), &certify(&blocks[1])), waits, "view {view}");
    }
    assert!(!Jolteon::awaits_higher(View(9), &certify(&blocks[1])), "other protocols never wait");
}

/// If leaders wait for locks, only timely certificates raise them.
#[test]
fn a_certificate_is_timely_until_its_view_is_over_or_timed_out() {
    let blocks = chain(&[3]);
    let (tree, high) = (tree(&blocks), certify(&blocks[0]));
    let known = |view, timed_out, high_began| {
        let (view, timed_out) = (View(view), View(timed_out));
        Known { view, high: &high, high_began, lock: genesis().subject, timed_out, tree: &tree }
    };
    for (view, timed_out, of, timely) in
        [(5, 0, 5, true), (5, 4, 6, true), (5, 0, 4, false), (5, 5, 5, false), (5, 5, 6, true)]
    {
        assert_eq!(
            known(view, timed_out, true).is_timely(View(of)),
            timely,
            "v{of} in v{view}, timed out of {timed_out}"
        );
    }
    for (view, timed_out, began, timely) in
        [(4, 2, true, true), (4, 3, true, false), (4, 2, false, false), (5, 2, true, false)]
    {
        assert_eq!(known(view, timed_out, began).high_was_timely(), timely, "v{view}, timed out of {timed_out}");
    }
}

#[test]
fn simple_hotstuff_rule_2_votes_if_the_parent_is_not_older_than_the_lock() {
    let blocks = chain(&[1, 3, 5]);
    let tree = tree(&blocks);
    for (parent, locked, votes) in [(0, 1, false), (1, 1, true), (2, 1, true)] {
        let candidate = block(9, 0, certify(&blocks[parent]), vec![]);
        assert_eq!(may_vote::<SimpleHotStuff>(&candidate, None, voted(&blocks[locked]), &tree), votes);
    }
    let same_view = block(3, 3, certify(&blocks[0]), vec![]);
    let on_fork = block(9, 0, certify(&same_view), vec![]);
    assert!(
        may_vote::<SimpleHotStuff>(&on_fork, None, voted(&blocks[1]), &tree),
        "the rule compares views, not ancestry"
    );
}

#[test]
fn simple_hotstuff_locks_the_parent_and_commits_the_grandparent_two_views_back() {
    let blocks = chain(&[1, 4]);
    assert_eq!(SimpleHotStuff::lock_after(&blocks[1], &tree(&blocks)), Some(voted(&blocks[0])));
    assert_eq!(commits::<SimpleHotStuff>(&[1, 2, 3]), Some(1));
    assert_eq!(commits::<SimpleHotStuff>(&[1, 2, 4]), None);
    assert_eq!(commits::<SimpleHotStuff>(&[1, 3, 4]), None);
    assert_eq!(commits::<SimpleHotStuff>(&[1, 2]), None);
}

fn saying(high: &Certificate) -> Attachment {
    Attachment::HighCertificate(Box::new(high.clone()))
}

#[test]
fn fast_hotstuff_algorithm_2_safe_block_needs_the_previous_view_or_an_aggregate() {
    let blocks = chain(&[1, 2]);
    let (tree, lock) = (tree(&blocks), genesis().subject);
    let [low, high] = [0, 1].map(|at: usize| certify(&blocks[at]));
    assert!(may_vote::<FastHotStuff>(&block(3, 0, high.clone(), vec![]), None, lock, &tree), "b.view = qc.view + 1");
    let late = |justify: &Certificate| block(6, 0, justify.clone(), vec![]);
    assert!(!may_vote::<FastHotStuff>(&late(&high), None, lock, &tree), "neither");
    let aggregate = |view| timeouts(view, vec![saying(&low), saying(&high), saying(&low)]);
    assert!(
        may_vote::<FastHotStuff>(&late(&high), Some(&aggregate(5)), lock, &tree),
        "extends the highest certificate of the aggregate"
    );
    assert!(
        !may_vote::<FastHotStuff>(&late(&low), Some(&aggregate(5)), lock, &tree),
        "does not extend the highest certificate"
    );
    assert!(!may_vote::<FastHotStuff>(&late(&high), Some(&aggregate(4)), lock, &tree), "b.view = aggQC.view + 1");
    let views_only = timeouts(5, vec![Attachment::HighView(View(2)); 3]);
    assert!(
        !may_vote::<FastHotStuff>(&late(&high), Some(&views_only), lock, &tree),
        "the aggregate carries no certificate"
    );
    let votes = certify(&block(5, 0, genesis(), vec![]));
    assert!(
        !may_vote::<FastHotStuff>(&late(&high), Some(&votes), lock, &tree),
        "a certificate of votes is no aggregate"
    );
    let other = certify(&block(2, 3, certify(&blocks[0]), vec![]));
    let elsewhere = timeouts(5, vec![saying(&other); 3]);
    assert!(
        !may_vote::<FastHotStuff>(&late(&high), Some(&elsewhere), lock, &tree),
        "extends another block of the same view"
    );
}

#[test]
fn fast_hotstuff_algorithm_4_builds_on_the_highest_and_commits_a_consecutive_two_chain_without_a_lock() {
    let blocks = chain(&[1, 2]);
    let [low, high] = [0, 1].map(|at: usize| certify(&blocks[at]));
    let aggregate = timeouts(5, vec![saying(&low), saying(&low), saying(&low)]);
    assert_eq!(FastHotStuff::extends(&high, Some(&aggregate)), &low, "the leader's own certificate does not count");
    assert_eq!(FastHotStuff::extends(&high, None), &high);
    assert_eq!(FastHotStuff::lock_after(&blocks[1], &tree(&blocks)), None);
    assert_eq!(commits::<FastHotStuff>(&[1, 2]), Some(1));
    assert_eq!(commits::<FastHotStuff>(&[1, 3]), None);
    assert_eq!(commits::<FastHotStuff>(&[1]), None);
}

#[test]
fn jolteon_figure_2_vote_condition_3_needs_the_previous_round_or_timeouts_that_report_no_higher() {
    let blocks = chain(&[1, 2]);
    let (tree, lock) = (tree(&blocks), genesis().subject);
    let [low, high] = [0, 1].map(|at: usize| certify(&blocks[at]));
    assert!(may_vote::<Jolteon>(&block(3, 0, high.clone(), vec![]), None, lock, &tree), "3(a): r = qc.r + 1");
    let late = |justify: &Certificate| block(6, 0, justify.clone(), vec![]);
    assert!(!may_vote::<Jolteon>(&late(&high), None, lock, &tree), "neither");
    let knowing = |round, views: [u64; 3]| timeouts(round, views.map(|view| Attachment::HighView(View(view))).to_vec());
    assert!(may_vote::<Jolteon>(&late(&high), Some(&knowing(5, [0, 2, 1])), lock, &tree), "3(b): qc.r = the highest");
    assert!(may_vote::<Jolteon>(&late(&high), Some(&knowing(5, [0, 1, 1])), lock, &tree), "3(b): qc.r above it");
    assert!(!may_vote::<Jolteon>(&late(&low), Some(&knowing(5, [0, 2, 1])), lock, &tree), "3(b): qc.r below it");
    assert!(!may_vote::<Jolteon>(&late(&high), Some(&knowing(4, [0, 1, 1])), lock, &tree), "3(b): r = tc.r + 1");
    let silent = timeouts(5, vec![]);
    assert!(!may_vote::<Jolteon>(&late(&high), Some(&silent), lock, &tree), "the timeout certificate names no qc_high");
    let votes = certify(&block(5, 0, genesis(), vec![]));
    assert!(
        !may_vote::<Jolteon>(&late(&high), Some(&votes), lock, &tree),
        "a certificate of votes is no timeout certificate"
    );
}

#[test]
fn jolteon_figure_2_locks_a_one_chain_and_commits_a_consecutive_two_chain() {
    let blocks = chain(&[1, 4]);
    assert_eq!(Jolteon::lock_after(&blocks[1], &tree(&blocks)), Some(voted(&blocks[1])));
    assert_eq!(commits::<Jolteon>(&[1, 2]), Some(1));
    assert_eq!(commits::<Jolteon>(&[1, 3]), None);
    assert_eq!(commits::<Jolteon>(&[1]), None);
}

#[test]
fn all_but_fast_hotstuff_build_on_their_highest_certificate() {
    let blocks = chain(&[1, 2]);
    let [low, high] = [0, 1].map(|at: usize| certify(&blocks[at]));
    let aggregate = timeouts(5, vec![saying(&low); 3]);
    assert_eq!(ChainedHotStuff::extends(&high, Some(&aggregate)), &high);
    assert_eq!(SimpleHotStuff::extends(&high, Some(&aggregate)), &high);
    assert_eq!(Jolteon::extends(&high, Some(&aggregate)), &high);
}

#[test]
fn protocols_have_distinct_facts() {
    use quorate_consensus::config::ProtocolKind;
    assert_eq!(*ProtocolKind::Jolteon.facts(), Jolteon::FACTS);
    let names: std::collections::BTreeSet<&str> = ProtocolKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), ProtocolKind::ALL.len(), "the names of protocols are distinct");
    let carries: Vec<ProtocolKind> =
        ProtocolKind::ALL.iter().copied().filter(|kind| kind.facts().timeouts_carry_certificates).collect();
    assert_eq!(carries, [ProtocolKind::FastHotStuff]);
}

/// Generates chains whose views ascend by one to three.
fn views() -> impl Strategy<Value = Vec<u64>> {
    collection::vec(prop_oneof![4 => Just(1u64), 1 => 2..4u64], 1..40).prop_map(|steps| {
        let ascend = |view: &mut u64, step: u64| {
            *view += step;
            Some(*view)
        };
        steps.into_iter().scan(0, ascend).collect()
    })
}

proptest! {
    #[test]
    fn both_three_chain_rules_commit_the_same_blocks(views in views()) {
        let blocks = chain(&views);
        let tree = tree(&blocks);
        for certified in &blocks {
            prop_assert_eq!(ChainedHotStuff::commits(certified, &tree), SimpleHotStuff::commits(certified, &tree));
            let chained = ChainedHotStuff::lock_after(certified, &tree);
            prop_assert_eq!(chained, SimpleHotStuff::lock_after(certified, &tree));
        }
    }

    #[test]
    fn two_chains_commit_no_later_than_three_chains(views in views()) {
        let blocks = chain(&views);
        let tree = tree(&blocks);
        let highest = |commits: fn(&Block, &BlockTree) -> Option<Arc<Block>>| {
            blocks.iter().filter_map(|certified| commits(certified, &tree)).map(|block| block.height).max()
        };
        prop_assert!(highest(ChainedHotStuff::commits) <= highest(Jolteon::commits));
        prop_assert_eq!(highest(FastHotStuff::commits), highest(Jolteon::commits));
    }

    /// A replica that locks on a block when the block is certified would vote for the block's children, so the chain
    /// can grow.
    #[test]
    fn no_rule_refuses_the_next_block_of_its_own_chain(views in views()) {
        let blocks = chain(&views);
        let tree = tree(&blocks);
        let (last, lock) = (blocks.last().expect("the chain is not empty"), genesis().subject);
        let next = block(last.view.0 + 1, 0, certify(last), vec![]);
        let after = ChainedHotStuff::lock_after(last, &tree).unwrap_or(lock);
        prop_assert!(may_vote::<ChainedHotStuff>(&next, None, after, &tree));
        let after = SimpleHotStuff::lock_after(last, &tree).unwrap_or(lock);
        prop_assert!(may_vote::<SimpleHotStuff>(&next, None, after, &tree));
        let after = FastHotStuff::lock_after(last, &tree).unwrap_or(lock);
        prop_assert!(may_vote::<FastHotStuff>(&next, None, after, &tree));
        let after = Jolteon::lock_after(last, &tree).unwrap_or(lock);
        prop_assert!(may_vote::<Jolteon>(&next, None, after, &tree));
    }
}

/// Returns a block that names its parent without a certificate.
fn ahead(view: u64, parent: &Block) -> Block {
    Block::optimistic(View(view), ReplicaId(0), voted(parent), vec![], 0)
}

#[test]
fn simple_moonshot_votes_for_an_optimistic_block_only_if_locked_on_its_parent_in_the_previous_view() {
    let blocks = chain(&[1, 2]);
    let rival = block(2, 3, certify(&blocks[0]), vec![]);
    let tree = tree(&[blocks[0].clone(), blocks[1].clone(), rival.clone()]);
    let votes = |block: &Block, lock: &Block| may_vote::<SimpleMoonshot>(block, None, voted(lock), &tree);
    assert!(votes(&ahead(3, &blocks[1]), &blocks[1]));
    assert!(!votes(&ahead(3, &blocks[1]), &blocks[0]), "its parent is not known to be certified");
    assert!(!votes(&ahead(3, &rival), &blocks[1]), "another block of that view is certified");
    assert!(!votes(&ahead(4, &blocks[1]), &blocks[1]), "a view was skipped");
}

#[test]
fn simple_moonshot_votes_for_other_blocks_locks_commits_and_waits_like_hotstuff_2() {
    let blocks = chain(&[1, 3, 5]);
    let tree = tree(&blocks);
    for (parent, locked, votes) in [(0, 1, false), (1, 2, false), (1, 1, true), (2, 1, true)] {
        let candidate = block(9, 0, certify(&blocks[parent]), vec![]);
        assert_eq!(may_vote::<SimpleMoonshot>(&candidate, None, voted(&blocks[locked]), &tree), votes);
    }
    assert_eq!(SimpleMoonshot::lock_after(&blocks[1], &tree), Some(voted(&blocks[1])));
    assert_eq!(commits::<SimpleMoonshot>(&[1, 2]), Some(1));
    assert_eq!(commits::<SimpleMoonshot>(&[1, 3]), None, "views that are not consecutive commit nothing");
    for (view, waits) in [(4, false), (5, true)] {
        assert_eq!(SimpleMoonshot::awaits_higher(View(view), &certify(&blocks[1])), waits, "view {view}");
    }
    let delays = [SimpleMoonshot::FACTS.awaited_delays, HotStuff2::FACTS.awaited_delays];
    assert_eq!(delays, [2, 2], "2Δ: for a timeout to arrive, and the answer to come back");
}
