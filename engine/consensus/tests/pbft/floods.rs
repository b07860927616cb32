//! Bounds on the memory that one faulty replica can use at the others.

use crate::common::config;
use crate::common::keys::Keys;
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::config::Dissemination;
use quorate_consensus::protocols::pbft::message::{PbftMessage, PrePrepare};
use quorate_consensus::seam::Drop;
use quorate_types::{Attachment, Block, Bundle, BundleBuilder, ClientId, Domain, Height, ReplicaId, View};
use std::sync::Arc;
use std::time::Duration;

fn leader_disseminates() -> Config {
    Config { dissemination: Dissemination::Leader, view_timeout_ms: 100, ..config::<Pbft>() }
}

fn dropped(world: &World<Pbft>, replica: u16, why: Drop) -> u64 {
    world.replica(replica).dropped().get(&why).copied().unwrap_or(0)
}

fn bundle(number: u64, bytes: usize) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(number.into()), Height(0).latest_expiry());
    builder.push(ClientId(number.into()), 1, &vec![7; bytes]);
    builder.finish()
}

/// Returns the PRE-PREPARE of a block with one bundle, carrying these bundles along.
fn pre_prepare(keys: &Keys, primary: u16, view: u64, slot: u64, named: &Bundle, carried: &[Bundle]) -> PbftMessage {
    let block = Arc::new(Block::of_slot(View(view), ReplicaId(primary), Height(slot), vec![named.digest()], 0));
    let endorsement = keys.vote(ReplicaId(primary), block.subject(Domain::Prepare), Attachment::None);
    PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement, block, bundles: carried.to_vec() }))
}

/// A hundred copies of a PRE-PREPARE of the next view are kept once.
#[test]
fn an_early_pre_prepare_is_kept_once() {
    let mut world = World::<Pbft>::started(4, leader_disseminates(), 1);
    let named = bundle(9, 100);
    for _ in 0..100 {
        world.inject(1, 2, pre_prepare(&world.keys, 1, 2, 1, &named, std::slice::from_ref(&named)));
    }
    world.run_for(Duration::from_millis(10));
    assert_eq!(dropped(&world, 2, Drop::Repeated), 99);
    assert_eq!(dropped(&world, 2, Drop::Overload), 0, "repeated messages take one place");
}

/// A second block for a slot of a view that is not open yet is already evidence.
#[test]
fn an_early_contradiction_is_evidence() {
    let mut world = World::<Pbft>::started(4, leader_disseminates(), 1);
    world.oracle.distrust(ReplicaId(1));
    for number in [8, 9] {
        world.inject(1, 2, pre_prepare(&world.keys, 1, 2, 1, &bundle(number, 100), &[]));
    }
    world.run_for(Duration::from_millis(10));
    assert_eq!(world.replica(2).evidence().len(), 1);
}

/// A PRE-PREPARE carries only the bundles that its block names, in that order.
#[test]
fn a_pre_prepare_carries_only_bundles_that_its_block_names() {
    let mut world = World::<Pbft>::started(4, leader_disseminates(), 1);
    let (named, other) = (bundle(8, 100), bundle(9, 100));
    for view in [1, 2] {
        let primary = view as u16 - 1;
        for carried in [vec![other.clone()], vec![named.clone(), other.clone()], vec![named.clone(), named.clone()]] {
            world.inject(primary, 3, pre_prepare(&world.keys, primary, view, 1, &named, &carried));
        }
    }
    world.run_for(Duration::from_millis(10));
    assert_eq!(dropped(&world, 3, Drop::Malformed), 6);
    assert!(!world.replica(3).is_known(&other.digest()));
}

/// Early messages of one primary are bounded in number and bytes, and do not use the share of the next primary.
#[test]
fn each_primary_has_its_own_share_of_early_messages() {
    let config = Config { batch_bytes: 1000, ..leader_disseminates() };
    for bytes in [1, 600] {
        let mut world = World::<Pbft>::started(4, config.clone(), 1);
        for slot in 1..=200 {
            let named = bundle(slot, bytes);
            for view in [2, 6] {
                world.inject(1, 3, pre_prepare(&world.keys, 1, view, slot, &named, std::slice::from_ref(&named)));
            }
        }
        world.run_for(Duration::from_millis(10));
        let floods = dropped(&world, 3, Drop::Overload);
        assert!(floods >= 400 - 64, "R3 keeps {} messages of R1", 400 - floods);
        let (count, kept_bytes) = world.replica(3).protocol().early();
        assert!(count <= 64 && kept_bytes <= 4 * 1000, "R3 keeps {kept_bytes} bytes in {count} messages");
        let named = bundle(1000, bytes);
        world.inject(2, 3, pre_prepare(&world.keys, 2, 3, 1, &named, std::slice::from_ref(&named)));
        world.run_for(Duration::from_millis(10));
        assert_eq!(dropped(&world, 3, Drop::Overload), floods, "R2 has its own share");
    }
}
