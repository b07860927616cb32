//! Latencies of a replica's work, and reasons of its view timeouts.

use quorate_node::meters::{ClientCommands, Meters};
use quorate_types::histogram::BOUNDS_US;
use quorate_types::host_status::TimeoutReasons;
use quorate_types::{Block, DurationHistogram, Height, ReplicaId, Time, View};
use std::time::Duration;

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn block(view: u64, height: u64) -> Block {
    Block::of_slot(View(view), ReplicaId(0), Height(height), Vec::new(), 0)
}

#[test]
fn a_bound_ends_its_bucket_and_buckets_add_up() {
    let mut histogram = DurationHistogram::default();
    for us in [0, 100, 101, 10_000_000, 10_000_001, u64::MAX] {
        histogram.record(Duration::from_micros(us));
    }
    let cumulative: Vec<(u64, u64)> = histogram.cumulative().collect();
    assert_eq!(cumulative[..2], [(100, 2), (250, 3)]);
    assert_eq!(cumulative.last(), Some(&(10_000_000, 4)));
    assert_eq!((histogram.count(), cumulative.len()), (6, BOUNDS_US.len()));
    assert_eq!(histogram.sum_us, u64::MAX, "the sum does not overflow");
}

#[test]
fn a_request_waits_from_its_receipt_to_its_execution() {
    let mut meters = Meters::new(4, None);
    let queue = |open, executed| ClientCommands { open, executed };
    meters.observe_queue(at(0), queue(10, 0));
    // Neither a sample soon after the last one, nor one of the same queue.
    meters.observe_queue(at(1), queue(20, 0));
    meters.observe_queue(at(6), queue(30, 0));
    meters.observe_queue(at(12), queue(20, 10));
    assert_eq!(meters.latencies().request.count(), 1);
    assert_eq!(meters.latencies().request.sum_us, 12_000);
    meters.observe_queue(at(20), queue(5, 40));
    assert_eq!((meters.latencies().request.count(), meters.latencies().request.sum_us), (2, 12_000 + 14_000));
    // Commands that expire are not executed, and count for nothing.
    meters.observe_queue(at(30), queue(0, 40));
    meters.observe_queue(at(40), queue(0, 99));
    assert_eq!(meters.latencies().request.count(), 2);
}

#[test]
fn a_block_is_measured_by_the_replica_that_proposed_it() {
    let mut meters = Meters::new(4, None);
    meters.proposed(at(0), ReplicaId(0), View(1), Height(1));
    meters.proposed(at(5), ReplicaId(0), View(2), Height(2));
    meters.executed(at(9), &block(1, 1), Duration::from_millis(1));
    // Another replica's block was committed in place of this one's.
    meters.executed(at(20), &block(3, 2), Duration::from_millis(1));
    meters.executed(at(30), &block(4, 3), Duration::from_millis(1));
    let of = meters.latencies();
    assert_eq!((of.commit.count(), of.commit.sum_us), (1, 10_000));
    assert_eq!((of.execution.count(), of.execution.sum_us), (3, 3_000));
}

#[test]
fn a_timeout_has_a_reason() {
    let (leader, me) = (ReplicaId(1), ReplicaId(0));
    let mut meters = Meters::new(4, None);
    let counts = |meters: &Meters| {
        let TimeoutReasons { leader_unreachable, no_proposal, no_quorum } = meters.timeouts();
        [leader_unreachable, no_proposal, no_quorum]
    };
    meters.timed_out(at(1), |_| true);
    assert_eq!(counts(&meters), [0, 1, 0], "a leader that is not known proposes nothing");
    meters.entered(at(10), Some(leader));
    meters.timed_out(at(20), |_| false);
    assert_eq!(counts(&meters), [1, 1, 0]);
    meters.timed_out(at(30), |replica| replica == leader);
    assert_eq!(counts(&meters), [1, 2, 0]);
    meters.heard_proposal(at(40), leader);
    meters.timed_out(at(50), |_| false);
    assert_eq!(counts(&meters), [1, 2, 1], "it proposed before its link was lost");
    meters.entered(at(60), Some(leader));
    meters.timed_out(at(70), |_| true);
    assert_eq!(counts(&meters), [1, 3, 1], "a proposal of an earlier view does not count");
    meters.entered(at(80), Some(me));
    meters.proposed(at(81), me, View(9), Height(9));
    meters.timed_out(at(90), |_| true);
    assert_eq!(counts(&meters), [1, 3, 2], "an own proposal counts");

    // With many proposals in a view, only a recent one counts.
    let mut slots = Meters::new(4, Some(Duration::from_millis(100)));
    slots.entered(at(0), Some(leader));
    slots.heard_proposal(at(1_000), leader);
    slots.timed_out(at(1_100), |_| true);
    slots.timed_out(at(1_101), |_| true);
    assert_eq!(counts(&slots), [0, 1, 1]);
}
