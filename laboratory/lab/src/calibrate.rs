//! Measures, on this machine, the costs that the simulator charges, by running the code that incurs them.

mod clients;
mod devices;
pub mod fit;
mod frames;
pub mod running;
mod signatures;
mod stages;
mod steps;
mod threads;

use crate::partial;
use crate::spec::BenchSpec;
use quorate_applications::{ApplicationKind, BlockContext, Executor, Reply};
use quorate_client::load::thread_cpu_time;
use quorate_crypto::CryptoError;
use quorate_simulator::CostTable;
use quorate_simulator::costs::CostSource;
use quorate_storage::JournalError;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, EpochId, Hasher, Height, decode_message, encode_message, tags,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Total time for each measurement.
const MEASURED: Duration = Duration::from_millis(200);
/// Rounds of each measurement. The fastest counts, because other work on the machine only adds time.
const ROUNDS: usize = 5;
/// Bytes hashed per call.
const HASHED_BYTES: usize = 64 << 10;
/// Bytes of a small message, such as a vote.
const SMALL_BYTES: usize = 128;
const LARGE_BYTES: usize = 64 << 10;
/// Commands in an executed bundle, bundles in an executed block, and blocks of one measurement.
const COMMANDS: usize = 100;
const BUNDLES_IN_BLOCK: usize = 4;
const BLOCKS: usize = 50;
/// Payload sizes of the executed commands, in bytes. The difference gives the cost per byte.
const PAYLOADS_BYTES: [usize; 2] = [0, 1024];
const US_PER_NS: f64 = 1e-3;

/// Reason why the cost table could not be measured or written.
#[derive(Debug, Error)]
pub enum CalibrateError {
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error("cannot measure system calls over loopback: {0}")]
    Loopback(#[from] io::Error),
    #[error("cannot measure the frames of {wire}: {source}")]
    Frames { wire: String, source: io::Error },
    #[error("cannot measure the journal: {0}")]
    Journal(#[from] JournalError),
    /// A calibration run on real replicas failed.
    #[error("cannot calibrate running replicas: {0}")]
    Running(String),
}

/// Returns the CPU time per call of `work` in the fastest round, in nanoseconds. Other work on the machine distorts
/// wall-clock time far more than this thread's CPU time.
fn time(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (start, before, mut calls) = (Instant::now(), thread_cpu_time(), 0u32);
        while calls == 0 || start.elapsed() < MEASURED / ROUNDS as u32 && partial::goes_on() {
            work();
            calls += 1;
        }
        best = best.min((thread_cpu_time() - before).as_nanos() as f64 / f64::from(calls));
    }
    best
}

/// Amount of work measured on real replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// About two minutes on a quiet machine.
    Whole,
    /// Too little for a usable table.
    Sample,
}

/// Returns the specifications for real replicas.
pub fn specifications() -> Vec<BenchSpec> {
    running::specs()
}

/// Measures this machine. `journal` is the directory in which to time journal writes; without it, journals are in
/// memory and `flush_us` is 0, as in runs of `quorate bench`.
///
/// # Errors
/// If loopback does not work, the directory cannot be written, keys cannot be created, or replicas cannot be run.
pub fn measure(extent: Extent, journal: Option<&Path>) -> Result<CostTable, CalibrateError> {
    let mut table = CostTable { sources: BTreeMap::new(), ..CostTable::shipped() };
    let machine = crate::result::Machine::here();
    let source = format!("calibrated: {}, {} cores, {}", machine.cpu, machine.cores, machine.kernel);
    let running = move |table: &mut CostTable| running::running(table, extent);
    let flushes = move |table: &mut CostTable| devices::flushes(table, journal);
    let stages: [(&str, &Stage<'_>); 13] = [
        ("frames", &frames::frames),
        ("signatures", &signatures::signatures),
        ("hashing", &hashing),
        ("the journal", &flushes),
        ("statuses", &devices::statuses),
        ("encoding", &codec),
        ("execution", &execution),
        ("system calls", &threads::system_calls),
        ("wake-ups", &threads::wake_ups),
        ("the scheduler", &threads::scheduler),
        ("steps", &steps::steps),
        ("clients", &clients::clients),
        ("running replicas", &running),
    ];
    for (at, (_, measure)) in stages.iter().enumerate() {
        let before = table.clone();
        measure(&mut table).or_else(|error| if partial::goes_on() { Err(error) } else { Ok(()) })?;
        if !partial::goes_on() {
            // The stage was cut short, so its entries are not measurements.
            table = before;
            let left: Vec<&str> = stages[at..].iter().map(|(name, _)| *name).collect();
            let so_far = || format!("before measuring {}; these costs are from the shipped table", left.join(", "));
            let partial = partial::partial(so_far).unwrap_or_default();
            table.source = format!("{source}; PARTIAL: {partial}");
            return Ok(table);
        }
    }
    table.source = source;
    mark_alone(&mut table);
    Ok(table)
}

/// Paths of the table's nested tables of entries.
const TABLES: [&str; 11] =
    ["client", "core", "frames", "gateway", "hash", "journal", "memory", "scheduler", "signatures", "steps", "wire"];

/// Marks all entries that no run has decided as measured in isolation.
fn mark_alone(table: &mut CostTable) {
    let decided = std::mem::take(&mut table.sources);
    table.sources = TABLES.map(|path| (path.to_owned(), CostSource::Alone)).into();
    table.sources.extend(decided);
}

/// Measures some of the costs and writes them to the table.
type Stage<'a> = dyn Fn(&mut CostTable) -> Result<(), CalibrateError> + 'a;

fn hashing(table: &mut CostTable) -> Result<(), CalibrateError> {
    let [small, large] = [SMALL_BYTES, HASHED_BYTES].map(|bytes| {
        let data = vec![7; bytes];
        time(|| {
            let mut hasher = Hasher::new(tags::CALIBRATION);
            hasher.update(black_box(&data));
            black_box(hasher.finish());
        })
    });
    table.hash.byte_ns = (large - small).max(0.0) / (HASHED_BYTES - SMALL_BYTES) as f64;
    table.hash.each_us = US_PER_NS * (small - SMALL_BYTES as f64 * table.hash.byte_ns).max(0.0);
    Ok(())
}

fn bundle(payload_bytes: usize) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    builder.push(ClientId(1), 1, &vec![0; payload_bytes]);
    builder.finish()
}

/// Measures encoding and decoding. The hash of a bundle is charged separately.
fn codec(table: &mut CostTable) -> Result<(), CalibrateError> {
    let request = ClientRequest::Status { id: 1, history: false };
    table.wire.send_us = US_PER_NS
        * time(|| {
            black_box(encode_message(black_box(&request)));
        });
    let frame = encode_message(&request);
    table.wire.receive_us = US_PER_NS
        * time(|| {
            black_box(decode_message::<ClientRequest>(black_box(frame.clone())).is_ok());
        });
    let large = bundle(LARGE_BYTES);
    let request = ClientRequest::Submit(large);
    let copying = time(|| {
        black_box(encode_message(black_box(&request)));
    });
    table.wire.send_byte_ns = copying / LARGE_BYTES as f64;
    Ok(())
}

/// Returns blocks of new commands, since each command executes only once. `next` is the first sequence number.
fn blocks(payload_bytes: usize, next: &mut u64) -> Vec<Vec<Bundle>> {
    let payload = vec![0; payload_bytes];
    let mut bundle = || {
        let mut builder = BundleBuilder::new(ClientId(1 << 16), Height(0).latest_expiry());
        for _ in 0..COMMANDS {
            builder.push(ClientId(1 << 16), *next, &payload);
            *next += 1;
        }
        builder.finish()
    };
    (0..BLOCKS).map(|_| (0..BUNDLES_IN_BLOCK).map(|_| bundle()).collect()).collect()
}

fn execution(table: &mut CostTable) -> Result<(), CalibrateError> {
    let epoch = EpochId::of_name("calibrate");
    let [empty, large] = PAYLOADS_BYTES.map(|payload_bytes| {
        let mut executor = Executor::new(ApplicationKind::LOG.make(), &epoch);
        let (mut best, mut next, mut height) = (f64::MAX, 1, Height(0));
        let mut replies: Vec<Reply> = Vec::new();
        for _ in 0..ROUNDS {
            let blocks = blocks(payload_bytes, &mut next);
            let before = thread_cpu_time();
            for bundles in &blocks {
                height = height.next();
                replies.clear();
                executor.execute(BlockContext::untimed(height), bundles, &mut replies);
            }
            best = best.min((thread_cpu_time() - before).as_nanos() as f64);
        }
        best / (BLOCKS * BUNDLES_IN_BLOCK * COMMANDS) as f64
    });
    table.core.command_us = empty * US_PER_NS;
    table.core.command_byte_ns = (large - empty).max(0.0) / (PAYLOADS_BYTES[1] - PAYLOADS_BYTES[0]) as f64;
    Ok(())
}
