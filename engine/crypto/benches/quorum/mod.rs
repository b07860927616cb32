//! A committee with the votes of a quorum, and the same work done by the libraries' primitives alone.

use blst::BLST_ERROR;
use blst::min_sig::{AggregatePublicKey, AggregateSignature, PublicKey, Signature};
use bytes::Bytes;
use quorate_crypto::bls12381::SIGNATURES;
use quorate_crypto::ed25519::{KeyTable, PublicKey as Ed25519Key};
use quorate_crypto::scheme::Recipients;
use quorate_crypto::statements::Statements;
use quorate_crypto::{Claim, KeyPair, Keyring, ReplicaKeys, SEED_BYTES, SchemeKind};
use quorate_types::{Address, Attachment, Committee, Digest, Domain, Height, ReplicaId, Signers, Subject, View};
use std::hint::black_box;

/// Committee sizes for which certificates are measured.
pub const SIZES: [usize; 4] = [4, 16, 40, 80];

/// Returns the keys of `count` members, the same ones in each call.
pub fn members(kind: SchemeKind, count: usize) -> Vec<ReplicaKeys> {
    let seed = |member: u64| {
        let mut seed = [0; SEED_BYTES];
        seed[..8].copy_from_slice(&member.to_le_bytes());
        seed
    };
    (0..count as u64).map(|member| ReplicaKeys::from_seed(kind, seed(member))).collect()
}

/// A committee with the votes of a quorum.
pub struct Quorum {
    pub keyring: Keyring,
    pub statements: Statements,
    #[allow(dead_code, reason = "for the size of a certificate, which the benchmark does not ask for")]
    pub subject: Subject,
    keys: Vec<KeyPair>,
    public_keys: Vec<Vec<u8>>,
    signatures: Vec<Vec<u8>>,
}

/// The primitives that do a scheme's work, with their inputs.
pub enum Floor {
    /// Each signature is verified alone.
    OneByOne,
    /// The batch equation.
    Batch(KeyTable),
    /// Decoding and adding up the signatures, hashing, and two pairings; the sum of the signers' keys is known.
    Sum { keys: Box<PublicKey>, proof: [u8; 48] },
}

impl Quorum {
    pub fn new(kind: SchemeKind, keys: &[ReplicaKeys]) -> Quorum {
        let address: Address = "127.0.0.1:1".parse().expect("an address");
        let members = keys.iter().map(|keys| keys.member(address.clone())).collect();
        let committee = Committee::new("certificates", members).expect("a committee");
        let subject = Subject { domain: Domain::Vote, view: View(7), height: Height(5), digest: Digest([9; 32]) };
        let statements = Statements::new(&committee.epoch, &subject, [Attachment::None].iter());
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

    /// Signs as the first member.
    pub fn sign(&self) -> Bytes {
        self.keyring.sign(&self.keys[0], black_box(self.message()), Recipients::All)
    }

    /// Verifies the first member's vote.
    ///
    /// # Panics
    /// If it is not genuine.
    pub fn verify(&self) {
        assert!(self.keyring.verify(ReplicaId(0), self.message(), black_box(&self.signatures[0])));
    }

    fn message(&self) -> &[u8] {
        self.statements.at(0)
    }

    pub fn claims(&self) -> Vec<Claim<'_>> {
        (0..).zip(&self.signatures).map(|(at, signature)| (ReplicaId(at), self.message(), &signature[..])).collect()
    }

    pub fn signers(&self) -> Signers {
        (0..self.signatures.len() as u16).map(ReplicaId).collect()
    }

    /// Verifies votes and creates their proof.
    ///
    /// # Panics
    /// If one is not genuine.
    pub fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        self.keyring.prove(black_box(claims)).proof.expect("the votes are genuine")
    }

    /// Verifies a proof.
    ///
    /// # Panics
    /// If it is not valid.
    pub fn check(&self, signers: &Signers, proof: &[u8]) {
        assert!(self.keyring.verify_proof(signers, &self.statements, black_box(proof)).is_ok());
    }

    /// Returns the primitives of a scheme.
    pub fn floor(&self, kind: SchemeKind) -> Floor {
        if kind == SchemeKind::BLS12_381 {
            let key = |key: &Vec<u8>| PublicKey::uncompress(key).expect("a point");
            let keys: Vec<PublicKey> = self.public_keys[..self.signatures.len()].iter().map(key).collect();
            let sum = AggregatePublicKey::aggregate(&keys.iter().collect::<Vec<_>>(), false).expect("keys");
            return Floor::Sum { keys: Box::new(sum.to_public_key()), proof: self.read_and_add().compress() };
        }
        if kind == SchemeKind::ED25519 && self.signatures.len() > 1 {
            let decode = |key: &Vec<u8>| Ed25519Key::decode(&key[..].try_into().expect("32 bytes")).expect("a point");
            return Floor::Batch(KeyTable::new(self.public_keys.iter().map(decode).collect()));
        }
        Floor::OneByOne
    }

    /// Performs the minimum work of assembling the votes into a certificate.
    ///
    /// # Panics
    /// If one is not genuine.
    pub fn assemble_by(&self, floor: &Floor) {
        match floor {
            Floor::Sum { keys, .. } => self.verify_sum(keys, &self.read_and_add()),
            _ => self.check_by(floor),
        }
    }

    /// Performs the minimum work of verifying their certificate.
    ///
    /// # Panics
    /// If it is not valid.
    pub fn check_by(&self, floor: &Floor) {
        let claims = self.claims();
        match floor {
            Floor::OneByOne => {
                assert!(black_box(&claims).iter().all(|claim| self.keyring.verify(claim.0, claim.1, claim.2)))
            }
            Floor::Batch(table) => {
                assert!(table.verify_many(black_box(&claims).iter().map(|claim| (claim.0.index(), claim.1, claim.2))))
            }
            Floor::Sum { keys, proof } => {
                self.verify_sum(keys, &Signature::uncompress(black_box(proof)).expect("a point"))
            }
        }
    }

    fn read_and_add(&self) -> Signature {
        let signatures: Vec<Signature> =
            self.signatures.iter().map(|one| Signature::uncompress(one).expect("a point")).collect();
        let references: Vec<&Signature> = signatures.iter().collect();
        AggregateSignature::aggregate(&references, false).expect("signatures").to_signature()
    }

    fn verify_sum(&self, keys: &PublicKey, signature: &Signature) {
        let verdict = signature.verify(true, self.message(), SIGNATURES, &[], keys, false);
        assert_eq!(verdict, BLST_ERROR::BLST_SUCCESS);
    }
}
