//! Cost and size of each scheme, next to the cost of its primitives: `cargo run --release -p quorate-crypto --example
//! certificates [SCHEME..]`, by default for all schemes.
//!
//! For a committee of n, a certificate contains the votes of a quorum of n-f. `floor` is the time of the library's
//! primitives for the same work: individual verifications; the batch equation for Ed25519; and for BLS decoding and
//! adding up the signatures, hashing, and two pairings. All times are in microseconds, from the fastest of several
//! rounds.

#[path = "../benches/quorum/mod.rs"]
mod quorum;

use quorate_crypto::{BlsVerification, ReplicaKeys, SchemeKind};
use quorate_types::{Certificate, Signers, encode_message};
use quorum::{Quorum, SIZES, members};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Numbers of signatures in the cost tables, and a committee whose quorum is the largest of them.
const BATCHES: [usize; 6] = [1, 3, 11, 21, 41, 67];
const COMMITTEE: usize = 100;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(40);

/// Returns the microseconds that a call of `work` takes in the fastest round.
fn time(mut work: impl FnMut()) -> f64 {
    let round = |work: &mut dyn FnMut()| {
        let (start, mut calls) = (Instant::now(), 0u32);
        while start.elapsed() < ROUND {
            work();
            calls += 1;
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    };
    (0..ROUNDS).map(|_| round(&mut work)).fold(f64::MAX, f64::min)
}

/// Prints the cost and size of a certificate.
fn print_row(quorum: &Quorum, kind: SchemeKind, replicas: usize) {
    let (claims, signers, floor) = (quorum.claims(), quorum.signers(), quorum.floor(kind));
    let proof = quorum.assemble(&claims);
    let assembled = time(|| drop(black_box(quorum.assemble(&claims))));
    let checked = time(|| quorum.check(&signers, &proof));
    let (votes_floor, proof_floor) = (time(|| quorum.assemble_by(&floor)), time(|| quorum.check_by(&floor)));
    let votes = signers.len();
    let certificate = Certificate { subject: quorum.subject, signers, attachments: Vec::new(), proof };
    let bytes = encode_message(&certificate).len();
    println!(
        "{:20} {replicas:4} {votes:6} {assembled:10.1} {votes_floor:10.1} {:6.2} {checked:10.1} {proof_floor:10.1} \
         {:6.2} {bytes:8}",
        kind.costs_name(),
        assembled / votes_floor,
        checked / proof_floor,
    );
}

/// Prints the costs in the format of the simulator's tables.
fn print_costs(kind: SchemeKind, keys: &[ReplicaKeys]) {
    let (mut verify, mut check, mut assemble) = (Vec::new(), Vec::new(), Vec::new());
    let quorum = Quorum::new(kind, keys);
    for count in BATCHES {
        let claims = &quorum.claims()[..count];
        let signers: Signers = claims.iter().map(|claim| claim.0).collect();
        let proof = quorum.keyring.assemble(claims);
        let assembly = time(|| drop(black_box(quorum.keyring.assemble(black_box(claims)))));
        let proven = time(|| assert!(quorum.keyring.prove(black_box(claims)).proof.is_ok()));
        let alone = || assert!(quorum.keyring.verify(claims[0].0, claims[0].1, black_box(claims[0].2)));
        verify.push((count, if count == 1 { time(alone) } else { proven - assembly }));
        let checked = || assert!(quorum.keyring.verify_proof(&signers, &quorum.statements, black_box(&proof)).is_ok());
        check.push((count, time(checked)));
        assemble.push((count, assembly));
    }
    // In MAC schemes, the part of one recipient.
    let parts = if kind.profile().has_public_keys_only() { 1 } else { keys.len() };
    let sign = time(|| drop(black_box(quorum.sign()))) / parts as f64;
    let list = |steps: &[(usize, f64)]| {
        let steps: Vec<String> = steps.iter().map(|(count, cost)| format!("[{count}, {cost:.3}]")).collect();
        steps.join(", ")
    };
    println!("\n[signatures.{}]\nsign_us = {sign:.3}", kind.costs_name());
    println!("verify_us = [{}]\nverify_proof_us = [{}]", list(&verify), list(&check));
    println!("assemble_us = [{}]", list(&assemble));
}

fn main() {
    let most = COMMITTEE;
    let names: Vec<String> = std::env::args().skip(1).collect();
    let mut kinds = SchemeKind::with_costs();
    kinds.retain(|kind| names.is_empty() || names.iter().any(|name| name == kind.name()));
    kinds.sort_by_key(|kind| kind.costs_name() != BlsVerification::Cached.of(*kind).costs_name());
    println!("{:20} {:>12} {:>10} {:>10}", "scheme", "make a key", "sign", "verify");
    let mut committees = Vec::new();
    for kind in &kinds {
        let start = Instant::now();
        let keys = members(*kind, most);
        let made = start.elapsed().as_secs_f64() * 1e6 / most as f64;
        let one = Quorum::new(*kind, &keys[..1]);
        let sign = time(|| drop(black_box(one.sign())));
        let verify = time(|| one.verify());
        println!("{:20} {made:12.1} {sign:10.1} {verify:10.1}", kind.costs_name());
        committees.push(keys);
    }
    println!(
        "\n{:20} {:>4} {:>6} {:>10} {:>10} {:>6} {:>10} {:>10} {:>6} {:>8}",
        "scheme", "n", "votes", "assemble", "floor", "ratio", "check", "floor", "ratio", "bytes"
    );
    for (kind, keys) in kinds.iter().zip(&committees) {
        for replicas in SIZES {
            print_row(&Quorum::new(*kind, &keys[..replicas]), *kind, replicas);
        }
    }
    for (kind, keys) in kinds.iter().zip(&committees) {
        print_costs(*kind, keys);
    }
}
