//! Detection of idle time of a core.

use quorate_hosting::Headroom;
use quorate_types::Time;

const WINDOW_NS: u64 = 5_000_000;

#[test]
fn a_core_that_works_for_all_of_a_window_has_no_time_to_spare() {
    let mut headroom = Headroom::default();
    assert!(!headroom.exists(), "nothing was measured");
    assert!(!headroom.is_due(Time(WINDOW_NS - 1)) && headroom.is_due(Time(WINDOW_NS)));
    headroom.update(Time(WINDOW_NS), WINDOW_NS);
    assert!(!headroom.exists() && !headroom.is_due(Time(2 * WINDOW_NS - 1)));
    // Seven eighths of the next window, then more.
    headroom.update(Time(2 * WINDOW_NS), WINDOW_NS + WINDOW_NS / 8 * 7);
    assert!(headroom.exists());
    headroom.update(Time(3 * WINDOW_NS), WINDOW_NS + WINDOW_NS / 8 * 14 + 1);
    assert!(!headroom.exists());
    // The core sleeps.
    headroom.update(Time(10 * WINDOW_NS), WINDOW_NS * 3);
    assert!(headroom.exists());
}

#[test]
fn a_clock_of_processor_time_that_goes_back_does_no_harm() {
    let mut headroom = Headroom::default();
    headroom.update(Time(WINDOW_NS), WINDOW_NS);
    headroom.update(Time(2 * WINDOW_NS), 0);
    assert!(headroom.exists());
}
