//! Bundles in the pool: pending, proposed, executed, released.

use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::data::pool::{Need, Offered, Pool, Source};
use quorate_types::*;
use std::collections::{BTreeMap, BTreeSet};

/// The bundle comes from a client, over no particular link.
pub(crate) const OFFERED: Need = Need::Offered(Source::Unnamed);

pub(crate) fn pool(pool_bundles: usize, pool_bytes: usize) -> Pool {
    Pool::new(&Config { pool_bundles, pool_bytes, ..config() }, quorum(4), Salt(0))
}

fn digests(bundles: &[Bundle]) -> Vec<Digest> {
    bundles.iter().map(Bundle::digest).collect()
}

#[test]
fn bundles_are_proposed_in_order_of_arrival() {
    let mut pool = pool(100, 1 << 20);
    let bundles: Vec<Bundle> = (0..10).map(|number| bundle(number, 2, 0)).collect();
    bundles.iter().for_each(|bundle| assert_eq!(pool.offer(bundle.clone(), OFFERED), Offered::New));
    assert_eq!(pool.offer(bundles[3].clone(), OFFERED), Offered::Known);
    assert_eq!(pool.pending_commands(), 20);
    pool.on_proposal(&bundles[1].digest());
    assert_eq!(pool.oldest_pending(2), [bundles[0].clone(), bundles[2].clone()]);
    assert_eq!(
        pool.select(room(5, 1 << 20)),
        digests(&[bundles[0].clone(), bundles[2].clone()]),
        "a third bundle would make six commands"
    );
}

#[test]
fn one_bundle_is_selected_however_large() {
    let mut pool = pool(100, 1 << 20);
    let (large, small) = (bundle(1, 50, 10), bundle(2, 1, 0));
    pool.offer(large.clone(), OFFERED);
    pool.offer(small.clone(), OFFERED);
    assert_eq!(pool.select(room(10, 100)), [large.digest()]);
    assert_eq!(
        pool.select(room(10, 100)),
        [large.digest()],
        "a selected bundle stays pending until a block refers to it"
    );
    pool.on_proposal(&large.digest());
    assert_eq!(pool.select(room(10, 100)), [small.digest()]);
    pool.on_proposal(&small.digest());
    assert_eq!(pool.select(room(10, 100)), []);
}

#[test]
fn bundles_of_an_abandoned_block_are_pending_again_at_the_head_of_their_lane() {
    let mut pool = pool(100, 1 << 20);
    let (first, second) = (bundle(1, 1, 0), bundle(2, 1, 0));
    pool.offer(first.clone(), OFFERED);
    assert_eq!(pool.select(room(10, 1000)), [first.digest()]);
    pool.on_proposal(&first.digest());
    pool.offer(second.clone(), OFFERED);
    pool.release(&first.digest());
    assert_eq!(pool.select(room(10, 1000)), digests(&[first, second]));
}

#[test]
fn executed_bundles_take_no_room_from_pending_ones() {
    let large = bundle(1, 1, 1000);
    let mut pool = pool(100, large.body().len() + 10);
    assert_eq!(pool.offer(large.clone(), OFFERED), Offered::New);
    assert_eq!(pool.offer(bundle(2, 1, 0), OFFERED), Offered::Full);
    assert_eq!(
        pool.offer(bundle(2, 1, 0), Need::Certified),
        Offered::New,
        "a bundle of a certified block is never refused"
    );
    pool.on_proposal(&large.digest());
    pool.on_execution(&large.digest());
    assert_eq!(pool.offer(bundle(3, 1, 0), OFFERED), Offered::New);
    assert_eq!(pool.get(&large.digest()), Some(&large), "an executed bundle is kept for lagging replicas");
}

/// An invariant of the pool bounds the queue of a backup that never selects bundles, however many pass through it.
#[test]
fn a_backup_forgets_bundles_that_others_proposed() {
    let mut pool = pool(100, 1 << 20);
    let stuck = bundle(0, 1, 0);
    pool.offer(stuck.clone(), OFFERED);
    for number in 1..10_000 {
        let passing = bundle(number, 1, 0);
        assert_eq!(pool.offer(passing.clone(), OFFERED), Offered::New);
        pool.on_proposal(&passing.digest());
        pool.on_execution(&passing.digest());
        pool.release(&passing.digest());
        assert!(!pool.contains(&passing.digest()));
        pool.invariants();
    }
    assert_eq!(pool.oldest_pending(10), [stuck]);
}

#[test]
fn a_forgotten_bundle_that_arrives_again_is_proposed_once() {
    let mut pool = pool(100, 1 << 20);
    let again = bundle(1, 1, 0);
    for _ in 0..3 {
        assert_eq!(pool.offer(again.clone(), OFFERED), Offered::New);
        pool.on_proposal(&again.digest());
        pool.on_execution(&again.digest());
        pool.release(&again.digest());
    }
    pool.offer(again.clone(), OFFERED);
    assert_eq!(pool.select(room(100, 1 << 20)), [again.digest()]);
}

/// The relays of one peer use a share of the pool, which becomes free when a bundle is executed or a client sends it
/// too.
#[test]
fn a_peers_relays_are_limited_to_a_share() {
    let mut pool = pool(80, 1 << 20);
    let relayed: Vec<Bundle> = (0..30).map(|number| bundle(number, 1, 10)).collect();
    let by = |pool: &mut Pool, peer: u16| {
        let taken = |bundle: &&Bundle| pool.offer((*bundle).clone(), Need::Relayed(ReplicaId(peer))) == Offered::New;
        relayed.iter().filter(taken).count()
    };
    assert_eq!(by(&mut pool, 1), 10, "with four replicas, a peer's share is an eighth of the pool");
    assert_eq!(by(&mut pool, 1), 0);
    assert_eq!(by(&mut pool, 2), 10, "another peer has its own share");
    assert_eq!(pool.offer(relayed[0].clone(), OFFERED), Offered::Known);
    assert_eq!(by(&mut pool, 1), 1, "a bundle that a client sends too leaves the share");
    pool.on_proposal(&relayed[1].digest());
    pool.on_execution(&relayed[1].digest());
    assert_eq!(by(&mut pool, 1), 1, "an executed bundle leaves the share");
    let clients: Vec<Bundle> = (100..200).map(|number| bundle(number, 1, 10)).collect();
    let room = clients.iter().filter(|bundle| pool.offer((*bundle).clone(), OFFERED) == Offered::New).count();
    assert!(room >= 50, "only {room} bundles of a client fit besides the relays");
    pool.invariants();
}

/// If replicas disseminate bundles, a replica refuses bundles of its own clients beyond the share that its bundles have
/// at the other replicas.
#[test]
fn what_replicas_spread_is_limited_to_equal_shares() {
    let config = Config { pool_bundles: 80, pool_bytes: 1 << 20, dissemination: Dissemination::Replicas, ..config() };
    let mut pool = Pool::new(&config, quorum(4), Salt(0));
    let mut number = 0;
    let mut room = |pool: &mut Pool, need: Need| {
        let mut fits = |pool: &mut Pool| {
            number += 1;
            pool.offer(bundle(number, 1, 10), need) == Offered::New
        };
        (0..40).take_while(|_| fits(pool)).count()
    };
    for peer in 1..4 {
        assert_eq!(room(&mut pool, Need::Spread(ReplicaId(peer))), 20, "a quarter of the pool");
    }
    assert_eq!(room(&mut pool, OFFERED), 20, "the replica's own clients");
    let first = bundle(1, 1, 10).digest();
    assert_eq!(pool.spreader_of(&first), Some(ReplicaId(1)));
    pool.on_proposal(&first);
    pool.on_execution(&first);
    assert_eq!(pool.spreader_of(&first), None, "an executed bundle leaves the share");
    assert_eq!(room(&mut pool, Need::Spread(ReplicaId(2))), 0);
    assert_eq!(room(&mut pool, OFFERED), 0);
    assert_eq!(room(&mut pool, Need::Spread(ReplicaId(1))), 1);
    pool.invariants();
}

/// Each spreader counts for all its clients, so the clients of three replicas get three quarters of the blocks.
#[test]
fn spreaders_and_own_clients_have_equal_parts_of_a_block() {
    let config = Config { dissemination: Dissemination::Replicas, ..config() };
    let mut pool = Pool::new(&config, quorum(4), Salt(0));
    let needs = [from(7, 0), Need::Spread(ReplicaId(1)), Need::Spread(ReplicaId(2)), Need::Spread(ReplicaId(3))];
    for (at, need) in needs.into_iter().enumerate() {
        (0..100).for_each(|number| _ = pool.offer(bundle(1000 * at as u64 + number, 1, 10), need));
    }
    let own = pool.oldest_pending(40).iter().filter(|bundle| pool.source_group_of(&bundle.digest()).is_some()).count();
    assert_eq!(own, 10);
}

fn from(source_group: u64, link: u64) -> Need {
    Need::Offered(Source::Client { source_group, link })
}

/// Returns the position of a bundle in the order of proposals.
fn position(pool: &Pool, bundle: &Bundle) -> usize {
    pool.oldest_pending(usize::MAX)
        .iter()
        .position(|other| other.digest() == bundle.digest())
        .expect("the bundle is pending")
}

#[test]
fn a_flood_over_other_links_delays_a_bundle_by_one_round() {
    let honest = bundle(0, 1, 0);
    for (source, behind) in [(from(1, 99), 20), (OFFERED, 1000)] {
        let mut pool = pool(10_000, 1 << 26);
        for number in 0..1000 {
            // With separate lanes for the links, and without.
            let need = if source == OFFERED { OFFERED } else { from(1, number % 20) };
            assert_eq!(pool.offer(bundle(1 + number, 100, 0), need), Offered::New);
        }
        pool.offer(honest.clone(), source);
        assert_eq!(position(&pool, &honest), behind);
        pool.invariants();
    }
}

/// A key costs nothing, and neither does opening a link for each key in turn.
#[test]
fn closed_links_share_a_lane() {
    let mut pool = pool(10_000, 1 << 26);
    for number in 0..1000 {
        assert_eq!(pool.offer(bundle(1 + number, 100, 0), from(1, number)), Offered::New);
        pool.leave(Source::Client { source_group: 1, link: number });
        pool.invariants();
    }
    let honest = bundle(0, 1, 0);
    pool.offer(honest.clone(), from(1, 5000));
    assert_eq!(position(&pool, &honest), 1, "at most one bundle goes ahead");
    assert_eq!(pool.select(room(usize::MAX, usize::MAX)).len(), 1001, "no bundle is lost");
}

#[test]
fn an_address_with_many_links_gets_the_share_of_a_single_link() {
    let mut pool = pool(100_000, 1 << 26);
    for number in 0..5000 {
        pool.offer(bundle(10_000 + number, 1, 10), from(1, number % 100));
    }
    let single: Vec<Bundle> = (0..100).map(|number| bundle(number, 1, 10)).collect();
    single.iter().for_each(|bundle| assert_eq!(pool.offer(bundle.clone(), from(2, 500)), Offered::New));
    // The first round of the hundred links arrived before there was anything to share.
    let last = position(&pool, &single[99]);
    assert!((190..=320).contains(&last), "{last} bundles go ahead, 99 of them from the same link");
}

/// Other leaders propose what an honest client sends to all replicas. This must not count against its share of this
/// replica's blocks; otherwise a client that sends each leader different bundles would have one share per leader.
#[test]
fn a_link_pays_only_for_what_this_replica_proposes() {
    let mut pool = pool(10_000, 1 << 26);
    let (mut number, mut honest) = (0, BTreeSet::new());
    let mut offer = |pool: &mut Pool, link| {
        number += 1;
        let bundle = bundle(number, 1, 10);
        assert_eq!(pool.offer(bundle.clone(), from(1, link)), Offered::New);
        bundle.digest()
    };
    let mut shares = Vec::new();
    for _ in 0..50 {
        (0..16).for_each(|_| _ = offer(&mut pool, 2));
        let sent: Vec<Digest> = (0..12).map(|_| offer(&mut pool, 1)).collect();
        sent[..8].iter().for_each(|digest| pool.on_proposal(digest));
        honest.extend(sent);
        let block = pool.select(room(8, 1 << 20));
        block.iter().for_each(|digest| pool.on_own_proposal(digest));
        shares.push(block.iter().filter(|digest| honest.contains(digest)).count());
        pool.invariants();
    }
    assert!(shares.iter().all(|share| *share >= 3), "{shares:?}");
    assert!(shares.iter().sum::<usize>() >= 199, "the honest link gets half of each block: {shares:?}");
}

/// A client gains nothing by sending its bundles through peers, because the replica does not know whose bundles a peer
/// relays.
#[test]
fn relays_of_all_peers_share_as_one_link() {
    let mut pool = pool(10_000, 1 << 26);
    for number in 0..100 {
        pool.offer(bundle(number, 1, 10), from(1, 1));
        pool.offer(bundle(1000 + number, 1, 10), from(1, 2));
        (1..4).for_each(|peer| {
            let relayed = bundle(u64::from(peer) * 2000 + number, 1, 10);
            assert_eq!(pool.offer(relayed, Need::Relayed(ReplicaId(peer))), Offered::New);
        });
    }
    let first = pool.oldest_pending(90);
    let clients = first.iter().filter(|bundle| pool.source_group_of(&bundle.digest()).is_some()).count();
    assert!((58..=62).contains(&clients), "{clients} of 90 bundles are of the two links");
}

/// A faulty leader cannot put a client's bundles ahead of others' bundles by abandoning blocks that name them.
#[test]
fn bundles_of_abandoned_blocks_go_ahead_of_no_other_lane() {
    let mut pool = pool(10_000, 1 << 26);
    let honest: Vec<Bundle> = (0..20).map(|number| bundle(number, 1, 10)).collect();
    honest.iter().for_each(|bundle| _ = pool.offer(bundle.clone(), from(1, 1)));
    for number in 100..120 {
        let named = bundle(number, 1, 10);
        pool.offer(named.clone(), Need::Proposed);
        pool.on_proposal(&named.digest());
        pool.set_aside(&named.digest());
        pool.on_drop(&named.digest());
        pool.invariants();
    }
    let last = position(&pool, &honest[9]);
    assert!((18..=20).contains(&last), "{last} bundles go ahead of ten");
}

#[test]
fn a_client_that_fills_the_pool_leaves_room_for_others() {
    let mut pool = pool(1000, 1 << 26);
    let mut number = 0;
    let mut take = |pool: &mut Pool, need: Need| {
        number += 1;
        pool.offer(bundle(number, 1, 0), need) == Offered::New
    };
    let full = (0..2000).filter(|at| take(&mut pool, from(1, at % 50))).count();
    assert!((700..900).contains(&full), "an address with fifty links gets {full} bundles");
    let before = pool.pending_commands();
    assert!((0..10).filter(|_| take(&mut pool, from(2, 100))).count() == 10, "there is room for another address");
    assert!(
        (0..5).filter(|_| take(&mut pool, from(1, 101))).count() == 5,
        "there is room for a new link, taken from its own address"
    );
    assert_eq!(pool.pending_commands(), before + 10, "bundles of another link make room");
    pool.invariants();
}

#[test]
fn a_bundle_is_in_the_lane_that_proposes_it_first() {
    let mut pool = pool(10_000, 1 << 26);
    let honest = bundle(0, 1, 0);
    for number in 1..100 {
        pool.offer(bundle(number, 100, 0), from(1, 1));
    }
    assert_eq!(pool.offer(honest.clone(), from(1, 1)), Offered::New, "a replayed copy may arrive first");
    assert_eq!(position(&pool, &honest), 99);
    assert_eq!(pool.offer(honest.clone(), from(1, 2)), Offered::Known);
    assert_eq!(position(&pool, &honest), 1, "the bundle moves to the lane of its client");
    for number in 200..300 {
        pool.offer(bundle(number, 100, 0), from(1, 3));
    }
    assert_eq!(pool.offer(honest.clone(), from(1, 3)), Offered::Known);
    assert_eq!(position(&pool, &honest), 1, "a copy cannot delay the bundle");
    pool.invariants();
}

proptest! {
    /// For any sequence of arrivals, closed links and proposals, each pending bundle is in the order exactly once, and
    /// the bundles of one link keep their order.
    #[test]
    fn lanes_lose_no_bundle(steps in collection::vec((0..6u8, 0..4u64, 0..3u64), 1..300)) {
        let mut pool = pool(1 << 20, 1 << 30);
        let mut waiting: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        for (number, (step, link, source_group)) in (0..).zip(steps) {
            let key = source_group * 10 + link;
            match step {
                0..=2 => {
                    pool.offer(bundle(number, 1 + number % 7, link as usize), from(source_group, key));
                    waiting.insert(number, (key, true));
                }
                3 => {
                    pool.leave(Source::Client { source_group, link: key });
                    waiting.values_mut().filter(|(of, _)| *of == key).for_each(|(_, ordered)| *ordered = false);
                }
                4 => {
                    for digest in pool.select(room(1 + link as usize, 1 << 20)) {
                        let number = waiting.keys().find(|number| named(**number, &waiting) == digest);
                        let number = *number.expect("the bundle is pending");
                        pool.on_proposal(&digest);
                        waiting.remove(&number);
                    }
                }
                _ => {
                    if let Some(number) = waiting.keys().nth(key as usize).copied() {
                        pool.promote(&named(number, &waiting));
                        waiting.get_mut(&number).expect("the bundle is pending").1 = false;
                    }
                }
            }
            pool.invariants();
            let order: Vec<Digest> = pool.oldest_pending(usize::MAX).iter().map(Bundle::digest).collect();
            prop_assert_eq!(order.len(), waiting.len());
            for key in 0..30 {
                let of = waiting.iter().filter(|(_, (of, ordered))| *of == key && *ordered);
                let place = |(number, _): (&_, &_)| order.iter().position(|other| *other == named(*number, &waiting));
                let places: Vec<_> = of.map(place).collect();
                prop_assert!(places.is_sorted() && places.iter().all(Option::is_some));
            }
        }
    }
}

/// Returns the digest of a bundle of [`lanes_lose_no_bundle`].
fn named(number: u64, waiting: &BTreeMap<u64, (u64, bool)>) -> Digest {
    let link = waiting[&number].0 % 10;
    bundle(number, 1 + number % 7, link as usize).digest()
}
