//! Measures the costs on this machine that the simulator charges.

use crate::partial;
use bytes::Bytes;
use quorate_applications::{ApplicationKind, Executor, Reply};
use quorate_crypto::scheme::Recipients;
use quorate_crypto::statements::Statements;
use quorate_crypto::{Claim, CryptoError, KeyPair, Keyring, ReplicaKeys, SEED_BYTES, SchemeKind};
use quorate_simulator::CostTable;
use quorate_simulator::costs::{SignatureCosts, Steps};
use quorate_types::{
    Address, Attachment, Bundle, BundleBuilder, ClientId, ClientRequest, ClusterId, Committee, Digest, Domain, Hasher,
    Height, ReplicaId, Signers, Subject, View, decode_message, encode_message,
};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Total time for each measurement.
const MEASURED: Duration = Duration::from_millis(200);
/// Rounds of each measurement. The fastest counts, because other work on the machine only adds time.
const ROUNDS: usize = 5;
/// Numbers of signatures verified in one batch.
const BATCHES: [usize; 6] = [1, 3, 11, 21, 41, 67];
/// Bytes hashed per call.
const HASHED_BYTES: usize = 64 << 10;
/// Bytes of a small message, such as a vote.
const SMALL_BYTES: usize = 128;
const LARGE_BYTES: usize = 64 << 10;
/// Commands in the executed bundle.
const COMMANDS: usize = 100;
const US_PER_NS: f64 = 1e-3;

/// Reason why the cost table could not be measured or written.
#[derive(Debug, Error)]
pub enum CalibrateError {
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error("cannot measure system calls over loopback: {0}")]
    Loopback(#[from] io::Error),
}

/// Returns the nanoseconds per call of `work`, in the fastest round.
fn time(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (start, mut calls) = (Instant::now(), 0u32);
        while start.elapsed() < MEASURED / ROUNDS as u32 {
            work();
            calls += 1;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    best
}

/// Measures this machine. The steps of the state machine and the costs of clients keep the values of the shipped table.
///
/// # Errors
/// If loopback does not work, or keys cannot be created.
pub fn measure() -> Result<CostTable, CalibrateError> {
    let mut table = CostTable::shipped();
    let machine = crate::result::Machine::here();
    let source = format!("calibrated: {}, {} cores, {}", machine.cpu, machine.cores, machine.kernel);
    let stages: [(&str, Stage); 5] = [
        ("signatures", signatures),
        ("hashing", hashing),
        ("encoding", codec),
        ("execution", execution),
        ("system calls", system_calls),
    ];
    for (at, (_, measure)) in stages.iter().enumerate() {
        if !partial::goes_on() {
            let left: Vec<&str> = stages[at..].iter().map(|(name, _)| *name).collect();
            let so_far = || format!("before measuring {}; these costs are from the shipped table", left.join(", "));
            let partial = partial::partial(so_far).unwrap_or_default();
            table.source = format!("{source}; PARTIAL: {partial}");
            return Ok(table);
        }
        measure(&mut table)?;
    }
    table.source = source;
    Ok(table)
}

/// Measures some of the costs and writes them to the table.
type Stage = fn(&mut CostTable) -> Result<(), CalibrateError>;

fn hashing(table: &mut CostTable) -> Result<(), CalibrateError> {
    let data = vec![7; HASHED_BYTES];
    let hash = time(|| {
        let mut hasher = Hasher::new(*b"qC01");
        hasher.update(black_box(&data));
        black_box(hasher.finish());
    });
    table.hash.byte_ns = hash / HASHED_BYTES as f64;
    Ok(())
}

fn signatures(table: &mut CostTable) -> Result<(), CalibrateError> {
    for kind in SchemeKind::ALL.iter().filter(|kind| kind.profile().unforgeable) {
        table.signatures.insert(kind.name().to_owned(), signatures_of(*kind)?);
    }
    Ok(())
}

fn signatures_of(kind: SchemeKind) -> Result<SignatureCosts, CalibrateError> {
    let most = BATCHES[BATCHES.len() - 1];
    let keys: Vec<ReplicaKeys> = (0..most).map(|at| ReplicaKeys::from_seed(kind, [at as u8 + 1; SEED_BYTES])).collect();
    let address = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let members = keys.iter().map(|keys| keys.member(address.clone())).collect();
    let keys: Vec<KeyPair> = keys.into_iter().map(|keys| keys.voting).collect();
    let committee = Committee::new(ClusterId::from_name("calibrate"), members).expect("the size is sound");
    let keyring = Keyring::of_member(kind, &committee, ReplicaId(0), &keys[0])?;
    let subject = Subject { domain: Domain::Vote, view: View(1), height: Height(1), digest: Digest::ZERO };
    let statements = Statements::new(&committee.cluster, &subject, [Attachment::None].iter());
    let message = statements.at(0);
    let sign = time(|| {
        black_box(keyring.sign(&keys[0], black_box(message), Recipients::All));
    });
    let signed: Vec<Bytes> = keys.iter().map(|key| keyring.sign(key, message, Recipients::All)).collect();
    let (mut verify, mut verify_proof, mut assemble) = (Vec::new(), Vec::new(), Vec::new());
    for count in BATCHES {
        let claims: Vec<Claim<'_>> = (0..count).map(|at| (ReplicaId(at as u16), message, &signed[at][..])).collect();
        let (signers, proof): (Signers, Bytes) =
            (claims.iter().map(|claim| claim.0).collect(), keyring.assemble(&claims));
        step(&mut verify, count, time(|| assert!(keyring.verify_many(black_box(&claims)))));
        let proven = || assert!(keyring.verify_proof(&signers, &statements, black_box(&proof)).is_ok());
        step(&mut verify_proof, count, time(proven));
        step(&mut assemble, count, time(|| drop(black_box(keyring.assemble(black_box(&claims))))));
    }
    Ok(SignatureCosts {
        sign_us: sign * US_PER_NS,
        verify_us: verify,
        verify_proof_us: verify_proof,
        assemble_us: assemble,
    })
}

/// Adds the cost of `count` signatures. Noise must not make a larger batch cheaper than a smaller one.
fn step(steps: &mut Steps, count: usize, took_ns: f64) {
    let floor = steps.last().map_or(0.0, |(_, cost)| *cost);
    steps.push((count as u32, (took_ns * US_PER_NS).max(floor)));
}

fn bundle(payload_bytes: usize, commands: usize) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    (1..=commands).for_each(|sequence| builder.push(ClientId(1), sequence as u64, &vec![0; payload_bytes]));
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
    let large = bundle(LARGE_BYTES, 1);
    let request = ClientRequest::Submit(large);
    let copying = time(|| {
        black_box(encode_message(black_box(&request)));
    });
    table.wire.send_byte_ns = copying / LARGE_BYTES as f64;
    Ok(())
}

fn execution(table: &mut CostTable) -> Result<(), CalibrateError> {
    let bundle = bundle(SMALL_BYTES, COMMANDS);
    let cluster = ClusterId::from_name("calibrate");
    let mut replies: Vec<Reply> = Vec::new();
    let mut executor = Executor::new(quorate_applications::build(ApplicationKind::Log), &cluster);
    let mut height = Height(0);
    let took = time(|| {
        height = height.next();
        replies.clear();
        executor.execute(height, std::slice::from_ref(&bundle), &mut replies);
    });
    table.core.command_us = took * US_PER_NS / COMMANDS as f64;
    Ok(())
}

/// Measures a write and a read of a small message over loopback on one thread, and the cost per byte of a large
/// message.
fn system_calls(table: &mut CostTable) -> Result<(), CalibrateError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    sender.set_nodelay(true)?;
    let (mut write, mut read) = (f64::MAX, f64::MAX);
    let mut buffer = vec![0; LARGE_BYTES];
    for _ in 0..ROUNDS {
        let (mut writing, mut reading, mut calls) = (Duration::ZERO, Duration::ZERO, 0u32);
        let start = Instant::now();
        while start.elapsed() < MEASURED / ROUNDS as u32 {
            let before = Instant::now();
            sender.write_all(&[1; SMALL_BYTES])?;
            let between = Instant::now();
            receiver.read_exact(&mut buffer[..SMALL_BYTES])?;
            reading += between.elapsed();
            writing += between - before;
            calls += 1;
        }
        write = write.min(writing.as_nanos() as f64 / f64::from(calls));
        read = read.min(reading.as_nanos() as f64 / f64::from(calls));
    }
    table.wire.write_call_us = write * US_PER_NS;
    table.wire.read_call_us = read * US_PER_NS;
    receiver.set_nonblocking(true)?;
    let empty = time(|| {
        // A read that finds nothing: the cost of polling.
        black_box(receiver.read(&mut buffer).is_ok());
    });
    table.core.turn_us = empty * US_PER_NS;
    receiver.set_nonblocking(false)?;
    let mut failed = None;
    let part = LARGE_BYTES / 4;
    let both = time(|| {
        let moved = sender.write_all(&buffer[..part]).and_then(|()| receiver.read_exact(&mut buffer[..part]));
        failed = failed.take().or(moved.err());
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let bytes = (both - write - read).max(0.0) / part as f64;
    table.wire.receive_byte_ns = bytes / 2.0;
    table.wire.send_byte_ns += bytes / 2.0;
    Ok(())
}
