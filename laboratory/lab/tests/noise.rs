//! Noise computed from the kernel's counters.

use quorate_lab::experiments::row::{MAX_STEADY_VARIATION_PERCENT, Noise};
use quorate_lab::noise::{Ticks, noise_of, parse_pressure, variation_percent};
use std::time::Duration;

const STAT: &str = "cpu  100 10 50 700 40 5 5 90 60 6\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n";

/// Fields in the order of proc(5). Guest time, the last two fields, is already part of user and nice.
#[test]
fn stolen_and_idle_time_are_told_apart() {
    assert_eq!(Ticks::parse(STAT), Some(Ticks { total: 1000, idle: 740, steal: 90 }));
    for wrong in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e f g h"] {
        assert_eq!(Ticks::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn the_time_of_others_is_all_but_our_own() {
    let before = Ticks::default();
    let after = Ticks { total: 1000, idle: 500, steal: 100 };
    // 400 ticks at 100 ticks/s were busy, of which 3 s are this process's.
    let noise = noise_of(before, after, Duration::from_secs(3), 100.0).expect("time has passed");
    assert_eq!((noise.steal_percent, noise.others_percent), (10.0, 10.0));
    // The counters are rounded: if this process used more time than the machine reports, others count as zero.
    let alone = noise_of(before, after, Duration::from_secs(9), 100.0).expect("time has passed");
    assert_eq!(alone.others_percent, 0.0);
    assert_eq!(noise_of(after, after, Duration::ZERO, 100.0), None);
}

#[test]
fn pressure_is_the_total_of_some() {
    let text =
        "some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
    assert_eq!(parse_pressure(text), Some(58_761_459));
    assert_eq!(parse_pressure("full avg10=0.00 total=9\n"), None);
}

#[test]
fn steady_is_a_bound_on_the_variation() {
    let steady =
        |per_second: &[f64]| Noise { variation_percent: variation_percent(per_second), ..Noise::default() }.is_steady();
    assert_eq!(steady(&[100.0, 101.0, 99.0]), Some(true));
    assert_eq!(steady(&[100.0, 200.0, 100.0]), Some(false));
    assert_eq!(steady(&[100.0, 100.0]), None, "two seconds say nothing");
    assert_eq!(steady(&[0.0, 0.0, 0.0]), None, "nothing was completed");
    let at_bound = Noise { variation_percent: Some(MAX_STEADY_VARIATION_PERCENT), ..Noise::default() };
    assert_eq!(at_bound.is_steady(), Some(true));
}
