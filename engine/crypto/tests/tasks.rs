//! Verification on another thread gives the same verdicts, certificates and counts as on a replica's own thread.

use crate::common::*;
use quorate_crypto::{AssembleTask, Crypto, FEW_SIGNATURES, SchemeKind};
use quorate_types::{Certificate, Domain, ReplicaId, Vote};
use std::ops::ControlFlow;
use std::thread;

fn assemble_elsewhere(crypto: &mut Crypto, votes: Vec<Vote>) -> Result<Certificate, Vec<ReplicaId>> {
    let task = crypto.begin_assembly(votes[0].subject, votes);
    let assembled = thread::spawn(move || task.run()).join().expect("nothing panics");
    crypto.finish_assembly(assembled)
}

fn verify_elsewhere(crypto: &mut Crypto, certificates: &[Certificate], votes: &[Vote]) -> bool {
    match crypto.begin_verification(certificates.to_vec(), votes.to_vec()) {
        ControlFlow::Break(genuine) => genuine,
        ControlFlow::Continue(task) => {
            let verified = thread::spawn(move || task.run()).join().expect("nothing panics");
            crypto.finish_verification(verified)
        }
    }
}

/// Votes by replicas 0 to 2. Replica 1 signed something else.
fn spoiled(kind: SchemeKind) -> Vec<Vote> {
    let mut votes = votes(kind, subject(Domain::Vote, 5), 0..3);
    votes[1].signature = vote(kind, subject(Domain::Vote, 6), 1).signature;
    votes
}

#[test]
fn another_thread_assembles_the_same_certificate() {
    for kind in schemes() {
        let good = votes(kind, subject(Domain::Vote, 5), 0..3);
        let (mut here, mut there) = (crypto(kind, 4, 0), crypto(kind, 4, 0));
        let certificate = here.assemble(&good[0].subject, good.clone()).expect("a quorum");
        assert_eq!(assemble_elsewhere(&mut there, good), Ok(certificate.clone()), "{kind}");
        assert_eq!(there.verifications(), here.verifications(), "{kind}");
        there.verify_certificate(&certificate).expect("it is genuine");
        assert_eq!(there.cache_hits(), 1, "{kind}: it is remembered");
    }
}

#[test]
fn another_thread_blames_the_same_voters_and_they_are_remembered() {
    for kind in schemes().into_iter().filter(|kind| kind.profile().unforgeable) {
        let (mut here, mut there) = (crypto(kind, 4, 0), crypto(kind, 4, 0));
        for _ in 0..2 {
            let bad = spoiled(kind);
            let blamed = here.assemble(&bad[0].subject, bad.clone());
            assert_eq!(blamed, Err(vec![ReplicaId(1)]), "{kind}");
            assert_eq!(assemble_elsewhere(&mut there, bad), blamed, "{kind}");
            assert_eq!(there.verifications(), here.verifications(), "{kind}");
            assert_eq!(there.spoilers(), here.spoilers(), "{kind}");
        }
    }
}

#[test]
fn another_thread_verifies_what_is_not_known_yet() {
    for kind in schemes().into_iter().filter(|kind| kind.profile().unforgeable) {
        let [first, second] = [5, 6].map(|view| {
            let subject = subject(Domain::Vote, view);
            crypto(kind, 4, 0).assemble(&subject, votes(kind, subject, 0..3)).expect("a quorum")
        });
        let single = vote(kind, subject(Domain::Vote, 7), 2);
        let mut forged = single.clone();
        forged.subject.view = subject(Domain::Vote, 8).view;
        let mut there = crypto(kind, 4, 1);
        let all = [Certificate::genesis(&epoch()), first.clone(), second.clone()];
        assert!(!verify_elsewhere(&mut there, &all, &[single.clone(), forged]), "{kind}: a vote is forged");
        assert_eq!(there.verifications(), 2 * 3 + 2, "{kind}");
        // The certificates were genuine, so they are cached, and only the vote is verified.
        assert!(verify_elsewhere(&mut there, &all, &[single]), "{kind}");
        assert_eq!((there.verifications(), there.cache_hits()), (2 * 3 + 3, 2), "{kind}");
        assert!(matches!(there.begin_verification(all.to_vec(), Vec::new()), ControlFlow::Break(true)), "{kind}");
        let mut without_quorum = first;
        without_quorum.signers = [ReplicaId(0)].into_iter().collect();
        let known = there.begin_verification(vec![second, without_quorum], Vec::new());
        assert!(matches!(known, ControlFlow::Break(false)), "{kind}: its structure is invalid");
    }
}

/// Certificates assembled together equal those assembled individually, and a bad vote spoils only its own certificate.
#[test]
fn certificates_are_assembled_together_as_alone() {
    for kind in schemes().into_iter().filter(|kind| kind.profile().unforgeable) {
        for bad in [None, Some(0), Some(2)] {
            let mut all: Vec<Vec<Vote>> = (5..9).map(|view| votes(kind, subject(Domain::Vote, view), 0..3)).collect();
            if let Some(bad) = bad {
                all[bad][1].signature = vote(kind, subject(Domain::Vote, 99), 1).signature;
            }
            let (mut alone, mut together) = (crypto(kind, 4, 0), crypto(kind, 4, 0));
            let expected: Vec<_> = all.iter().map(|votes| alone.assemble(&votes[0].subject, votes.clone())).collect();
            let tasks = all.into_iter().map(|votes| together.begin_assembly(votes[0].subject, votes)).collect();
            let assembled = AssembleTask::run_together(tasks);
            let found: Vec<_> = assembled.into_iter().map(|task| together.finish_assembly(task)).collect();
            assert_eq!(found, expected, "{kind}: {bad:?} is bad");
            assert_eq!(found.iter().filter(|found| found.is_err()).count(), usize::from(bad.is_some()), "{kind}");
            if kind.profile().aggregatable {
                // A member that has spoiled a sum is suspected in later tasks, so the counts differ.
                continue;
            }
            let in_vain = if bad.is_some() && kind == SchemeKind::ED25519 { 4 * 3 } else { 0 };
            assert_eq!(together.verifications(), alone.verifications() + in_vain, "{kind}: {bad:?} is bad");
        }
    }
}

#[test]
fn signatures_are_never_quick() {
    for kind in schemes() {
        let mut here = crypto(kind, 4, 0);
        let few = votes(kind, subject(Domain::Vote, 5), 0..3);
        assert!(!here.begin_assembly(few[0].subject, few.clone()).is_quick(), "{kind}");
        let ControlFlow::Continue(task) = here.begin_verification(Vec::new(), few) else {
            panic!("{kind}: votes are not known")
        };
        assert!(!task.is_quick(), "{kind}");
    }
}

#[test]
fn a_few_signatures_are_small_and_sums_never_are() {
    for kind in schemes() {
        let mut here = crypto(kind, 10, 0);
        let sums = kind.profile().aggregatable;
        for (voters, fits) in [(FEW_SIGNATURES as u16, true), (FEW_SIGNATURES as u16 + 1, false)] {
            let votes = votes(kind, subject(Domain::Vote, 5), 0..voters);
            let task = here.begin_assembly(votes[0].subject, votes.clone());
            assert_eq!(task.is_small(), fits && !sums, "{kind}: {voters} votes of a certificate");
            let ControlFlow::Continue(task) = here.begin_verification(Vec::new(), votes) else {
                panic!("{kind}: votes are not known")
            };
            assert_eq!(task.is_small(), fits && !sums, "{kind}: {voters} votes");
        }
    }
}
