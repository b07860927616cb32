//! The TCP model: two endpoints, a link with scripted losses, and virtual time.

use quorate_simulator::links::{Purpose, Random};
use quorate_simulator::network::{Endpoint, Segment, TcpCounts, TcpOptions, Todo};
use quorate_types::Time;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
/// Delay of the tests' link in one direction, in nanoseconds.
const DELAY: u64 = 10 * MS;
const ROUND_TRIP: u64 = 2 * DELAY;
const TICK: u64 = 4 * MS;
const FULL: u64 = 1448;

const LINUX: TcpOptions = TcpOptions {
    rto_initial_ns: 1000 * MS,
    rto_min_ns: 200 * MS,
    rto_max_ns: 120_000 * MS,
    tick_ns: TICK,
    segment_bytes: FULL as u32,
    fast_retransmit: true,
    tail_loss_probe: true,
};

enum Happens {
    Arrives(usize, Segment),
    Wakes(usize),
}

/// Fate of a packet, given the sending end, its number and its contents: delays in nanoseconds, one per copy.
type Fate<'a> = &'a mut dyn FnMut(usize, usize, &Segment) -> Vec<u64>;

/// Two endpoints, and the link between them.
struct Line {
    now: u64,
    ends: [Endpoint; 2],
    due: BTreeMap<(u64, u64), Happens>,
    events: u64,
    /// Sent segments: time, end and segment.
    sent: Vec<(u64, usize, Segment)>,
    /// Bytes received in order at each end, with the time.
    progress: [Vec<(u64, u64)>; 2],
}

impl Line {
    fn new(options: TcpOptions) -> Line {
        let ends = [Endpoint::new(options), Endpoint::new(options)];
        Line { now: 0, ends, due: BTreeMap::new(), events: 0, sent: Vec::new(), progress: [Vec::new(), Vec::new()] }
    }

    /// Returns a link that has exchanged messages, so that both ends have a round-trip estimate and expect answers.
    fn warm(options: TcpOptions) -> Line {
        let mut line = Line::new(options);
        for _ in 0..40 {
            line.exchange(100);
        }
        line.rest(100 * MS);
        line.sent.clear();
        line
    }

    /// Sends a message and, as soon as it arrives, one back.
    fn exchange(&mut self, bytes: u64) {
        self.write(0, bytes, &mut every);
        self.run(self.now + DELAY, &mut every);
        self.write(1, bytes, &mut every);
        self.run(self.now + DELAY, &mut every);
    }

    fn rest(&mut self, ns: u64) {
        self.run(self.now + ns, &mut every);
    }

    fn write(&mut self, end: usize, bytes: u64, fate: Fate<'_>) {
        self.ends[end].write(bytes);
        let mut todo = Vec::new();
        self.ends[end].flush(Time(self.now), &mut todo);
        self.perform(end, todo, fate);
    }

    fn perform(&mut self, end: usize, todo: Vec<Todo>, fate: Fate<'_>) {
        for todo in todo {
            let mut later = |at: u64, happens| {
                self.events += 1;
                self.due.insert((at, self.events), happens);
            };
            match todo {
                Todo::Wake(at) => later(at.0, Happens::Wakes(end)),
                Todo::Send(segment) => {
                    for delay in fate(self.sent.len(), end, &segment) {
                        later(self.now + delay, Happens::Arrives(1 - end, segment.clone()));
                    }
                    self.sent.push((self.now, end, segment));
                }
            }
        }
    }

    fn run(&mut self, until: u64, fate: Fate<'_>) {
        while self.due.first_key_value().is_some_and(|((at, _), _)| *at <= until) {
            let ((at, _), happens) = self.due.pop_first().expect("there is one");
            self.now = at;
            let mut todo = Vec::new();
            let end = match happens {
                Happens::Wakes(end) => {
                    self.ends[end].on_timer(Time(at), &mut todo);
                    end
                }
                Happens::Arrives(end, segment) => {
                    let before = self.ends[end].received();
                    self.ends[end].on_segment(Time(at), &segment, &mut todo);
                    if self.ends[end].received() > before {
                        self.progress[end].push((at, self.ends[end].received()));
                    }
                    end
                }
            };
            self.perform(end, todo, fate);
        }
        self.now = until;
    }

    /// Returns the times at which an end sent segments with data.
    fn data(&self, end: usize) -> Vec<u64> {
        self.sent.iter().filter(|(_, by, segment)| *by == end && segment.bytes > 0).map(|(at, ..)| *at).collect()
    }

    fn acknowledgements(&self, end: usize) -> Vec<u64> {
        self.sent.iter().filter(|(_, by, segment)| *by == end && segment.bytes == 0).map(|(at, ..)| *at).collect()
    }

    fn counts(&self, end: usize) -> TcpCounts {
        self.ends[end].counts()
    }
}

/// Delivers every packet.
fn every(_: usize, _: usize, _: &Segment) -> Vec<u64> {
    vec![DELAY]
}

/// Loses the packets with these numbers.
fn without(lost: &[usize]) -> impl FnMut(usize, usize, &Segment) -> Vec<u64> + '_ {
    |number, _, _| if lost.contains(&number) { Vec::new() } else { vec![DELAY] }
}

#[track_caller]
fn assert_between(value: u64, least: u64, most: u64) {
    assert!((least..=most).contains(&value), "{} ms is not in {} to {} ms", value / MS, least / MS, most / MS);
}

#[test]
fn acknowledgements_travel_with_answers() {
    let mut line = Line::warm(LINUX);
    line.exchange(300);
    assert_eq!(line.acknowledgements(0).len(), 1, "after a rest, the first answer is acknowledged at once");
    line.sent.clear();
    for _ in 0..100 {
        line.exchange(300);
    }
    assert_eq!((line.data(0).len(), line.data(1).len()), (100, 100));
    assert_eq!(line.acknowledgements(1).len(), 0, "each message is acknowledged by its answer");
    assert_eq!(line.acknowledgements(0).len(), 0, "the next message follows within 40 ms");
    line.rest(100 * MS);
    assert_eq!(line.acknowledgements(0).len(), 1, "but not the last one");
    assert_eq!(line.counts(0), TcpCounts::default());
    let smoothed = line.ends[0].smoothed_round_trip_ns().expect("it was measured");
    assert_between(smoothed, ROUND_TRIP, ROUND_TRIP + MS);
}

#[test]
fn a_lone_segment_is_acknowledged_after_40_ms_and_two_at_once() {
    let mut line = Line::warm(LINUX);
    line.exchange(100);
    let begins = line.now;
    line.write(0, 100, &mut every);
    line.rest(100 * MS);
    assert_between(line.acknowledgements(1)[0] - begins, DELAY + 40 * MS, DELAY + 40 * MS + 2 * TICK);
    line.exchange(100);
    let (begins, before) = (line.now, line.acknowledgements(1).len());
    line.write(0, 100, &mut every);
    line.write(0, 100, &mut every);
    line.rest(30 * MS);
    assert_eq!(line.acknowledgements(1)[before..], [begins + DELAY], "two small segments");
    let before = line.acknowledgements(1).len();
    line.exchange(100);
    line.write(0, 10 * FULL, &mut every);
    line.rest(200 * MS);
    assert_eq!(line.acknowledgements(1).len() - before, 5, "every second full segment");
}

#[test]
fn acknowledgements_wait_less_than_the_minimum_timeout() {
    let mut line = Line::warm(TcpOptions { rto_min_ns: 12 * MS, ..LINUX });
    line.exchange(100);
    let begins = line.now;
    line.write(0, 100, &mut every);
    line.rest(100 * MS);
    assert_between(line.acknowledgements(1)[0] - begins, DELAY + 8 * MS, DELAY + 8 * MS + 2 * TICK);
    assert_eq!(line.counts(0).retransmissions, 0);
}

/// Reproduces the plateaus of the paper: losing a single segment costs the minimum timeout plus the round trip, and
/// each further loss costs twice as much.
#[test]
fn a_lost_lone_segment_costs_multiples_of_the_minimum_timeout() {
    for minimum in [200 * MS, 40 * MS, 5 * MS] {
        let options = TcpOptions { rto_min_ns: minimum, tick_ns: 0, ..LINUX };
        let mut line = Line::warm(options);
        let begins = line.now;
        line.write(0, 100, &mut without(&[0, 1, 2]));
        line.run(begins + 20 * minimum + 20 * ROUND_TRIP, &mut without(&[0, 1, 2]));
        let after: Vec<u64> = line.data(0).iter().map(|at| at - begins).collect();
        assert_eq!(after.len(), 4, "{after:?}");
        // The smoothed round trip includes a possible delay of the acknowledgement.
        let timeout = after[1];
        assert_between(timeout, ROUND_TRIP.min(2 * ROUND_TRIP) + minimum, ROUND_TRIP + minimum + 8 * MS);
        assert_eq!(after[2..], [2 * timeout, 4 * timeout], "the probe, the timeout, and twice the timeout");
        let TcpCounts { retransmissions, rto_events, tail_loss_probes } = line.counts(0);
        assert_eq!((retransmissions, rto_events, tail_loss_probes), (3, 2, 1));
        assert_eq!(line.progress[1].last(), Some(&(begins + after[3] + DELAY, line.ends[1].received())));
    }
}

#[test]
fn a_probe_repeats_the_last_of_several_segments_after_two_round_trips() {
    let mut line = Line::warm(LINUX);
    let begins = line.now;
    line.write(0, 100, &mut every);
    line.rest(MS);
    line.write(0, 100, &mut without(&[1]));
    line.rest(300 * MS);
    let repeated = line.data(0)[2];
    assert_between(repeated - begins, ROUND_TRIP, 3 * ROUND_TRIP + 4 * TICK);
    let TcpCounts { retransmissions, rto_events, tail_loss_probes } = line.counts(0);
    assert_eq!((retransmissions, rto_events, tail_loss_probes), (1, 0, 1));
    let mut line = Line::warm(TcpOptions { tail_loss_probe: false, ..LINUX });
    line.write(0, 100, &mut without(&[0]));
    line.rest(2000 * MS);
    let TcpCounts { retransmissions, rto_events, tail_loss_probes } = line.counts(0);
    assert_eq!((retransmissions, rto_events, tail_loss_probes), (1, 1, 0));
}

#[test]
fn three_later_segments_reveal_a_loss_at_once_and_fewer_after_a_while() {
    let mut line = Line::warm(LINUX);
    let begins = line.now;
    for at in 0..4 {
        line.write(0, 100, &mut without(&[0]));
        line.run(begins + (at + 1) * MS / 10, &mut every);
    }
    line.rest(50 * MS);
    assert_eq!(line.data(0)[4], begins + ROUND_TRIP + 3 * MS / 10);
    assert_eq!(line.progress[1].last().map(|(at, _)| at - begins), Some(ROUND_TRIP + DELAY + 3 * MS / 10));
    let mut line = Line::warm(LINUX);
    let begins = line.now;
    line.write(0, 100, &mut without(&[0]));
    line.write(0, 100, &mut every);
    line.rest(100 * MS);
    let wait = ROUND_TRIP / 4 + 2 * TICK;
    assert_between(line.data(0)[2] - begins, ROUND_TRIP + wait, ROUND_TRIP + wait + 2 * TICK);
    let mut line = Line::warm(TcpOptions { fast_retransmit: false, ..LINUX });
    let begins = line.now;
    for _ in 0..4 {
        line.write(0, 100, &mut without(&[0]));
    }
    line.rest(1000 * MS);
    assert!(line.data(0)[4] - begins > 200 * MS, "only the timeout");
}

/// Returns the number of full segments sent in each round trip.
fn rounds(line: &Line, begins: u64) -> Vec<usize> {
    let mut rounds = Vec::new();
    for at in line.data(0) {
        let round = ((at - begins) / ROUND_TRIP) as usize;
        rounds.resize(rounds.len().max(round + 1), 0);
        rounds[round] += 1;
    }
    rounds
}

#[test]
fn the_window_begins_with_ten_segments_doubles_and_is_halved_by_a_loss() {
    let mut line = Line::new(LINUX);
    line.exchange(100);
    line.rest(100 * MS);
    line.sent.clear();
    let begins = line.now;
    line.write(0, 150 * FULL, &mut every);
    line.rest(1000 * MS);
    assert_eq!(rounds(&line, begins), [10, 20, 40, 80]);
    assert_eq!(line.counts(0), TcpCounts::default());

    line.sent.clear();
    let begins = line.now;
    line.write(0, 400 * FULL, &mut without(&[0]));
    line.rest(6000 * MS);
    let after = rounds(&line, begins);
    assert_eq!(after[0], 10, "the window has shrunk while nothing was sent");
    assert!(after[1..4].iter().all(|sent| (5..=6).contains(sent)), "half, and one more each round trip: {after:?}");
    assert_eq!(after.iter().sum::<usize>(), 401, "one segment was sent twice");
    assert_eq!(line.ends[1].received(), line.progress[1].last().expect("it arrived").1);
}

#[test]
fn a_window_at_rest_shrinks_to_that_of_a_new_connection() {
    let mut line = Line::new(LINUX);
    line.write(0, 150 * FULL, &mut every);
    line.rest(10_000 * MS);
    line.sent.clear();
    let begins = line.now;
    line.write(0, 100 * FULL, &mut every);
    line.rest(1000 * MS);
    assert_eq!(rounds(&line, begins)[0], 10);
}

#[test]
fn segments_carry_what_waits_in_one_stream() {
    let mut line = Line::warm(LINUX);
    for _ in 0..30 {
        line.ends[0].write(100);
    }
    line.write(0, 100, &mut every);
    let sizes: Vec<u32> = line.sent.iter().map(|(_, _, segment)| segment.bytes).collect();
    assert_eq!(sizes, [1448, 1448, 204]);
    assert_eq!(line.ends[0].unacknowledged_bytes(), 3100);
}

/// Under any faults of the link, all bytes arrive in both directions, in order, after which nothing is in flight.
#[test]
fn everything_arrives_over_a_line_that_loses_duplicates_and_reorders() {
    for seed in 0..40 {
        let run = || {
            let mut random = Random::new(seed, Purpose::Links, 0);
            let loss = (seed % 4) as f64 * 0.1;
            let mut fate = |_: usize, _: usize, _: &Segment| {
                let copies = if random.chance(loss) { 0 } else { 1 + usize::from(random.chance(0.1)) };
                (0..copies).map(|_| DELAY + if random.chance(0.2) { random.below(15 * MS) } else { 0 }).collect()
            };
            let mut line = Line::new(LINUX);
            let mut sizes = Random::new(seed, Purpose::Salts, 0);
            let mut written = [0, 0];
            for round in 0..200 {
                let (end, bytes) = (round % 2, 1 + sizes.below(8000));
                written[end] += bytes;
                line.write(end, bytes, &mut fate);
                line.run(line.now + sizes.below(40 * MS), &mut fate);
            }
            line.run(line.now + 4_000_000 * MS, &mut fate);
            for (end, written) in written.into_iter().enumerate() {
                assert_eq!(line.ends[1 - end].received(), written, "seed {seed}, from end {end}");
                assert_eq!(line.ends[end].unacknowledged_bytes(), 0, "seed {seed}, end {end}");
            }
            assert!(line.due.is_empty(), "seed {seed}: timers run for ever");
            line.sent.len()
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
