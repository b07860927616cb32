//! Names of events, and rate limits of repeated log messages.

use quorate_network::transports::Remote;
use quorate_node::log::{FIRST_SILENCE, Limiter, MAX_SILENCE};
use quorate_node::observer::NodeEvent;
use quorate_node::vocabulary::{Fields, VOCABULARY, fields, named};
use quorate_types::{Height, ReplicaId, View};
use std::collections::BTreeSet;
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

#[test]
fn the_reference_lists_all_events() {
    let page = include_str!("../../../docs/LOGS.md");
    let heading = "| event | level | target | fields | meaning |\n|---|---|---|---|---|\n";
    let found = page.split(heading).nth(1).expect("the page has the table");
    let expected: String = VOCABULARY
        .iter()
        .map(|event| {
            let fields: Vec<String> = event.fields.iter().map(|field| format!("`{field}`")).collect();
            let (level, fields) = (event.level.as_str().to_lowercase(), format!(" {} ", fields.join(", ")));
            let fields = if event.fields.is_empty() { " " } else { &fields };
            format!("| `{}` | {level} | `{}` |{fields}| {} |\n", event.name, event.target, event.meaning)
        })
        .collect();
    assert_eq!(found, expected, "help: docs/LOGS.md has the rows of VOCABULARY");
    let names: BTreeSet<&str> = VOCABULARY.iter().map(|event| event.name).collect();
    assert_eq!(names.len(), VOCABULARY.len(), "a name has one meaning");
}

#[test]
fn an_event_has_the_fields_of_its_name() {
    let peer = ReplicaId(2);
    let events = [
        (NodeEvent::Lost { remote: Remote::Replica(peer), why: String::new() }, "lost"),
        (NodeEvent::TimedOut(View(7)), "timed-out"),
        (NodeEvent::Restarted { view: View(7), height: Height(9) }, "resumed"),
        (NodeEvent::AdoptedState { from: Height(1), height: Height(9) }, "state-adopted"),
        (NodeEvent::SignerBack { waiting: 0 }, "signer-back"),
    ];
    for (event, name) in events {
        let (named, Fields { peer, view, height }) = (named(&event), fields(&event));
        assert_eq!(named.name, name);
        let has = [("peer", peer.is_some()), ("view", view.is_some()), ("height", height.is_some())];
        let has: Vec<&str> = has.into_iter().filter(|(_, has)| *has).map(|(field, _)| field).collect();
        assert_eq!(has, named.fields, "{name}");
    }
    assert_eq!(fields(&NodeEvent::Forged { from: peer }).peer, Some(peer));
}
