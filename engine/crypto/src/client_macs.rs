//! Client MACs: a tag of each bundle for each replica, with a key that the client shares with the replica.
//!
//! The shared key is the result of X25519 between the client's key and the replica's identity key, both converted to
//! points of Curve25519. So a client shares a key with every replica of its configuration without exchanging a message.

use crate::agreement::{agreement_key, agreement_secret};
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::identity::IDENTITY_SCHEME;
use crate::key_pair::KeyPair;
use crate::mac::{MAC_KEY_BYTES, MacKey, X25519_BYTES, equal_tags, hkdf_sha256, x25519};
use crate::scheme::{SchemeKind, TagFunction};
use bytes::{Bytes, BytesMut};
use quorate_types::command::{Authenticator, BundleStatement, CLIENT_MAC_BYTES, kind_of_macs};
use quorate_types::meter::{Primitive, measured};
use quorate_types::{ClusterId, Committee, Digest, EpochId, Member, ReplicaId};
use std::collections::HashMap;
use std::fmt;
use zeroize::Zeroizing;

/// Maximum number of clients whose shared keys are cached. A key agreement takes about 40 us. A full table is cleared.
const MAX_SHARED_KEYS: usize = 4096;

/// Returns the tag function of a MAC scheme.
///
/// # Panics
/// If the scheme has none.
pub(crate) fn function_of(scheme: SchemeKind) -> TagFunction {
    scheme.scheme().tag().unwrap_or_else(|| panic!("{scheme} computes no MACs"))
}

/// Use of a shared key. It is part of the key derivation, so that no MAC is valid in the other direction.
#[derive(Clone, Copy)]
pub(crate) enum KeyUse<'a> {
    Bundles(&'a ClusterId),
    Replies(&'a EpochId),
}

/// The two ends of a shared key.
pub(crate) struct Ends<'a> {
    pub scheme: SchemeKind,
    pub replica: ReplicaId,
    pub client_key: &'a [u8],
    pub identity_key: &'a [u8],
}

impl Ends<'_> {
    pub fn derive(&self, key_use: KeyUse<'_>, shared: &[u8]) -> MacKey {
        let (name, id) = (self.scheme.name().as_bytes(), self.replica.0.to_le_bytes());
        let (label, salt): (&[u8], &Digest) = match key_use {
            KeyUse::Bundles(ClusterId(cluster)) => (b"quorate client 1 ", cluster),
            KeyUse::Replies(EpochId(epoch)) => (b"quorate replies 1 ", epoch),
        };
        let info = [label, name, b" ", &id, self.client_key, self.identity_key].concat();
        let mut key = MacKey::new([0; MAC_KEY_BYTES]);
        hkdf_sha256(shared, &salt.0, &info, &mut key[..]);
        key
    }
}

/// A client's MAC keys, one per replica.
pub(crate) struct ClientMacKeys {
    kind: u8,
    tag: TagFunction,
    keys: Vec<MacKey>,
}

impl ClientMacKeys {
    /// # Errors
    /// [`CryptoError`] if a member's identity key is unusable.
    ///
    /// # Panics
    /// If the scheme has no tags, or the committee is too large for them.
    pub(crate) fn new(scheme: SchemeKind, committee: &Committee, key: &KeyPair) -> Result<ClientMacKeys, CryptoError> {
        let kind = kind_of_macs(committee.len()).expect("the configuration limits the committee");
        let (secret, client_key) = (agreement_secret(key), key.public_key());
        let of_member = |(replica, member): (ReplicaId, &Member)| {
            let fault = KeyFault::NotAKey(IDENTITY_SCHEME.name());
            let unusable = || CryptoError::PublicKey { replica, role: KeyRole::Identity, fault };
            let shared = agreement_key(&member.identity_key).and_then(|theirs| x25519(&secret, &theirs));
            let ends = Ends { scheme, replica, client_key: &client_key, identity_key: &member.identity_key };
            Ok(ends.derive(KeyUse::Bundles(&committee.cluster), &shared.ok_or_else(unusable)?[..]))
        };
        let keys = committee.replicas().zip(&committee.members).map(of_member).collect::<Result<_, CryptoError>>()?;
        Ok(ClientMacKeys { kind, tag: function_of(scheme), keys })
    }

    /// Returns the kind of its authenticators.
    pub(crate) fn kind(&self) -> u8 {
        self.kind
    }

    /// Returns the MACs of a statement, in the order of the replicas.
    pub(crate) fn of(&self, statement: &BundleStatement) -> Bytes {
        let mut tags = BytesMut::with_capacity(self.keys.len() * CLIENT_MAC_BYTES);
        measured(Primitive::Mac, self.keys.len(), || {
            self.keys.iter().for_each(|key| tags.extend_from_slice(&(self.tag)(&key[..], statement)));
        });
        tags.freeze()
    }
}

impl fmt::Debug for ClientMacKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MAC keys for {} replicas", self.keys.len())
    }
}

/// One replica's keys for client MACs.
pub struct ReplicaMacKeys {
    scheme: SchemeKind,
    tag: TagFunction,
    cluster: ClusterId,
    me: ReplicaId,
    members: usize,
    secret: Zeroizing<[u8; X25519_BYTES]>,
    identity_key: Bytes,
    shared: HashMap<[u8; X25519_BYTES], MacKey>,
}

impl ReplicaMacKeys {
    /// Takes the private identity key of member `me`.
    ///
    /// # Errors
    /// [`CryptoError`] if the key does not belong to `me`.
    ///
    /// # Panics
    /// If the scheme has no tags.
    pub fn new(
        scheme: SchemeKind,
        committee: &Committee,
        me: ReplicaId,
        identity: &KeyPair,
    ) -> Result<ReplicaMacKeys, CryptoError> {
        identity.check(KeyRole::Identity, IDENTITY_SCHEME, committee, me)?;
        Ok(ReplicaMacKeys {
            scheme,
            tag: function_of(scheme),
            cluster: committee.cluster,
            me,
            members: committee.len(),
            secret: agreement_secret(identity),
            identity_key: identity.public_key(),
            shared: HashMap::new(),
        })
    }

    /// Verifies this replica's MAC.
    pub(crate) fn verify(&mut self, authenticator: Authenticator<'_>, statement: &BundleStatement) -> bool {
        let Authenticator { kind, public_key, signature } = authenticator;
        if kind_of_macs(self.members) != Some(kind) {
            return false;
        }
        let (tag, mine) = (self.tag, &signature[self.me.index() * CLIENT_MAC_BYTES..][..CLIENT_MAC_BYTES]);
        let is_equal = |key: &MacKey| equal_tags(mine, &tag(&key[..], statement));
        self.key(public_key).is_some_and(|key| measured(Primitive::Mac, 1, || is_equal(key)))
    }

    /// Returns the key shared with a client; `None` if its public key is unusable.
    fn key(&mut self, client_key: &[u8]) -> Option<&MacKey> {
        let place: [u8; X25519_BYTES] = client_key.try_into().ok()?;
        if !self.shared.contains_key(&place) {
            if self.shared.len() >= MAX_SHARED_KEYS {
                self.shared.clear();
            }
            let shared = x25519(&self.secret, &agreement_key(client_key)?)?;
            let ReplicaMacKeys { scheme, cluster, me, identity_key, .. } = &*self;
            let ends = Ends { scheme: *scheme, replica: *me, client_key, identity_key };
            let key = ends.derive(KeyUse::Bundles(cluster), &shared[..]);
            self.shared.insert(place, key);
        }
        self.shared.get(&place)
    }
}
