//! Admission of clients to a cluster.
//!
//! A certificate is the certifier's signature of a client's key. Each bundle contains it next to the key, so every
//! replica judges a bundle by its bytes alone, wherever it comes from ([ADR
//! 056](../../../docs/adr/056-client-keys.md)).

use crate::client::{CERTIFIED_AUTHENTICATOR, CREDENTIAL_BYTES};
use crate::ed25519::{PUBLIC_KEY_BYTES, PublicKey};
use crate::key_pair::KeyPair;
use bytes::Bytes;
use quorate_types::meter::{Primitive, measured};
use quorate_types::{Authenticator, ClusterId, choice};
use std::collections::HashSet;

/// Maximum number of cached certified keys, 96 bytes each. A full table is cleared.
const MAX_CERTIFIED_KEYS: usize = 65_536;
const STATEMENT_TAG: &[u8; 16] = b"quorate client 1";

choice!(
    /// Clients that may have commands ordered and queries answered.
    #[derive(Default)]
    AdmittedClients, "rule of admission",
    #[default]
    Any = "any",
    /// Clients whose public keys the replica lists. Each replica applies the list to direct messages from clients.
    Listed = "listed",
    /// Clients whose public keys a certifier has signed. Every replica refuses the commands of others, also from peers.
    Certified = "certified",
);

/// Reason why a client's certificate is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CertificateFault {
    /// The bundle has no certificate.
    Missing,
    /// The certificate was not issued by this certifier, for this key in this cluster.
    Invalid,
}

/// Returns the certificate of a client's public key in a cluster.
pub fn certify(certifier: &KeyPair, cluster: &ClusterId, public_key: &[u8]) -> Bytes {
    certifier.sign(&statement(cluster, public_key))
}

fn statement(cluster: &ClusterId, public_key: &[u8]) -> Vec<u8> {
    [STATEMENT_TAG, &cluster.0.0[..], public_key].concat()
}

/// Verifies certificates of clients.
pub struct Certifier {
    cluster: ClusterId,
    key: PublicKey,
    certified: HashSet<[u8; CREDENTIAL_BYTES]>,
    verifications: u64,
}

impl Certifier {
    /// Returns the verifier of a certifier's public key; `None` if the key is not a point of large order.
    pub fn new(cluster: ClusterId, key: &[u8]) -> Option<Certifier> {
        let key = PublicKey::decode(key.try_into().ok()?).filter(|key| !key.is_weak())?;
        Some(Certifier { cluster, key, certified: HashSet::new(), verifications: 0 })
    }

    /// Checks the certificate next to a bundle's key. Each is verified once.
    ///
    /// # Errors
    /// [`CertificateFault`] without a certificate, or if it is not valid.
    pub fn check(&mut self, authenticator: Option<Authenticator<'_>>) -> Result<(), CertificateFault> {
        let Some(Authenticator { kind: CERTIFIED_AUTHENTICATOR, public_key, .. }) = authenticator else {
            return Err(CertificateFault::Missing);
        };
        self.check_credential(public_key)
    }

    /// Checks the certificate after a client's key.
    ///
    /// # Errors
    /// The errors of [`Certifier::check`].
    pub fn check_credential(&mut self, credential: &[u8]) -> Result<(), CertificateFault> {
        let credential: &[u8; CREDENTIAL_BYTES] = credential.try_into().map_err(|_| CertificateFault::Missing)?;
        if self.certified.contains(credential) {
            return Ok(());
        }
        self.verifications += 1;
        let (key, certificate) = credential.split_at(PUBLIC_KEY_BYTES);
        let statement = statement(&self.cluster, key);
        if !measured(Primitive::VerifySingle, 1, || self.key.verify(&statement, certificate)) {
            return Err(CertificateFault::Invalid);
        }
        if self.certified.len() >= MAX_CERTIFIED_KEYS {
            self.certified.clear();
        }
        self.certified.insert(*credential);
        Ok(())
    }

    /// Number of certificates verified since the start.
    pub fn verifications(&self) -> u64 {
        self.verifications
    }
}
