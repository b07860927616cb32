//! Intervals between the blocks of a leader that chooses their sizes itself.

use crate::unit_support::*;
use proptest::prelude::*;
use quorate_consensus::data::pace::{FULL_BYTES, FULL_COMMANDS, MAX_HOLD, MIN_EXPECTED_COMMANDS, Pace};
use quorate_types::Time;
use std::time::Duration;

const COMMAND_BYTES: usize = 20;

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// Shortest interval between the blocks of a stream.
const RIPE_HOLD: Duration = Duration::from_micros(2500);

/// A leader, the commands that wait for it, and the blocks that it proposes.
struct Leader {
    pace: Pace,
    now: Time,
    pending: usize,
    /// Sizes of its blocks.
    blocks: Vec<usize>,
    /// Total time for which commands were held back.
    held: Duration,
}

impl Leader {
    fn new(batch_latency_ms: u64) -> Leader {
        let pace = Pace::new(&config_with(batch_latency_ms));
        Leader { pace, now: at(1000), pending: 0, blocks: Vec::new(), held: Duration::ZERO }
    }

    fn receive(&mut self, commands: usize) {
        self.pending += commands;
        self.pace.on_arrival(self.now, commands);
    }

    fn propose(&mut self) {
        self.pace.on_block(self.now);
        self.blocks.push(std::mem::take(&mut self.pending));
    }

    /// Proposes the waiting commands, unless the leader holds them back. Returns the duration of the hold.
    fn work(&mut self) -> Option<Duration> {
        let hold = self.pace.hold(self.now, self.pending, self.pending * COMMAND_BYTES);
        if hold.is_none() && self.pending > 0 {
            self.propose();
        }
        hold
    }

    /// Receives commands at even intervals, and works after each arrival and each hold.
    fn stream(&mut self, every: Duration, commands: usize, count: usize) {
        for _ in 0..count {
            let next = self.now + every;
            self.receive(commands);
            while let Some(hold) = self.work() {
                let until = (self.now + hold).min(next);
                self.held += until.since(self.now);
                self.now = until;
                if self.now == next {
                    break;
                }
            }
            self.now = next;
        }
    }

    /// Answers each block at once; its clients send the same number of commands `pause` later.
    fn echo(&mut self, commands: usize, pause: Duration, rounds: usize) {
        for _ in 0..rounds {
            self.now = self.now + pause;
            self.receive(commands);
            while let Some(hold) = self.work() {
                self.held += hold;
                self.now = self.now + hold;
            }
        }
    }
}

fn config_with(batch_latency_ms: u64) -> quorate_consensus::Config {
    quorate_consensus::Config { batch_latency_ms, ..config() }
}

#[test]
fn blocks_of_a_steady_stream_keep_their_distance() {
    let mut leader = Leader::new(1000);
    leader.stream(micros(100), 10, 20_000);
    let (blocks, seconds) = (leader.blocks.len() as f64, 2.0);
    let most = seconds / RIPE_HOLD.as_secs_f64();
    assert!(blocks < 1.3 * most, "{blocks} blocks in {seconds} s, and one each {RIPE_HOLD:?} is enough");
    assert_eq!(leader.blocks.iter().sum::<usize>() + leader.pending, 200_000, "no command is lost");
}

#[test]
fn clients_that_send_in_bursts_are_held_back_until_a_burst_comes() {
    // For any phase, and for distances up to a third of the longest hold.
    for spacing_us in [50, 300, 700, 1010, 1060, 1160] {
        let mut leader = Leader::new(1000);
        let commands = 300 * spacing_us as usize / 1000;
        leader.stream(micros(spacing_us), commands, 1000);
        let (before, start) = (leader.blocks.len(), leader.now);
        leader.stream(micros(spacing_us), commands, 10_000);
        let (blocks, time) = ((leader.blocks.len() - before) as u32, leader.now.since(start));
        let distance = time / blocks;
        assert!(distance >= RIPE_HOLD * 9 / 10, "{spacing_us} us: blocks are {distance:?} apart");
        assert!(distance <= MAX_HOLD, "{spacing_us} us: blocks are {distance:?} apart");
    }
}

#[test]
fn a_replica_is_patient_with_clients_while_commands_stream_in() {
    let mut pace = Pace::new(&config_with(1000));
    let mut now = at(1000);
    assert_eq!(pace.patience(now), None, "nothing has arrived");
    let feed = |pace: &mut Pace, now: &mut Time, every: Duration, commands: usize| {
        for _ in 0..100 {
            *now = *now + every;
            pace.on_arrival(*now, commands);
        }
    };
    feed(&mut pace, &mut now, micros(1000), 100);
    assert_eq!(pace.patience(now), Some(MAX_HOLD));
    assert_eq!(pace.patience(now + MAX_HOLD * 2), None, "the stream has ended");
    feed(&mut pace, &mut now, micros(1000), 1);
    assert_eq!(pace.patience(now), None, "too few to matter");
    feed(&mut pace, &mut now, micros(1000), FULL_COMMANDS);
    assert_eq!(pace.patience(now), None, "too many to leave them for later");
    let mut hasty = Pace::new(&config_with(0));
    feed(&mut hasty, &mut now, micros(1000), 100);
    assert_eq!(hasty.patience(now), None, "no latency to spend");
}

#[test]
fn a_single_client_that_waits_for_its_answer_never_waits_for_others() {
    let mut leader = Leader::new(1000);
    leader.echo(1, micros(500), 2000);
    assert_eq!((leader.held, leader.blocks.len()), (Duration::ZERO, 2000));
}

#[test]
fn clients_that_wait_for_answers_are_rarely_held_back() {
    let mut leader = Leader::new(1000);
    leader.echo(200, micros(800), 10_000);
    let share = leader.held.as_secs_f64() / leader.now.since(at(1000)).as_secs_f64();
    assert!(share < 0.02, "commands were held back for {share} of the time");
    assert!(leader.held > Duration::ZERO, "it tries now and then");
}

/// Time from a block to its clients' next commands, in microseconds: shorter than, as long as, and longer than a hold.
const ROUND_TRIPS_US: [u64; 4] = [300, 800, 1400, 1900];

#[test]
fn the_time_that_clients_take_to_answer_does_not_matter() {
    for micros_each in ROUND_TRIPS_US {
        let mut leader = Leader::new(1000);
        leader.echo(200, micros(micros_each), 10_000);
        let share = leader.held.as_secs_f64() / leader.now.since(at(1000)).as_secs_f64();
        assert!(share < 0.06, "{micros_each} us: commands were held back for {share} of the time");
    }
}

#[test]
fn full_blocks_are_never_held_back() {
    let mut leader = Leader::new(1000);
    leader.echo(FULL_COMMANDS, micros(300), 5000);
    leader.echo(FULL_BYTES.div_ceil(COMMAND_BYTES), micros(300), 5000);
    assert_eq!(leader.held, Duration::ZERO);
}

#[test]
fn a_leader_that_held_in_vain_soon_notices_a_stream() {
    let mut leader = Leader::new(1000);
    leader.echo(200, micros(800), 10_000);
    let before = leader.blocks.len();
    leader.stream(micros(100), 10, 20_000);
    leader.blocks.drain(..before);
    let later = leader.blocks.len();
    leader.stream(micros(100), 10, 20_000);
    assert!(leader.blocks.len() - later < 1300, "{} blocks in two seconds", leader.blocks.len() - later);
}

#[test]
fn commands_after_a_rest_are_proposed_at_once() {
    let mut leader = Leader::new(1000);
    leader.stream(micros(100), 10, 20_000);
    leader.now = leader.now + MAX_HOLD * 2;
    leader.receive(1);
    assert_eq!(leader.work(), None);
}

#[test]
fn a_rate_without_a_handful_of_commands_in_a_hold_waits_for_none() {
    let mut leader = Leader::new(1000);
    leader.stream(MAX_HOLD / (MIN_EXPECTED_COMMANDS as u32 - 1), 1, 5000);
    assert_eq!((leader.held, leader.blocks.len()), (Duration::ZERO, 5000));
}

#[test]
fn without_latency_to_spend_nothing_is_held_back() {
    let mut leader = Leader::new(0);
    leader.stream(micros(100), 10, 5000);
    assert_eq!((leader.held, leader.blocks.len()), (Duration::ZERO, 5000));
}

proptest! {
    /// After any history, a leader that asks again after each hold proposes a command within the longest hold.
    #[test]
    fn no_command_starves(
        history in prop::collection::vec((0u64..5000, 0usize..3000, any::<bool>()), 0..300),
        batch_latency_ms in 0u64..5,
    ) {
        let mut leader = Leader::new(batch_latency_ms);
        for (pause, commands, proposes) in history {
            leader.now = leader.now + micros(pause);
            if commands > 0 {
                leader.receive(commands);
            }
            if proposes && leader.pending > 0 {
                leader.propose();
            }
        }
        leader.receive(1);
        let begin = leader.now;
        while let Some(hold) = leader.work() {
            prop_assert!(hold > Duration::ZERO);
            leader.now = leader.now + hold;
        }
        prop_assert!(leader.now.since(begin) <= MAX_HOLD.min(millis(batch_latency_ms)));
    }
}
