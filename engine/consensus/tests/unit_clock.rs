//! The rule for the times of blocks.

use crate::unit_support::genesis;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::seam::Drop;
use quorate_consensus::voting::clock::{Clock, MAX_AGE_VIEWS};
use quorate_types::{Block, ReplicaId, Time, View};
use std::time::Duration;

const SKEW_MS: u64 = 500;
const ORIGIN_MS: u64 = 1_700_000_000_000;
const TIMEOUT: Duration = Duration::from_millis(200);

fn clock() -> Clock {
    let mut clock = Clock::new(&Config { max_clock_skew_ms: SKEW_MS, ..Config::default() });
    clock.set(ORIGIN_MS);
    clock
}

fn block(view: u64, time_ms: u64) -> Block {
    Block::new(View(view), ReplicaId(0), genesis(), Vec::new(), time_ms)
}

#[test]
fn the_clock_is_the_origin_and_the_time_since() {
    assert_eq!(clock().unix_ms(Time(0)), ORIGIN_MS);
    assert_eq!(clock().unix_ms(Time(1_999_999)), ORIGIN_MS + 1);
    assert_eq!(Clock::new(&Config::default()).unix_ms(Time::from_millis(7)), 7, "before it is set");
    let mut extreme = clock();
    extreme.set(u64::MAX);
    assert_eq!(extreme.unix_ms(Time::from_millis(7)), u64::MAX);
    assert_eq!(extreme.judge(Time::from_millis(7), &block(1, u64::MAX), TIMEOUT), Ok(()));
    assert_eq!(extreme.judge(Time::from_millis(7), &block(1, 0), TIMEOUT), Err(Drop::TimeBehind));
}

#[test]
fn times_are_refused_beyond_the_bounds() {
    let now = Time::from_millis(10_000);
    let clock_ms = ORIGIN_MS + 10_000;
    let behind_ms = SKEW_MS + u64::from(MAX_AGE_VIEWS) * 200;
    for (time_ms, expected) in [
        (clock_ms, Ok(())),
        (clock_ms + SKEW_MS, Ok(())),
        (clock_ms + SKEW_MS + 1, Err(Drop::TimeAhead)),
        (u64::MAX, Err(Drop::TimeAhead)),
        (clock_ms - behind_ms, Ok(())),
        (clock_ms - behind_ms - 1, Err(Drop::TimeBehind)),
        (0, Err(Drop::TimeBehind)),
    ] {
        assert_eq!(clock().judge(now, &block(1, time_ms), TIMEOUT), expected, "{time_ms}");
    }
    let longer = clock().judge(now, &block(1, clock_ms - behind_ms - 1), TIMEOUT * 2);
    assert_eq!(longer, Ok(()), "longer views tolerate older blocks");
}

#[test]
fn a_refused_block_that_is_committed_shows_that_the_clock_differs() {
    let (now, far) = (Time::from_millis(0), ORIGIN_MS + 3_600_000);
    let mut clock = clock();
    let (timely, ahead, behind) = (block(1, ORIGIN_MS), block(2, far), block(3, 0));
    for block in [&timely, &ahead, &behind] {
        let _ = clock.judge(now, block, TIMEOUT);
    }
    assert_eq!(clock.disagreement_ms(), None, "nobody else has accepted one");
    clock.on_commit(&timely.digest());
    assert_eq!(clock.disagreement_ms(), None);
    clock.on_commit(&ahead.digest());
    assert_eq!(clock.disagreement_ms(), Some(3_600_000));
    clock.on_commit(&block(9, 9).digest());
    assert_eq!(clock.disagreement_ms(), Some(3_600_000), "a block that it has not judged says nothing");
    clock.on_commit(&behind.digest());
    assert_eq!(clock.disagreement_ms(), Some(-(ORIGIN_MS as i64)));
    let again = block(4, ORIGIN_MS);
    assert_eq!(clock.judge(now, &again, TIMEOUT), Ok(()));
    clock.on_commit(&again.digest());
    assert_eq!(clock.disagreement_ms(), None, "the clock agrees again");
}

proptest! {
    /// Clocks that differ by at most the skew accept each other's blocks, from the moment of the proposal up to the
    /// maximum age.
    #[test]
    fn clocks_within_the_skew_accept_each_other(
        skew_ms in 0..=SKEW_MS,
        ahead in any::<bool>(),
        delay_ms in 0..=u64::from(MAX_AGE_VIEWS) * 200,
    ) {
        let proposer_ms = if ahead { ORIGIN_MS + skew_ms } else { ORIGIN_MS - skew_ms };
        let judged = clock().judge(Time::from_millis(delay_ms), &block(1, proposer_ms), TIMEOUT);
        prop_assert_eq!(judged, Ok(()));
    }
}
