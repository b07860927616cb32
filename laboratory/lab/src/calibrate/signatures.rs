//! Costs of signature schemes and MACs.

use super::{CalibrateError, US_PER_NS, time};
use crate::partial;
use bytes::Bytes;
use quorate_crypto::scheme::Recipients;
use quorate_crypto::statements::Statements;
use quorate_crypto::{Claim, CryptoError, KeyPair, Keyring, ReplicaKeys, SEED_BYTES, SchemeKind};
use quorate_simulator::CostTable;
use quorate_simulator::costs::{SignatureCosts, Steps};
use quorate_types::{Address, Attachment, Committee, Digest, Domain, Height, ReplicaId, Signers, Subject, View};
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};

/// Numbers of signatures verified in one batch.
const BATCHES: [usize; 6] = [1, 3, 11, 21, 41, 67];
/// Size of the committee.
const MEMBERS: usize = BATCHES[BATCHES.len() - 1];
/// Statements in the certificate that measures the cost of each further one.
const STATEMENTS: usize = 3;

pub(super) fn signatures(table: &mut CostTable) -> Result<(), CalibrateError> {
    for kind in SchemeKind::with_costs().into_iter().take_while(|_| partial::goes_on()) {
        table.signatures.insert(kind.costs_name().to_owned(), signatures_of(kind)?);
    }
    Ok(())
}

/// A committee, from the point of view of its first member.
struct Bench {
    kind: SchemeKind,
    committee: Committee,
    keys: Vec<KeyPair>,
    keyring: Keyring,
}

impl Bench {
    fn new(kind: SchemeKind) -> Result<Bench, CryptoError> {
        let keys: Vec<ReplicaKeys> =
            (0..MEMBERS).map(|at| ReplicaKeys::from_seed(kind, [at as u8 + 1; SEED_BYTES])).collect();
        let address = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let members = keys.iter().map(|keys| keys.member(address.clone())).collect();
        let keys: Vec<KeyPair> = keys.into_iter().map(|keys| keys.voting).collect();
        let committee = Committee::new("calibrate", members).expect("the size is sound");
        let keyring = Keyring::of_member(kind, &committee, ReplicaId(0), &keys[0])?;
        Ok(Bench { kind, committee, keys, keyring })
    }

    /// Returns the number of recipients for which a signature has a part.
    fn parts(&self) -> usize {
        if self.kind.profile().has_public_keys_only() { 1 } else { MEMBERS }
    }

    fn sign_as(&self, at: usize, message: &[u8]) -> Result<Bytes, CryptoError> {
        let key = &self.keys[at];
        match self.parts() {
            1 => Ok(self.keyring.sign(key, message, Recipients::All)),
            _ => Keyring::of_member(self.kind, &self.committee, ReplicaId(at as u16), key)
                .map(|keyring| keyring.sign(key, message, Recipients::All)),
        }
    }

    fn additions(&self, signers: usize) -> u64 {
        self.kind.scheme().effort_of_proof(MEMBERS, &[signers]).key_additions
    }

    /// Returns the time to add a key, in nanoseconds: the difference between the sums with the most and the fewest
    /// additions, divided by their number. 0 in schemes without sums.
    fn key_addition(&self) -> f64 {
        let by_additions = |signers: &usize| self.additions(*signers);
        let most = (1..=MEMBERS).max_by_key(by_additions).expect("there are members");
        let fewest = (1..=MEMBERS).min_by_key(by_additions).expect("there are members");
        let between = self.additions(most) - self.additions(fewest);
        if between == 0 {
            return 0.0;
        }
        let [dear, cheap] = [most, fewest].map(|count| {
            let signers = first(count);
            time(|| {
                black_box(self.keyring.add_up(black_box(&signers)));
            })
        });
        (dear - cheap).max(0.0) / between as f64
    }

    /// Returns the time for each further statement of a certificate, in nanoseconds, without additions of keys; 0 in
    /// schemes without sums. Each statement has one signer.
    fn further_statement(&self) -> Result<f64, CryptoError> {
        if !self.kind.profile().aggregatable {
            return Ok(0.0);
        }
        let subject = Subject { domain: Domain::Timeout, view: View(9), height: Height(0), digest: Digest::ZERO };
        let said: Vec<Attachment> = (0..STATEMENTS as u64).map(|at| Attachment::HighView(View(at))).collect();
        let [one, all] = [1, STATEMENTS].map(|count| {
            let statements = Statements::new(&self.committee.epoch, &subject, said[..count].iter());
            let sign = |at| self.sign_as(at, statements.at(at));
            let signed = (0..count).map(sign).collect::<Result<Vec<Bytes>, CryptoError>>()?;
            let proof = self.keyring.assemble(&claims(&statements, &signed));
            let signers = first(count);
            Ok::<_, CryptoError>(time(|| {
                assert!(self.keyring.verify_proof(&signers, &statements, black_box(&proof)).is_ok());
            }))
        });
        Ok((all? - one?).max(0.0) / (STATEMENTS - 1) as f64)
    }
}

fn first(count: usize) -> Signers {
    (0..count as u16).map(ReplicaId).collect()
}

fn claims<'a>(statements: &'a Statements, signed: &'a [Bytes]) -> Vec<Claim<'a>> {
    (0..).zip(signed).map(|(at, signature)| (ReplicaId(at), statements.at(usize::from(at)), &signature[..])).collect()
}

fn signatures_of(kind: SchemeKind) -> Result<SignatureCosts, CalibrateError> {
    let bench = Bench::new(kind)?;
    let keyring = &bench.keyring;
    let subject = Subject { domain: Domain::Vote, view: View(1), height: Height(1), digest: Digest::ZERO };
    let statements = Statements::new(&bench.committee.epoch, &subject, [Attachment::None].iter());
    let message = statements.at(0);
    let sign = time(|| {
        black_box(keyring.sign(&bench.keys[0], black_box(message), Recipients::All));
    });
    let signed = (0..MEMBERS).map(|at| bench.sign_as(at, message)).collect::<Result<Vec<Bytes>, CryptoError>>()?;
    let key_addition = bench.key_addition();
    let (mut verify, mut verify_proof, mut assemble) = (Vec::new(), Vec::new(), Vec::new());
    for count in BATCHES {
        let (claims, signers) = (claims(&statements, &signed[..count]), first(count));
        let proof = keyring.assemble(&claims);
        let additions = bench.additions(count) as f64 * key_addition;
        let proven = || assert!(keyring.verify_proof(&signers, &statements, black_box(&proof)).is_ok());
        step(&mut verify_proof, count, time(proven) - additions);
        // Verification and assembly may share work, so only their sum is meaningful.
        let assembly = time(|| drop(black_box(keyring.assemble(black_box(&claims)))));
        let alone = || assert!(keyring.verify(claims[0].0, claims[0].1, black_box(claims[0].2)));
        let of_votes = if kind.scheme().adds_up_votes() { additions } else { 0.0 };
        let verification = match count {
            1 => time(alone),
            _ => time(|| assert!(keyring.prove(black_box(&claims)).proof.is_ok())) - assembly - of_votes,
        };
        step(&mut verify, count, verification);
        step(&mut assemble, count, assembly);
    }
    Ok(SignatureCosts {
        sign_us: sign * US_PER_NS / bench.parts() as f64,
        verify_us: verify,
        verify_proof_us: verify_proof,
        assemble_us: assemble,
        key_addition_us: key_addition * US_PER_NS,
        further_statement_us: bench.further_statement()? * US_PER_NS,
    })
}

/// Adds the cost of `count` signatures. Noise must not make a larger batch cheaper than a smaller one.
fn step(steps: &mut Steps, count: usize, took_ns: f64) {
    let floor = steps.last().map_or(0.0, |(_, cost)| *cost);
    steps.push((count as u32, (took_ns * US_PER_NS).max(floor)));
}
