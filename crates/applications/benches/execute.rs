//! What executing costs a command, in nanoseconds: `cargo bench -p quorate-applications`.

use quorate_applications::{ApplicationKind, Executor, KeyValueCommand};
use quorate_types::{Bundle, BundleBuilder, ClientId, ClusterId};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;

struct Load {
    name: &'static str,
    kind: ApplicationKind,
    commands: usize,
    commands_per_bundle: usize,
    bundles_per_block: usize,
    /// The client and the sequence number of the command at a position.
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

/// A key among 100,000, scattered.
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
            let mut builder = BundleBuilder::new(ClientId(1));
            for at in positions {
                let (client, sequence) = (load.who)(*at);
                builder.push(ClientId(client.into()), sequence, &(load.payload)(*at));
            }
            builder.finish()
        })
        .collect();
    bundles.chunks(load.bundles_per_block).map(<[Bundle]>::to_vec).collect()
}

/// The best of the rounds, in nanoseconds a command.
fn measure(load: &Load) -> f64 {
    let blocks = blocks(load);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut executor = Executor::new(load.kind.build(), &ClusterId::from_name("bench"));
        let mut replies = Vec::new();
        let start = Instant::now();
        for bundles in &blocks {
            replies.clear();
            executor.execute(executor.height().next(), bundles, &mut replies);
            black_box(&replies);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / load.commands as f64);
        assert_eq!(executor.commands(), load.commands as u64);
    }
    best
}

fn main() {
    use ApplicationKind::{KeyValue, Log};
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
        load("log, 400 a bundle, one client", Log, 400, one_client, nothing),
        load("log, 400 a bundle, one client, swapped pairs", Log, 400, pairs_swapped, nothing),
        load("log, 400 a bundle, 1000 clients in turn", Log, 400, thousand_clients, nothing),
        load("log, 1 a bundle, one client", Log, 1, one_client, nothing),
        load("kv, 400 a bundle, put 100 B", KeyValue, 400, one_client, write),
        load("kv, 400 a bundle, half get, half put 100 B", KeyValue, 400, one_client, half_reads),
    ];
    for load in &loads {
        println!("{:<48} {:>8.1} ns a command", load.name, measure(load));
    }
}
