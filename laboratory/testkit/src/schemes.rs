//! Two schemes built from hashes, outside the list of shipped ones. They show that a scheme is one file; they protect
//! nothing.

use bytes::Bytes;
use quorate_crypto::scheme::{
    Claim, Effort, Keys, PrivateKey, ProofFault, Recipients, Scheme, SchemeProfile, SignatureSize,
};
use quorate_crypto::statements::Statements;
use quorate_crypto::{CryptoError, SEED_BYTES, SchemeKind, Zeroizing};
use quorate_types::{Committee, Hasher, ReplicaId, Signers};

/// Scheme whose proof is the exclusive or of all signatures, so that its length is independent of the number of
/// signers.
pub const AGGREGATE: SchemeKind = SchemeKind::of(&Aggregate);
/// Scheme whose signature has a tag per member, which only that member can verify.
pub const TAGS: SchemeKind = SchemeKind::of(&Tags);

const DIGEST_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

fn hash(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut hasher = Hasher::new(*b"toy1");
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finish().0
}

/// A key with the hash of its seed as its public key.
struct Seed(Zeroizing<[u8; SEED_BYTES]>);

impl PrivateKey for Seed {
    fn public_key(&self) -> Bytes {
        Bytes::copy_from_slice(&hash(&[&self.0[..]]))
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&hash(&[&self.public_key(), message]))
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.to_vec())
    }
}

/// Returns a proof of possession, which differs from every signature: signatures are `toy1` hashes of a key and a
/// message that begins with a tag.
fn possession_of(public_key: &[u8]) -> [u8; DIGEST_BYTES] {
    hash(&[b"possession", public_key])
}

/// The key of the aggregate toy, whose committees list a proof of possession.
struct Proven(Box<dyn PrivateKey>);

impl PrivateKey for Proven {
    fn public_key(&self) -> Bytes {
        self.0.public_key()
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        self.0.sign(message)
    }

    fn prove_possession(&self) -> Bytes {
        Bytes::copy_from_slice(&possession_of(&self.public_key()))
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        self.0.encode()
    }
}

fn seed(seed: &[u8]) -> Option<Box<dyn PrivateKey>> {
    Some(Box::new(Seed(Zeroizing::new(seed.try_into().ok()?))))
}

fn public_keys(committee: &Committee) -> Vec<Bytes> {
    committee.members.iter().map(|member| member.voting_key.clone()).collect()
}

struct Aggregate;

static AGGREGATE_PROFILE: SchemeProfile = SchemeProfile {
    name: "toy-aggregate",
    summary: "a toy",
    unforgeable: true,
    transferable: true,
    attributable: true,
    aggregatable: true,
    batchable: false,
    needs_possession: true,
    weakness: None,
    public_key_bytes: DIGEST_BYTES,
    signature: SignatureSize::Fixed(DIGEST_BYTES),
};

impl Scheme for Aggregate {
    fn profile(&self) -> &SchemeProfile {
        &AGGREGATE_PROFILE
    }

    fn derive(&self, bytes: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        Box::new(Proven(seed(bytes).expect("a seed has its length")))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        Some(Box::new(Proven(seed(secret)?)))
    }

    fn verify_possession(&self, public_key: &[u8], proof: &[u8]) -> bool {
        proof == possession_of(public_key)
    }

    fn keys(
        &self,
        committee: &Committee,
        _: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        Ok(Box::new(AggregateKeys(public_keys(committee))))
    }
}

struct AggregateKeys(Vec<Bytes>);

impl Keys for AggregateKeys {
    fn verify(&self, (replica, message, signature): Claim<'_>) -> bool {
        self.0.get(replica.index()).is_some_and(|key| hash(&[key, message]) == signature)
    }

    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        let mut sum = [0; DIGEST_BYTES];
        for (_, _, signature) in claims {
            sum.iter_mut().zip(*signature).for_each(|(sum, byte)| *sum ^= byte);
        }
        Bytes::copy_from_slice(&sum)
    }

    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        if proof.len() != DIGEST_BYTES {
            return Err(ProofFault::Length { expected: DIGEST_BYTES });
        }
        let signatures: Vec<[u8; DIGEST_BYTES]> = (signers.iter().enumerate())
            .map(|(at, signer)| hash(&[&self.0[signer.index()], statements.at(at)]))
            .collect();
        let claims: Vec<Claim<'_>> =
            (signers.iter().zip(&signatures)).map(|(signer, signature)| (signer, &b""[..], &signature[..])).collect();
        (self.assemble(&claims) == proof).then_some(Effort::default()).ok_or(ProofFault::Signature)
    }
}

struct Tags;

static TAGS_PROFILE: SchemeProfile = SchemeProfile {
    name: "toy-tags",
    summary: "a toy",
    unforgeable: true,
    transferable: false,
    attributable: false,
    aggregatable: false,
    batchable: false,
    needs_possession: false,
    weakness: None,
    public_key_bytes: DIGEST_BYTES,
    signature: SignatureSize::PerRecipient(TAG_BYTES),
};

impl Scheme for Tags {
    fn profile(&self) -> &SchemeProfile {
        &TAGS_PROFILE
    }

    fn derive(&self, bytes: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        seed(bytes).expect("a seed has its length")
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        seed(secret)
    }

    fn keys(
        &self,
        committee: &Committee,
        holder: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        Ok(Box::new(TagKeys { keys: public_keys(committee), me: holder.map(|(me, _)| me) }))
    }
}

struct TagKeys {
    keys: Vec<Bytes>,
    me: Option<ReplicaId>,
}

impl TagKeys {
    fn tag(&self, one: ReplicaId, other: ReplicaId, message: &[u8]) -> [u8; TAG_BYTES] {
        let (first, second) = (one.min(other), one.max(other));
        let hash = hash(&[&self.keys[first.index()], &self.keys[second.index()], message]);
        hash[..TAG_BYTES].try_into().expect("a hash is longer than a tag")
    }
}

impl Keys for TagKeys {
    fn sign(&self, _key: &dyn PrivateKey, message: &[u8], to: Recipients) -> Bytes {
        let me = self.me.expect("only members sign");
        match to {
            Recipients::One(to) => Bytes::copy_from_slice(&self.tag(me, to, message)),
            Recipients::All => {
                let everybody = (0..self.keys.len() as u16).map(ReplicaId);
                everybody.flat_map(|to| self.tag(me, to, message)).collect::<Vec<u8>>().into()
            }
        }
    }

    fn verify(&self, (replica, message, signature): Claim<'_>) -> bool {
        let Some(me) = self.me.filter(|_| replica.index() < self.keys.len()) else { return false };
        let tags: Vec<&[u8]> = signature.chunks(TAG_BYTES).collect();
        let mine = if tags.len() == 1 { tags.first() } else { tags.get(me.index()) };
        mine.is_some_and(|tag| **tag == self.tag(replica, me, message))
    }

    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        quorate_crypto::schemes::assemble_list(claims)
    }

    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        let width = self.keys.len() * TAG_BYTES;
        quorate_crypto::schemes::verify_list(signers, statements, proof, width, |claims| self.verify_many(claims))
    }
}
