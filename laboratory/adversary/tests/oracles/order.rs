//! Statements of one replica, checked against its earlier ones.

use super::fixture::*;
use quorate_adversary::oracles::Property;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::facts::Bond;
use quorate_consensus::protocols::pbft::message::{NewView, PbftMessage};
use quorate_types::{Attachment, Digest, Domain, Height, ReplicaId, Subject, View};

#[test]
fn a_vote_in_a_view_after_its_timeout_is_a_violation() {
    let mut fixture = Fixture::new(ProtocolKind::Jolteon);
    let (_, known) = fixture.certifies(1, &genesis());
    let next = block(2, 2, &known);
    fixture.proposes(&next, None).expect("the statement is valid");
    fixture.gives_up(0, 2, &known).expect("the statement is valid");
    assert_breach(fixture.votes(0, Domain::Vote, &next), Property::Order, "it timed out of view 2 before");
    fixture.votes(1, Domain::Vote, &next).expect("replica 1 did not time out");
}

#[test]
fn statements_may_be_repeated_after_a_restart() {
    let mut fixture = Fixture::new(ProtocolKind::Jolteon);
    let (first, known) = fixture.certifies(1, &genesis());
    fixture.certifies(2, &known);
    fixture.gives_up(0, 3, &known).expect("the statement is valid");
    fixture.votes(0, Domain::Vote, &first).expect("a repeated statement");
    fixture.gives_up(0, 3, &known).expect("a repeated statement");
}

#[test]
fn a_timeout_must_report_the_highest_certificate_voted_on() {
    let mut fixture = Fixture::new(ProtocolKind::ChainedHotStuff);
    let (_, first) = fixture.certifies(1, &genesis());
    let (_, second) = fixture.certifies(2, &first);
    let (_, _) = fixture.certifies(3, &second);
    assert_breach(fixture.gives_up(0, 4, &first), Property::Order, "reports a certificate of view 1");
    fixture.gives_up(1, 4, &second).expect("it voted on the second certificate");
    assert_breach(fixture.gives_up(1, 5, &first), Property::Order, "but knows one of view 2");
}

#[test]
fn a_replica_that_lost_its_journal_may_report_less() {
    let mut fixture = Fixture::new(ProtocolKind::Jolteon);
    let (_, first) = fixture.certifies(1, &genesis());
    let (_, second) = fixture.certifies(2, &first);
    fixture.certifies(3, &second);
    fixture.oracle.forgets(ReplicaId(0));
    fixture.gives_up(0, 4, &first).expect("it no longer has the second certificate");
}

#[test]
fn a_vote_must_respect_the_timeouts_shown() {
    for (told, sound) in [([1, 1, 1], true), ([1, 2, 1], false)] {
        let mut fixture = Fixture::new(ProtocolKind::Jolteon);
        let (_, first) = fixture.certifies(1, &genesis());
        let (_, second) = fixture.certifies(2, &first);
        let shown = |told| if told == 1 { &first } else { &second };
        // Replica 3 lies: an honest voter on the first certificate could not report less.
        fixture.oracle.lies(ReplicaId(0));
        fixture.oracle.lies(ReplicaId(3));
        fixture.gives_up(1, 3, shown(told[1])).expect("it voted on the first certificate");
        fixture.gives_up(2, 3, &first).expect("it voted on the first certificate");
        let late = block(4, 0, &first);
        fixture.proposes(&late, Some(timeouts(3, told))).expect("a liar is not checked");
        let said = fixture.votes(2, Domain::Vote, &late);
        if sound {
            said.expect("no timeout reports a higher certificate");
        } else {
            assert_breach(said, Property::Order, "the timeouts shown with it do not allow");
        }
    }
}

#[test]
fn a_vote_must_respect_the_lock() {
    let locks = |kind: &ProtocolKind| matches!(kind.facts().bound_by, Bond::LockedBlock | Bond::LockedView);
    for protocol in ProtocolKind::ALL.iter().copied().filter(|kind| kind.is_chained() && locks(kind)) {
        let mut fixture = Fixture::new(protocol);
        let (_, first) = fixture.certifies(1, &genesis());
        let (_, second) = fixture.certifies(2, &first);
        let (_, third) = fixture.certifies(3, &second);
        fixture.certifies(4, &third);
        fixture.oracle.distrust(ReplicaId(3));
        let rival = block(5, 3, &genesis());
        fixture.proposes(&rival, None).expect("a liar is not checked");
        assert_breach(fixture.votes(0, Domain::Vote, &rival), Property::Order, "locked on");
    }
}

#[test]
fn a_prepare_below_its_own_view_change_is_a_violation() {
    let mut fixture = Fixture::new(ProtocolKind::Pbft);
    fixture.changes_view(1, 3, Vec::new()).expect("the statement is valid");
    let said = fixture.says_of_slot(1, Domain::Prepare, 2, Digest([7; 32]));
    assert_breach(said, Property::Order, "it asked to move to view 3 before");
    fixture.says_of_slot(1, Domain::Prepare, 3, Digest([7; 32])).expect("replica 1 asked for this view");
    assert_breach(fixture.changes_view(1, 2, Vec::new()), Property::Order, "it asked for view 3 before");
}

#[test]
fn a_view_change_must_report_committed_slots() {
    let digest = Digest([7; 32]);
    let prepared = certificate(of_slot(Domain::Prepare, 1, digest), &[0, 1, 2], Vec::new());
    for (shown, sound) in [(vec![prepared.clone()], true), (Vec::new(), false)] {
        let mut fixture = Fixture::new(ProtocolKind::Pbft);
        (0..3)
            .for_each(|voter| fixture.says_of_slot(voter, Domain::Prepare, 1, digest).expect("the statement is valid"));
        fixture.says_of_slot(1, Domain::Commit, 1, digest).expect("the slot is prepared");
        let said = fixture.changes_view(1, 2, shown);
        if sound {
            said.expect("the view change reports the slot");
        } else {
            assert_breach(said, Property::Order, "hides that slot 1 was prepared in view 1");
        }
    }
}

#[test]
fn a_claim_without_proof_ends_with_a_new_view_unless_the_block_was_decided() {
    let digest = Digest([7; 32]);
    for (voters, decided) in [(1..2, false), (0..3, true)] {
        let mut fixture = Fixture::new(ProtocolKind::PbftMac);
        (0..3)
            .for_each(|voter| fixture.says_of_slot(voter, Domain::Prepare, 1, digest).expect("the statement is valid"));
        voters.for_each(|voter| fixture.says_of_slot(voter, Domain::Commit, 1, digest).expect("the slot is prepared"));
        let said = fixture.changes_view(1, 2, Vec::new());
        assert_breach(said, Property::Order, "hides that slot 1 was prepared in view 1");
        let changes = [0, 2, 3].map(|voter| view_change(voter, 3, &[])).to_vec();
        let subject =
            Subject { domain: Domain::Proposal, view: View(3), height: Height(0), digest: NewView::digest(&changes) };
        let endorsement = vote(2, subject, Attachment::None);
        let opens = NewView { endorsement, changes, checkpoint: genesis(), prepared: Vec::new() };
        fixture.says(2, PbftMessage::NewView(Box::new(opens))).expect("nobody claims anything");
        let said = fixture.changes_view(1, 4, Vec::new());
        if decided {
            assert_breach(said, Property::Order, "hides that slot 1 was prepared in view 1");
        } else {
            said.expect("view 3 carries nothing over");
        }
    }
}

#[test]
fn a_new_view_must_carry_over_the_latest_prepared_block() {
    let (old, new) = (Digest([7; 32]), Digest([8; 32]));
    let proof = |view, digest| certificate(of_slot(Domain::Prepare, view, digest), &[0, 1, 2], Vec::new());
    for (shown, sound) in [(proof(2, new), true), (proof(1, old), false)] {
        let mut fixture = Fixture::new(ProtocolKind::Pbft);
        for (view, digest) in [(1, old), (2, new)] {
            (0..3).for_each(|voter| {
                fixture.says_of_slot(voter, Domain::Prepare, view, digest).expect("the statement is valid")
            });
        }
        let changes =
            vec![view_change(0, 3, &[proof(1, old)]), view_change(1, 3, &[proof(2, new)]), view_change(2, 3, &[])];
        let subject =
            Subject { domain: Domain::Proposal, view: View(3), height: Height(0), digest: NewView::digest(&changes) };
        let endorsement = vote(2, subject, Attachment::None);
        let opens = NewView { endorsement, changes, checkpoint: genesis(), prepared: vec![shown] };
        let said = fixture.says(2, PbftMessage::NewView(Box::new(opens)));
        if !sound {
            assert_breach(said, Property::Order, "slot 1 was prepared in view 2");
            continue;
        }
        said.expect("the new view carries over the newer block");
        let other = fixture.says_of_slot(0, Domain::Prepare, 3, old);
        assert_breach(other, Property::Order, "the view carries over");
        fixture.says_of_slot(1, Domain::Prepare, 3, new).expect("this block is carried over");
    }
}
