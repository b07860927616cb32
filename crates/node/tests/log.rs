//! Rate limits of repeated log messages.

use quorate_node::log::{FIRST_SILENCE, Limiter, MAX_SILENCE};
use quorate_types::ReplicaId;
use std::time::{Duration, Instant};

const PEER: Option<ReplicaId> = Some(ReplicaId(3));

#[test]
fn a_dead_peer_is_told_ever_less_often_and_every_message_is_told_or_counted() {
    let (start, mut limiter) = (Instant::now(), Limiter::default());
    // One day of a peer that is dialled 1.3 times a second.
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
    assert_eq!(told + counted + rest, attempts, "nothing is lost without being counted");
}

#[test]
fn kinds_and_peers_are_limited_apart_and_a_new_occasion_is_told_at_once() {
    let (start, mut limiter) = (Instant::now(), Limiter::default());
    assert_eq!(limiter.tell(start, "lost", PEER), Some(0));
    assert_eq!(limiter.tell(start, "lost", PEER), None);
    assert_eq!(limiter.tell(start, "lost", Some(ReplicaId(2))), Some(0));
    assert_eq!(limiter.tell(start, "forged", PEER), Some(0));
    assert_eq!(limiter.tell(start, "timed-out", None), Some(0));
    assert_eq!(limiter.tell(start + FIRST_SILENCE, "lost", PEER), Some(1), "the silence is over");
    assert_eq!(limiter.tell(start + FIRST_SILENCE * 2, "lost", PEER), None, "the next one is longer");
    assert_eq!(limiter.forget(ReplicaId(3)), 1, "it is back");
    assert_eq!(limiter.tell(start + FIRST_SILENCE * 2, "lost", PEER), Some(0), "the next loss is news");
    let long_after = start + MAX_SILENCE * 10;
    assert_eq!(limiter.tell(long_after, "lost", PEER), Some(0));
    assert_eq!(limiter.tell(long_after + FIRST_SILENCE, "lost", PEER), Some(0), "and its silence is short again");
}
