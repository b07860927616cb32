//! Measures the cost of executing a command, and of keeping the state concurrently: `cargo bench -p
//! quorate-applications`.

use bytes::Bytes;
use quorate_applications::session::{MAX_SESSIONS, SESSION_WINDOW};
use quorate_applications::{ApplicationKind, BlockContext, CheckpointRule, CheckpointTask, Executor, KeyValueCommand};
use quorate_types::{Bundle, BundleBuilder, ClientId, Digest, EpochId, Height};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;
const PUTS: usize = 200_000;
/// Distance from one key to the next, so that successive commands access distant memory. All keys are used.
const STRIDE: usize = 7_368_787;
const PUTS_PER_BUNDLE: usize = 400;

struct Load {
    name: &'static str,
    kind: ApplicationKind,
    commands: usize,
    commands_per_bundle: usize,
    bundles_per_block: usize,
    /// The client and the sequence number of the command at an index.
    who: fn(usize) -> (u64, u64),
    payload: fn(usize) -> Vec<u8>,
}

fn one_client(at: usize) -> (u64, u64) {
    (1, at as u64 + 1)
}

fn pairs_swapped(at: usize) -> (u64, u64) {
    (1, (at as u64 ^ 1) + 1)
}

fn thousand_clients(at: usize) -> (u64, u64) {
    (at as u64 % 1000, at as u64 / 1000 + 1)
}

fn nothing(_: usize) -> Vec<u8> {
    Vec::new()
}

/// Returns one of 100,000 scattered keys.
fn key(at: usize) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000).to_le_bytes());
    key
}

fn write(at: usize) -> Vec<u8> {
    KeyValueCommand::Put { key: &key(at), value: &[7; 100] }.to_vec()
}

fn half_reads(at: usize) -> Vec<u8> {
    if at.is_multiple_of(2) { write(at) } else { KeyValueCommand::Get { key: &key(at) }.to_vec() }
}

fn blocks(load: &Load) -> Vec<Vec<Bundle>> {
    let positions: Vec<usize> = (0..load.commands).collect();
    let bundles: Vec<Bundle> = positions
        .chunks(load.commands_per_bundle)
        .map(|positions| {
            let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
            for at in positions {
                let (client, sequence) = (load.who)(*at);
                builder.push(ClientId(client.into()), sequence, &(load.payload)(*at));
            }
            builder.finish()
        })
        .collect();
    bundles.chunks(load.bundles_per_block).map(<[Bundle]>::to_vec).collect()
}

/// Measures the best of the rounds, in nanoseconds per command.
fn measure(load: &Load) -> f64 {
    let blocks = blocks(load);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut executor = Executor::new(load.kind.make(), &EpochId::of_name("bench"));
        let mut replies = Vec::new();
        let start = Instant::now();
        for bundles in &blocks {
            replies.clear();
            executor.execute(BlockContext::untimed(executor.height().next()), bundles, &mut replies);
            black_box(&replies);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / load.commands as f64);
        assert_eq!(executor.commands(), load.commands as u64);
    }
    best
}

fn keeper() -> Executor {
    let rule = CheckpointRule { interval: 1, bytes_between: 1, block_bytes: 1 << 40 };
    Executor::new(ApplicationKind::KEY_VALUE.make(), &EpochId::of_name("bench")).with_checkpoints(rule)
}

/// Freezes the state. Returns the time spent by the executing thread, in microseconds.
fn freeze(executor: &mut Executor) -> (CheckpointTask, f64) {
    let start = Instant::now();
    let task = executor.checkpoint(Digest::ZERO, Bytes::new);
    let micros = start.elapsed().as_secs_f64() * 1e6;
    assert!(matches!(task, CheckpointTask::Encode(_)), "the state is kept after every block");
    (task, micros)
}

/// Encodes and hashes the state. Returns the time in milliseconds.
fn encode(task: CheckpointTask) -> f64 {
    let start = Instant::now();
    black_box(task.run());
    start.elapsed().as_secs_f64() * 1e3
}

/// Measures writes to random pairs of a large state before, during and after a freeze, and the time to freeze and
/// encode it.
fn measure_keeping(pairs: usize) {
    let mut executor = keeper();
    let key = |at: usize| {
        let mut key = [b'k'; 16];
        key[..8].copy_from_slice(&((at % pairs) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        key
    };
    let mut sequence = 0;
    let mut put = |executor: &mut Executor, commands: usize| {
        let bundles: Vec<Bundle> = (0..commands / PUTS_PER_BUNDLE)
            .map(|_| {
                let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
                for _ in 0..PUTS_PER_BUNDLE {
                    sequence += 1;
                    let key = key(sequence as usize * STRIDE);
                    builder.push(ClientId(1), sequence, &KeyValueCommand::Put { key: &key, value: &[7; 100] }.to_vec());
                }
                builder.finish()
            })
            .collect();
        let mut replies = Vec::new();
        let start = Instant::now();
        for bundle in bundles {
            replies.clear();
            executor.execute(BlockContext::untimed(executor.height().next()), &[bundle], &mut replies);
        }
        start.elapsed().as_nanos() as f64 / commands as f64
    };
    put(&mut executor, pairs);
    let mut best = [f64::INFINITY; 5];
    for _ in 0..ROUNDS {
        let without = put(&mut executor, PUTS);
        let (state, frozen) = freeze(&mut executor);
        let held = put(&mut executor, PUTS);
        let encoded = encode(state);
        let after = put(&mut executor, PUTS);
        let round = [without, held, after, frozen, encoded];
        best = std::array::from_fn(|at| best[at].min(round[at]));
    }
    let [without, held, after, frozen, encoded] = best;
    println!("kv of {pairs} pairs: frozen in {frozen:.1} us, encoded and hashed in {encoded:.0} ms");
    println!(
        "    a put costs {without:.0} ns, {held:.0} ns while the state is held, {after:.0} ns in the {PUTS} after"
    );
}

/// Measures freezing the maximum number of sessions, where each client's first command has the number `sequence`.
fn measure_sessions(sequence: u64) {
    let mut executor = keeper();
    let get = KeyValueCommand::Get { key: b"" }.to_vec();
    let clients: Vec<u64> = (0..MAX_SESSIONS as u64).collect();
    for clients in clients.chunks(PUTS_PER_BUNDLE) {
        let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
        clients.iter().for_each(|client| builder.push(ClientId((*client).into()), sequence, &get));
        executor.execute(BlockContext::untimed(executor.height().next()), &[builder.finish()], &mut Vec::new());
    }
    let frozen: Vec<f64> = (0..ROUNDS).map(|_| freeze(&mut executor).1).collect();
    let best = frozen.into_iter().fold(f64::INFINITY, f64::min);
    println!("{MAX_SESSIONS} sessions that begin with number {sequence}: frozen in {best:.1} us");
}

fn main() {
    let load = |name, kind, commands_per_bundle, who, payload| Load {
        name,
        kind,
        commands: 400_000,
        commands_per_bundle,
        bundles_per_block: 4,
        who,
        payload,
    };
    let loads = [
        load("log, 400 a bundle, one client", ApplicationKind::LOG, 400, one_client, nothing),
        load("log, 400 a bundle, one client, swapped pairs", ApplicationKind::LOG, 400, pairs_swapped, nothing),
        load("log, 400 a bundle, 1000 clients in turn", ApplicationKind::LOG, 400, thousand_clients, nothing),
        load("log, 1 a bundle, one client", ApplicationKind::LOG, 1, one_client, nothing),
        load("kv, 400 a bundle, put 100 B", ApplicationKind::KEY_VALUE, 400, one_client, write),
        load("kv, 400 a bundle, half get, half put 100 B", ApplicationKind::KEY_VALUE, 400, one_client, half_reads),
    ];
    for load in &loads {
        println!("{:<48} {:>8.1} ns a command", load.name, measure(load));
    }
    measure_keeping(100_000);
    measure_keeping(1_000_000);
    measure_sessions(1);
    measure_sessions(SESSION_WINDOW);
}
