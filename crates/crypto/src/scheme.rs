//! What a signature scheme is to everybody else: an object with a name, a profile, and keys.
//!
//! A scheme is one file in [`schemes`](crate::schemes) and one line in its list. Whatever names schemes (configurations, key files, the
//! command line, cost tables, reports) reads that list, and whatever depends on what a scheme can do reads its [`SchemeProfile`].

use crate::error::CryptoError;
use crate::statements::Statements;
use bytes::Bytes;
use quorate_types::identity::{ProofRequirements, ProofShape};
use quorate_types::{Committee, ReplicaId, Signers, named_choice};
use std::fmt;
use std::hash::{Hash, Hasher};
use zeroize::Zeroizing;

/// Bytes of the seed that a private key is derived from.
pub const SEED_BYTES: usize = 32;

/// What others have to know of a scheme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemeProfile {
    /// The name in configurations and key files.
    pub name: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    /// Nobody can make a signature of somebody else's. False for baselines only.
    pub unforgeable: bool,
    /// Whoever receives a signature or a proof can convince others with it.
    pub transferable: bool,
    /// Of signatures that fail together, each bad one can be told, and two that contradict each other prove who made them.
    pub attributable: bool,
    /// A proof is one value, however many signed; else it is the list of their signatures.
    pub aggregatable: bool,
    /// Checking many signatures at once is cheaper than one by one.
    pub batchable: bool,
    /// A member's key is listed with a proof that the member has the private key: without, one member could choose its key so that an
    /// aggregate seems to be of others too.
    pub needs_possession: bool,
    /// Bytes of a public key.
    pub public_key_bytes: usize,
    /// How long a signature is.
    pub signature: SignatureSize,
}

/// How long a signature is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignatureSize {
    /// Always so many bytes.
    Fixed(usize),
    /// So many bytes for each replica that is to check it.
    PerRecipient(usize),
}

impl SchemeProfile {
    /// Bytes of a signature that every one of so many replicas can check.
    pub fn signature_bytes(&self, replicas: usize) -> usize {
        match self.signature {
            SignatureSize::Fixed(bytes) => bytes,
            SignatureSize::PerRecipient(bytes) => bytes * replicas,
        }
    }

    /// What a protocol asks of signatures that these cannot do, in words that follow the scheme's name.
    pub fn lacks(&self, asked: ProofRequirements) -> Option<&'static str> {
        (asked.transferable && !self.transferable).then_some("convinces only those whom its signatures were made for")
    }

    /// Whether all members check with the same keys: where two share a secret, each member has keys of its own.
    pub fn has_public_keys_only(&self) -> bool {
        matches!(self.signature, SignatureSize::Fixed(_))
    }

    /// How long signatures and proofs are among so many replicas.
    pub fn shape(&self, replicas: usize) -> ProofShape {
        ProofShape { signature_bytes: self.signature_bytes(replicas), is_aggregate: self.aggregatable }
    }
}

/// Who is to check a signature. It matters where signer and checker share a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipients {
    /// Every member.
    All,
    /// One member.
    One(ReplicaId),
}

/// "This replica signed this message": the replica, the message, the signature.
pub type Claim<'a> = (ReplicaId, &'a [u8], &'a [u8]);

/// Why a proof proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofFault {
    /// It has another length than a proof of so many signers.
    Length {
        /// Bytes it should have.
        expected: usize,
    },
    /// A signature in it is wrong.
    Signature,
}

/// A signature scheme.
pub trait Scheme: Send + Sync {
    /// What others have to know of it.
    fn profile(&self) -> &SchemeProfile;

    /// The private key that a seed stands for.
    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey>;

    /// The private key that [`PrivateKey::encode`] wrote; nothing if it is none.
    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>>;

    /// Checks [`PrivateKey::prove_possession`]. A scheme that requires no proof accepts only an empty one.
    fn verify_possession(&self, _public_key: &[u8], proof: &[u8]) -> bool {
        proof.is_empty()
    }

    /// The keys of a committee. `holder` is the member who is going to use them, with its own key: where signer and checker share a secret,
    /// nobody else can check anything, and without a holder nothing holds.
    ///
    /// # Errors
    /// [`CryptoError`] naming the member whose key is unusable. The keys have the right length.
    fn keys(
        &self,
        committee: &Committee,
        holder: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError>;
}

/// One replica's private key. It is wiped from memory when dropped.
pub trait PrivateKey: Send + Sync {
    /// What the committee lists for it.
    fn public_key(&self) -> Bytes;

    /// Signs a message. The same message has the same signature always.
    fn sign(&self, message: &[u8]) -> Bytes;

    /// What shows that whoever lists the public key has this key; empty where the profile asks for none.
    fn prove_possession(&self) -> Bytes {
        Bytes::new()
    }

    /// The key as a key file holds it.
    fn encode(&self) -> Zeroizing<Vec<u8>>;
}

/// The keys of a committee, decoded once.
pub trait Keys: Send + Sync {
    /// A member's signature for its recipients. Public-key schemes sign alike for everybody.
    fn sign(&self, key: &dyn PrivateKey, message: &[u8], _to: Recipients) -> Bytes {
        key.sign(message)
    }

    /// Whether a claim holds; a stranger's never does.
    fn verify(&self, claim: Claim<'_>) -> bool;

    /// Whether all claims hold, exactly if each would alone.
    fn verify_many(&self, claims: &[Claim<'_>]) -> bool {
        claims.iter().all(|claim| self.verify(*claim))
    }

    /// A proof of claims that hold, by signers in ascending order.
    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes;

    /// Whether a proof holds. All signers are members.
    ///
    /// # Errors
    /// What is wrong with it.
    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<(), ProofFault>;
}

/// One scheme of the list, or one that is not in it: a name that can be copied and compared.
#[derive(Clone, Copy)]
pub struct SchemeKind(&'static dyn Scheme);

impl SchemeKind {
    /// A scheme that is in no list. Its name must not be another's.
    pub const fn of(scheme: &'static dyn Scheme) -> SchemeKind {
        SchemeKind(scheme)
    }

    /// What it is.
    pub fn scheme(self) -> &'static dyn Scheme {
        self.0
    }

    /// What it can do.
    pub fn profile(self) -> &'static SchemeProfile {
        self.0.profile()
    }

    /// The name in configuration and key files.
    pub fn name(self) -> &'static str {
        self.profile().name
    }
}

impl PartialEq for SchemeKind {
    fn eq(&self, other: &SchemeKind) -> bool {
        self.name() == other.name()
    }
}

impl Eq for SchemeKind {}

impl Hash for SchemeKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for SchemeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

named_choice!(SchemeKind, "signature scheme");
