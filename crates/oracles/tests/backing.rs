//! Certificates and commits need signed votes of a quorum.

use super::stage::*;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::facts::Shape;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_oracles::{Law, Statements, quorum};
use quorate_types::{Block, Digest, Domain, Height, ReplicaId};

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

fn commits(stage: &mut Stage, who: u16, block: &Block) -> Result<(), quorate_oracles::Complaint> {
    stage.oracle.commits(ReplicaId(who), block)?;
    stage.oracle.settles()
}

fn chains_of(length: usize) -> impl Iterator<Item = ProtocolKind> {
    ProtocolKind::ALL.iter().copied().filter(move |kind| kind.facts().shape == Shape::Chain(length))
}

#[test]
fn two_chains_need_the_votes_for_the_second_block() {
    for protocol in chains_of(2) {
        let mut stage = Stage::new(protocol);
        let (first, known) = stage.certifies(1, &genesis());
        assert_breach(commits(&mut stage, 0, &first), Law::Backing, "no signed votes of 3 replicas make it final");
        let mut stage = Stage::new(protocol);
        stage.certifies(1, &genesis());
        stage.certifies(2, &known);
        commits(&mut stage, 0, &first).expect("two in a row are certified");
    }
}

#[test]
fn three_chains_need_the_votes_for_the_third_block() {
    for protocol in chains_of(3) {
        let mut stage = Stage::new(protocol);
        let (first, known) = stage.certifies(1, &genesis());
        let (_, known) = stage.certifies(2, &known);
        let mut early = Stage::new(protocol);
        early.certifies(1, &genesis());
        assert!(commits(&mut early, 0, &first).is_err(), "committed with one of three certificates");
        let (_, known) = stage.certifies(3, &known);
        commits(&mut stage, 0, &first).expect("three in a row are certified");
        let late = block(5, 1, &known);
        stage.proposes(&late, None).expect("its base is genuine");
        (0..3).for_each(|voter| stage.votes(voter, Domain::Vote, &late).expect("the statement is valid"));
    }
}

#[test]
fn skipped_views_break_the_chain() {
    let mut stage = Stage::new(ProtocolKind::FastHotStuff);
    let (first, known) = stage.certifies(1, &genesis());
    let late = block(3, 3, &known);
    stage.oracle.distrust(ReplicaId(3));
    stage.proposes(&late, None).expect("a liar is not checked");
    (0..3).for_each(|voter| stage.oracle.distrust(ReplicaId(voter)));
    (0..3).for_each(|voter| stage.votes(voter, Domain::Vote, &late).expect("no replica is checked"));
    let mut trusting = Statements::new(ProtocolKind::FastHotStuff, 4, 1);
    std::mem::swap(&mut trusting, &mut stage.oracle);
    assert!(trusting.commits(ReplicaId(0), &first).is_ok(), "an untrusted replica was checked");
}

#[test]
fn ancestors_are_final_with_the_block_that_follows_in_the_same_step() {
    let mut stage = Stage::new(ProtocolKind::Jolteon);
    let (first, known) = stage.certifies(1, &genesis());
    let (second, known) = stage.certifies(2, &known);
    stage.certifies(3, &known);
    stage.oracle.commits(ReplicaId(0), &first).expect("others follow");
    commits(&mut stage, 0, &second).expect("its child is certified");
}

#[test]
fn a_slot_needs_a_quorum_of_commits_and_a_commit_needs_a_quorum_of_prepares() {
    let mut stage = Stage::new(ProtocolKind::Pbft);
    let given = Block::of_slot(quorate_types::View(1), ReplicaId(0), Height(1), vec![Digest([9; 32])]);
    let said = |stage: &mut Stage, who, domain| stage.says_of_slot(who, domain, 1, given.digest());
    (0..2).for_each(|who| said(&mut stage, who, Domain::Prepare).expect("the statement is valid"));
    assert_breach(said(&mut stage, 0, Domain::Commit), Law::Backing, "without a quorum of Prepare");
    said(&mut stage, 2, Domain::Prepare).expect("the statement is valid");
    (1..3).for_each(|who| said(&mut stage, who, Domain::Commit).expect("the slot is prepared"));
    said(&mut stage, 3, Domain::Commit).expect("the slot is prepared");
    commits(&mut stage, 0, &given).expect("three sent COMMIT, after a premature one");
    let mut stage = Stage::new(ProtocolKind::Pbft);
    (0..3).for_each(|who| said(&mut stage, who, Domain::Prepare).expect("the statement is valid"));
    (0..2).for_each(|who| said(&mut stage, who, Domain::Commit).expect("the slot is prepared"));
    assert_breach(commits(&mut stage, 0, &given), Law::Backing, "make it final");
}

#[test]
fn showing_an_unsigned_certificate_is_a_violation() {
    let mut stage = Stage::new(ProtocolKind::Jolteon);
    let (_, known) = stage.certifies(1, &genesis());
    let invented = block(2, 2, &known);
    let shows = |high, evidence| ViewMessage::Advance { high: Box::new(high), evidence };
    let forged = certified(&invented, Domain::Vote);
    assert_breach(stage.says(0, shows(forged, None)), Law::Backing, "that no quorum of 3 signed");
    (0..2).for_each(|who| stage.gives_up(who, 2, &known).expect("the statement is valid"));
    let two = Some(Box::new(timeouts(2, [1, 1, 1])));
    assert_breach(stage.says(0, shows(known.clone(), two.clone())), Law::Backing, "Timeout");
    stage.gives_up(2, 2, &known).expect("the statement is valid");
    stage.says(0, shows(known.clone(), two)).expect("three have timed out of it");
    let other = Some(Box::new(timeouts(2, [1, 0, 1])));
    assert_breach(stage.says(0, shows(known, other)), Law::Backing, "Timeout");
}

#[test]
fn a_vote_on_a_forged_base_is_a_violation() {
    let mut stage = Stage::new(ProtocolKind::ChainedHotStuff);
    let invented = block(1, 1, &genesis());
    let next = block(2, 2, &certified(&invented, Domain::Vote));
    stage.oracle.lies(ReplicaId(2));
    stage.proposes(&next, None).expect("a liar is not checked");
    assert_breach(stage.votes(0, Domain::Vote, &next), Law::Backing, "that no quorum signed");
}

#[test]
fn a_liar_may_have_signed_anything() {
    let mut stage = Stage::new(ProtocolKind::Jolteon);
    stage.oracle.lies(ReplicaId(3));
    let (first, known) = {
        let block = block(1, 1, &genesis());
        stage.proposes(&block, None).expect("the statement is valid");
        (0..2).for_each(|voter| stage.votes(voter, Domain::Vote, &block).expect("the statement is valid"));
        (block.clone(), certificate(block.subject(Domain::Vote), &[0, 1, 3], Vec::new()))
    };
    let second = block(2, 2, &known);
    stage.proposes(&second, None).expect("two votes and a liar make a quorum");
    (0..2).for_each(|voter| stage.votes(voter, Domain::Vote, &second).expect("the statement is valid"));
    commits(&mut stage, 0, &first).expect("two votes and a liar make a quorum");
}
