//! Signature schemes, certificates verified a quorum at a time, identity keys, and key files.
//!
//! A [`Keyring`] contains a committee's voting keys, decoded once; the replicas of a process share it. On top of it,
//! each replica has a [`Crypto`], which signs with the replica's voting key, verifies votes, and assembles and caches
//! certificates. Consensus only passes statements and receives verdicts and opaque proof bytes. Handshakes use separate
//! keys: [`Identity`] and [`Identities`].
//!
//! A [`ClientIdentity`] signs a client's bundles if [`ClientAuthentication`] requires it, and a [`BundleVerifier`]
//! verifies them. The replicas of a process share [`SharedVerdicts`] on them. A [`ReplyAuthenticator`] authenticates a
//! replica's replies if [`ReplyAuthentication`] requires it, and a client's [`ReplyVerifier`] verifies them.
//!
//! A signature covers a [`Statement`](quorate_types::Statement), a [bundle's
//! statement](quorate_types::Bundle::statement), that of
//! [replies](quorate_types::authenticated_replies::reply_statement), a link's challenge or a handshake's transcript.
//! Each of these begins with a tag of its kind and the cluster, so no signature has two meanings. Ed25519 follows
//! ZIP-215 in every path (see [`ed25519`]), so all replicas agree on every certificate and bundle.

mod admission;
mod agreement;
mod awslc;
mod bisect;
pub mod bls12381;
mod bundle_task;
mod bundles;
mod cache;
mod certificates;
mod client;
mod client_macs;
mod crypto;
pub mod ed25519;
mod error;
mod genesis;
mod identity;
mod introduction;
pub mod key_file;
mod key_pair;
mod keyring;
mod profile;
mod replies;
mod rfc6979;
pub mod scheme;
pub mod schemes;
pub mod statements;
mod tasks;
mod verdicts;

pub use admission::{AdmittedClients, CertificateFault, Certifier, certify};
pub use awslc::mac;
pub use bundle_task::{BundleTask, CheckedBundles};
pub use bundles::{BundleVerifier, DEFAULT_CACHE_BUNDLES};
pub use cache::{CertificateCache, DEFAULT_CACHE_CERTIFICATES, SignatureCache, VerifiedCache};
pub use certificates::verify_certificate;
pub use client::{
    CERTIFIED_AUTHENTICATOR, CREDENTIAL_BYTES, ClientAuthentication, ClientIdentity, ED25519_AUTHENTICATOR,
    sequence_base,
};
pub use client_macs::ReplicaMacKeys;
pub use crypto::{Crypto, MAX_KEPT_SIGNATURES};
pub use error::{CertificateError, CryptoError, KeyFault, KeyRole};
pub use genesis::genesis_differences;
pub use identity::{IDENTITY_SCHEME, Identities, Identity, ReplicaKeys};
pub use introduction::{Challenges, proves_key};
pub use key_pair::KeyPair;
pub use keyring::Keyring;
pub use profile::{AuthProfile, Authentication, MacKeys};
pub use replies::{ReplyAuthentication, ReplyAuthenticator, ReplyFault, ReplyKey, ReplyVerifier, check_signed_replies};
pub use scheme::{Claim, Effort, Proofs, SEED_BYTES, SchemeKind, SchemeProfile};
pub use schemes::BlsVerification;
pub use tasks::{AssembleTask, Assembled, FEW_SIGNATURES, Verified, VerifyTask};
pub use verdicts::{ClientVerdicts, SharedVerdicts};
pub use zeroize::Zeroizing;
