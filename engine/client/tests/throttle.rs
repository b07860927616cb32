//! Pace of an open loop while replicas refuse its commands: each rule separately.

use quorate_client::load::Throttle;
use quorate_types::Time;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Commands due per millisecond.
const OFFERED: u64 = 10;

/// Load that is due at even intervals.
struct Bench {
    throttle: Throttle,
    now: Time,
}

impl Bench {
    /// Returns a throttle after 1000 milliseconds, in each of which `offered` commands were sent and `executed` were
    /// executed.
    fn after_a_second(least: u64, offered: u64, executed: u64) -> Bench {
        let mut bench = Bench { throttle: Throttle::new(least), now: Time(0) };
        for _ in 0..1000 {
            bench.throttle.on_executed(executed);
            assert_eq!(bench.run(1, offered), offered, "the pace is free until commands are refused");
        }
        bench
    }

    /// Returns how many commands are sent if `offered` are due in each of these milliseconds.
    fn run(&mut self, milliseconds: u64, offered: u64) -> u64 {
        let mut sent = 0;
        for _ in 0..milliseconds {
            self.now = self.now + MILLISECOND;
            sent += self.burst(offered);
        }
        sent
    }

    /// Returns how many of the commands due now are sent.
    fn burst(&mut self, offered: u64) -> u64 {
        (0..offered).filter(|_| self.throttle.allows(self.now)).count() as u64
    }

    fn refuse(&mut self, wait_ms: u64) {
        self.throttle.on_busy(self.now, MILLISECOND * wait_ms as u32);
    }

    /// Has commands refused this many times, each time after a pause of a millisecond.
    fn refuse_often(&mut self, times: u32, offered: u64) {
        for _ in 0..times {
            self.refuse(1);
            self.run(1, offered);
        }
    }

    /// Returns the commands sent in each of these periods of 100 ms after a pause of a millisecond.
    fn periods<const N: usize>(&mut self, offered: u64) -> [u64; N] {
        std::array::from_fn(|_| self.run(100, offered))
    }
}

/// Asserts that each count is within 2 % and two commands of the expected one.
#[track_caller]
fn assert_near<const N: usize>(counts: [u64; N], expected: [u64; N]) {
    for (count, expected) in counts.iter().zip(expected) {
        assert!(count.abs_diff(expected) <= expected / 50 + 2, "{counts:?} instead of about {expected} in its place");
    }
}

#[test]
fn nothing_is_sent_for_as_long_as_replicas_ask() {
    let mut bench = Bench::after_a_second(1, OFFERED, 0);
    bench.refuse(50);
    assert_eq!(bench.run(49, OFFERED), 0);
    assert!(bench.run(5, OFFERED) > 0);
}

#[test]
fn a_refusal_takes_a_quarter_of_the_pace() {
    let mut bench = Bench::after_a_second(1, OFFERED, 0);
    bench.refuse(1);
    assert_near(bench.periods(OFFERED), [750]);
}

#[test]
fn refusals_of_what_was_on_its_way_count_once() {
    let mut bench = Bench::after_a_second(1, OFFERED, 0);
    bench.refuse(20);
    for _ in 0..19 {
        assert_eq!(bench.run(1, OFFERED), 0);
        bench.refuse(20);
    }
    bench.run(1, OFFERED);
    assert_near(bench.periods(OFFERED), [750]);
}

#[test]
fn the_pace_does_not_fall_below_what_is_executed() {
    let mut bench = Bench::after_a_second(1, OFFERED, 9);
    bench.refuse(1);
    assert_near(bench.periods(OFFERED), [900]);
}

#[test]
fn the_pace_never_falls_below_the_least() {
    let mut bench = Bench::after_a_second(2000, OFFERED, 0);
    bench.refuse_often(30, OFFERED);
    assert_near(bench.periods(OFFERED), [200]);
}

#[test]
fn a_first_burst_does_not_count_as_a_rate() {
    let mut bench = Bench { throttle: Throttle::new(1), now: Time(0) };
    assert_eq!(bench.run(1, 100), 100);
    bench.refuse(1);
    // 100 commands per tenth of a second, minus a quarter.
    assert_near(bench.periods(OFFERED), [75]);
}

#[test]
fn near_the_refused_pace_it_grows_slowly() {
    let mut bench = Bench::after_a_second(1, OFFERED, 0);
    bench.refuse(1);
    assert_near(bench.periods(4 * OFFERED), [750, 797, 847, 900, 956, 1016, 1079, 1146]);
}

#[test]
fn far_below_the_refused_pace_it_grows_faster_and_faster() {
    let mut bench = Bench::after_a_second(1, 1000, 0);
    bench.refuse_often(20, 1000);
    // 0.75^20 of a million, and the refused pace is 0.875^19 of it: 79,000/s, near from 59,000/s on.
    let slow = [317, 337, 358, 380, 404, 429];
    let twice = [483, 543, 611, 688, 774];
    let four_times = [967, 1209, 1511, 1889, 2361];
    let half = [3542, 5312, 7969];
    let near = [8467, 8996];
    let growth = [&slow[..], &twice, &four_times, &half, &near].concat();
    assert_near(bench.periods::<21>(1000), growth.try_into().expect("21 periods"));
}

#[test]
fn a_silent_client_saves_up_for_a_short_burst_only() {
    let mut bench = Bench::after_a_second(1, OFFERED, 0);
    bench.refuse(1);
    bench.run(10, OFFERED);
    bench.now = bench.now + MILLISECOND * 500;
    // The pace is 7500 times (17/16)^5 by now; the burst is 20 ms of it.
    assert_near([bench.burst(10_000)], [203]);
}

#[test]
fn the_pace_is_free_after_a_second_without_trouble() {
    for (calm_ms, is_free) in [(900, false), (1001, true)] {
        let mut bench = Bench::after_a_second(1, OFFERED, 0);
        bench.refuse(1);
        bench.run(1, OFFERED);
        assert_eq!(bench.run(calm_ms - 1, 1), calm_ms - 1, "a tenth of the refused commands passes");
        assert_eq!(bench.burst(10_000) == 10_000, is_free, "after {calm_ms} ms");
    }
}

#[test]
fn commands_that_are_held_back_are_trouble() {
    let mut bench = Bench::after_a_second(1, 1000, 0);
    bench.refuse_often(20, 1000);
    assert!(bench.run(1500, 1000) < 100_000, "no refusal for a second and a half, but the pace is limited");
}
