//! Limit on the commands that a leader sends with a block whose size it chooses itself.

use crate::unit_support::*;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::data::sizing::Sizing;
use quorate_types::Time;

/// Bytes that fit into the largest block.
const LARGEST: usize = 8 << 20;

fn sizing(batch_latency_ms: u64) -> Sizing {
    Sizing::new(&Config { batch_bytes: LARGEST, batch_latency_ms, view_timeout_ms: 1000, ..config() })
}

/// A leader's network card and the distance of the other replicas. A block is certified after `base_ms` plus the time
/// that the card takes for the block's bytes.
struct Card {
    base_ms: u64,
    bytes_per_ms: u64,
}

impl Card {
    fn time_ms(&self, bytes: usize) -> u64 {
        self.base_ms + bytes as u64 / self.bytes_per_ms
    }

    /// Proposes full blocks, one after the other. Returns the time that the last one took, in milliseconds.
    fn fill(&self, sizing: &mut Sizing, blocks: u64) -> u64 {
        let (mut now, mut last) = (at(1000), 0);
        for number in 1..=blocks {
            let bytes = sizing.carried_bytes();
            sizing.on_proposal(now, number, bytes);
            last = self.time_ms(bytes);
            now = now + millis(last);
            sizing.on_certificate(now, number);
        }
        last
    }
}

#[test]
fn blocks_grow_to_what_the_card_sends_within_the_latency() {
    let card = Card { base_ms: 150, bytes_per_ms: 6000 };
    let took = card.fill(&mut sizing(600), 30);
    assert!((580..=620).contains(&took), "a block takes {took} ms, and may take 600");
}

#[test]
fn blocks_grow_to_the_limit_of_the_voters_on_a_fast_card() {
    let mut sizing = sizing(600);
    Card { base_ms: 10, bytes_per_ms: 100_000 }.fill(&mut sizing, 6);
    assert_eq!(sizing.carried_bytes(), LARGEST, "six blocks are enough");
}

#[test]
fn the_latency_is_at_most_three_quarters_of_the_view_timeout() {
    let took = Card { base_ms: 150, bytes_per_ms: 6000 }.fill(&mut sizing(60_000), 30);
    assert!((730..=770).contains(&took), "a block takes {took} ms, and a view 1000");
}

#[test]
fn a_card_that_slows_down_makes_blocks_smaller() {
    let mut sizing = sizing(600);
    Card { base_ms: 10, bytes_per_ms: 100_000 }.fill(&mut sizing, 10);
    let took = Card { base_ms: 10, bytes_per_ms: 5000 }.fill(&mut sizing, 10);
    assert!((580..=620).contains(&took), "a block takes {took} ms, and may take 600");
}

#[test]
fn timeouts_halve_full_blocks() {
    let mut sizing = sizing(600);
    let first = sizing.carried_bytes();
    sizing.on_proposal(at(0), 1, first);
    sizing.on_timeout();
    assert_eq!(sizing.carried_bytes(), first / 2);
    sizing.on_proposal(at(0), 2, 10);
    sizing.on_timeout();
    sizing.on_timeout();
    assert_eq!(sizing.carried_bytes(), first / 2, "the next block was too small to be the reason");
}

#[test]
fn small_blocks_change_nothing() {
    let mut sizing = sizing(600);
    let first = sizing.carried_bytes();
    for number in 1..20 {
        sizing.on_proposal(at(0), number, first / 4);
        sizing.on_certificate(at(1 + 1000 * (number % 2)), number);
    }
    assert_eq!(sizing.carried_bytes(), first);
}

#[derive(Clone, Debug)]
enum Event {
    Proposed(usize),
    Certified(u64),
    TimedOut,
}

proptest! {
    /// After any history, the limit does not exceed the voters' limit, and it is never so small that a leader starves.
    #[test]
    fn the_limit_stays_within_bounds(
        largest in 1usize..(32 << 20),
        batch_latency_ms in 0u64..5000,
        events in prop::collection::vec(
            (0u64..2000, prop_oneof![
                (0usize..(64 << 20)).prop_map(Event::Proposed),
                (0u64..5).prop_map(Event::Certified),
                Just(Event::TimedOut),
            ]),
            0..200,
        ),
    ) {
        let mut sizing = Sizing::new(&Config { batch_bytes: largest, batch_latency_ms, ..config() });
        let (mut now, mut number) = (Time(0), 0);
        for (pause, event) in events {
            now = now + millis(pause);
            match event {
                Event::Proposed(bytes) => {
                    number += 1;
                    sizing.on_proposal(now, number, bytes.min(sizing.carried_bytes()));
                }
                Event::Certified(before) => sizing.on_certificate(now, number.saturating_sub(before)),
                Event::TimedOut => sizing.on_timeout(),
            }
            sizing.invariants();
            prop_assert!(sizing.carried_bytes() <= largest);
            prop_assert!(sizing.carried_bytes() >= largest.min(64 << 10));
        }
    }
}
