//! Statements that a replica may sign.

use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::voting::safety::{Promise, Safety, timeout_subject};
use quorate_types::*;
use std::collections::{BTreeMap, BTreeSet};

fn safety() -> Safety {
    unbound()
}

#[test]
fn a_replica_votes_once_per_view_in_ascending_views() {
    let mut safety = safety();
    let [one, other] = [1, 2].map(|author| block(5, author, genesis(), vec![]));
    let ballot = safety.vote(&one).expect("the first statement is allowed");
    assert_eq!(ballot.to_vote(ReplicaId(3)), vote(3, one.subject(Domain::Vote)));
    assert_eq!(safety.vote(&one), None);
    assert_eq!(safety.vote(&other), None);
    assert_eq!(safety.vote(&block(4, 0, genesis(), vec![])), None);
    assert!(safety.vote(&block(6, 0, genesis(), vec![])).is_some());
    assert_eq!(safety.voted(), View(6));
}

#[test]
fn a_replica_votes_once_per_phase_and_never_after_a_timeout() {
    let mut safety = safety();
    let phases = [Domain::Prepare, Domain::PreCommit, Domain::Commit];
    let [one, other] = [1, 2].map(|author| block(5, author, genesis(), vec![]));
    for phase in phases {
        let ballot = safety.vote_in(phase, &one).expect("the first statement is allowed");
        assert_eq!(ballot.to_vote(ReplicaId(3)), vote(3, one.subject(phase)));
    }
    for phase in phases {
        assert_eq!((safety.vote_in(phase, &one), safety.vote_in(phase, &other)), (None, None));
        assert!(safety.vote_in(phase, &block(6, 0, genesis(), vec![])).is_some());
    }
    assert_eq!(safety.voted(), View(6));
    safety.give_up(View(7), &genesis(), false);
    assert!(phases.iter().all(|phase| safety.vote_in(*phase, &block(7, 0, genesis(), vec![])).is_none()));
}

#[test]
fn a_replica_proposes_once_per_view_in_ascending_views() {
    let mut safety = safety();
    let [one, other] = [1, 2].map(|author| block(5, author, genesis(), vec![]));
    let ballot = safety.propose(&one).expect("the first statement is allowed");
    assert_eq!(ballot.to_vote(ReplicaId(1)).subject, one.subject(Domain::Proposal));
    assert_eq!(safety.propose(&other), None);
    assert!(safety.vote(&other).is_some(), "a proposal does not preclude a vote");
}

#[test]
fn a_replica_makes_one_proposal_of_each_kind_per_view() {
    let mut safety = safety();
    let parent = block(4, 0, genesis(), vec![]);
    let ahead =
        |view, author| Block::optimistic(View(view), ReplicaId(author), parent.subject(Domain::Vote), vec![], 0);
    let one = ahead(5, 1);
    let ballot = safety.propose_optimistically(&one).expect("the first statement is allowed");
    assert_eq!(ballot.to_vote(ReplicaId(1)).subject, one.subject(Domain::OptimisticProposal));
    assert_eq!(safety.propose_optimistically(&ahead(5, 2)), None, "a second optimistic proposal contradicts the first");
    assert!(safety.propose(&block(5, 1, genesis(), vec![])).is_some(), "one of another kind does not");
    assert_eq!(safety.propose_optimistically(&ahead(5, 1)), None, "the view has begun");
    let promise = safety.promise(&ballot);
    assert_eq!(promise.reserves(), None);
    let mut restarted = unbound();
    restarted.recall(&promise, false);
    assert_eq!(restarted.propose_optimistically(&ahead(5, 2)), None, "a restart does not forget it");
    let vote = restarted.vote(&parent).map(|ballot| restarted.promise(&ballot)).expect("it has not voted");
    let mut restarted = unbound();
    restarted.recall(&vote, false);
    assert!(!restarted.may_propose_optimistically(View(5)), "a vote reserves the next view");
    restarted.give_up(View(6), &genesis(), false);
    assert!(!restarted.may_propose_optimistically(View(6)), "nothing follows a timeout");
    assert!(restarted.may_propose_optimistically(View(7)));
}

#[test]
fn nothing_is_signed_in_a_view_after_its_timeout() {
    let mut safety = safety();
    assert!(safety.give_up(View(5), &genesis(), false).is_some());
    assert_eq!(safety.give_up(View(5), &genesis(), false), None);
    assert_eq!(safety.give_up(View(4), &genesis(), false), None);
    for view in [3, 5] {
        let block = block(view, 0, genesis(), vec![]);
        assert_eq!((safety.vote(&block), safety.propose(&block)), (None, None));
    }
    assert!(safety.vote(&block(6, 0, genesis(), vec![])).is_some());
}

#[test]
fn a_replica_may_time_out_of_a_view_in_which_it_voted() {
    let mut safety = safety();
    let high = certify(&block(4, 0, genesis(), vec![]));
    safety.vote(&block(5, 0, genesis(), vec![]));
    let view_only = safety.give_up(View(5), &high, false).expect("once").to_vote(ReplicaId(0));
    assert_eq!((view_only.subject, view_only.attachment), (timeout_subject(View(5)), Attachment::HighView(View(4))));
    let whole = safety.give_up(View(6), &high, true).expect("once").to_vote(ReplicaId(0));
    assert_eq!(whole.attachment, Attachment::HighCertificate(Box::new(high)));
}

#[test]
fn the_record_of_a_ballot_has_its_statement_and_lock() {
    let mut safety = safety();
    let (locked, voted) = (block(3, 0, genesis(), vec![]), block(4, 0, genesis(), vec![]));
    safety.lock_on(locked.subject(Domain::Vote));
    let ballot = safety.vote(&voted).expect("the first statement is allowed");
    let expected = Promise {
        subject: voted.subject(Domain::Vote),
        attachment: Attachment::None,
        lock: locked.subject(Domain::Vote),
    };
    assert_eq!(safety.promise(&ballot), expected);
}

/// A replica that voted or proposed in the previous view sends a proposal before the proposal's own record is durable.
#[test]
fn a_restarted_replica_does_not_propose_in_the_reserved_view() {
    let (voted, given_up) = (block(5, 0, genesis(), vec![]), View(9));
    let propose = |safety: &mut Safety, view| safety.propose(&block(view, 0, genesis(), vec![])).is_some();
    for domain in [Domain::Proposal, Domain::Vote, Domain::Prepare, Domain::PreCommit, Domain::Commit] {
        let promise = Promise { subject: voted.subject(domain), attachment: Attachment::None, lock: genesis().subject };
        assert_eq!(promise.reserves(), Some(View(6)));
        let mut restarted = safety();
        restarted.recall(&promise, false);
        assert_eq!(restarted.proposed(), View(6), "the replica may have proposed in the reserved view");
        assert!(!propose(&mut restarted, 6) && propose(&mut restarted, 7));
        assert_eq!(restarted.spoke_in(), View(7));
    }
    let promise = Promise { subject: timeout_subject(given_up), attachment: Attachment::None, lock: genesis().subject };
    assert_eq!(promise.reserves(), None);
    let mut restarted = safety();
    restarted.recall(&promise, false);
    assert!(!propose(&mut restarted, 9) && propose(&mut restarted, 10));
}

#[derive(Clone, Debug)]
enum Call {
    Propose(u64, u16),
    Vote(u64, u16),
    GiveUp(u64, bool),
    Lock(u64, u16),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        (1..12u64, 0..3u16).prop_map(|(view, author)| Call::Propose(view, author)),
        (1..12u64, 0..3u16).prop_map(|(view, author)| Call::Vote(view, author)),
        (1..12u64, any::<bool>()).prop_map(|(view, whole)| Call::GiveUp(view, whole)),
        (1..12u64, 0..3u16).prop_map(|(view, author)| Call::Lock(view, author)),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_calls_yields_contradicting_ballots(calls in collection::vec(call(), 1..80)) {
        let mut safety = safety();
        let mut signed: BTreeMap<(Domain, View), Subject> = BTreeMap::new();
        let mut given_up: BTreeSet<View> = BTreeSet::new();
        let mut last_vote = View(0);
        for call in calls {
            let lock = safety.lock();
            let before = (safety.voted(), safety.timed_out(), safety.proposed());
            let (ballot, may) = match call {
                Call::Propose(view, author) => {
                    let ballot = safety.propose(&block(view, author, genesis(), vec![]));
                    (ballot, View(view) > before.2 && View(view) > before.1)
                }
                Call::Vote(view, author) => {
                    let ballot = safety.vote(&block(view, author, genesis(), vec![]));
                    (ballot, View(view) > before.0 && View(view) > before.1)
                }
                Call::GiveUp(view, whole) => (safety.give_up(View(view), &genesis(), whole), View(view) > before.1),
                Call::Lock(view, author) => {
                    safety.lock_on(block(view, author, genesis(), vec![]).subject(Domain::Vote));
                    prop_assert!(safety.lock().view >= View(view));
                    prop_assert!(safety.lock() == lock || safety.lock().view > lock.view, "the lock never falls");
                    (None, false)
                }
            };
            prop_assert_eq!(ballot.is_some(), may, "a ballot is issued exactly when it is safe");
            let now = (safety.voted(), safety.timed_out(), safety.proposed());
            prop_assert!(now.0 >= before.0 && now.1 >= before.1 && now.2 >= before.2);
            if let Some(ballot) = ballot {
                let subject = ballot.to_vote(ReplicaId(0)).subject;
                let record = safety.promise(&ballot);
                prop_assert_eq!((record.subject, record.lock), (subject, safety.lock()));
                prop_assert!(
                    signed.insert((subject.domain, subject.view), subject).is_none(),
                    "one statement per kind and view"
                );
                match subject.domain {
                    Domain::Timeout => prop_assert!(given_up.insert(subject.view)),
                    _ => prop_assert!(given_up.iter().all(|view| *view < subject.view), "no vote after a timeout"),
                }
                if subject.domain == Domain::Vote {
                    prop_assert!(subject.view > last_vote, "votes are in ascending views");
                    last_vote = subject.view;
                }
            }
            safety.invariants();
        }
    }
}
