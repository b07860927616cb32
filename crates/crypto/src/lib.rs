//! Signature schemes, certificates made and checked a quorum at a time, and key files.
//!
//! A [`Keyring`] holds a committee's public keys, decoded once; replicas in one process share one. A [`Crypto`] is one replica's
//! device on top of it: it signs with the replica's [`KeyPair`], checks votes, assembles certificates and remembers which it has
//! verified. Consensus sees none of this: it hands over statements and gets verdicts and opaque proof bytes.
//!
//! Clients sign too, where [`ClientAuthentication`] says so: a [`ClientIdentity`] finishes bundles, and a [`BundleVerifier`] checks them.
//!
//! What is signed is always a [`Statement`](quorate_types::Statement) or a [bundle's](quorate_types::Bundle::statement), which begin
//! with the kind and the cluster, so that no signature means two things. Ed25519 follows ZIP-215 in every path (see [`ed25519`]), so
//! that all replicas agree on every certificate and on every bundle, whichever path checked it.

mod bisect;
mod bundles;
mod cache;
mod client;
mod crypto;
pub mod ed25519;
mod error;
mod identity;
pub mod key_file;
mod key_pair;
mod keyring;
pub mod scheme;
pub mod schemes;
pub mod statements;

pub use bundles::{BundleVerifier, DEFAULT_CACHE_BUNDLES};
pub use cache::{DEFAULT_CACHE_CERTIFICATES, SignatureCache, VerifiedCache};
pub use client::{ClientAuthentication, ClientIdentity, ED25519_AUTHENTICATOR};
pub use crypto::{Crypto, KEPT_SIGNATURES, verify_certificate};
pub use error::{CertificateError, CryptoError, KeyFault, KeyRole};
pub use identity::{IDENTITY_SCHEME, Identities, Identity, ReplicaKeys};
pub use key_pair::KeyPair;
pub use keyring::Keyring;
pub use scheme::{Claim, SEED_BYTES, SchemeKind, SchemeProfile};
pub use zeroize::Zeroizing;
