//! A committee's public keys.

use crate::ed25519::{KeyTable, PUBLIC_KEY_BYTES};
use crate::error::CryptoError;
use crate::scheme::SchemeKind;
use quorate_types::identity::Verifier;
use quorate_types::{ClusterId, Committee, Quorum, ReplicaId};
use std::collections::BTreeMap;

/// "This replica signed this message": the replica, the message, the signature.
pub type Claim<'a> = (ReplicaId, &'a [u8], &'a [u8]);

/// Every member's public key, decoded once. It never changes, so replicas in one process and threads of one replica share it.
pub struct Keyring {
    cluster: ClusterId,
    quorum: Quorum,
    keys: Keys,
}

enum Keys {
    Ed25519(KeyTable),
    None,
}

impl Keyring {
    /// Decodes and checks the committee's keys.
    ///
    /// # Errors
    /// [`CryptoError`] naming the replica whose key has the wrong length, is no point, lets anybody sign, or is another's too.
    pub fn new(kind: SchemeKind, committee: &Committee) -> Result<Keyring, CryptoError> {
        assert_eq!(
            committee.len(),
            committee.quorum.replicas(),
            "the committee's quorum is for another number of members"
        );
        for (replica, member) in committee.replicas().zip(&committee.members) {
            let (expected, found) = (kind.public_key_bytes(), member.public_key.len());
            if expected != found {
                return Err(CryptoError::PublicKeyLength { replica, scheme: kind, expected, found });
            }
        }
        let keys = match kind {
            SchemeKind::Ed25519 => Keys::Ed25519(ed25519_keys(committee)?),
            SchemeKind::None => Keys::None,
        };
        Ok(Keyring { cluster: committee.cluster, quorum: committee.quorum, keys })
    }

    /// The scheme.
    pub fn kind(&self) -> SchemeKind {
        match self.keys {
            Keys::Ed25519(_) => SchemeKind::Ed25519,
            Keys::None => SchemeKind::None,
        }
    }

    /// The cluster that statements are made in.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// n and f.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// Whether there is a member of that id.
    pub fn is_member(&self, replica: ReplicaId) -> bool {
        replica.index() < self.quorum.replicas()
    }

    /// Whether all claims hold, checked together; exactly if each would hold alone. Claims of strangers never do.
    pub fn verify_many(&self, claims: &[Claim<'_>]) -> bool {
        match (&self.keys, claims) {
            (_, [(replica, message, signature)]) => self.verify(*replica, message, signature),
            (Keys::Ed25519(table), _) => {
                table.verify_many(claims.iter().map(|claim| (claim.0.index(), claim.1, claim.2)))
            }
            (Keys::None, _) => claims.iter().all(|claim| self.verify(claim.0, claim.1, claim.2)),
        }
    }
}

impl Verifier for Keyring {
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        match &self.keys {
            Keys::Ed25519(table) => table.verify(replica.index(), message, signature),
            Keys::None => self.is_member(replica) && signature.is_empty(),
        }
    }
}

fn ed25519_keys(committee: &Committee) -> Result<KeyTable, CryptoError> {
    let encoded: Vec<[u8; PUBLIC_KEY_BYTES]> = (committee.members.iter())
        .map(|member| member.public_key[..].try_into().expect("the lengths were checked"))
        .collect();
    let table =
        KeyTable::new(&encoded).map_err(|at| CryptoError::PublicKeyInvalid { replica: ReplicaId(at as u16) })?;
    let mut owners = BTreeMap::new();
    for replica in committee.replicas() {
        if table.is_weak(replica.index()) {
            return Err(CryptoError::PublicKeyWeak { replica });
        }
        if let Some(first) = owners.insert(table.canonical(replica.index()), replica) {
            return Err(CryptoError::PublicKeyShared { first, second: replica });
        }
    }
    Ok(table)
}
