//! The interface of signature schemes: an object with a name, a profile and keys.
//!
//! A scheme is one file in [`schemes`](crate::schemes) and one line in its list. Configurations, key files, the command
//! line, cost tables and reports take names from that list. Code that depends on a scheme's properties reads its
//! [`SchemeProfile`].

use crate::bisect::find_bad;
use crate::error::CryptoError;
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::identity::{ProofRequirements, ProofShape};
use quorate_types::meter::Primitive;
use quorate_types::{Committee, ReplicaId, Signers};
use zeroize::Zeroizing;

/// Length of the seed of a private key, in bytes.
pub const SEED_BYTES: usize = 32;

/// Properties of a scheme that other code depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemeProfile {
    /// Name used in configurations and key files.
    pub name: &'static str,
    /// One-line description for the help text.
    pub summary: &'static str,
    /// Whether only the owner of a key can sign for it. False for baselines only.
    pub unforgeable: bool,
    /// Whether the receiver of a signature or a proof can convince others with it.
    pub transferable: bool,
    /// Whether each bad signature of a failed batch can be identified, and two contradictory statements convict their
    /// signer.
    pub attributable: bool,
    /// Whether a proof is one value for any number of signers. Otherwise it is the list of their signatures.
    pub aggregatable: bool,
    /// Whether verifying many signatures at once is cheaper than verifying them one by one.
    pub batchable: bool,
    /// Whether the committee must list each key with a proof of possession of the private key. Otherwise a member could
    /// choose a key that makes an aggregate look signed by others too (a rogue-key attack).
    pub needs_possession: bool,
    /// Why the scheme is too weak for production; such a scheme is for measurements.
    pub weakness: Option<&'static str>,
    pub public_key_bytes: usize,
    pub signature: SignatureSize,
}

/// Length of a signature, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignatureSize {
    Fixed(usize),
    /// Bytes per replica that can verify it.
    PerRecipient(usize),
}

impl SchemeProfile {
    /// Returns the length in bytes of a signature for this many recipients.
    pub fn signature_bytes(&self, replicas: usize) -> usize {
        match self.signature {
            SignatureSize::Fixed(bytes) => bytes,
            SignatureSize::PerRecipient(bytes) => bytes * replicas,
        }
    }

    /// Returns a protocol's requirement that the scheme lacks, as a predicate for the scheme's name.
    pub fn lacks(&self, required: ProofRequirements) -> Option<&'static str> {
        (required.transferable && !self.transferable).then_some("convinces only the recipients of its signatures")
    }

    /// Returns whether all members verify with the same keys. In schemes with shared secrets, each member has its own
    /// keys.
    pub fn has_public_keys_only(&self) -> bool {
        matches!(self.signature, SignatureSize::Fixed(_))
    }

    /// Returns the lengths of signatures and proofs in a committee of `replicas`.
    pub fn shape(&self, replicas: usize) -> ProofShape {
        ProofShape { signature_bytes: self.signature_bytes(replicas), is_aggregate: self.aggregatable }
    }
}

/// Replicas that can verify a signature. Only matters in schemes with shared secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipients {
    All,
    One(ReplicaId),
}

/// A claim that a replica signed a message: replica, message, signature.
pub type Claim<'a> = (ReplicaId, &'a [u8], &'a [u8]);

/// Reason to reject a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofFault {
    Length {
        expected: usize,
    },
    /// At least one signature is invalid.
    Signature,
}

/// Curve operations that verified a proof; zero in schemes that verify signatures one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effort {
    /// Public keys added to, or subtracted from, the sum that enters a pairing.
    pub key_additions: u64,
    /// Pairings: one for the signature, and one per distinct statement.
    pub pairings: u64,
}

/// Certificates verified so far, and the operations that took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Proofs {
    /// Genuine certificates received from peers; those found in the cache do not count.
    pub verified: u64,
    pub effort: Effort,
}

impl Proofs {
    /// Adds one verified certificate.
    pub fn add(&mut self, effort: Effort) {
        self.verified += 1;
        self.effort += effort;
    }
}

impl std::ops::AddAssign for Effort {
    fn add_assign(&mut self, other: Effort) {
        self.key_additions += other.key_additions;
        self.pairings += other.pairings;
    }
}

/// Outcome of the assembly of a proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proven {
    /// The proof, or the signers of bad signatures, ascending.
    pub proof: Result<Bytes, Vec<ReplicaId>>,
    /// Number of signatures verified. A batch of k counts k, and bisection counts them again.
    pub checked: u64,
}

/// Computes the tag of a message with a 32-byte key.
pub type TagFunction = fn(&[u8], &[u8]) -> [u8; 16];

/// How votes are signed, verified and made into certificates: implement it to add a scheme.
pub trait Scheme: Send + Sync {
    fn profile(&self) -> &SchemeProfile;

    /// Name used in cost tables. Verification methods that differ only in cost have different names.
    fn costs_name(&self) -> &'static str {
        self.profile().name
    }

    /// Derives a private key from a seed.
    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey>;

    /// Decodes the output of [`PrivateKey::encode`]; `None` if it is not a private key.
    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>>;

    /// Returns the tag function of a MAC scheme.
    fn tag(&self) -> Option<TagFunction> {
        None
    }

    /// Returns the operations that [`Keys::verify_proof`] takes in a committee of `members`; `groups` contains the
    /// number of signers of each distinct statement.
    fn effort_of_proof(&self, _members: usize, _groups: &[usize]) -> Effort {
        Effort::default()
    }

    /// Returns whether votes are added up and verified together, with the operations of their proof.
    fn adds_up_votes(&self) -> bool {
        self.profile().aggregatable
    }

    /// Verifies a [`PrivateKey::prove_possession`]. A scheme that requires no proof accepts only an empty one.
    fn verify_possession(&self, _public_key: &[u8], proof: &[u8]) -> bool {
        proof.is_empty()
    }

    /// Decodes a committee's voting keys; their lengths were checked before. `holder` is the member that will use them,
    /// with its private key. In schemes with shared secrets, keys without a holder verify nothing.
    ///
    /// # Errors
    /// [`CryptoError`] with the member whose key is unusable.
    fn keys(
        &self,
        committee: &Committee,
        holder: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError>;
}

/// A private key, wiped from memory when dropped.
pub trait PrivateKey: Send + Sync {
    fn public_key(&self) -> Bytes;

    /// Signs a message. Signing is deterministic.
    fn sign(&self, message: &[u8]) -> Bytes;

    /// Returns a proof of possession of this key; empty if the profile does not require one.
    fn prove_possession(&self) -> Bytes {
        Bytes::new()
    }

    /// Encodes the key for a key file.
    fn encode(&self) -> Zeroizing<Vec<u8>>;
}

/// The voting keys of a committee, decoded once.
pub trait Keys: Send + Sync {
    /// Signs for the recipients. Public-key schemes ignore the recipients.
    fn sign(&self, key: &dyn PrivateKey, message: &[u8], _to: Recipients) -> Bytes {
        key.sign(message)
    }

    /// Verifies a claim. A claim about a non-member is never valid.
    fn verify(&self, claim: Claim<'_>) -> bool;

    /// Verifies all claims; true exactly if each claim is valid on its own.
    fn verify_many(&self, claims: &[Claim<'_>]) -> bool {
        claims.iter().all(|claim| self.verify(*claim))
    }

    /// Verifies claims by different signers, in ascending order, and creates their proof. The proof is valid, but may
    /// hide signatures that are not valid on their own if their signers collude: see [`crate::bls12381`].
    fn prove(&self, claims: &[Claim<'_>]) -> Proven {
        let mut checked = 0;
        let bad = find_bad(claims, |claims| {
            checked += claims.len() as u64;
            self.verify_many(claims)
        });
        let bad: Vec<ReplicaId> = bad.into_iter().map(|(replica, ..)| *replica).collect();
        Proven { proof: if bad.is_empty() { Ok(self.assemble(claims)) } else { Err(bad) }, checked }
    }

    /// Creates a proof from valid claims, in ascending order of signers.
    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes;

    /// Verifies a proof; all signers are members.
    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault>;

    /// Adds up the keys of signers like the verification of a proof, to measure the operations.
    fn add_up(&self, _signers: &Signers) -> Effort {
        Effort::default()
    }
}

/// A reference to a scheme, compared by name.
#[derive(Clone, Copy)]
pub struct SchemeKind(&'static dyn Scheme);

impl SchemeKind {
    /// Refers to a scheme, which need not be in the list. Names must be unique.
    pub const fn of(scheme: &'static dyn Scheme) -> SchemeKind {
        SchemeKind(scheme)
    }

    pub fn scheme(self) -> &'static dyn Scheme {
        self.0
    }

    pub fn profile(self) -> &'static SchemeProfile {
        self.0.profile()
    }

    pub fn name(self) -> &'static str {
        self.profile().name
    }

    /// Returns the name used in cost tables.
    pub fn costs_name(self) -> &'static str {
        self.0.costs_name()
    }

    /// Returns the primitive that signs.
    pub fn signs_by(self) -> Primitive {
        if self.profile().has_public_keys_only() { Primitive::Sign } else { Primitive::Mac }
    }

    /// Returns the primitive that verifies this many signatures together, of votes or, with `as_proof`, in a proof.
    pub fn verifies_by(self, signatures: usize, as_proof: bool) -> Primitive {
        let profile = self.profile();
        match signatures {
            _ if !profile.has_public_keys_only() => Primitive::Mac,
            _ if profile.aggregatable && (as_proof || signatures > 1 && self.0.adds_up_votes()) => {
                Primitive::VerifyAggregate
            }
            0 | 1 => Primitive::VerifySingle,
            _ if profile.batchable && !profile.aggregatable => Primitive::VerifyBatch,
            _ => Primitive::VerifySingle,
        }
    }
}

quorate_types::named_handle!(SchemeKind, "signature scheme");
