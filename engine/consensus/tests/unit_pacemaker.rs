//! Durations and timeouts of views.

use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::config::{
    BatchPolicy, BatchSize, MAX_VIEW_TIMEOUT_MS, MAX_WAIT_DIVISOR, ProtocolKind, ViewDuration,
};
use quorate_consensus::voting::pacemaker::{Alarm, Pacemaker};
use quorate_types::*;
use std::time::Duration;

fn pacemaker(view_duration: ViewDuration) -> Pacemaker {
    Pacemaker::new(&Config { view_duration, view_timeout_ms: 1000, min_view_timeout_ms: 50, ..config() }, quorum(4))
}

/// Enters views of these durations, each begun by a certificate of votes while there is work.
fn after_views(pacemaker: &mut Pacemaker, lengths: &[u64]) {
    let mut now = at(1000);
    pacemaker.set_working(now, true);
    let first = pacemaker.view().0 + 1;
    pacemaker.enter(now, View(first), false);
    for (view, length) in (first + 1..).zip(lengths) {
        now = now + millis(*length);
        pacemaker.enter(now, View(view), true);
    }
}

#[test]
fn a_fixed_duration_never_changes() {
    let mut pacemaker = pacemaker(ViewDuration::Fixed);
    for _ in 0..10 {
        assert_eq!(pacemaker.duration(), millis(1000));
        pacemaker.on_timeout();
    }
    after_views(&mut pacemaker, &[1; 20]);
    assert_eq!(pacemaker.duration(), millis(1000));
}

#[test]
fn an_exponential_duration_doubles_after_2f_timeouts_and_resets_with_a_commit() {
    for (replicas, expected) in
        [(3, [1, 2, 4, 8, 16, 32, 64, 64, 64]), (4, [1, 1, 1, 2, 4, 8, 16, 32, 64]), (7, [1, 1, 1, 1, 1, 2, 4, 8, 16])]
    {
        let mut pacemaker = Pacemaker::new(&config(), quorum(replicas));
        let mut durations = Vec::new();
        for _ in 0..9 {
            durations.push(pacemaker.duration().as_secs());
            pacemaker.on_timeout();
        }
        assert_eq!(durations, expected, "{replicas} replicas: two timeouts per faulty replica do not double");
    }
    let mut pacemaker = pacemaker(ViewDuration::Exponential);
    (0..9).for_each(|_| pacemaker.on_timeout());
    assert_eq!(pacemaker.retransmission(), millis(1000), "retransmission does not slow down");
    pacemaker.on_progress();
    assert_eq!(pacemaker.duration(), millis(1000));
    assert_eq!(pacemaker.timeouts(), 9, "a commit does not reset the count of timeouts");
}

#[test]
fn an_adaptive_duration_follows_the_views() {
    let mut pacemaker = pacemaker(ViewDuration::Adaptive);
    assert_eq!(pacemaker.duration(), millis(1000), "without a measurement, the base timeout applies");
    after_views(&mut pacemaker, &[20; 100]);
    assert_eq!(pacemaker.smoothed(), Some(millis(20)));
    assert!(
        pacemaker.duration() >= millis(160) && pacemaker.duration() < millis(170),
        "the timeout is eight views of steady length"
    );
    (0..3).for_each(|_| pacemaker.on_timeout());
    assert!(pacemaker.duration() >= millis(320), "timeouts double adaptive durations too");
    pacemaker.on_progress();
    after_views(&mut pacemaker, &[1; 100]);
    assert_eq!(pacemaker.duration(), millis(50), "the timeout is at least min_view_timeout_ms");
    after_views(&mut pacemaker, &[900; 100]);
    assert_eq!(pacemaker.duration(), millis(1000), "the timeout is at most view_timeout_ms");
    assert_eq!(pacemaker.retransmission(), millis(1000));
}

#[test]
fn an_adaptive_duration_grows_as_long_as_an_exponential_one() {
    let mut pacemaker = pacemaker(ViewDuration::Adaptive);
    after_views(&mut pacemaker, &[1; 100]);
    assert_eq!(pacemaker.duration(), millis(50));
    (0..9).for_each(|_| pacemaker.on_timeout());
    assert_eq!(pacemaker.duration(), millis(50 << 7), "a network that became slow needs more than six doublings");
    (0..99).for_each(|_| pacemaker.on_timeout());
    assert_eq!(pacemaker.duration(), millis(1000 << 6));
}

#[test]
fn only_working_views_that_end_in_a_certificate_are_measured() {
    let mut pacemaker = pacemaker(ViewDuration::Adaptive);
    pacemaker.enter(at(0), View(1), true);
    pacemaker.enter(at(500), View(2), true);
    assert_eq!(pacemaker.smoothed(), None, "an idle view is not measured");
    pacemaker.set_working(at(600), true);
    pacemaker.enter(at(700), View(3), true);
    assert_eq!(pacemaker.smoothed(), None, "a partly idle view is not measured");
    pacemaker.enter(at(800), View(4), false);
    assert_eq!(pacemaker.smoothed(), None, "a view that ended in timeouts is not measured");
    pacemaker.enter(at(830), View(5), true);
    assert_eq!(pacemaker.smoothed(), Some(millis(30)));
}

#[test]
fn an_idle_replica_never_times_out() {
    let mut pacemaker = pacemaker(ViewDuration::Fixed);
    pacemaker.enter(at(0), View(1), true);
    assert_eq!(pacemaker.ring(at(1_000_000)), Alarm::Idle);
    assert!(pacemaker.set_working(at(1_000_000), true), "the timer must be set");
    assert!(!pacemaker.set_working(at(1_000_001), true), "once");
    assert!(pacemaker.is_working());
    assert_eq!(pacemaker.ring(at(1_000_499)), Alarm::Later(millis(1)), "the view timer runs from the first work");
    assert!(!pacemaker.set_working(at(1_000_500), false));
    assert_eq!(pacemaker.ring(at(2_000_000)), Alarm::Idle);
}

#[test]
fn the_leader_is_reminded_at_half_time() {
    let mut pacemaker = pacemaker(ViewDuration::Fixed);
    pacemaker.set_working(at(0), true);
    pacemaker.enter(at(100), View(1), true);
    let rings = [100, 599, 600, 1099, 1100, 5000].map(|now| pacemaker.ring(at(now)));
    let (later, remind) = (Alarm::Later, Alarm::Remind);
    assert_eq!(
        rings,
        [later(millis(500)), later(millis(1)), remind(millis(500)), remind(millis(1)), Alarm::GiveUp, Alarm::GiveUp]
    );
}

#[test]
fn a_timed_out_view_with_a_certificate_is_a_success_and_halves_the_next_timeout() {
    let mut pacemaker = pacemaker(ViewDuration::Exponential);
    pacemaker.set_working(at(0), true);
    pacemaker.enter(at(0), View(1), false);
    (0..4).for_each(|_| pacemaker.on_timeout());
    assert_eq!(pacemaker.duration(), millis(4000));
    pacemaker.enter(at(1000), View(2), true);
    assert_eq!(pacemaker.duration(), millis(2000));
    assert_eq!(pacemaker.ring(at(1999)), Alarm::Remind(millis(1)));
    assert_eq!(pacemaker.ring(at(2000)), Alarm::GiveUp);
    pacemaker.enter(at(1100), View(3), true);
    assert_eq!(
        pacemaker.smoothed(),
        Some((millis(1000) * 7 + millis(100)) / 8),
        "the measured duration is the elapsed time"
    );
    assert_eq!(pacemaker.ring(at(2099)), Alarm::Later(millis(1)), "the next view has the full timeout");
    pacemaker.on_timeout();
    pacemaker.enter(at(3000), View(4), false);
    assert_eq!(pacemaker.duration(), millis(4000), "a view that ended in timeouts is no success");
}

#[test]
fn a_suspected_leader_gets_half_the_time() {
    let mut pacemaker = pacemaker(ViewDuration::Exponential);
    pacemaker.set_working(at(0), true);
    pacemaker.enter(at(1000), View(2), false);
    pacemaker.suspect_leader();
    assert_eq!(pacemaker.ring(at(1499)), Alarm::Remind(millis(1)));
    assert_eq!(pacemaker.ring(at(1500)), Alarm::GiveUp);
    pacemaker.enter(at(1500), View(3), false);
    assert_eq!(pacemaker.ring(at(1999)), Alarm::Later(millis(1)), "suspicion of a leader ends with its view");
}

#[test]
#[should_panic(expected = "views are entered in ascending order")]
fn a_view_is_entered_once() {
    let mut pacemaker = pacemaker(ViewDuration::Fixed);
    pacemaker.enter(at(0), View(3), true);
    pacemaker.enter(at(0), View(3), true);
}

#[test]
fn the_longest_timeout_does_not_overflow() {
    let timeouts = [MAX_VIEW_TIMEOUT_MS, MAX_VIEW_TIMEOUT_MS + 1, u64::MAX];
    let all = ViewDuration::ALL.iter().flat_map(|kind| timeouts.map(|timeout| (*kind, timeout)));
    for (view_duration, view_timeout_ms) in all {
        let config = Config { view_duration, view_timeout_ms, ..config() };
        assert_eq!(config.validate().is_ok(), view_timeout_ms == MAX_VIEW_TIMEOUT_MS);
        let mut pacemaker = Pacemaker::new(&config, quorum(4));
        (0..10).for_each(|_| pacemaker.on_timeout());
        after_views(&mut pacemaker, &[u64::MAX / 2_000_000]);
        assert!(pacemaker.duration() > Duration::ZERO);
        assert_ne!(pacemaker.ring(at(3_000)), Alarm::GiveUp);
    }
}

proptest! {
    #[test]
    fn durations_keep_their_bounds(
        lengths in collection::vec(0..5000u64, 0..60),
        timeouts in 0..12u32,
        kind in prop::sample::select(ViewDuration::ALL),
    ) {
        let mut pacemaker = pacemaker(kind);
        after_views(&mut pacemaker, &lengths);
        let calm = pacemaker.duration();
        prop_assert!(calm >= millis(50) && calm <= millis(1000));
        (0..timeouts).for_each(|_| pacemaker.on_timeout());
        let factor = if kind == ViewDuration::Fixed { 1 } else { 1 << timeouts.saturating_sub(2) };
        prop_assert_eq!(pacemaker.duration(), (calm * factor).min(millis(64_000)));
        prop_assert!(pacemaker.retransmission() <= pacemaker.duration().min(millis(1000)));
        let extremes = lengths.iter().min().zip(lengths.iter().max());
        if let (Some((least, most)), Some(mean)) = (extremes, pacemaker.smoothed()) {
            prop_assert!(mean <= millis(*most) && mean + Duration::from_micros(1) >= millis(*least));
        }
    }

    /// A replica that always sets the timer as instructed times out when the view has lasted its full time, not earlier
    /// and not much later.
    #[test]
    fn a_replica_times_out_on_time(entered in 0..5000u64, work in 0..5000u64, first in 0..3000u64, timeouts in 0..4) {
        let mut pacemaker = pacemaker(ViewDuration::Exponential);
        (0..timeouts).for_each(|_| pacemaker.on_timeout());
        let begin = at(entered.max(work));
        if work <= entered {
            pacemaker.set_working(at(work), true);
            pacemaker.enter(at(entered), View(1), false);
        } else {
            pacemaker.enter(at(entered), View(1), false);
            pacemaker.set_working(at(work), true);
        }
        let (mut now, mut reminders, mut rings) = (begin + millis(first), 0, 0);
        loop {
            rings += 1;
            prop_assert!(rings <= 3, "a view has at most three timer events");
            match pacemaker.ring(now) {
                Alarm::Idle => prop_assert!(false, "a pacemaker with work is not idle"),
                Alarm::Later(time) => {
                    prop_assert!(time > Duration::ZERO);
                    now = now + time;
                }
                Alarm::Remind(time) => {
                    prop_assert!(time > Duration::ZERO);
                    reminders += 1;
                    now = now + time;
                }
                Alarm::GiveUp => break,
            }
        }
        let due = begin + pacemaker.duration();
        prop_assert_eq!(now, due.max(begin + millis(first)));
        prop_assert_eq!(reminders, i32::from(begin + millis(first) < due));
    }
}

#[test]
fn views_that_follow_each_other_without_a_commit_are_fruitless_after_a_while() {
    let mut pacemaker = pacemaker(ViewDuration::Fixed);
    after_views(&mut pacemaker, &[500; 16]);
    assert!(!pacemaker.is_fruitless(at(9000)), "views are not fruitless before eight timeouts");
    assert!(pacemaker.is_fruitless(at(9001)));
    pacemaker.on_progress();
    pacemaker.enter(at(9400), View(18), true);
    assert!(!pacemaker.is_fruitless(at(9401)), "a commit restarts the count");
    pacemaker.enter(at(16_000), View(19), false);
    assert!(!pacemaker.is_fruitless(at(18_000)), "a timeout restarts the count");
    pacemaker.set_working(at(18_000), false);
    assert!(!pacemaker.is_fruitless(at(99_000)), "an idle leader is not faulty");
    pacemaker.set_working(at(99_000), true);
    assert!(!pacemaker.is_fruitless(at(100_000)));
}

#[test]
fn views_missed_by_a_suspended_process_are_not_fruitless() {
    let mut pacemaker = pacemaker(ViewDuration::Fixed);
    after_views(&mut pacemaker, &[500; 4]);
    assert!(pacemaker.is_fruitless(at(30_000)), "a leader that commits nothing is fruitless");
    pacemaker.on_timeout();
    for view in 6..20 {
        pacemaker.enter(at(30_000), View(view), true);
        assert!(!pacemaker.is_fruitless(at(30_000)), "a suspended replica is about to learn of commits");
    }
}

/// A rule relies on the leader's wait in every view, even if the measured views are short.
#[test]
fn adaptive_views_are_long_enough_for_their_leaders_wait_in_every_protocol() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        let config = Config { protocol, view_duration: ViewDuration::Adaptive, max_delay_ms: 60, ..config() };
        let mut pacemaker = Pacemaker::new(&config, quorum(4));
        after_views(&mut pacemaker, &[1; 50]);
        let wait = millis(60) * protocol.facts().awaited_delays;
        assert!(pacemaker.duration() / MAX_WAIT_DIVISOR >= wait, "{protocol}: {:?}", pacemaker.duration());
        let expected = if wait.is_zero() { 50 } else { 480 };
        assert_eq!(pacemaker.duration(), millis(expected), "{protocol} is no slower than it must be");
        assert_eq!(pacemaker.shortest(), millis(expected) / 2, "{protocol}");
    }
}

/// A leader that waits for votes or commands does not lose its view.
#[test]
fn adaptive_views_are_four_times_as_long_as_a_leader_waits_for_votes_or_commands() {
    let adaptive = Config { view_duration: ViewDuration::Adaptive, ..config() };
    let fixed = Config { batch: 400.into(), ..adaptive.clone() };
    let timed = Config { batch_policy: BatchPolicy::Timed, batch_wait_ms: 30, ..fixed.clone() };
    for (config, expected) in [
        (adaptive.clone(), 50),
        (Config { vote_wait_us: 20_000, ..adaptive.clone() }, 80),
        (fixed.clone(), 50),
        (timed.clone(), 120),
        (Config { batch: BatchSize::Auto, ..timed }, 50),
        (Config { batch_policy: BatchPolicy::Full, ..fixed }, 1000),
    ] {
        let mut pacemaker = Pacemaker::new(&config, quorum(4));
        after_views(&mut pacemaker, &[1; 50]);
        assert_eq!(pacemaker.duration(), millis(expected), "{config:?}");
    }
}
