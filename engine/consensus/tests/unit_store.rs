//! The store of blocks and bundles: whole, committed, kept and requested ones.

use crate::unit_support::*;
use quorate_consensus::Config;
use quorate_consensus::config::{BatchSize, LeaderKind};
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::data::ledger::Ledger;
use quorate_consensus::data::pool::Offered;
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::seam::{Envelope, MAX_FETCHED_BUNDLES};
use quorate_consensus::store::{Store, Taken};
use quorate_consensus::voting::leader::LeaderElection;
use quorate_types::*;
use std::sync::Arc;

const ME: ReplicaId = ReplicaId(2);
const SOURCE: ReplicaId = ReplicaId(1);

struct Host {
    store: Store,
    leaders: LeaderElection,
    now: Time,
}

impl Host {
    fn new(config: Config) -> Host {
        let mut store = Store::new(&config, quorum(4), ME, genesis().subject.digest, Salt(0));
        // No replica is fetching a state.
        store.keep_above(Height(u64::MAX));
        Host { store, leaders: LeaderElection::new(LeaderKind::Fixed, quorum(4)), now: at(1000) }
    }

    fn offer(&mut self, block: &Arc<Block>) -> (Taken, Vec<Digest>) {
        let mut whole = Vec::new();
        let taken = self.store.offer(self.now, block.clone(), SOURCE, &self.leaders, &mut whole);
        self.store.invariants();
        (taken, whole)
    }

    fn supply(&mut self, bundle: &Bundle) -> (Offered, Vec<Digest>) {
        let mut whole = Vec::new();
        let offered = self.store.supply(bundle.clone(), &self.leaders, &mut whole);
        self.store.invariants();
        (offered, whole)
    }

    fn commit(&mut self, block: &Block) -> Vec<u64> {
        let mut heights = Vec::new();
        assert!(self.store.commit(&block.digest(), |block, _, _| heights.push(block.height.0)));
        self.store.invariants();
        heights
    }

    fn requests(&mut self) -> Vec<(ReplicaId, Envelope<ChainedMessage>)> {
        let mut requests = Vec::new();
        self.store.requests(self.now, &mut requests);
        requests
    }

    fn asked(&mut self) -> Vec<u16> {
        self.requests().into_iter().map(|(replica, _)| replica.0).collect()
    }
}

fn with_retention(retained_blocks: usize) -> Host {
    Host::new(Config { retained_blocks, ..config() })
}

#[test]
fn missing_items_are_requested_from_the_sender_and_then_from_the_others() {
    let mut host = Host::new(config());
    let (parent, missing) = (chain(&[1]).remove(0), bundle(1, 1, 0));
    let child = block(2, 1, certify(&parent), vec![]);
    let other = block(3, 1, genesis(), vec![missing.digest()]);
    assert_eq!(host.offer(&child), (Taken::Waiting, vec![]));
    assert_eq!(host.offer(&other), (Taken::Waiting, vec![]));
    assert!(host.store.wants_block(&parent.digest()) && host.store.wants_bundle(&missing.digest()));
    assert_eq!(host.store.next_request(), Some(host.now + millis(10)), "a missing block is first given time to arrive");
    assert!(host.asked().is_empty());
    let mut asked = Vec::new();
    for _ in 0..7 {
        host.now = host.store.next_request().expect("a missing block is requested until it arrives");
        let requests = host.requests();
        let [(of_block, blocks), (of_bundle, bundles)] = &requests[..] else {
            panic!("expected a request for the block and one for the bundle")
        };
        assert_eq!(*blocks, Envelope::FetchBlocks { digest: parent.digest(), above: Height(0), most: 64 });
        assert_eq!(*bundles, Envelope::FetchBundles { digests: vec![missing.digest()], above: Height(0) });
        assert_eq!(of_block, of_bundle);
        assert_eq!(host.store.next_request(), Some(host.now + millis(100)));
        asked.push(of_block.0);
    }
    assert_eq!(asked, [1, 3, 0, 1, 3, 0, 1], "a replica does not ask itself");
}

/// A replica that is far behind may never need the bundles of blocks that are not connected to its tree.
#[test]
fn bundles_are_requested_once_the_ancestors_of_their_block_are_here() {
    let mut host = Host::new(config());
    let bundles: Vec<Bundle> = (0..3).map(|number| bundle(number, 1, 0)).collect();
    let first = block(1, 0, genesis(), vec![bundles[0].digest()]);
    let second = block(2, 0, certify(&first), vec![bundles[1].digest()]);
    let third = block(3, 0, certify(&second), vec![bundles[2].digest()]);
    let wanted =
        |host: &Host| -> Vec<bool> { bundles.iter().map(|bundle| host.store.wants_bundle(&bundle.digest())).collect() };
    host.offer(&third);
    assert_eq!(wanted(&host), [false; 3]);
    host.offer(&second);
    assert_eq!(wanted(&host), [false; 3]);
    assert_eq!(host.offer(&first), (Taken::Waiting, vec![]));
    assert_eq!(wanted(&host), [true; 3], "bundles of rooted blocks are requested");
    assert_eq!(host.supply(&bundles[2]), (Offered::New, vec![]));
    assert_eq!(host.supply(&bundles[0]), (Offered::New, vec![first.digest()]));
    assert_eq!(wanted(&host), [false, true, false]);
    assert_eq!(host.supply(&bundles[1]), (Offered::New, vec![second.digest(), third.digest()]));
    assert_eq!(host.store.next_request(), None);
}

#[test]
fn a_whole_parent_roots_a_waiting_block() {
    let mut host = Host::new(config());
    let (parent, missing) = (chain(&[1]).remove(0), bundle(1, 1, 0));
    let child = block(2, 0, certify(&parent), vec![missing.digest()]);
    host.offer(&child);
    assert!(!host.store.wants_bundle(&missing.digest()));
    assert_eq!(host.offer(&parent), (Taken::Whole, vec![parent.digest()]));
    assert_eq!(host.asked(), [1], "a bundle of an old proposal is requested at once");
}

#[test]
fn arrived_items_are_not_requested() {
    let mut host = Host::new(config());
    let (parent, missing) = (chain(&[1]).remove(0), bundle(1, 1, 0));
    let child = block(2, 1, certify(&parent), vec![missing.digest()]);
    host.offer(&child);
    assert_eq!(host.offer(&parent), (Taken::Whole, vec![parent.digest()]));
    assert_eq!(host.supply(&missing), (Offered::New, vec![child.digest()]));
    assert_eq!(host.store.next_request(), None);
    assert_eq!(host.offer(&child), (Taken::Whole, vec![]), "a known block is whole");
}

#[test]
fn a_bounded_answer_is_followed_by_the_next_request_at_once() {
    let mut host = Host::new(config());
    let missing: Vec<Bundle> = (0..3).map(|number| bundle(number, 1, 0)).collect();
    host.offer(&block(1, 0, genesis(), missing.iter().map(Bundle::digest).collect()));
    host.now = host.now + millis(10);
    assert_eq!(host.asked(), [1]);
    host.supply(&missing[0]);
    host.store.on_answer(host.now, ReplicaId(0));
    assert!(host.asked().is_empty(), "an answer of another replica triggers no request");
    host.store.on_answer(host.now, SOURCE);
    assert_eq!(host.asked(), [1], "the same peer is asked for the rest");
}

#[test]
fn a_bundle_that_became_due_while_its_peer_was_busy_is_requested_after_the_answer() {
    let mut host = Host::new(config());
    let [first, second] = [1, 2].map(|number| bundle(number, 1, 0));
    let parent = block(1, 0, genesis(), vec![first.digest()]);
    host.offer(&parent);
    host.now = host.now + millis(1);
    host.offer(&block(2, 0, certify(&parent), vec![second.digest()]));
    host.now = host.now + millis(9);
    assert_eq!(host.asked(), [1], "the second bundle is not due yet");
    host.now = host.now + millis(2);
    assert!(host.asked().is_empty(), "the peer is busy");
    host.supply(&first);
    host.store.on_answer(host.now, SOURCE);
    assert_eq!(host.asked(), [1], "the second bundle does not wait for the deadline of the first");
}

#[test]
fn a_peer_with_short_answers_is_replaced_after_a_while() {
    let mut host = Host::new(config());
    let missing: Vec<Bundle> = (0..20).map(|number| bundle(number, 1, 0)).collect();
    host.offer(&block(1, 0, genesis(), missing.iter().map(Bundle::digest).collect()));
    host.now = host.now + millis(10);
    assert_eq!(host.asked(), [1]);
    let mut asked = Vec::new();
    for bundle in &missing[..13] {
        host.now = host.now + millis(80);
        host.supply(bundle);
        host.store.on_answer(host.now, SOURCE);
        asked.extend(host.asked());
    }
    assert_eq!(asked, [vec![1; 12], vec![3]].concat(), "after ten retry periods another peer is asked");
}

#[test]
fn a_peer_gets_one_request_at_a_time_for_the_lowest_bundles() {
    let mut host = Host::new(config());
    let bundles: Vec<Bundle> = (0..3).map(|number| bundle(number, 1, 0)).collect();
    let first = block(1, 0, genesis(), vec![bundles[0].digest()]);
    let second = block(2, 0, certify(&first), vec![bundles[1].digest()]);
    let third = block(3, 0, certify(&second), vec![bundles[2].digest()]);
    host.offer(&first);
    host.offer(&second);
    host.now = host.now + millis(10);
    let request = |of: &[&Bundle]| {
        let digests = of.iter().map(|bundle| bundle.digest()).collect();
        vec![(SOURCE, Envelope::FetchBundles { digests, above: Height(0) })]
    };
    assert_eq!(host.requests(), request(&[&bundles[0], &bundles[1]]));
    host.offer(&third);
    host.now = host.now + millis(10);
    assert_eq!(host.requests(), [], "a busy peer is not asked again");
    assert_eq!(host.store.next_request(), Some(host.now + millis(90)), "a busy peer has time to answer");
    host.supply(&bundles[0]);
    host.store.on_answer(host.now, SOURCE);
    assert_eq!(host.requests(), request(&[&bundles[1], &bundles[2]]));
}

#[test]
fn a_request_names_no_more_bundles_than_are_allowed() {
    let mut host = Host::new(config());
    let missing: Vec<Digest> = (0..MAX_FETCHED_BUNDLES as u64 + 1).map(digest).collect();
    host.offer(&block(1, 0, genesis(), missing));
    host.now = host.now + millis(10);
    let counts: Vec<usize> = host
        .requests()
        .into_iter()
        .map(|(_, request)| match request {
            Envelope::FetchBundles { digests, .. } => digests.len(),
            other => panic!("no request for bundles: {other:?}"),
        })
        .collect();
    assert_eq!(counts, [MAX_FETCHED_BUNDLES]);
}

#[test]
fn an_answer_of_blocks_is_bounded_in_count_and_bytes_and_stops_at_known_blocks() {
    let mut host = Host::new(Config { batch: BatchSize::Auto, ..config() });
    let blocks = chain(&[1, 2, 3, 4, 5, 6]);
    blocks.iter().for_each(|block| drop(host.offer(block)));
    let heights = |host: &Host, of: &Block, above, most| -> Vec<u64> {
        host.store.blocks(of.digest(), Height(above), most).iter().map(|block| block.height.0).collect()
    };
    assert_eq!(heights(&host, &blocks[4], 0, 3), [5, 4, 3]);
    assert_eq!(heights(&host, &blocks[4], 3, 64), [5, 4]);
    assert!(heights(&host, &blocks[4], 0, 0).is_empty());
    assert_eq!(host.store.blocks(digest(9), Height(0), 64), [], "the block is unknown");
    let mut parent = blocks[5].clone();
    for view in 7..12 {
        let few = bundle(view, 1, 0);
        host.supply(&few);
        parent = block(view, 0, certify(&parent), vec![few.digest(); limits::MAX_BLOCK_BUNDLES]);
        assert_eq!(host.offer(&parent).0, Taken::Whole);
    }
    assert_eq!(heights(&host, &parent, 0, 64), [11, 10, 9, 8], "blocks of 2 MiB each, at most 8 MiB");
}

#[test]
fn an_answer_of_bundles_is_bounded_in_bytes() {
    let mut host = Host::new(Config { batch_bytes: 16 << 20, ..config() });
    let large: Vec<Bundle> = (0..4).map(|number| bundle(number, 1, 400 << 10)).collect();
    large.iter().for_each(|bundle| drop(host.supply(bundle)));
    let digests: Vec<Digest> = large.iter().map(Bundle::digest).collect();
    assert_eq!(host.store.bundles(&digests), large[..2]);
    assert_eq!(host.store.bundles(&[digest(1), digests[3]]), large[3..], "unknown bundles are skipped");
    let huge = bundle(9, 4, 3 << 20);
    host.supply(&huge);
    assert_eq!(host.store.bundles(&[huge.digest(), digests[0]]), [huge], "a single bundle is sent, however large");
}

#[test]
fn a_commit_drops_waiting_blocks_that_it_overtakes() {
    let mut host = Host::new(config());
    let blocks = chain(&[1, 2, 3]);
    let missing = bundle(1, 1, 0);
    let fork = block(5, 3, genesis(), vec![missing.digest()]);
    let high_fork = block(8, 3, certify(&block(7, 3, certify(&fork), vec![])), vec![]);
    assert_eq!(host.offer(&fork).0, Taken::Waiting);
    assert_eq!(host.offer(&high_fork).0, Taken::Waiting);
    blocks.iter().for_each(|block| drop(host.offer(block)));
    assert_eq!(host.commit(&blocks[0]), [1]);
    assert!(!host.store.wants_bundle(&missing.digest()));
    assert!(host.store.wants_block(&high_fork.parent()), "the parent is above the committed height");
    assert_eq!(host.commit(&blocks[2]), [2, 3]);
    assert_eq!(host.store.next_request(), None);
    assert_eq!(host.offer(&fork), (Taken::Late, vec![]));
    host.store.want_block(host.now, fork.digest(), fork.height, SOURCE);
    assert!(!host.store.wants_block(&fork.digest()));
}

/// The parent of a waiting block may be abandoned while the block waits for a bundle.
#[test]
fn a_block_on_an_abandoned_fork_never_becomes_whole() {
    let mut host = Host::new(config());
    let blocks = chain(&[1, 2]);
    let missing = bundle(1, 1, 0);
    let fork = block(3, 3, genesis(), vec![]);
    let on_fork = block(4, 3, certify(&fork), vec![missing.digest()]);
    let higher = block(5, 3, certify(&on_fork), vec![]);
    for offered in [&fork, &on_fork, &higher, &blocks[0], &blocks[1]] {
        host.offer(offered);
    }
    assert_eq!(host.commit(&blocks[0]), [1]);
    assert!(!host.store.tree.contains(&fork.digest()));
    assert_eq!(host.supply(&missing), (Offered::New, vec![]));
    assert_eq!(host.offer(&on_fork).1, []);
    assert_eq!(host.store.pool.pending_commands(), 1);
}

/// A bundle of a waiting block may be executed with another block, and dropped with it, before the waiting block's
/// parent arrives.
#[test]
fn a_bundle_dropped_before_its_block_is_whole_is_requested_again() {
    let mut host = with_retention(1);
    let again = bundle(1, 1, 0);
    host.supply(&again);
    let first = block(1, 0, genesis(), vec![again.digest()]);
    let second = block(2, 0, certify(&first), vec![]);
    let third = block(3, 0, certify(&second), vec![]);
    let fourth = block(4, 0, certify(&third), vec![again.digest()]);
    host.offer(&fourth);
    host.offer(&first);
    host.offer(&second);
    assert_eq!(host.commit(&second), [1, 2]);
    assert!(!host.store.pool.contains(&again.digest()));
    assert_eq!(host.offer(&third), (Taken::Whole, vec![third.digest()]));
    assert!(host.store.wants_bundle(&again.digest()));
    assert_eq!(host.asked(), [1]);
    assert_eq!(host.supply(&again), (Offered::New, vec![fourth.digest()]));
    assert_eq!(host.commit(&fourth), [3, 4]);
}

#[test]
fn a_payload_that_names_a_bundle_twice_is_whole_when_it_arrives() {
    let mut host = Host::new(config());
    let twice = bundle(1, 1, 0);
    let block = block(1, 0, genesis(), vec![twice.digest(), twice.digest()]);
    host.offer(&block);
    assert_eq!(host.supply(&twice), (Offered::New, vec![block.digest()]));
    assert_eq!(host.commit(&block), [1]);
}

#[test]
fn bundles_of_forks_are_proposed_again_in_their_old_order() {
    let mut host = Host::new(config());
    let bundles: Vec<Bundle> = (0..6).map(|number| bundle(number, 1, 0)).collect();
    bundles.iter().for_each(|bundle| drop(host.supply(bundle)));
    let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
    let committed = block(9, 0, genesis(), vec![digests[1]]);
    let fork = block(1, 0, genesis(), digests[..2].to_vec());
    let on_fork = block(2, 0, certify(&fork), digests[2..4].to_vec());
    for offered in [&fork, &on_fork, &committed] {
        assert_eq!(host.offer(offered).0, Taken::Whole);
    }
    host.commit(&committed);
    assert_eq!(
        host.store.pool.select(room(100, 1 << 20)),
        [digests[0], digests[2], digests[3], digests[4], digests[5]]
    );
}

#[test]
fn a_commit_that_contradicts_the_last_is_refused() {
    let mut host = Host::new(config());
    let blocks = chain(&[1, 2, 3]);
    let fork = block(5, 3, certify(&blocks[0]), vec![]);
    blocks.iter().chain([&fork]).for_each(|block| drop(host.offer(block)));
    assert_eq!(host.commit(&blocks[1]), [1, 2]);
    let refused =
        |host: &mut Host, digest| !host.store.commit(&digest, |_, _, _| panic!("a refused commit commits no block"));
    assert!(refused(&mut host, fork.digest()));
    assert!(refused(&mut host, blocks[0].digest()), "the block is below the committed one");
    assert!(refused(&mut host, digest(1)), "the block is unknown");
    assert!(host.commit(&blocks[1]).is_empty(), "committing the last block again changes nothing");
    assert_eq!(host.commit(&blocks[2]), [3]);
}

/// Several faulty leaders in a row name parents that do not exist.
#[test]
fn a_flood_of_blocks_that_can_never_be_whole_is_bounded() {
    let mut host = Host::new(config());
    let blocks = chain(&[1, 2, 3]);
    let flood: Vec<Arc<Block>> = (0..17_000)
        .map(|number| block(100 + number, 3, certify(&block(1, 3, genesis(), vec![digest(number)])), vec![]))
        .collect();
    let turned_away = flood.iter().filter(|block| host.offer(block).0 == Taken::Overload).count();
    assert_eq!(turned_away, 17_000 - 16_384);
    assert_eq!(host.offer(&blocks[0]).0, Taken::Whole, "a whole block does not wait");
    host.store.want_block(host.now, blocks[2].digest(), blocks[2].height, SOURCE);
    assert_eq!(host.offer(&blocks[2]).0, Taken::Overload);
    assert!(host.store.wants_block(&blocks[2].digest()), "a block that a certificate names is still requested");
    host.offer(&blocks[1]);
    assert_eq!(host.offer(&blocks[2]).0, Taken::Whole);
    assert_eq!(host.commit(&blocks[1]), [1, 2]);
    assert_eq!(host.store.next_request(), None, "a commit drops the flood, which was at height two");
    assert_eq!(host.offer(&block(9, 0, certify(&block(8, 0, certify(&blocks[2]), vec![])), vec![])).0, Taken::Waiting);
}

#[test]
fn a_lagging_replica_keeps_the_lowest_waiting_blocks() {
    let mut host = Host::new(config());
    let views: Vec<u64> = (1..=16_400).collect();
    let blocks = chain(&views);
    let (first, rest) = blocks.split_first().expect("the chain is not empty");
    assert!(rest.iter().rev().all(|block| host.offer(block).0 == Taken::Waiting), "lower blocks replace higher ones");
    let (taken, whole) = host.offer(first);
    assert_eq!((taken, whole.len()), (Taken::Whole, 16_385), "all blocks except the highest are kept");
    let last = blocks.last().expect("the chain is not empty");
    assert_eq!(host.offer(last).0, Taken::Waiting, "evicted blocks are requested again");
    assert!(host.store.wants_block(&last.parent()));
}

#[test]
fn executed_blocks_are_kept_within_their_bounds() {
    let blocks = chain(&(1..=50).collect::<Vec<u64>>());
    let mut host = with_retention(5);
    for block in &blocks {
        host.offer(block);
        host.commit(block);
        let kept = blocks.iter().filter(|block| host.store.tree.get(&block.digest()).is_some()).count();
        assert_eq!(kept, (block.height.0 as usize).min(5));
    }
    assert_eq!(host.store.blocks(blocks[49].digest(), Height(0), 64).len(), 5);
}

#[test]
fn the_ledger_keeps_bundles_within_bytes_and_bare_blocks_for_elections() {
    let blocks = chain(&(1..=20).collect::<Vec<u64>>());
    let mut ledger = Ledger::new(10, 100, 6);
    ledger.keep_above(Height(u64::MAX));
    let (mut stripped, mut retired) = (Vec::new(), Vec::new());
    for block in &blocks {
        ledger.append(block.clone(), 30);
        stripped.extend(std::iter::from_fn(|| ledger.strip()).map(|block| block.height.0));
        retired.extend(std::iter::from_fn(|| ledger.retire()).map(|block| block.height.0));
        ledger.invariants();
    }
    assert_eq!(stripped, (1..=17).collect::<Vec<u64>>(), "three blocks of 30 bytes fit into 100");
    assert_eq!(retired, (1..=14).collect::<Vec<u64>>(), "the election needs six blocks");
    let mut ledger = Ledger::new(10, 100, 1);
    ledger.keep_above(Height(u64::MAX));
    ledger.append(blocks[0].clone(), 1000);
    assert_eq!(ledger.strip(), None, "the last committed block keeps its bundles");
    assert_eq!(ledger.retire(), None);
    ledger.append(blocks[1].clone(), 0);
    assert_eq!(ledger.strip().map(|block| block.height), Some(Height(1)));
    assert_eq!(ledger.retire().map(|block| block.height), Some(Height(1)));
}

#[test]
fn blocks_above_an_offered_state_are_retained() {
    let blocks = chain(&(1..=60).collect::<Vec<u64>>());
    let mut ledger = Ledger::new(3, 1000, 1);
    let mut most = 0;
    for block in &blocks {
        // A newer state is available after every tenth block, while the previous one is still being fetched.
        let state = (block.height.0 / 10).saturating_sub(1) * 10;
        ledger.keep_above(Height(state));
        ledger.append(block.clone(), 1);
        while ledger.strip().is_some() {}
        assert!(ledger.whole_above() <= Height(state.max(block.height.0.saturating_sub(3))));
        most = most.max(block.height.0 - ledger.whole_above().0);
    }
    assert_eq!(most, 19, "at most three blocks below the state are kept");
    ledger.keep_above(Height(0));
    for height in 61..=200 {
        ledger.append(
            block(height, 0, Certificate { subject: subject(Domain::Vote, height - 1, 1), ..genesis() }, vec![]),
            1,
        );
        while ledger.strip().is_some() {}
    }
    assert_eq!(ledger.whole_above(), Height(170), "at most ten times three blocks are kept");
}

#[test]
fn a_state_replaces_the_blocks_before_it() {
    let mut host = Host::new(config());
    let blocks = chain(&(1..=6).collect::<Vec<u64>>());
    let (here, missing, idle) = (bundle(1, 1, 0), bundle(2, 1, 0), bundle(3, 1, 0));
    let seventh = block(7, 1, certify(&blocks[5]), vec![here.digest()]);
    let eighth = block(8, 1, certify(&seventh), vec![missing.digest()]);
    let fork = block(9, 2, certify(&blocks[1]), vec![here.digest()]);
    host.offer(&blocks[0]);
    host.commit(&blocks[0]);
    host.offer(&blocks[1]);
    host.supply(&here);
    host.supply(&idle);
    for waiting in [&eighth, &seventh] {
        assert_eq!(host.offer(waiting).0, Taken::Waiting);
    }
    assert_eq!(host.offer(&fork).0, Taken::Whole);
    let kept = blocks[4..6].iter().map(|block| (block.clone(), Default::default())).collect();
    let mut whole = Vec::new();
    host.store.adopt(host.now, Frontier::new(kept), &host.leaders, &mut whole);
    host.store.invariants();
    assert_eq!((host.store.committed(), host.store.whole_above()), (Height(6), Height(6)));
    assert_eq!(whole, [seventh.digest()], "the block that waited for the state is whole");
    assert!(host.store.tree.get(&fork.digest()).is_none() && host.store.tree.get(&blocks[1].digest()).is_none());
    assert!(host.store.tree.get(&blocks[4].digest()).is_some(), "leader election needs the block");
    assert!(!host.store.wants_block(&blocks[5].digest()) && host.store.wants_bundle(&missing.digest()));
    let pool = &host.store.pool;
    assert!(pool.contains(&here.digest()) && !pool.is_pending(&here.digest()), "a block refers to the bundle");
    assert!(!pool.contains(&idle.digest()), "a bundle that may have been executed is forgotten");
    assert_eq!(pool.pending_commands(), 0);
    assert_eq!(host.supply(&missing).1, [eighth.digest()]);
    assert_eq!(host.commit(&eighth), [7, 8]);
    assert_eq!(host.store.blocks(eighth.digest(), Height(6), 64).len(), 2);
}

/// A proposal whose bundles together exceed the block limits never becomes whole, in any order of arrival, and requests
/// nothing more. A block that a certificate names is accepted in any case.
#[test]
fn a_proposal_over_the_limits_never_becomes_whole() {
    let (few, many) = (Config { batch: 4.into(), ..config() }, Config { batch_bytes: 1000, ..config() });
    for (limits, commands, bytes) in [(few, 3, 0), (many, 1, 600)] {
        let bundles = [bundle(1, commands, bytes), bundle(2, commands, bytes)];
        let large = block(1, 0, genesis(), bundles.iter().map(Bundle::digest).collect());
        let alone = block(1, 0, genesis(), vec![bundles[0].digest()]);
        for here in 0..=2 {
            let mut host = Host::new(limits.clone());
            bundles[..here].iter().for_each(|bundle| assert_eq!(host.supply(bundle).0, Offered::New));
            let taken = host.offer(&large).0;
            assert_eq!(taken, if here == 2 { Taken::TooLarge } else { Taken::Waiting });
            let whole: Vec<Digest> = bundles[here..].iter().flat_map(|bundle| host.supply(bundle).1).collect();
            assert_eq!(whole, [], "a block with {here} of its bundles present became whole");
            assert!(!host.store.tree.contains(&large.digest()) && host.store.next_request().is_none());
            host.store.want_block(host.now, large.digest(), large.height, SOURCE);
            assert_eq!(host.offer(&large).0, Taken::Whole, "the limits do not apply to a certified block");
        }
        let mut host = Host::new(limits);
        host.supply(&bundles[0]);
        assert_eq!(host.offer(&alone).0, Taken::Whole);
    }
}

/// A bundle that exceeds the block limits is not accepted for a proposal either.
#[test]
fn a_bundle_over_the_block_limits_is_refused() {
    let mut host = Host::new(Config { batch_bytes: 1000, ..config() });
    let large = bundle(2, 1, 1000);
    assert_eq!(host.supply(&large), (Offered::Full, vec![]));
    let proposal = block(1, 0, genesis(), vec![large.digest()]);
    assert_eq!(host.offer(&proposal).0, Taken::Waiting);
    assert_eq!(host.supply(&large), (Offered::Full, vec![]));
    assert!(host.store.next_request().is_none(), "a bundle over the limits is not requested");
}

/// Bundles of proposals may take twice the memory of bundles from clients, including everything that is not executed.
/// Bundles of certified blocks are never refused.
#[test]
fn the_bundles_of_proposals_are_bounded() {
    let mut host = Host::new(Config { pool_bytes: 1000, ..config() });
    let bundles: Vec<Bundle> = (1..=5).map(|number| bundle(number, 1, 600)).collect();
    let slots: Vec<_> = (1..=5).zip(&bundles).map(|(slot, bundle)| slot_block(slot, vec![bundle.digest()])).collect();
    slots.iter().for_each(|block| assert_eq!(host.offer(block).0, Taken::Waiting));
    let offered: Vec<Offered> = bundles.iter().map(|bundle| host.supply(bundle).0).collect();
    assert_eq!(offered, [Offered::New, Offered::New, Offered::New, Offered::Full, Offered::Full]);
    host.store.want_block(host.now, slots[3].digest(), slots[3].height, SOURCE);
    assert_eq!(host.offer(&slots[3]).0, Taken::Waiting, "a discarded proposal is accepted again once requested");
    assert_eq!(host.supply(&bundles[3]), (Offered::New, vec![slots[3].digest()]));
}

/// Once a proposal that waits for its bundles is certified, no limit applies to it.
#[test]
fn a_certificate_lifts_the_limits() {
    let mut host = Host::new(Config { batch: 4.into(), ..config() });
    let bundles = [bundle(1, 3, 0), bundle(2, 3, 0)];
    let large = block(1, 0, genesis(), bundles.iter().map(Bundle::digest).collect());
    assert_eq!(host.offer(&large).0, Taken::Waiting);
    host.store.want_block(host.now, large.digest(), large.height, SOURCE);
    host.supply(&bundles[0]);
    assert_eq!(host.supply(&bundles[1]), (Offered::New, vec![large.digest()]));
}

fn slot_block(slot: u64, payload: Vec<Digest>) -> Arc<Block> {
    Arc::new(Block::of_slot(View(1), ReplicaId(0), Height(slot), payload, 0))
}
