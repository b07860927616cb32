//! X25519 keys for key agreement, derived from Ed25519 signature keys.

use crate::ed25519::PublicKey;
use crate::key_pair::KeyPair;
use crate::mac::X25519_BYTES;
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

/// Returns the X25519 key of an Ed25519 key; `None` if it is not a point of the curve.
pub(crate) fn agreement_key(identity_key: &[u8]) -> Option<[u8; X25519_BYTES]> {
    Some(PublicKey::decode(identity_key.try_into().ok()?)?.to_x25519())
}

/// Returns the private X25519 key of a private Ed25519 key: the scalar of its public key (RFC 8032, section 5.1.5).
pub(crate) fn agreement_secret(identity: &KeyPair) -> Zeroizing<[u8; X25519_BYTES]> {
    let hash = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(&identity.encode()[..])));
    Zeroizing::new(*hash.first_chunk().expect("a key is shorter than a hash"))
}
