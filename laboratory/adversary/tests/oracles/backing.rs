//! Certificates and commits need a quorum's signed votes.

use super::fixture::*;
use quorate_adversary::oracles::{Property, Statements, quorum};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::facts::Shape;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_types::{Block, Digest, Domain, Height, ReplicaId, Subject, View};

#[test]
fn quorums_are_the_smallest_sets_that_share_an_honest_member() {
    for replicas in 1..=40 {
        for faults in 0..=(replicas - 1) / 3 {
            let size = quorum(replicas, faults);
            let shared = |size: usize| (2 * size).saturating_sub(replicas);
            assert!(shared(size) > faults && shared(size - 1) <= faults, "{size} of {replicas} with {faults}");
            assert!(size <= replicas - faults, "the honest replicas suffice");
        }
    }
}

fn commits(fixture: &mut Fixture, who: u16, block: &Block) -> Result<(), quorate_adversary::oracles::Violation> {
    fixture.oracle.commits(ReplicaId(who), block)?;
    fixture.oracle.settles()
}

fn chains_of(length: usize) -> impl Iterator<Item = ProtocolKind> {
    ProtocolKind::ALL.iter().copied().filter(move |kind| kind.facts().shape == Shape::Chain(length))
}

#[test]
fn two_chains_need_the_votes_for_the_second_block() {
    for protocol in chains_of(2) {
        let mut fixture = Fixture::new(protocol);
        let (first, known) = fixture.certifies(1, &genesis());
        assert_breach(
            commits(&mut fixture, 0, &first),
            Property::Backing,
            "no signed votes of 3 replicas make it final",
        );
        let mut fixture = Fixture::new(protocol);
        fixture.certifies(1, &genesis());
        fixture.certifies(2, &known);
        commits(&mut fixture, 0, &first).expect("two in a row are certified");
    }
}

#[test]
fn three_chains_need_the_votes_for_the_third_block() {
    for protocol in chains_of(3) {
        let mut fixture = Fixture::new(protocol);
        let (first, known) = fixture.certifies(1, &genesis());
        let (_, known) = fixture.certifies(2, &known);
        let mut early = Fixture::new(protocol);
        early.certifies(1, &genesis());
        assert!(commits(&mut early, 0, &first).is_err(), "committed with one of three certificates");
        let (_, known) = fixture.certifies(3, &known);
        commits(&mut fixture, 0, &first).expect("three in a row are certified");
        let late = block(5, 1, &known);
        fixture.proposes(&late, None).expect("its base is genuine");
        (0..3).for_each(|voter| fixture.votes(voter, Domain::Vote, &late).expect("the statement is valid"));
    }
}

#[test]
fn skipped_views_break_the_chain() {
    let mut fixture = Fixture::new(ProtocolKind::FastHotStuff);
    let (first, known) = fixture.certifies(1, &genesis());
    let late = block(3, 3, &known);
    fixture.oracle.distrust(ReplicaId(3));
    fixture.proposes(&late, None).expect("a liar is not checked");
    (0..3).for_each(|voter| fixture.oracle.distrust(ReplicaId(voter)));
    (0..3).for_each(|voter| fixture.votes(voter, Domain::Vote, &late).expect("no replica is checked"));
    let mut trusting = Statements::new(ProtocolKind::FastHotStuff, 4, 1);
    std::mem::swap(&mut trusting, &mut fixture.oracle);
    assert!(trusting.commits(ReplicaId(0), &first).is_ok(), "an untrusted replica was checked");
}

#[test]
fn ancestors_are_final_with_the_block_that_follows_in_the_same_step() {
    let mut fixture = Fixture::new(ProtocolKind::Jolteon);
    let (first, known) = fixture.certifies(1, &genesis());
    let (second, known) = fixture.certifies(2, &known);
    fixture.certifies(3, &known);
    fixture.oracle.commits(ReplicaId(0), &first).expect("others follow");
    commits(&mut fixture, 0, &second).expect("its child is certified");
}

/// Missing bundles may delay the commit of the descendant.
#[test]
fn an_ancestor_is_final_only_once_votes_make_a_descendant_final() {
    let certified = |last| {
        let mut fixture = Fixture::new(ProtocolKind::HotStuff2);
        let (first, mut known) = fixture.certifies(1, &genesis());
        for view in 3..=last {
            known = fixture.certifies(view, &known).1;
        }
        commits(&mut fixture, 0, &first)
    };
    assert_breach(certified(3), Property::Backing, "make it final");
    certified(4).expect("the blocks of views 3 and 4 make the one of view 3 final");
}

#[test]
fn a_slot_needs_a_quorum_of_commits_and_a_commit_needs_a_quorum_of_prepares() {
    let mut fixture = Fixture::new(ProtocolKind::Pbft);
    let given = Block::of_slot(quorate_types::View(1), ReplicaId(0), Height(1), vec![Digest([9; 32])], 0);
    let said = |fixture: &mut Fixture, who, domain| fixture.says_of_slot(who, domain, 1, given.digest());
    (0..2).for_each(|who| said(&mut fixture, who, Domain::Prepare).expect("the statement is valid"));
    assert_breach(said(&mut fixture, 0, Domain::Commit), Property::Backing, "without a quorum of Prepare");
    said(&mut fixture, 2, Domain::Prepare).expect("the statement is valid");
    (1..3).for_each(|who| said(&mut fixture, who, Domain::Commit).expect("the slot is prepared"));
    said(&mut fixture, 3, Domain::Commit).expect("the slot is prepared");
    commits(&mut fixture, 0, &given).expect("three sent COMMIT, after a premature one");
    let mut fixture = Fixture::new(ProtocolKind::Pbft);
    (0..3).for_each(|who| said(&mut fixture, who, Domain::Prepare).expect("the statement is valid"));
    (0..2).for_each(|who| said(&mut fixture, who, Domain::Commit).expect("the slot is prepared"));
    assert_breach(commits(&mut fixture, 0, &given), Property::Backing, "make it final");
}

#[test]
fn showing_an_unsigned_certificate_is_a_violation() {
    let mut fixture = Fixture::new(ProtocolKind::Jolteon);
    let (_, known) = fixture.certifies(1, &genesis());
    let invented = block(2, 2, &known);
    let shows = |high, evidence| ViewMessage::Advance { high: Box::new(high), evidence };
    let forged = certified(&invented, Domain::Vote);
    assert_breach(fixture.says(0, shows(forged, None)), Property::Backing, "that no quorum of 3 signed");
    (0..2).for_each(|who| fixture.gives_up(who, 2, &known).expect("the statement is valid"));
    let two = Some(Box::new(timeouts(2, [1, 1, 1])));
    assert_breach(fixture.says(0, shows(known.clone(), two.clone())), Property::Backing, "Timeout");
    fixture.gives_up(2, 2, &known).expect("the statement is valid");
    fixture.says(0, shows(known.clone(), two)).expect("three have timed out of it");
    let other = Some(Box::new(timeouts(2, [1, 0, 1])));
    assert_breach(fixture.says(0, shows(known, other)), Property::Backing, "Timeout");
}

#[test]
fn a_vote_on_a_forged_base_is_a_violation() {
    let mut fixture = Fixture::new(ProtocolKind::ChainedHotStuff);
    let invented = block(1, 1, &genesis());
    let next = block(2, 2, &certified(&invented, Domain::Vote));
    fixture.oracle.lies(ReplicaId(2));
    fixture.proposes(&next, None).expect("a liar is not checked");
    assert_breach(fixture.votes(0, Domain::Vote, &next), Property::Backing, "that no quorum signed");
}

#[test]
fn a_liar_may_have_signed_anything() {
    let mut fixture = Fixture::new(ProtocolKind::Jolteon);
    fixture.oracle.lies(ReplicaId(3));
    let (first, known) = {
        let block = block(1, 1, &genesis());
        fixture.proposes(&block, None).expect("the statement is valid");
        (0..2).for_each(|voter| fixture.votes(voter, Domain::Vote, &block).expect("the statement is valid"));
        (block.clone(), certificate(block.subject(Domain::Vote), &[0, 1, 3], Vec::new()))
    };
    let second = block(2, 2, &known);
    fixture.proposes(&second, None).expect("two votes and a liar make a quorum");
    (0..2).for_each(|voter| fixture.votes(voter, Domain::Vote, &second).expect("the statement is valid"));
    commits(&mut fixture, 0, &first).expect("two votes and a liar make a quorum");
}

#[test]
fn late_votes_do_not_drop_newer_ones() {
    const SLOTS: u64 = 20_000;
    let mut fixture = Fixture::new(ProtocolKind::Pbft);
    let digest = |height: u64| {
        let mut digest = Digest([7; 32]);
        digest.0[..8].copy_from_slice(&height.to_be_bytes());
        digest
    };
    let mut said = |who: u16, domain, height: u64| {
        fixture.says_of(who, Subject { domain, view: View(1), height: Height(height), digest: digest(height) })
    };
    for height in 1..=SLOTS {
        (0..3).for_each(|who| said(who, Domain::Prepare, height).expect("the statement is valid"));
        (0..3).for_each(|who| said(who, Domain::Commit, height).expect("the slot is prepared"));
    }
    (0..2).for_each(|who| said(who, Domain::Prepare, SLOTS + 1).expect("the statement is valid"));
    assert_breach(said(0, Domain::Commit, SLOTS + 1), Property::Backing, "without a quorum of Prepare");
    (1..=SLOTS).for_each(|height| said(3, Domain::Prepare, height).expect("late, but valid"));
    said(2, Domain::Prepare, SLOTS + 1).expect("the statement is valid");
    (1..3).for_each(|who| said(who, Domain::Commit, SLOTS + 1).expect("three have prepared it"));
}
