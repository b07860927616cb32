//! Quorum arithmetic for every possible committee.

use quorate_types::limits::MAX_REPLICAS;
use quorate_types::quorum::{Quorum, QuorumError};

fn every_committee() -> impl Iterator<Item = Quorum> {
    (1..=MAX_REPLICAS).flat_map(|replicas| {
        (0..=(replicas - 1) / 3)
            .map(move |faults| Quorum::with_faults(replicas, faults).expect("the committee is large enough"))
    })
}

#[test]
fn two_quorums_share_an_honest_replica() {
    for committee in every_committee() {
        let (n, f, q) = (committee.replicas(), committee.faults(), committee.quorum());
        let shared = (2 * q).checked_sub(n).expect("two quorums meet");
        assert!(shared > f, "{committee:?}: two quorums of {q} may share {shared} replicas only");
    }
}

#[test]
fn no_smaller_quorum_is_safe() {
    for committee in every_committee() {
        let (n, f, q) = (committee.replicas(), committee.faults(), committee.quorum());
        assert!(2 * (q - 1) <= n + f, "{committee:?}: quorums of {} would do", q - 1);
    }
}

#[test]
fn the_honest_replicas_are_a_quorum() {
    for committee in every_committee() {
        assert!(committee.quorum() <= committee.replicas() - committee.faults(), "{committee:?} waits for the faulty");
    }
}

#[test]
fn a_weak_quorum_has_an_honest_replica_and_every_quorum_has_an_honest_weak_quorum() {
    for committee in every_committee() {
        assert!(committee.weak() > committee.faults());
        assert!(committee.weak() <= committee.replicas() - committee.faults());
        assert!(
            committee.quorum() - committee.faults() >= committee.weak(),
            "{committee:?}: too few honest replicas in a quorum"
        );
    }
}

#[test]
fn committees_of_3f_plus_1_have_quorums_of_2f_plus_1() {
    for f in 0..=85 {
        let committee = Quorum::of(3 * f + 1).expect("the size is valid");
        assert_eq!((committee.faults(), committee.quorum(), committee.weak()), (f, 2 * f + 1, f + 1));
    }
    let faults: Vec<usize> = (1..=8).map(|n| Quorum::of(n).expect("the size is valid").faults()).collect();
    assert_eq!(faults, [0, 0, 0, 1, 1, 1, 2, 2]);
    assert_eq!(Quorum::of(6).expect("the size is valid").quorum(), 4);
    assert_eq!(Quorum::with_faults(6, 1).expect("5f+1").quorum(), 4);
}

#[test]
fn impossible_committees_are_refused() {
    for replicas in [0, MAX_REPLICAS + 1, usize::MAX] {
        assert_eq!(Quorum::of(replicas), Err(QuorumError::Size(replicas)));
    }
    for replicas in 1..=MAX_REPLICAS {
        for faults in [(replicas - 1) / 3 + 1, replicas, usize::MAX / 2, usize::MAX] {
            assert_eq!(Quorum::with_faults(replicas, faults), Err(QuorumError::TooFewReplicas { replicas, faults }));
        }
    }
    let error = Quorum::with_faults(6, 2).expect_err("the committee is too small");
    assert_eq!(error.to_string(), "6 replicas cannot tolerate 2 Byzantine faults: at least 7 are needed");
    let error = Quorum::with_faults(6, usize::MAX).expect_err("the committee is too small");
    assert!(error.to_string().contains("cannot tolerate"));
}
