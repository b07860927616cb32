//! Rate limits of repeated log messages.

use quorate_node::log::{FIRST_SILENCE, Limiter, MAX_SILENCE};
use quorate_types::ReplicaId;
use std::time::{Duration, Instant};

const PEER: Option<ReplicaId> = Some(ReplicaId(3));

#[test]
fn messages_about_a_dead_peer_get_rarer_and_suppressed_ones_are_counted() {
    let (start, mut limiter) = (Instant::now(), Limiter::default());
    // One day of a peer that is dialled 1.3 times per second.
    let attempts = 112_320;
    let (mut told, mut counted) = (0, 0);
    for attempt in 0..attempts {
        let now = start + Duration::from_millis(attempt * 769);
        if let Some(left_out) = limiter.tell(now, "unauthenticated", PEER) {
            (told, counted) = (told + 1, counted + left_out);
        }
    }
    assert!((100..200).contains(&told), "{told} lines a day");
    let rest = limiter.forget(ReplicaId(3));
    assert_eq!(told + counted + rest, attempts, "a suppressed message was not counted");
}

#[test]
fn kinds_and_peers_have_separate_limits_and_a_new_incident_is_logged_at_once() {
    let (start, mut limiter) = (Instant::now(), Limiter::default());
    assert_eq!(limiter.tell(start, "lost", PEER), Some(0));
    assert_eq!(limiter.tell(start, "lost", PEER), None);
    assert_eq!(limiter.tell(start, "lost", Some(ReplicaId(2))), Some(0));
    assert_eq!(limiter.tell(start, "forged", PEER), Some(0));
    assert_eq!(limiter.tell(start, "timed-out", None), Some(0));
    assert_eq!(limiter.tell(start + FIRST_SILENCE, "lost", PEER), Some(1), "the silence has not ended");
    assert_eq!(limiter.tell(start + FIRST_SILENCE * 2, "lost", PEER), None, "the next silence is not longer");
    assert_eq!(limiter.forget(ReplicaId(3)), 1, "the suppressed message was not counted");
    assert_eq!(limiter.tell(start + FIRST_SILENCE * 2, "lost", PEER), Some(0), "the next loss was suppressed");
    let long_after = start + MAX_SILENCE * 10;
    assert_eq!(limiter.tell(long_after, "lost", PEER), Some(0));
    assert_eq!(limiter.tell(long_after + FIRST_SILENCE, "lost", PEER), Some(0), "the silence is not short again");
}
