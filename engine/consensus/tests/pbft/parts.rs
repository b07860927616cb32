//! The shared parts in the way PBFT uses them, and the pure functions of PBFT, one at a time.

use crate::common::config;
use crate::common::told_pbft::Pbft;
use quorate_consensus::Config;
use quorate_consensus::Protocol;
use quorate_consensus::config::{Dissemination, LeaderKind, ProtocolKind};
use quorate_consensus::protocols::pbft::engine::PbftEngine;
use quorate_consensus::protocols::pbft::message::Declaration;
use quorate_consensus::protocols::pbft::selection::Selection;
use quorate_consensus::voting::safety::Safety;
use quorate_consensus::voting::tally::{Counted, Tally};
use quorate_types::{
    Attachment, Certificate, Digest, Domain, EpochId, Height, Quorum, ReplicaId, Signers, Subject, View, Vote,
};

fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

fn subject(domain: Domain, view: u64, slot: u64, number: u8) -> Subject {
    Subject { domain, view: View(view), height: Height(slot), digest: digest(number) }
}

fn vote(voter: u16, subject: Subject) -> Vote {
    Vote { subject, attachment: Attachment::None, voter: ReplicaId(voter), signature: bytes::Bytes::new() }
}

fn proof(subject: Subject) -> Certificate {
    Certificate { subject, signers: Signers::empty(), attachments: Vec::new(), proof: bytes::Bytes::new() }
}

fn safety() -> Safety {
    crate::unit_support::unbound()
}

#[test]
fn a_replica_makes_one_statement_of_a_kind_per_slot_and_view() {
    let mut safety = safety();
    assert!(safety.prepare(View(1), Height(5), digest(1)).is_some());
    assert!(safety.prepare(View(1), Height(5), digest(1)).is_none(), "the same statement is not signed twice");
    assert!(safety.prepare(View(1), Height(5), digest(2)).is_none());
    assert!(safety.prepare(View(1), Height(4), digest(2)).is_some(), "slots may be voted on in any order");
    let prepared = proof(subject(Domain::Prepare, 1, 5, 1));
    let ballot = safety.commit(&prepared).expect("COMMIT is a separate statement");
    assert_eq!(ballot.to_vote(ReplicaId(0)), vote(0, subject(Domain::Commit, 1, 5, 1)));
    let kept = safety.promise(&ballot).attachment;
    assert_eq!(kept, Attachment::HighCertificate(Box::new(prepared.clone())), "the journal keeps the proof");
    assert!(safety.commit(&prepared).is_none());
    assert!(safety.prepare(View(2), Height(5), digest(2)).is_some(), "a slot may be voted on again in a later view");
    assert!(safety.prepare(View(1), Height(5), digest(3)).is_none(), "no vote in an earlier view");
}

#[test]
fn a_replica_that_asked_for_a_view_votes_in_no_earlier_one() {
    let mut safety = safety();
    assert!(safety.change_view(View(3), Height(0), digest(1)).is_some());
    assert!(safety.change_view(View(3), Height(0), digest(1)).is_none());
    assert!(safety.change_view(View(2), Height(0), digest(1)).is_none());
    assert!(safety.prepare(View(2), Height(1), digest(1)).is_none());
    assert!(safety.commit(&proof(subject(Domain::Prepare, 2, 1, 1))).is_none());
    assert!(safety.open_view(View(2), Height(0), digest(1)).is_none());
    assert!(safety.open_view(View(3), Height(0), digest(1)).is_some());
    assert!(safety.open_view(View(3), Height(0), digest(2)).is_none(), "a view is opened once");
    assert!(safety.prepare(View(3), Height(1), digest(1)).is_some());
}

#[test]
fn a_settled_slot_is_not_voted_on_again() {
    let mut safety = safety();
    assert!(safety.prepare(View(1), Height(3), digest(1)).is_some());
    safety.settle(Height(3));
    assert!(safety.prepare(View(2), Height(3), digest(2)).is_none());
    assert!(safety.prepare(View(2), Height(4), digest(2)).is_some());
    assert!(safety.checkpoint(Height(10), digest(1)).is_some());
    assert!(safety.checkpoint(Height(10), digest(2)).is_none(), "a replica votes for one state per slot");
    assert!(safety.checkpoint(Height(5), digest(2)).is_none());
}

#[test]
fn each_slot_has_its_own_round_and_commits_need_no_proof() {
    let mut tally = Tally::with(Quorum::of(4).expect("the committee size is valid"), PbftEngine::counting);
    let (one, two) = (subject(Domain::Prepare, 1, 1, 1), subject(Domain::Prepare, 1, 2, 2));
    for voter in 0..2 {
        assert_eq!(tally.add(vote(voter, one)), Counted::Added);
        assert_eq!(tally.add(vote(voter, two)), Counted::Added, "each slot has its own round");
    }
    let other = vote(1, subject(Domain::Prepare, 1, 2, 3));
    assert_eq!(tally.add(other), Counted::Contradiction(Box::new(vote(1, two))));
    assert!(matches!(tally.add(vote(2, one)), Counted::Quorum(quorum, _) if quorum == one));
    let commit = subject(Domain::Commit, 1, 1, 1);
    assert_eq!(tally.add(vote(0, commit)), Counted::Added);
    assert_eq!(tally.add(vote(1, commit)), Counted::Added);
    assert_eq!(tally.add(vote(3, commit)), Counted::Agreed(commit));
    assert_eq!(tally.add(vote(2, commit)), Counted::Repeated, "agreement is reported once");
    tally.forget_up_to(Height(1));
    assert_eq!(tally.add(vote(0, commit)), Counted::Added, "forgotten");
    assert_eq!(tally.add(vote(1, two)), Counted::Repeated, "the round of slot 2 is kept");
    tally.forget_kind_before(Domain::Prepare, View(2));
    assert_eq!(tally.add(vote(1, two)), Counted::Added, "the round of slot 2 is forgotten");
}

fn declaration(voter: u16, checkpoint: Subject, prepared: Vec<Subject>) -> Declaration {
    let digest = Declaration::digest(&checkpoint, &prepared, &[]);
    let subject = Subject { domain: Domain::ViewChange, view: View(9), height: checkpoint.height, digest };
    Declaration { vote: vote(voter, subject), checkpoint, prepared, voted: Vec::new() }
}

#[test]
fn a_new_view_selects_the_highest_checkpoint_and_the_highest_views() {
    let genesis = Certificate::genesis(&EpochId::of_name("test")).subject;
    let stable = subject(Domain::Checkpoint, 0, 10, 7);
    let p = |view, slot, number| subject(Domain::Prepare, view, slot, number);
    let changes = [
        declaration(0, genesis, vec![p(1, 9, 1), p(1, 10, 1), p(1, 11, 1), p(2, 14, 4)]),
        declaration(1, stable, vec![p(3, 11, 2), p(1, 14, 5)]),
        declaration(2, stable, vec![p(1, 11, 1), p(2, 13, 3)]),
    ];
    let selection = Selection::of(&changes).expect("the view changes are consistent");
    assert_eq!(selection.stable, stable, "the highest checkpoint is selected, although only some have it");
    assert_eq!(selection.slots, [Some(p(3, 11, 2)), None, Some(p(2, 13, 3)), Some(p(2, 14, 4))]);
    assert_eq!(selection.last(), Height(14));
    assert_eq!(selection.iter().map(|(slot, _)| slot.0).collect::<Vec<_>>(), [11, 12, 13, 14]);
    let nothing = [declaration(0, stable, vec![]), declaration(1, genesis, vec![p(1, 3, 1)])];
    let selection = Selection::of(&nothing).expect("the view changes are consistent");
    assert_eq!(
        (selection.last(), selection.slots.len()),
        (Height(10), 0),
        "slots below the checkpoint are not selected"
    );
    let contested = [declaration(0, genesis, vec![p(2, 1, 1)]), declaration(1, genesis, vec![p(2, 1, 2)])];
    assert_eq!(Selection::of(&contested), None, "two blocks cannot be prepared in one slot and view");
}

#[test]
fn inconsistent_declarations_are_refused() {
    let genesis = Certificate::genesis(&EpochId::of_name("test")).subject;
    let p = |view, slot| subject(Domain::Prepare, view, slot, 1);
    let fits = |change: Declaration| change.is_well_formed(&genesis, 20);
    assert!(fits(declaration(0, genesis, vec![p(1, 1), p(8, 20)])));
    assert!(!fits(declaration(0, genesis, vec![p(1, 21)])), "a slot above the window");
    assert!(!fits(declaration(0, genesis, vec![p(9, 1)])), "prepared in the requested view");
    assert!(!fits(declaration(0, genesis, vec![p(1, 2), p(1, 2)])), "a repeated slot");
    assert!(!fits(declaration(0, subject(Domain::Checkpoint, 0, 5, 1), vec![p(1, 5)])), "a slot below the checkpoint");
    assert!(!fits(declaration(0, p(0, 5), vec![])), "the subject is not a checkpoint");
    let mut other = declaration(0, genesis, vec![p(1, 1)]);
    other.prepared.clear();
    assert!(!fits(other), "not the signed declaration");
}

#[test]
fn invalid_settings_are_refused_by_name() {
    let good = config::<Pbft>();
    assert_eq!(good.validate(), Ok(()));
    let key = |config: Config| config.validate().expect_err("the settings are invalid").place;
    assert_eq!(key(Config { leader: LeaderKind::RoundRobin, ..good.clone() }), "leader");
    assert_eq!(key(Config { leader: LeaderKind::Reputation, ..good.clone() }), "leader");
    assert_eq!(key(Config { window: 255, ..good.clone() }), "window");
    assert_eq!(key(Config { window: 100_000, ..good.clone() }), "window");
    assert_eq!(key(Config { checkpoint_interval: 0, ..good.clone() }), "checkpoint_interval");
    assert_eq!(key(Config { pipeline: 0, ..good.clone() }), "pipeline");
    assert_eq!(key(Config { pipeline: 1001, ..good.clone() }), "pipeline");
    assert_eq!(key(Config { retained_blocks: 999, ..good.clone() }), "retained_blocks");
    let phases = Config { protocol: ProtocolKind::PbftPhases, dissemination: Dissemination::Leader, ..good };
    assert_eq!(phases.validate(), Ok(()));
    assert_eq!(key(Config { dissemination: Dissemination::Client, ..phases }), "dissemination");
}
