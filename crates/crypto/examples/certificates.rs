//! What each scheme costs and weighs, beside what its primitives alone cost:
//! `cargo run --release -p quorate-crypto --example certificates [SCHEME..]`, by default for all schemes.
//!
//! For a committee of n, a certificate has the votes of a quorum of n-f. `floor` is the time of the library's
//! primitives for the same work: verifications one by one, the equation of a batch for Ed25519, and for BLS reading and
//! adding up the signatures, hashing, and two pairings. All times are microseconds of the fastest of several rounds.

use blst::BLST_ERROR;
use blst::min_sig::{AggregatePublicKey, AggregateSignature, PublicKey, Signature};
use bytes::Bytes;
use quorate_crypto::bls12381::SIGNATURES;
use quorate_crypto::ed25519::{KeyTable, PublicKey as Ed25519Key};
use quorate_crypto::scheme::Recipients;
use quorate_crypto::statements::Statements;
use quorate_crypto::{BlsVerification, Claim, KeyPair, Keyring, ReplicaKeys, SEED_BYTES, SchemeKind};
use quorate_types::{
    Address, Attachment, Certificate, ClusterId, Committee, Digest, Domain, Height, ReplicaId, Signers, Subject, View,
    encode_message,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [4, 16, 40, 80];
/// Numbers of signatures in the tables of costs, and a committee with a quorum of the largest.
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

/// A committee with the votes of a quorum.
struct Quorum {
    keyring: Keyring,
    keys: Vec<KeyPair>,
    public_keys: Vec<Vec<u8>>,
    statements: Statements,
    subject: Subject,
    signatures: Vec<Vec<u8>>,
}

impl Quorum {
    fn new(kind: SchemeKind, keys: &[ReplicaKeys]) -> Quorum {
        let address: Address = "127.0.0.1:1".parse().expect("an address");
        let members = keys.iter().map(|keys| keys.member(address.clone())).collect();
        let committee = Committee::new(ClusterId::from_name("certificates"), members).expect("a committee");
        let subject = Subject { domain: Domain::Vote, view: View(7), height: Height(5), digest: Digest([9; 32]) };
        let statements = Statements::new(&committee.cluster, &subject, [Attachment::None].iter());
        let keyring_of = |at: usize| {
            let keyring = Keyring::of_member(kind, &committee, ReplicaId(at as u16), &keys[at].voting);
            keyring.expect("generated keys are valid")
        };
        let keyring = keyring_of(0);
        let voters = &keys[..committee.quorum.quorum()];
        let sign = |(at, keys): (usize, &ReplicaKeys)| {
            let message = statements.at(0);
            match kind.profile().has_public_keys_only() {
                true => keyring.sign(&keys.voting, message, Recipients::All).to_vec(),
                false => keyring_of(at).sign(&keys.voting, message, Recipients::All).to_vec(),
            }
        };
        Quorum {
            signatures: voters.iter().enumerate().map(sign).collect(),
            keys: voters.iter().map(|keys| keys.voting.clone()).collect(),
            public_keys: committee.members.iter().map(|member| member.voting_key.to_vec()).collect(),
            keyring,
            statements,
            subject,
        }
    }

    fn sign(&self) -> Bytes {
        self.keyring.sign(&self.keys[0], black_box(self.message()), Recipients::All)
    }

    fn message(&self) -> &[u8] {
        self.statements.at(0)
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        (0..).zip(&self.signatures).map(|(at, signature)| (ReplicaId(at), self.message(), &signature[..])).collect()
    }

    fn signers(&self) -> Signers {
        (0..self.signatures.len() as u16).map(ReplicaId).collect()
    }

    /// What the primitives take to verify the votes, and to verify the certificate.
    fn floors(&self, kind: SchemeKind) -> [f64; 2] {
        if kind == SchemeKind::BLS12_381 {
            return self.bls_floors();
        }
        if kind == SchemeKind::ED25519 && self.signatures.len() > 1 {
            let decode = |key: &Vec<u8>| Ed25519Key::decode(&key[..].try_into().expect("32 bytes")).expect("a point");
            let table = KeyTable::new(self.public_keys.iter().map(decode).collect());
            let claims = self.claims();
            let batch = time(|| assert!(table.verify_many(black_box(&claims).iter().map(|c| (c.0.index(), c.1, c.2)))));
            return [batch; 2];
        }
        let claims = self.claims();
        let all =
            time(|| assert!(black_box(&claims).iter().all(|claim| self.keyring.verify(claim.0, claim.1, claim.2))));
        [all; 2]
    }

    fn bls_floors(&self) -> [f64; 2] {
        let key = |key: &Vec<u8>| PublicKey::uncompress(key).expect("a point");
        let keys: Vec<PublicKey> = self.public_keys[..self.signatures.len()].iter().map(key).collect();
        let sum = AggregatePublicKey::aggregate(&keys.iter().collect::<Vec<_>>(), false).expect("keys").to_public_key();
        let verify = |signature: &Signature| {
            let verdict = signature.verify(true, self.message(), SIGNATURES, &[], &sum, false);
            assert_eq!(verdict, BLST_ERROR::BLST_SUCCESS);
        };
        let read_and_add = || {
            let signatures: Vec<Signature> =
                self.signatures.iter().map(|one| Signature::uncompress(one).expect("a point")).collect();
            let references: Vec<&Signature> = signatures.iter().collect();
            AggregateSignature::aggregate(&references, false).expect("signatures").to_signature()
        };
        let proof = read_and_add().compress();
        let votes = time(|| verify(&read_and_add()));
        [votes, time(|| verify(&Signature::uncompress(black_box(&proof)).expect("a point")))]
    }

    fn row(&self, kind: SchemeKind, replicas: usize) {
        let (claims, signers) = (self.claims(), self.signers());
        let proof = self.keyring.prove(&claims).proof.expect("valid votes");
        let assembled = time(|| assert!(self.keyring.prove(black_box(&claims)).proof.is_ok()));
        let checked =
            time(|| assert!(self.keyring.verify_proof(&signers, &self.statements, black_box(&proof)).is_ok()));
        let [votes_floor, proof_floor] = self.floors(kind);
        let certificate = Certificate { subject: self.subject, signers, attachments: Vec::new(), proof };
        let bytes = encode_message(&certificate).len();
        println!(
            "{:20} {replicas:4} {:6} {assembled:10.1} {votes_floor:10.1} {:6.2} {checked:10.1} {proof_floor:10.1} \
             {:6.2} {bytes:8}",
            kind.costs_name(),
            signers.len(),
            assembled / votes_floor,
            checked / proof_floor,
        );
    }
}

fn seed(replica: usize) -> [u8; SEED_BYTES] {
    let mut seed = [0; SEED_BYTES];
    seed[..8].copy_from_slice(&(replica as u64).to_le_bytes());
    seed
}

/// Prints the costs as they are in the simulator's tables.
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
    // In schemes of codes: the part of one recipient.
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
    let mut members = Vec::new();
    for kind in &kinds {
        let start = Instant::now();
        let keys: Vec<ReplicaKeys> = (0..most).map(|at| ReplicaKeys::from_seed(*kind, seed(at))).collect();
        let made = start.elapsed().as_secs_f64() * 1e6 / most as f64;
        let one = Quorum::new(*kind, &keys[..1]);
        let sign = time(|| drop(black_box(one.sign())));
        let claim = one.claims()[0];
        let verify = time(|| assert!(one.keyring.verify(claim.0, claim.1, black_box(claim.2))));
        println!("{:20} {made:12.1} {sign:10.1} {verify:10.1}", kind.costs_name());
        members.push(keys);
    }
    println!(
        "\n{:20} {:>4} {:>6} {:>10} {:>10} {:>6} {:>10} {:>10} {:>6} {:>8}",
        "scheme", "n", "votes", "assemble", "floor", "ratio", "check", "floor", "ratio", "bytes"
    );
    for (kind, keys) in kinds.iter().zip(&members) {
        for replicas in SIZES {
            Quorum::new(*kind, &keys[..replicas]).row(*kind, replicas);
        }
    }
    for (kind, keys) in kinds.iter().zip(&members) {
        print_costs(*kind, keys);
    }
}
