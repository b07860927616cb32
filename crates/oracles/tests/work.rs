//! What one peer can have a replica do.

use quorate_oracles::{MAX_ANSWER_BYTES_PER_SECOND, MAX_ANSWER_SIGNATURES_PER_SECOND, MAX_BLOCK_RESULT_BYTES, Work};
use quorate_types::{ReplicaId, Time};

const ME: ReplicaId = ReplicaId(0);
const PEER: ReplicaId = ReplicaId(1);

#[test]
fn a_second_s_worth_of_answers_is_borne_and_no_more() {
    let mut work = Work::new(4);
    let half = MAX_ANSWER_BYTES_PER_SECOND / 2;
    for part in 0..10 {
        let at = Time::from_millis(500 * part);
        assert_eq!(work.answers(ME, PEER, at, half, false), None, "as much as flows out");
    }
    let last = Time::from_millis(4500);
    assert_eq!(work.answers(ME, ReplicaId(2), last, 2 * half, false), None, "each peer has its own");
    assert_eq!(work.answers(ME, PEER, last, half, false), None, "a second's worth at once");
    let what = work.answers(ME, PEER, last, half, false).expect("that is too much");
    assert!(what.contains("replica 0 answers replica 1"), "{what}");
}

#[test]
fn signatures_for_one_peer_are_counted() {
    let mut work = Work::new(4);
    for _ in 0..MAX_ANSWER_SIGNATURES_PER_SECOND {
        assert_eq!(work.answers(ME, PEER, Time(0), 100, true), None);
    }
    assert_eq!(work.answers(ME, PEER, Time(0), 100, false), None, "it made none");
    assert!(work.answers(ME, PEER, Time(0), 100, true).is_some_and(|what| what.contains("signatures")));
    assert_eq!(work.answers(ME, PEER, Time::from_millis(10), 100, true), None, "time has passed");
}

#[test]
fn the_results_of_one_block_are_bounded() {
    let work = Work::new(4);
    assert_eq!(work.results(ME, MAX_BLOCK_RESULT_BYTES), None);
    assert!(work.results(ME, MAX_BLOCK_RESULT_BYTES + 1).is_some());
}
