//! Replicas get the wall clock at the start and after corrections.

use quorate_hosting::WallClock;
use quorate_types::Time;

const UNIX_MS: u64 = 1_700_000_000_000;

#[test]
fn a_replica_is_told_the_clock_at_first_and_when_it_was_set() {
    let mut clock = WallClock::default();
    assert_eq!(clock.correction(Time::from_millis(1000), UNIX_MS), Some(UNIX_MS - 1000));
    assert_eq!(clock.correction(Time::from_millis(2000), UNIX_MS + 1000), None, "both clocks run alike");
    assert_eq!(clock.correction(Time::from_millis(3000), UNIX_MS + 2005), None, "a small difference");
    assert_eq!(clock.correction(Time::from_millis(3000), UNIX_MS + 2006), Some(UNIX_MS - 994), "it adds up");
    assert_eq!(clock.correction(Time::from_millis(4000), UNIX_MS - 60_000), Some(UNIX_MS - 64_000), "set back");
    assert_eq!(clock.correction(Time::from_millis(5000), 17), Some(0), "before the host's start is before 1970");
}
