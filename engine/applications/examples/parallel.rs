//! Measures blocks of scans and writes with one and with several execution threads, alternating: `cargo run --release
//! -p quorate-applications --example parallel -- [THREADS] [PAIRS] [SCANS]`.

use quorate_applications::{BlockContext, Executor, KeyValue, KeyValueCommand, Parallelism, Reply};
use quorate_types::{Bundle, BundleBuilder, ClientId, EpochId, Height};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const BLOCKS: usize = 20;
/// Pairs in the store, and bytes of a value.
const STORED: u32 = 100_000;
const VALUE: [u8; 100] = [7; 100];
/// Pairs in each bundle that fills the store.
const FILLED_AT_ONCE: u32 = 5_000;

struct Client {
    sequence: u64,
}

impl Client {
    /// Returns a bundle of commands that expires the longest lifetime after a height.
    fn bundle(&mut self, height: Height, payloads: impl Iterator<Item = Vec<u8>>) -> Bundle {
        let mut builder = BundleBuilder::new(ClientId(1), height.latest_expiry());
        for payload in payloads {
            self.sequence += 1;
            builder.push(ClientId(1), self.sequence, &payload);
        }
        builder.finish()
    }
}

/// A bundle per command, as from clients that send one at a time: scans of the front, each followed by a write at the
/// back.
fn block(client: &mut Client, height: Height, scans: u32, pairs: u32) -> Vec<Bundle> {
    let scan = |at: u32| {
        let from = (at * 7919 % (STORED / 2)).to_be_bytes();
        KeyValueCommand::Scan { from: &from, to: Some(&(STORED / 2 + pairs).to_be_bytes()), limit: pairs }.to_vec()
    };
    let write = |at: u32| KeyValueCommand::Put { key: &(STORED - 1 - at).to_be_bytes(), value: &VALUE }.to_vec();
    let payloads: Vec<Vec<u8>> = (0..scans).flat_map(|at| [scan(at), write(at)]).collect();
    payloads.into_iter().map(|payload| client.bundle(height, std::iter::once(payload))).collect()
}

/// Returns the time of a block, the mean, and the digest of everything executed.
fn run(threads: u16, pairs: u32, scans: u32) -> (Duration, String) {
    let mut executor = Executor::new(Box::new(KeyValue::new()), &EpochId::of_name("example"))
        .with_parallelism(Parallelism::of(threads));
    let mut client = Client { sequence: 0 };
    let mut replies: Vec<Reply> = Vec::new();
    let mut execute = |executor: &mut Executor, bundles: &[Bundle]| {
        replies.clear();
        executor.execute(BlockContext::untimed(executor.height().next()), bundles, &mut replies);
    };
    let put = |at: u32| KeyValueCommand::Put { key: &at.to_be_bytes(), value: &VALUE }.to_vec();
    for from in (0..STORED).step_by(FILLED_AT_ONCE as usize) {
        let filling = client.bundle(executor.height(), (from..from + FILLED_AT_ONCE).map(put));
        execute(&mut executor, &[filling]);
    }
    // The first scan sorts the keys.
    let warm = block(&mut client, executor.height(), 1, pairs);
    execute(&mut executor, &warm);
    let blocks: Vec<Vec<Bundle>> = (0..BLOCKS).map(|_| block(&mut client, executor.height(), scans, pairs)).collect();
    let began = Instant::now();
    for bundles in &blocks {
        execute(&mut executor, bundles);
    }
    (began.elapsed() / BLOCKS as u32, executor.state_digest().to_hex())
}

fn main() {
    let argument = |at: usize, default: u32| match std::env::args().nth(at) {
        None => default,
        Some(text) => text.parse().expect("a whole number"),
    };
    let (threads, pairs, scans) = (argument(1, 2) as u16, argument(2, 1000), argument(3, 32));
    let (mut one, mut several) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Alternating, and in alternating order.
        let [first, second] = if round % 2 == 0 { [1, threads] } else { [threads, 1] };
        let [(first_took, first_digest), (second_took, digest)] = [first, second].map(|own| run(own, pairs, scans));
        assert_eq!(first_digest, digest, "threads change no result");
        let [alone, together] = if first == 1 { [first_took, second_took] } else { [second_took, first_took] };
        one.push(alone);
        several.push(together);
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    let (alone, together) = (median(&mut one), median(&mut several));
    println!("{scans} scans of {pairs} pairs and {scans} writes in a block, medians of {ROUNDS} rounds:");
    println!("1 thread: {alone:.3} ms; {threads} threads: {together:.3} ms; gain {:.2}", alone / together);
}
