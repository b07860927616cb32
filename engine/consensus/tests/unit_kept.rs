//! Bundles that a replica has acknowledged.

use crate::unit_support::*;
use quorate_consensus::Config;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::data::kept::Kept;
use quorate_types::{Bundle, BundleBuilder, ClientId, Height, Quorum, ReplicaId};

const SPREADER: ReplicaId = ReplicaId(1);

fn kept(pool_bytes: usize) -> Kept {
    let config = Config { pool_bytes, ..config() };
    Kept::new(&config, Quorum::of(4).expect("the size is valid"), Salt(0))
}

fn bundle(sequence: u64) -> Bundle {
    BundleBuilder::single(ClientId(1), sequence, b"command")
}

#[test]
fn a_bundle_goes_at_its_height_or_when_it_is_executed() {
    let mut kept = kept(1 << 20);
    let [first, second, third] = [1, 2, 3].map(bundle);
    assert!(kept.keep(SPREADER, Height(10), &first));
    assert!(kept.keep(SPREADER, Height(10), &second));
    assert!(kept.keep(ReplicaId(2), Height(11), &third));
    assert_eq!(kept.all().values().map(Vec::len).collect::<Vec<_>>(), [2, 1], "two records of a summary");
    kept.on_commit(Height(9));
    kept.release(&second.digest());
    assert!(kept.contains(&first.digest()) && !kept.contains(&second.digest()));
    kept.on_commit(Height(10));
    assert!(!kept.contains(&first.digest()) && kept.contains(&third.digest()));
    kept.invariants();
}

#[test]
fn a_later_acknowledgement_keeps_a_bundle_longer() {
    let mut kept = kept(1 << 20);
    let bundle = bundle(1);
    assert!(kept.keep(SPREADER, Height(10), &bundle));
    assert!(!kept.keep(ReplicaId(2), Height(10), &bundle), "the journal has it up to there");
    assert!(kept.keep(ReplicaId(2), Height(20), &bundle));
    kept.on_commit(Height(19));
    assert!(kept.contains(&bundle.digest()));
    kept.on_commit(Height(20));
    assert!(!kept.contains(&bundle.digest()));
    kept.invariants();
}

#[test]
fn a_spreader_has_a_share_of_its_own() {
    let bytes = bundle(1).body().len();
    let mut kept = kept(4 * bytes);
    assert!(kept.has_room(SPREADER, 9, 9 * bytes), "there is room for one batch");
    kept.keep(SPREADER, Height(10), &bundle(1));
    assert!(kept.has_room(SPREADER, 1, bytes) && !kept.has_room(SPREADER, 2, 2 * bytes));
    assert!(kept.has_room(ReplicaId(2), 2, 2 * bytes), "another spreader has its own");
    kept.release(&bundle(1).digest());
    assert!(kept.has_room(SPREADER, 2, 2 * bytes));
}
