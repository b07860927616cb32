//! Detection of commits that contradict each other.

use crate::fixture::{certified, genesis};
use quorate_adversary::oracles::{Chain, Discord, Property};
use quorate_types::{
    Block, Bundle, BundleBuilder, Certificate, ClientId, Digest, Domain, Height, ReplicaId, Subject, View,
};

fn bundle(sequence: u64) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    builder.push(ClientId(1), sequence, b"command");
    builder.finish()
}

fn block(view: u64, base: &Certificate, bundles: &[Bundle]) -> Block {
    Block::new(View(view), ReplicaId(0), base.clone(), bundles.iter().map(Bundle::digest).collect(), 0)
}

/// A chain of three blocks; the second has one bundle.
fn blocks() -> [Block; 3] {
    let first = block(1, &genesis(), &[]);
    let second = block(2, &certified(&first, Domain::Vote), &[bundle(1)]);
    let third = block(3, &certified(&second, Domain::Vote), &[]);
    [first, second, third]
}

fn chain() -> Chain {
    Chain::new(genesis().subject.digest, 3)
}

#[test]
fn the_first_commit_at_a_height_is_new_and_later_ones_agree() {
    let (mut chain, [first, second, third]) = (chain(), blocks());
    assert_eq!(chain.commits(0, &first, &[]), Ok(true));
    assert_eq!(chain.commits(1, &first, &[]), Ok(false));
    assert_eq!(chain.commits(1, &second, &[bundle(1)]), Ok(true));
    assert_eq!(chain.commits(0, &second, &[bundle(1)]), Ok(false));
    assert_eq!(chain.commits(0, &third, &[]), Ok(true));
    assert_eq!(chain.agreed(), [genesis().subject.digest, first.digest(), second.digest(), third.digest()]);
    assert_eq!([0, 1, 2].map(|replica| chain.height(replica)), [3, 2, 0]);
}

#[test]
fn a_gap_is_found() {
    let (mut chain, [first, second, third]) = (chain(), blocks());
    let gap = Discord::Gap { height: second.height, after: Height(0) };
    assert_eq!(chain.commits(0, &second, &[bundle(1)]), Err(gap));
    assert_eq!(gap.property(), Property::Contiguity);
    chain.clear();
    assert_eq!(chain.commits(0, &first, &[]), Ok(true));
    assert_eq!(chain.commits(0, &third, &[]), Err(Discord::Gap { height: third.height, after: Height(1) }));
    chain.goes_to(0, Height(0));
    assert_eq!(chain.commits(0, &first, &[]), Ok(false), "the replica has restarted");
    assert_eq!(chain.commits(0, &first, &[]), Err(Discord::Gap { height: first.height, after: Height(1) }));
}

#[test]
fn a_fork_and_a_detached_block_are_found() {
    let (mut chain, [first, _, _]) = (chain(), blocks());
    let other = block(7, &genesis(), &[]);
    let onto_other = block(8, &certified(&other, Domain::Vote), &[]);
    assert_eq!(chain.commits(0, &first, &[]), Ok(true));
    let fork = Discord::Fork { height: Height(1), digest: other.digest(), agreed: first.digest() };
    assert_eq!(chain.commits(1, &other, &[]), Err(fork));
    assert_eq!(fork.property(), Property::Agreement);
    assert!(fork.to_string().contains("disagrees"));
    assert_eq!(chain.commits(0, &onto_other, &[]), Err(Discord::Detached { height: Height(2) }));
}

#[test]
fn bundles_that_the_block_does_not_name_are_found() {
    for wrong in [vec![], vec![bundle(2)], vec![bundle(1), bundle(2)]] {
        let (mut chain, [first, second, _]) = (chain(), blocks());
        assert_eq!(chain.commits(0, &first, &[]), Ok(true));
        let other = Discord::OtherBundles { height: Height(2) };
        assert_eq!(chain.commits(0, &second, &wrong), Err(other));
        assert_eq!(other.property(), Property::Validity);
    }
}

#[test]
fn a_bundle_is_left_out_only_if_a_quorum_signed_that_it_is_absent() {
    let (mut chain, [first, second, _]) = (chain(), blocks());
    chain.allow_voids(3);
    let absence = |position| Subject {
        domain: Domain::Absent,
        view: View(position),
        height: second.height,
        digest: second.digest(),
    };
    let left_out = |chain: &mut Chain| {
        chain.goes_to(0, first.height);
        chain.commits(0, &second, &[])
    };
    assert_eq!(chain.commits(0, &first, &[]), Ok(true));
    for voter in [0, 1, 1] {
        chain.signs(ReplicaId(voter), &absence(0));
    }
    (0..4).for_each(|voter| chain.signs(ReplicaId(voter), &absence(1)));
    assert_eq!(left_out(&mut chain), Err(Discord::OtherBundles { height: Height(2) }));
    chain.signs(ReplicaId(2), &absence(0));
    assert_eq!(left_out(&mut chain), Ok(false));
}

#[test]
fn only_a_state_that_others_reached_is_adopted() {
    let (mut chain, [first, second, third]) = (chain(), blocks());
    chain.commits(0, &first, &[]).expect("the block extends genesis");
    chain.commits(0, &second, &[bundle(1)]).expect("the block extends the first");
    assert_eq!(chain.adopts(1, &[first.digest(), second.digest()]), Ok(()));
    assert_eq!(chain.commits(1, &third, &[]), Ok(true));
    let strange = |height| Err(Discord::StrangeState { height: Height(height) });
    assert_eq!(chain.adopts(2, &[second.digest()]), strange(1));
    assert_eq!(chain.adopts(2, &[first.digest(), second.digest(), third.digest(), Digest::ZERO]), strange(4));
}
