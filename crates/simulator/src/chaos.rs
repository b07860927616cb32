//! What goes wrong, drawn from the seed.

use crate::clock::TRUE_RATE;
use crate::faults::{Change, FULL_SPEED, pairs};
use crate::node::Leaves;
use crate::random::{Purpose, Random};
use quorate_types::Time;
use std::time::Duration;

/// Highest part of packets that is lost, or comes twice, or falls behind.
const MOST_PACKETS: f64 = 0.1;
/// What a journal takes to become durable, at most.
const MOST_FLUSH: Duration = Duration::from_millis(5);
/// A clock gains or loses at most so many parts in a million.
const MOST_DRIFT_PPM: u64 = 200_000;

/// Trouble drawn from a seed.
pub struct Chaos {
    /// What happens.
    pub changes: Vec<(Time, Change)>,
    /// What a journal takes to become durable.
    pub flush: Duration,
    /// Loss of packets.
    pub loss: f64,
    /// Datagrams that arrive twice.
    pub duplication: f64,
    /// Packets that fall behind.
    pub reordering: f64,
    /// The replicas outside the core that is healed at the end: at most f, crashed or cut off for good.
    pub outside: Vec<usize>,
}

/// Trouble for so long, for `replicas` replicas of which `faults` may fail for good, or lose their memory. Faults last up to two view
/// timeouts.
pub fn chaos(seed: u64, replicas: usize, faults: usize, lasts: Duration, view_timeout: Duration) -> Chaos {
    let mut random = Random::new(seed, Purpose::Faults, 0);
    let mut order: Vec<usize> = (0..replicas).collect();
    for at in (1..replicas).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let (outside, others) = order.split_at(random.below(faults as u64 + 1) as usize);
    let outside = outside.to_vec();
    // Whose disk may break: who has lost its memory needs all the others that are not outside to come back.
    let forgetful = &others[..faults - outside.len()];
    let mut changes = Vec::new();
    for replica in &outside {
        if random.chance(0.5) {
            changes.push((Time(random.time_below(lasts).as_nanos() as u64), Change::Crash(*replica)));
        }
    }
    let gap = (view_timeout / 2).max(Duration::from_millis(1));
    let mut now = Time(0) + random.time_below(gap);
    while now < Time(0) + lasts {
        let until = now + random.time_below(view_timeout * 2);
        let span = Span { now, until, view_timeout };
        draw(&mut random, replicas, forgetful, span, &mut changes);
        now = now + random.time_below(gap) + Duration::from_nanos(1);
    }
    changes.sort_by_key(|(time, _)| *time);
    let mut rate = |most: f64| if random.chance(0.5) { random.unit() * most } else { 0.0 };
    let (loss, duplication, reordering) = (rate(MOST_PACKETS), rate(MOST_PACKETS), rate(MOST_PACKETS));
    let flush = if random.chance(0.75) { random.time_below(MOST_FLUSH) } else { Duration::ZERO };
    Chaos { changes, flush, loss, duplication, reordering, outside }
}

/// When something goes wrong, and what a long time is.
struct Span {
    now: Time,
    until: Time,
    view_timeout: Duration,
}

fn draw(random: &mut Random, replicas: usize, forgetful: &[usize], span: Span, changes: &mut Vec<(Time, Change)>) {
    let Span { now, until, view_timeout } = span;
    let all: Vec<usize> = (0..replicas).collect();
    let one = *random.pick(&all);
    let other = *random.pick(&all);
    let mut lasts = |begin: Change, end: Change| changes.extend([(now, begin), (until, end)]);
    let mut cut = |pairs: Vec<(usize, usize)>| lasts(Change::Cut(pairs.clone(), true), Change::Cut(pairs, false));
    match random.below(10) {
        0 => changes.push((now, Change::Pause(one, until))),
        1 => {
            let factor = FULL_SPEED * (2 + random.below(50));
            lasts(Change::Speed(one, factor), Change::Speed(one, FULL_SPEED));
        }
        2 => cut(pairs(&[one], &[other], random.chance(0.5))),
        3 => cut(pairs(&[one], &all, random.chance(0.5))),
        4 => {
            let (left, right): (Vec<usize>, Vec<usize>) = all.iter().partition(|_| random.chance(0.5));
            cut(pairs(&left, &right, true));
        }
        5 => {
            let by = random.time_below(view_timeout).as_nanos() as u64;
            let pairs = pairs(&[one], &all, false);
            lasts(Change::Spike(pairs.clone(), by), Change::Spike(pairs, 0));
        }
        6 => {
            let rate = TRUE_RATE - MOST_DRIFT_PPM + random.below(2 * MOST_DRIFT_PPM + 1);
            lasts(Change::Clock(one, rate), Change::Clock(one, TRUE_RATE));
        }
        _ => {
            let kinds = if forgetful.contains(&one) { &Leaves::ALL[..] } else { &Leaves::ALL[..Leaves::ALL.len() - 1] };
            changes.push((now, Change::Down(one, *random.pick(kinds), until)));
        }
    }
}
