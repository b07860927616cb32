//! The checker accepts linearizable histories and rejects others, and the faults depend on the seed alone.

use proptest::prelude::*;
use quorate_lab::spec::{BenchSpec, Retention};
use quorate_lab::torture::Verdict;
use quorate_lab::torture::history::{Answer, NEVER_NS, Operation, Request, Value, is_linearizable};
use quorate_lab::torture::history_checker::{HistoryChecker, KEYS};
use quorate_lab::torture::plan::{Kind, Plan};
use quorate_types::Quorum;

fn operation(called_ns: u64, returned_ns: u64, request: Request, answer: Answer) -> Operation {
    Operation { key: 0, called_ns, returned_ns, request, answer }
}

/// Writes 1 and 2 concurrently, then reads.
fn two_writes_and(reads: &[(u64, u64, Value)]) -> Vec<Operation> {
    let mut history =
        vec![operation(0, 10, Request::Write(1), Answer::Done), operation(0, 10, Request::Write(2), Answer::Done)];
    history.extend(
        reads
            .iter()
            .map(|(called, returned, value)| operation(*called, *returned, Request::Read, Answer::Value(*value))),
    );
    history
}

#[test]
fn overlapping_writes_take_effect_in_one_of_both_orders() {
    assert!(is_linearizable(&two_writes_and(&[(11, 12, Some(1)), (13, 14, Some(1))])));
    assert!(is_linearizable(&two_writes_and(&[(11, 12, Some(2))])));
    assert!(is_linearizable(&two_writes_and(&[(3, 4, None), (11, 12, Some(2))])));
    assert!(!is_linearizable(&two_writes_and(&[(11, 12, Some(1)), (13, 14, Some(2))])), "nothing was written between");
}

#[test]
fn a_lost_write_is_a_violation() {
    assert!(!is_linearizable(&two_writes_and(&[(11, 12, None)])));
    let overwritten = [
        operation(0, 1, Request::Write(1), Answer::Done),
        operation(2, 3, Request::Swap(2), Answer::Value(Some(1))),
        operation(4, 5, Request::Read, Answer::Value(Some(1))),
    ];
    assert!(!is_linearizable(&overwritten));
}

#[test]
fn a_command_executed_twice_is_a_violation() {
    let history = [
        operation(0, 1, Request::Swap(1), Answer::Value(None)),
        operation(2, 3, Request::Swap(2), Answer::Value(Some(1))),
        // The first swap was executed twice, the second time in between.
        operation(4, 5, Request::Swap(3), Answer::Value(Some(1))),
    ];
    assert!(!is_linearizable(&history));
}

#[test]
fn an_unanswered_command_may_be_executed_later_or_never() {
    let unknown = operation(0, NEVER_NS, Request::Write(7), Answer::Unknown);
    let read = |at, value| operation(at, at + 1, Request::Read, Answer::Value(value));
    assert!(is_linearizable(&[unknown, read(5, None), read(8, None)]));
    assert!(is_linearizable(&[unknown, read(5, None), read(8, Some(7))]));
    assert!(!is_linearizable(&[unknown, read(5, Some(7)), read(8, None)]));
}

#[test]
fn a_replacement_succeeds_only_on_the_expected_value() {
    let replace = |expected, answer| {
        [
            operation(0, 1, Request::Write(1), Answer::Done),
            operation(2, 3, Request::Replace { expected, value: 2 }, answer),
        ]
    };
    assert!(is_linearizable(&replace(Some(1), Answer::Done)));
    assert!(is_linearizable(&replace(None, Answer::Conflict(Some(1)))));
    assert!(!is_linearizable(&replace(None, Answer::Done)));
    assert!(!is_linearizable(&replace(Some(1), Answer::Conflict(Some(1)))));
    assert!(!is_linearizable(&replace(Some(1), Answer::Conflict(None))));
}

proptest! {
    /// A register that executes each request between call and return is always linearizable. One altered answer always
    /// breaks this, because all values differ.
    #[test]
    fn a_real_history_is_linearizable_and_an_altered_one_is_not(
        steps in prop::collection::vec((0u8..3, 0u64..30, 0u64..30), 2..60),
        altered in any::<prop::sample::Index>(),
    ) {
        let mut state: Value = None;
        let mut history = Vec::new();
        for (number, (kind, before, after)) in steps.iter().enumerate() {
            let (moment, value) = (1_000 + 10 * number as u64, 1 + number as u64);
            let request = match kind {
                0 => Request::Read,
                1 => Request::Swap(value),
                _ => Request::Replace { expected: state, value },
            };
            let answer = match request {
                Request::Replace { .. } => Answer::Done,
                _ => Answer::Value(state),
            };
            if request != Request::Read {
                state = Some(value);
            }
            history.push(operation(moment - before, moment + after, request, answer));
        }
        prop_assert!(is_linearizable(&history));
        let at = altered.index(history.len());
        if let Answer::Value(_) = history[at].answer {
            history[at].answer = Answer::Value(Some(u64::MAX));
            prop_assert!(!is_linearizable(&history));
        }
    }
}

#[test]
fn keys_are_checked_once_no_client_uses_them() {
    let mut checker = HistoryChecker::new(2);
    let lost = |key| {
        [
            Operation { key, called_ns: 0, returned_ns: 1, request: Request::Write(1), answer: Answer::Done },
            Operation { key, called_ns: 2, returned_ns: 3, request: Request::Read, answer: Answer::Value(None) },
        ]
    };
    lost(3).into_iter().chain(lost(KEYS + 1)).for_each(|operation| checker.add(operation));
    checker.on_reached(0, 1);
    assert_eq!((checker.keys(), checker.violations().len()), (0, 0), "the other client still uses them");
    checker.on_reached(1, 1);
    assert_eq!((checker.keys(), checker.violations().len()), (1, 1));
    (0..2).for_each(|client| checker.on_reached(client, u64::MAX));
    assert_eq!((checker.operations(), checker.keys()), (4, 2));
    assert_eq!(checker.violations().iter().map(|violation| violation.key).collect::<Vec<_>>(), [3, KEYS + 1]);
}

#[test]
fn a_plan_depends_on_its_seed_and_hits_one_f_or_all_replicas() {
    let quorum = Quorum::of(7).expect("seven replicas are a committee");
    let plan = |seed| Plan::new(seed, quorum).take(200).collect::<Vec<_>>();
    assert_eq!(plan(1), plan(1));
    assert_ne!(plan(1), plan(2));
    for size in [1, 2, 7] {
        for kind in [Kind::Kill, Kind::Pause] {
            assert!(
                plan(3).iter().any(|injection| injection.victims.len() == size && injection.kind == kind),
                "{kind:?} of {size}"
            );
        }
    }
}

#[test]
fn a_verdict_names_the_retention() {
    let retention = Retention::of(&{
        let mut spec = BenchSpec::default();
        spec.node.consensus.window = 100;
        spec.node.consensus.checkpoint_interval = 20;
        spec
    });
    let verdict = Verdict {
        minutes: 0.1,
        partial: None,
        seed: 1,
        retention,
        seconds: 1.0,
        injections: Vec::new(),
        operations: 1,
        unanswered: 0,
        keys: 1,
        violations: Vec::new(),
        divergence: None,
        stalled_at: None,
        states_taken_over: 0,
        longest_recovery_seconds: 0.0,
        operations_per_second: (1.0, 1.0),
    };
    let words = "--window 100, --checkpoint-interval 20: replicas kept 100 blocks with 100 KiB of bundles";
    assert!(verdict.passed() && verdict.to_string().contains(words), "{verdict}");
}
