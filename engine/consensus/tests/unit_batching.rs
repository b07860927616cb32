//! Timing of a leader's proposals.

use crate::unit_support::*;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::config::{BatchPolicy, BatchSize};
use quorate_consensus::data::batching::{Batching, Decision, Situation};
use std::time::Duration;

fn batching(batch_policy: BatchPolicy) -> Batching {
    Batching::new(&Config { batch_policy, batch: 10.into(), batch_wait_ms: 5, view_timeout_ms: 1000, ..config() })
}

/// A leader that could propose since 1000 ms.
fn situation(pending: usize) -> Situation {
    Situation { pending, pending_bytes: 20 * pending, uncommitted: false, ready_since: at(1000) }
}

#[test]
fn a_leader_without_work_rests() {
    for policy in BatchPolicy::ALL {
        assert_eq!(batching(*policy).decide(at(5000), situation(0)), Decision::Rest, "{policy}");
    }
}

#[test]
fn uncommitted_blocks_are_followed_by_empty_ones() {
    let uncommitted = Situation { uncommitted: true, ..situation(0) };
    for policy in BatchPolicy::ALL {
        assert_eq!(batching(*policy).decide(at(1000), uncommitted), Decision::Propose, "{policy}");
    }
}

#[test]
fn eager_proposes_any_commands_at_once() {
    assert_eq!(batching(BatchPolicy::Eager).decide(at(1000), situation(1)), Decision::Propose);
}

#[test]
fn full_waits_for_a_full_block_and_at_most_a_quarter_of_a_view_timeout() {
    let mut batching = batching(BatchPolicy::Full);
    batching.on_arrival(at(0), 9);
    assert_eq!(
        batching.decide(at(1100), situation(9)),
        Decision::Wait(millis(150)),
        "the wait starts when the leader could have proposed"
    );
    assert_eq!(batching.decide(at(1100), situation(10)), Decision::Propose);
    assert_eq!(batching.decide(at(1250), situation(9)), Decision::Propose);
}

#[test]
fn timed_waits_a_fixed_time_after_the_first_command() {
    let mut batching = batching(BatchPolicy::Timed);
    batching.on_arrival(at(2000), 1);
    batching.on_arrival(at(2003), 1);
    assert_eq!(batching.decide(at(2004), situation(2)), Decision::Wait(millis(1)));
    assert_eq!(batching.decide(at(2005), situation(2)), Decision::Propose);
    assert_eq!(batching.decide(at(2004), situation(10)), Decision::Propose);
    batching.on_proposal(at(2005), 1, &[], 0);
    batching.on_arrival(at(2006), 1);
    assert_eq!(
        batching.decide(at(2006), situation(1)),
        Decision::Wait(millis(5)),
        "the wait starts again after a proposal"
    );
    batching.on_proposal(at(2010), 2, &[], 1);
    assert_eq!(batching.decide(at(2012), situation(1)), Decision::Wait(millis(3)), "commands left over wait too");
}

#[derive(Clone, Debug)]
enum Past {
    Arrived(u64, usize),
    Proposed(u64, usize),
}

proptest! {
    /// After any history, a leader that decides again after each wait proposes a pending command within the bound of
    /// the policy.
    #[test]
    fn a_single_command_is_proposed_in_time(
        policy in prop::sample::select(BatchPolicy::ALL),
        past in prop::collection::vec(
            prop_oneof![
                (0..40u64, 1..500usize).prop_map(|(pause, count)| Past::Arrived(pause, count)),
                (0..40u64, 0..3usize).prop_map(|(pause, left)| Past::Proposed(pause, left)),
            ],
            0..60,
        ),
        ready_after in 0..100u64,
        batch in prop::option::of(2..1000u32),
    ) {
        let batch = batch.map_or(BatchSize::Auto, BatchSize::Commands);
        let config = Config { batch_policy: policy, batch, batch_wait_ms: 5, view_timeout_ms: 1000, ..config() };
        let mut batching = Batching::new(&config);
        let mut now = at(1000);
        for (number, event) in (1..).zip(past) {
            match event {
                Past::Arrived(pause, count) => {
                    now = now + millis(pause);
                    batching.on_arrival(now, count);
                }
                Past::Proposed(pause, left) => {
                    now = now + millis(pause);
                    batching.on_proposal(now, number, &[], left);
                }
            }
        }
        now = now + millis(ready_after);
        let situation = Situation { pending: 1, pending_bytes: 20, uncommitted: false, ready_since: now };
        let bound = match policy {
            _ if batch.is_auto() => Duration::ZERO,
            BatchPolicy::Eager => Duration::ZERO,
            BatchPolicy::Timed => millis(5),
            BatchPolicy::Full => millis(250),
        };
        let begin = now;
        let mut asked = 0;
        while let Decision::Wait(time) = batching.decide(now, situation) {
            prop_assert!(time > Duration::ZERO && asked == 0, "a leader waits at most once");
            asked += 1;
            now = now + time;
        }
        prop_assert_eq!(batching.decide(now, situation), Decision::Propose);
        prop_assert!(now.since(begin) <= bound, "waited {:?}, at most {:?} is allowed", now.since(begin), bound);
    }
}
