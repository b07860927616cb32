//! The free space of a disk, and the forecast.

use quorate_node::disk::{FreeSpace, MIN_CALM_BYTES};
use quorate_types::Time;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn minutes(count: u64) -> Time {
    Time(0) + Duration::from_secs(60 * count)
}

/// Returns the readings of a disk that loses `per_minute` bytes a minute.
fn losing(first: u64, per_minute: u64, count: u64) -> FreeSpace {
    let mut space = FreeSpace::default();
    (0..=count).for_each(|at| space.read(minutes(at), first - per_minute * at));
    space
}

#[test]
fn a_disk_with_room_needs_no_attention() {
    assert_eq!(FreeSpace::default().attention(0), None);
    assert_eq!(losing(MIN_CALM_BYTES, 0, 600).attention(0), None);
    // Six days at this rate.
    assert_eq!(losing(100_000 * MIB, 10 * MIB, 600).attention(0), None);
    let mut grows = FreeSpace::default();
    (0..600).for_each(|at| grows.read(minutes(at), 600 * MIB + at * MIB));
    assert_eq!(grows.attention(0), None);
}

#[test]
fn a_disk_that_will_be_full_within_a_day_says_when() {
    let text = losing(10_000 * MIB, 10 * MIB, 120).attention(80 * MIB).expect("it shrinks");
    let expected = "the disk has 8800 MiB left, and at the rate of the last 2 h 0 min the replica stops in 14 h 32 min";
    assert_eq!(text, expected);
    assert_eq!(losing(400 * MIB, 0, 120).attention(0).as_deref(), Some("the disk has 400 MiB left"));
    // Too short for a rate.
    assert_eq!(losing(400 * MIB, MIB, 9).attention(0).as_deref(), Some("the disk has 391 MiB left"));
}

#[test]
fn the_rate_is_that_of_the_last_day() {
    let mut space = FreeSpace::default();
    // A day of heavy use, and then a day of little.
    (0..=1440).for_each(|at| space.read(minutes(at), 100_000 * MIB - at * 50 * MIB));
    (1441..=2900).for_each(|at| space.read(minutes(at), 28_000 * MIB - (at - 1440) * MIB));
    let (left, period) = space.forecast(0).expect("it shrinks");
    assert!(period <= Duration::from_secs(24 * 60 * 60) && period > Duration::from_secs(23 * 60 * 60), "{period:?}");
    assert!(left > Duration::from_secs(400 * 60 * 60), "{left:?}");
}

#[test]
fn the_next_reading_is_due_after_a_while() {
    let mut space = FreeSpace::default();
    assert!(space.is_due(Time(0)));
    space.read(Time(0), 1);
    assert!(!space.is_due(Time(0) + Duration::from_secs(9)) && space.is_due(minutes(1)));
}
