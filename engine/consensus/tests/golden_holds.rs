//! Golden transcript of holds: when a leader that chooses the sizes of its blocks itself proposes, in
//! `testdata/batching/holds.txt`.
//!
//! `QUORATE_GOLDEN=write cargo test -p quorate-consensus --test tests golden` rewrites it.

use crate::unit_support::*;
use quorate_consensus::Config;
use quorate_consensus::config::BatchSize;
use quorate_consensus::data::batching::{Batching, Decision, Situation};
use quorate_types::Time;
use std::fmt::Write;
use std::time::Duration;

const SMALL_BYTES: usize = 20;
const LARGE_BYTES: usize = 4096;

/// Consecutive blocks of one size that were held back for the same time.
struct Blocks {
    first: Time,
    last: Time,
    count: usize,
    commands: usize,
    held: Duration,
}

/// A leader that may propose at any time, and the commands that wait for it.
struct Leader {
    batching: Batching,
    began: Time,
    now: Time,
    pending: usize,
    pending_bytes: usize,
    held_since: Option<Time>,
    number: u64,
    blocks: Vec<Blocks>,
    text: String,
}

impl Leader {
    fn new() -> Leader {
        Leader {
            batching: Batching::new(&Config { batch: BatchSize::Auto, ..config() }),
            began: at(1000),
            now: at(1000),
            pending: 0,
            pending_bytes: 0,
            held_since: None,
            number: 0,
            blocks: Vec::new(),
            text: String::new(),
        }
    }

    fn receive(&mut self, commands: usize, command_bytes: usize) {
        self.pending += commands;
        self.pending_bytes += commands * command_bytes;
        self.batching.on_arrival(self.now, commands);
    }

    fn propose(&mut self) {
        let held = self.held_since.take().map_or(Duration::ZERO, |since| self.now.since(since));
        let commands = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.number += 1;
        self.batching.on_proposal(self.now, self.number, &[], 0);
        self.batching.on_block(self.now);
        match self.blocks.last_mut().filter(|last| (last.commands, last.held) == (commands, held)) {
            Some(last) => (last.last, last.count) = (self.now, last.count + 1),
            None => self.blocks.push(Blocks { first: self.now, last: self.now, count: 1, commands, held }),
        }
    }

    /// Proposes and waits until `until`, when the next commands arrive.
    fn work(&mut self, until: Time) {
        loop {
            let situation = Situation {
                pending: self.pending,
                pending_bytes: self.pending_bytes,
                uncommitted: false,
                ready_since: self.now,
            };
            match self.batching.decide(self.now, situation) {
                Decision::Propose => self.propose(),
                Decision::Wait(time) => {
                    self.held_since.get_or_insert(self.now);
                    if self.now + time > until {
                        break;
                    }
                    self.now = self.now + time;
                }
                Decision::Rest => break,
                Decision::Confirm => unreachable!("nothing is uncommitted"),
            }
        }
        self.now = until;
    }

    /// Receives commands at even intervals.
    fn stream(&mut self, every: Duration, commands: usize, command_bytes: usize, count: usize) {
        for _ in 0..count {
            self.receive(commands, command_bytes);
            self.work(self.now + every);
        }
    }

    /// Begins a chapter, after a silence that ends the effects of the previous one.
    fn chapter(&mut self, title: &str) {
        self.finish();
        self.work(self.now + millis(100));
        self.blocks.clear();
        self.began = self.now;
        let _ = write!(self.text, "\n{}\n", crate::golden_files::wrap(title));
    }

    fn finish(&mut self) {
        let began = self.began;
        let ms = |time: Time| time.since(began).as_secs_f64() * 1e3;
        for Blocks { first, last, count, commands, held } in self.blocks.drain(..) {
            let when = match count {
                1 => format!("{:.2}", ms(first)),
                _ => format!("{:.2}..{:.2}", ms(first), ms(last)),
            };
            let held = match held.is_zero() {
                true => "at once".to_owned(),
                false => format!("held for {:.2} ms", held.as_secs_f64() * 1e3),
            };
            let _ = writeln!(self.text, "{when:>14} ms  {count:>3} x {commands:>4} commands, {held}");
        }
    }
}

#[test]
fn holds() {
    let mut leader = Leader::new();
    leader.text += "How a leader holds commands back, with `batch = \"auto\"`\n\n";
    leader.text += &crate::golden_files::wrap(
        "The leader may always propose, so only its own rule delays a block. Times are from the beginning of each \
         part; lines count consecutive blocks of one size that were held back equally long.",
    );
    leader.chapter(
        "A stream of a command every 0.1 ms, 25 in a hold. Until the leader knows the rate, it proposes each command \
         at once; then it holds commands back.",
    );
    leader.stream(Duration::from_micros(100), 1, SMALL_BYTES, 300);
    leader.chapter("A stream of a command every 0.2 ms is too thin: fewer than 20 are expected in a hold.");
    leader.stream(Duration::from_micros(200), 1, SMALL_BYTES, 200);
    leader.chapter("A stream of 200 commands every 0.2 ms: 1500 commands end a hold.");
    leader.stream(Duration::from_micros(200), 200, SMALL_BYTES, 200);
    leader.chapter("A stream of 4 commands of 4 KiB every 0.2 ms: 96 KiB end a hold.");
    leader.stream(Duration::from_micros(200), 4, LARGE_BYTES, 200);
    leader.chapter(
        "Clients that send 40 commands 0.5 ms after each block and then wait for answers: nothing arrives during a \
         hold, so after a few the leader holds nothing back for a while, each time twice as long.",
    );
    for _ in 0..400 {
        leader.receive(40, SMALL_BYTES);
        let before = leader.number;
        while leader.number == before {
            leader.work(leader.now + Duration::from_micros(500));
        }
    }
    leader.finish();
    let held = |text: &str| text.lines().filter(|line| line.contains("held for")).count();
    assert!(held(&leader.text) > 0, "the leader holds nothing back");
    crate::golden_files::compare("batching", "holds", &leader.text);
}
