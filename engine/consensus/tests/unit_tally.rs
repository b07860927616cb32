//! Counting of votes.

use crate::unit_support::*;
use bytes::Bytes;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::voting::tally::{Counted, Tally};
use quorate_types::*;
use std::collections::{BTreeMap, BTreeSet};

fn tally() -> Tally {
    Tally::new(quorum(4))
}

fn quorum_of(counted: Counted) -> Vec<u16> {
    match counted {
        Counted::Quorum(subject, votes) => {
            assert!(votes.iter().all(|vote| vote.subject == subject));
            votes.iter().map(|vote| vote.voter.0).collect()
        }
        other => panic!("expected a quorum, got {other:?}"),
    }
}

#[test]
fn a_quorum_is_handed_out_once() {
    let (mut tally, subject) = (tally(), subject(Domain::Vote, 1, 1));
    assert_eq!(tally.add(vote(0, subject)), Counted::Added);
    assert_eq!(tally.add(vote(2, subject)), Counted::Added);
    assert_eq!(quorum_of(tally.add(vote(3, subject))), [0, 2, 3]);
    assert_eq!(tally.add(vote(1, subject)), Counted::Added, "a vote counts while a quorum is being verified");
    tally.settle(&subject);
    assert_eq!(tally.add(vote(1, subject)), Counted::Repeated);
    assert_eq!(tally.voters(Domain::Vote, View(1)), 4);
}

#[test]
fn a_vote_after_the_certificate_is_late() {
    let (mut tally, subject) = (tally(), subject(Domain::Vote, 1, 1));
    (0..3).for_each(|voter| drop(tally.add(vote(voter, subject))));
    tally.settle(&subject);
    assert_eq!(tally.add(vote(3, subject)), Counted::Repeated);
    assert_eq!(tally.voters(Domain::Vote, View(1)), 3, "a late vote is not kept");
}

#[test]
fn struck_votes_make_room_for_others() {
    let (mut tally, subject) = (tally(), subject(Domain::Vote, 1, 1));
    (0..3).for_each(|voter| drop(tally.add(vote(voter, subject))));
    assert_eq!(tally.strike(&subject, &[ReplicaId(1)]), Counted::Added);
    assert_eq!(quorum_of(tally.add(vote(3, subject))), [0, 2, 3]);
}

#[test]
fn a_vote_that_came_during_the_check_completes_the_next_quorum() {
    let (mut tally, subject) = (tally(), subject(Domain::Vote, 1, 1));
    (0..4).for_each(|voter| drop(tally.add(vote(voter, subject))));
    assert_eq!(quorum_of(tally.strike(&subject, &[ReplicaId(0)])), [1, 2, 3]);
}

#[test]
fn a_struck_voter_may_vote_again() {
    let (mut tally, subject) = (tally(), subject(Domain::Vote, 1, 1));
    (0..3).for_each(|voter| drop(tally.add(vote(voter, subject))));
    tally.strike(&subject, &[ReplicaId(2)]);
    assert_eq!(quorum_of(tally.add(vote(2, subject))), [0, 1, 2]);
}

fn awaiting() -> Tally {
    tally().awaiting_late(true)
}

#[test]
fn late_votes_complete_the_quorum_that_awaits_them() {
    for domain in [Domain::Vote, Domain::Prepare, Domain::PreCommit, Domain::Commit] {
        let (mut tally, subject) = (awaiting(), subject(domain, 1, 1));
        assert_eq!(tally.add(vote(0, subject)), Counted::Added);
        assert_eq!(tally.add(vote(2, subject)), Counted::Added);
        assert_eq!(tally.add(vote(3, subject)), Counted::Enough(subject));
        assert_eq!(tally.add(vote(3, subject)), Counted::Repeated);
        assert_eq!(quorum_of(tally.add(vote(1, subject))), [0, 2, 3, 1], "nobody else is to come");
        assert_eq!(tally.close(&subject), Counted::Repeated, "the quorum is handed out once");
    }
}

#[test]
fn the_end_of_the_wait_hands_out_all_votes_so_far() {
    let committee = quorum(7);
    let (mut tally, subject) = (Tally::new(committee).awaiting_late(true), subject(Domain::Vote, 1, 1));
    (0..4).for_each(|voter| assert_eq!(tally.add(vote(voter, subject)), Counted::Added));
    assert_eq!(tally.close(&subject), Counted::Repeated, "there is no quorum to wait for");
    assert_eq!(tally.add(vote(4, subject)), Counted::Enough(subject));
    assert_eq!(tally.add(vote(5, subject)), Counted::Added);
    assert_eq!(quorum_of(tally.close(&subject)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(tally.add(vote(6, subject)), Counted::Added, "it counts while the quorum is being verified");
    assert_eq!(quorum_of(tally.strike(&subject, &[ReplicaId(5)])), [0, 1, 2, 3, 4, 6], "there is no second wait");
    tally.settle(&subject);
    assert_eq!(tally.close(&subject), Counted::Repeated);
    assert_eq!(tally.add(vote(5, subject)), Counted::Repeated);
}

#[test]
fn votes_struck_during_the_wait_leave_the_round_open() {
    let (mut tally, subject) = (awaiting(), subject(Domain::Vote, 1, 1));
    (0..3).for_each(|voter| drop(tally.add(vote(voter, subject))));
    assert!(tally.strike_vote(&vote(1, subject)));
    assert_eq!(tally.close(&subject), Counted::Added, "no quorum is left");
    assert_eq!(quorum_of(tally.add(vote(3, subject))), [0, 2, 3]);
}

#[test]
fn the_last_vote_of_a_round_ends_the_wait_whatever_it_says() {
    let (mut tally, awaited) = (awaiting(), subject(Domain::Vote, 1, 1));
    (0..3).for_each(|voter| drop(tally.add(vote(voter, awaited))));
    assert_eq!(quorum_of(tally.add(vote(3, subject(Domain::Vote, 1, 2)))), [0, 1, 2]);
}

#[test]
fn a_second_quorum_of_a_round_is_awaited_for_itself() {
    let (mut tally, [one, other]) = (awaiting(), [1, 2].map(|number| subject(Domain::Vote, 1, number)));
    (0..3).for_each(|voter| drop(tally.add(vote(voter, one))));
    // The votes of 0 and 1 were forged.
    (0..2).for_each(|voter| assert!(tally.strike_vote(&vote(voter, one))));
    tally.add(vote(0, other));
    tally.add(vote(1, other));
    assert!(tally.strike_vote(&vote(2, one)));
    assert_eq!(tally.add(vote(2, other)), Counted::Enough(other));
    assert_eq!(tally.close(&one), Counted::Repeated);
    assert_eq!(quorum_of(tally.close(&other)), [0, 1, 2]);
}

#[test]
fn votes_that_no_leader_collects_are_not_awaited() {
    for domain in [Domain::Timeout, Domain::Checkpoint, Domain::Stored, Domain::ViewChange] {
        let (mut tally, subject) = (awaiting(), subject(domain, 1, 1));
        (0..2).for_each(|voter| drop(tally.add(vote(voter, subject))));
        assert_eq!(quorum_of(tally.add(vote(2, subject))), [0, 1, 2], "{domain:?}");
    }
}

#[test]
fn a_contradiction_names_the_earlier_vote() {
    let mut tally = tally();
    let (one, other) = (subject(Domain::Vote, 1, 1), subject(Domain::Vote, 1, 2));
    tally.add(vote(0, one));
    assert_eq!(tally.add(vote(0, other)), Counted::Contradiction(Box::new(vote(0, one))));
    assert_eq!(tally.voters(Domain::Vote, View(1)), 1);
    assert_eq!(tally.add(vote(0, subject(Domain::Timeout, 1, 2))), Counted::Added, "each domain has its own round");
    assert_eq!(tally.add(vote(0, subject(Domain::Vote, 2, 2))), Counted::Added, "each view has its own round");
}

#[test]
fn a_different_attachment_is_a_contradiction_but_a_different_proof_is_not() {
    let mut tally = tally();
    let timeout = |attachment| Vote { attachment, ..vote(0, subject(Domain::Timeout, 3, 1)) };
    let attached = |proof: &'static [u8]| {
        let certificate = Certificate { proof: Bytes::from_static(proof), ..genesis() };
        timeout(Attachment::HighCertificate(Box::new(certificate)))
    };
    tally.add(attached(b"one"));
    assert_eq!(tally.add(attached(b"one")), Counted::Repeated);
    assert_eq!(tally.add(attached(b"other")), Counted::Repeated, "the proof is not part of the statement");
    let contradiction = Counted::Contradiction(Box::new(attached(b"one")));
    assert_eq!(tally.add(timeout(Attachment::HighView(View(0)))), contradiction);
    assert_eq!(tally.add(timeout(Attachment::None)), contradiction);
}

#[test]
fn only_rounds_below_are_forgotten() {
    let mut tally = tally();
    for view in 1..=5 {
        tally.add(vote(0, subject(Domain::Vote, view, 1)));
        tally.add(vote(1, subject(Domain::Timeout, view, 1)));
    }
    tally.forget_before(View(4));
    let voters = |view| (tally.voters(Domain::Vote, View(view)), tally.voters(Domain::Timeout, View(view)));
    assert_eq!([1, 2, 3, 4, 5].map(voters), [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1)]);
    tally.settle(&subject(Domain::Vote, 1, 1));
    assert_eq!(tally.strike(&subject(Domain::Vote, 1, 1), &[ReplicaId(0)]), Counted::Repeated, "the round is closed");
    assert_eq!(tally.voters(Domain::Vote, View(1)), 0);
}

#[test]
fn a_voter_about_to_vote_counts_once() {
    let mut tally = tally();
    assert_eq!(tally.voters_with(Domain::Timeout, View(1), ReplicaId(0)), 1);
    tally.add(vote(0, subject(Domain::Timeout, 1, 1)));
    assert_eq!(tally.voters_with(Domain::Timeout, View(1), ReplicaId(0)), 1);
    assert_eq!(tally.voters_with(Domain::Timeout, View(1), ReplicaId(1)), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Vote { voter: u16, view: u64, number: u64, timeout: bool },
    Check { genuine: Vec<bool> },
    Forget { view: u64 },
}

fn step(replicas: u16) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..replicas, 1..4u64, 0..3u64, any::<bool>())
            .prop_map(|(voter, view, number, timeout)| Step::Vote { voter, view, number: number / 2, timeout }),
        3 => collection::vec(prop::bool::weighted(0.8), 256).prop_map(|genuine| Step::Check { genuine }),
        1 => (1..4u64).prop_map(|view| Step::Forget { view }),
    ]
}

/// Model of a round: its counted statements as a list, and the state of its certificate.
#[derive(Default)]
struct Naive {
    counted: Vec<(u16, u64)>,
    out: Option<u64>,
    certified: bool,
}

impl Naive {
    fn completes(&mut self, number: u64, quorum: usize) -> bool {
        let agreeing: BTreeSet<u16> =
            self.counted.iter().filter(|(_, said)| *said == number).map(|(who, _)| *who).collect();
        let completes = agreeing.len() >= quorum && self.out.is_none() && !self.certified;
        if completes {
            self.out = Some(number);
        }
        completes
    }
}

/// Checks the votes of a quorum against the votes `said` of the list, and returns their voters.
fn voters_of(subject: Subject, votes: &[Vote], said: &[(u16, u64)], enough: usize) -> Result<Vec<u16>, TestCaseError> {
    let voters: BTreeSet<u16> = votes.iter().map(|vote| vote.voter.0).collect();
    prop_assert_eq!(
        (voters.len(), votes.len()),
        (enough, enough),
        "a quorum has exactly the necessary distinct voters"
    );
    prop_assert!(votes.iter().all(|vote| vote.subject == subject));
    prop_assert!(voters.iter().all(|voter| said.iter().any(|(who, _)| who == voter)));
    Ok(voters.into_iter().collect())
}

proptest! {
    #[test]
    fn the_tally_agrees_with_a_list(
        (replicas, steps) in (1..8u16).prop_flat_map(|n| (Just(n), collection::vec(step(n), 1..120)))
    ) {
        let enough = quorum(usize::from(replicas)).quorum();
        let mut tally = Tally::new(quorum(usize::from(replicas)));
        let mut rounds: BTreeMap<(u64, Domain), Naive> = BTreeMap::new();
        let mut checks: Vec<(Subject, Vec<u16>)> = Vec::new();
        for step in steps {
            let (counted, expected) = match step {
                Step::Vote { voter, view, number, timeout } => {
                    let domain = if timeout { Domain::Timeout } else { Domain::Vote };
                    let round = rounds.entry((view, domain)).or_default();
                    let counted = tally.add(vote(voter, subject(domain, view, number)));
                    match round.counted.iter().find(|(who, _)| *who == voter) {
                        Some((_, said)) if *said == number => {
                            prop_assert_eq!(counted, Counted::Repeated);
                            continue;
                        }
                        Some((_, said)) => {
                            let earlier = vote(voter, subject(domain, view, *said));
                            prop_assert_eq!(counted, Counted::Contradiction(Box::new(earlier)));
                            continue;
                        }
                        None if round.certified => {
                            prop_assert_eq!(counted, Counted::Repeated);
                            continue;
                        }
                        None => round.counted.push((voter, number)),
                    }
                    (counted, round.completes(number, enough).then(|| subject(domain, view, number)))
                }
                Step::Check { genuine } => {
                    let Some((subject, voters)) = checks.pop() else { continue };
                    let forged: Vec<u16> = voters.into_iter().filter(|voter| !genuine[usize::from(*voter)]).collect();
                    let round = rounds.get_mut(&(subject.view.0, subject.domain));
                    if forged.is_empty() {
                        tally.settle(&subject);
                        if let Some(round) = round {
                            (round.out, round.certified) = (None, true);
                        }
                        continue;
                    }
                    let struck: Vec<ReplicaId> = forged.iter().copied().map(ReplicaId).collect();
                    let counted = tally.strike(&subject, &struck);
                    let Some(round) = round else {
                        prop_assert_eq!(counted, Counted::Repeated);
                        continue;
                    };
                    let number = round.out.take().expect("a quorum was handed out");
                    round.counted.retain(|(who, _)| !forged.contains(who));
                    (counted, round.completes(number, enough).then_some(subject))
                }
                Step::Forget { view } => {
                    tally.forget_before(View(view));
                    rounds.retain(|(of, _), _| *of >= view);
                    checks.retain(|(subject, _)| subject.view.0 >= view);
                    continue;
                }
            };
            match counted {
                Counted::Quorum(subject, votes) => {
                    prop_assert_eq!(Some(subject), expected);
                    let said = &rounds[&(subject.view.0, subject.domain)].counted;
                    checks.push((subject, voters_of(subject, &votes, said, enough)?));
                }
                other => prop_assert_eq!((other, expected), (Counted::Added, None)),
            }
            tally.invariants();
        }
        for ((view, domain), round) in &rounds {
            prop_assert_eq!(tally.voters(*domain, View(*view)), round.counted.len());
        }
    }

    /// For any order of arrival, and any number of repeated forgeries, the honest votes become a certificate.
    #[test]
    fn faulty_voters_cannot_prevent_a_certificate(
        replicas in 4..20u16,
        order in collection::vec(any::<prop::sample::Index>(), 20),
        again in 0..4usize,
        awaits_late in any::<bool>(),
        closes in any::<bool>(),
    ) {
        let shape = quorum(usize::from(replicas));
        let faulty = shape.faults() as u16;
        let subject = subject(Domain::Vote, 1, 1);
        let mut tally = Tally::new(shape).awaiting_late(awaits_late);
        let mut waiting: Vec<u16> = (0..replicas).chain((0..again).flat_map(|_| 0..faulty)).collect();
        let (mut order, mut strikes) = (order.into_iter().cycle(), 0);
        while !waiting.is_empty() {
            let voter = waiting.swap_remove(order.next().expect("the sequence does not end").index(waiting.len()));
            let mut counted = tally.add(vote(voter, subject));
            if counted == Counted::Enough(subject) {
                prop_assert!(awaits_late);
                counted = if closes || waiting.is_empty() { tally.close(&subject) } else { counted };
            }
            while let Counted::Quorum(_, votes) = &counted {
                let voters = votes.iter().map(|vote| vote.voter);
                let forged: Vec<ReplicaId> = voters.filter(|voter| voter.0 < faulty).collect();
                if forged.is_empty() {
                    return Ok(());
                }
                counted = tally.strike(&subject, &forged);
                strikes += 1;
                prop_assert!(
                    strikes <= usize::from(faulty) * (1 + again),
                    "each forged vote costs at most one verification"
                );
            }
        }
        prop_assert!(false, "all replicas voted without a certificate");
    }
}
