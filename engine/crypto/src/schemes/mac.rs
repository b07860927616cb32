//! MAC vectors: a signature has a tag for each member, which only that member can verify.
//!
//! Members have X25519 keys. Two members derive a key for each direction from their shared secret, so no handshake is
//! needed, and a restarted replica has the same keys (`docs/adr/055-macs-and-profiles.md`). The receiver of a tag could
//! have computed it too, so it can convince nobody else.

use super::{assemble_list, verify_list};
use crate::awslc::mac::{
    MAC_KEY_BYTES, MacKey, X25519_BYTES, aes_cmac, equal_tags, hkdf_sha256, hmac_sha256, x25519, x25519_public_key,
};
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::scheme::{
    Claim, Effort, Keys, PrivateKey, ProofFault, Recipients, SEED_BYTES, Scheme, SchemeProfile, SignatureSize,
    TagFunction,
};
use crate::statements::Statements;
use bytes::{Bytes, BytesMut};
use quorate_types::{Committee, EpochId, ReplicaId, Signers};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Length of a tag, in bytes. HMAC's output is truncated to it (RFC 2104, section 5): a forger has to guess online.
pub(crate) const TAG_BYTES: usize = 16;

/// A tag of a message.
pub(crate) type Tag = [u8; TAG_BYTES];

/// HMAC-SHA-256 or AES-256-CMAC tags.
pub struct Macs {
    profile: SchemeProfile,
    tag: TagFunction,
}

const fn profile(name: &'static str, summary: &'static str) -> SchemeProfile {
    SchemeProfile {
        name,
        summary,
        unforgeable: true,
        transferable: false,
        attributable: false,
        aggregatable: false,
        batchable: false,
        needs_possession: false,
        weakness: None,
        public_key_bytes: X25519_BYTES,
        signature: SignatureSize::PerRecipient(TAG_BYTES),
    }
}

pub(super) static HMAC_SHA256: Macs = Macs {
    profile: profile("hmac-sha256", "an HMAC-SHA-256 tag for each member; convinces only its recipient"),
    tag: |key, message| {
        let full = hmac_sha256(key, message);
        *full.first_chunk().expect("a tag is shorter than the MAC")
    },
};

pub(super) static AES_256_CMAC: Macs = Macs {
    profile: profile("aes-256-cmac", "an AES-256-CMAC tag for each member; convinces only its recipient"),
    tag: aes_cmac,
};

impl Scheme for Macs {
    fn profile(&self) -> &SchemeProfile {
        &self.profile
    }

    fn tag(&self) -> Option<TagFunction> {
        Some(self.tag)
    }

    /// The private key is a hash of the seed, because X25519 ignores some bits of a private key: seeds that differ only
    /// there would have the same key.
    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        let secret = Sha256::new().chain_update(b"quorate X25519 key 1").chain_update(seed).finalize();
        Box::new(AgreementKey::new(&Zeroizing::new(secret.into())))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        let secret = Zeroizing::new(<[u8; X25519_BYTES]>::try_from(secret).ok()?);
        Some(Box::new(AgreementKey::new(&secret)))
    }

    fn keys(
        &self,
        committee: &Committee,
        holder: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        let fail = |replica, fault| CryptoError::PublicKey { replica, role: KeyRole::Voting, fault };
        let decode = |(replica, member): (ReplicaId, &quorate_types::Member)| {
            decode_public_key(&member.voting_key).ok_or(fail(replica, KeyFault::NotAKey(self.profile.name)))
        };
        let members = committee.replicas().zip(&committee.members);
        let keys = members.map(decode).collect::<Result<Vec<_>, CryptoError>>()?;
        let mut pairs = Vec::new();
        if let Some((me, key)) = holder {
            let secret = Zeroizing::new(<[u8; X25519_BYTES]>::try_from(&key.encode()[..]).expect("a key of X25519"));
            let pair = |(other, key)| {
                let ends = [(me, &keys[me.index()]), (other, key)];
                Pair::agree(self, &committee.epoch, &secret, ends).ok_or(fail(other, KeyFault::Weak))
            };
            pairs = committee.replicas().zip(&keys).map(pair).collect::<Result<Vec<_>, CryptoError>>()?;
        }
        let me = holder.map(|(me, _)| me);
        Ok(Box::new(PairKeys { tag: self.tag, members: keys.len(), me, pairs }))
    }
}

/// Decodes a canonically encoded Curve25519 point; `None` if the number is not below 2^255 - 19.
fn decode_public_key(encoded: &[u8]) -> Option<[u8; X25519_BYTES]> {
    let key = <[u8; X25519_BYTES]>::try_from(encoded).ok()?;
    let is_above = key[0] >= 0xed && key[1..31].iter().all(|byte| *byte == 0xff) && key[31] == 0x7f;
    (key[31] < 0x80 && !is_above).then_some(key)
}

/// An X25519 private key.
struct AgreementKey {
    secret: Box<Zeroizing<[u8; X25519_BYTES]>>,
    public_key: [u8; X25519_BYTES],
}

impl AgreementKey {
    fn new(secret: &[u8; X25519_BYTES]) -> AgreementKey {
        AgreementKey { secret: Box::new(Zeroizing::new(*secret)), public_key: x25519_public_key(secret) }
    }
}

impl PrivateKey for AgreementKey {
    fn public_key(&self) -> Bytes {
        Bytes::copy_from_slice(&self.public_key)
    }

    /// Returns a tag that only this key can verify. For other recipients, use [`Keys::sign`], which knows them.
    fn sign(&self, message: &[u8]) -> Bytes {
        let mut key = MacKey::new([0; MAC_KEY_BYTES]);
        hkdf_sha256(&self.secret[..], &[], b"quorate own code 1", &mut key[..]);
        Bytes::copy_from_slice(&hmac_sha256(&key[..], message))
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.secret.to_vec())
    }
}

/// The keys between the holder and another member.
struct Pair {
    outgoing: MacKey,
    incoming: MacKey,
}

impl Pair {
    /// Derives the keys of both directions between two members. `secret` belongs to the first.
    fn agree(
        scheme: &Macs,
        epoch: &EpochId,
        secret: &[u8; X25519_BYTES],
        [me, other]: [(ReplicaId, &[u8; X25519_BYTES]); 2],
    ) -> Option<Pair> {
        let shared = x25519(secret, other.1)?;
        let derive = |from: (ReplicaId, &[u8; X25519_BYTES]), to: (ReplicaId, &[u8; X25519_BYTES])| {
            let ids = [from.0.0.to_le_bytes(), to.0.0.to_le_bytes()].concat();
            let info = [b"quorate pair 1 ", scheme.profile.name.as_bytes(), b" ", &ids, from.1, to.1].concat();
            let mut key = MacKey::new([0; MAC_KEY_BYTES]);
            hkdf_sha256(&shared[..], &epoch.0.0, &info, &mut key[..]);
            key
        };
        Some(Pair { outgoing: derive(me, other), incoming: derive(other, me) })
    }
}

/// The keys that one member shares with all members, itself included. Without a holder, nothing can be signed or
/// verified.
struct PairKeys {
    tag: TagFunction,
    members: usize,
    me: Option<ReplicaId>,
    pairs: Vec<Pair>,
}

impl Keys for PairKeys {
    /// Computes the tags of a message for the recipients. The tags of others are zeros, so that all signatures have the
    /// same length.
    fn sign(&self, _key: &dyn PrivateKey, message: &[u8], to: Recipients) -> Bytes {
        assert!(self.me.is_some(), "only a member shares secrets with the others");
        let mut vector = BytesMut::with_capacity(self.members * TAG_BYTES);
        for (other, pair) in (0..).map(ReplicaId).zip(&self.pairs) {
            let is_meant = matches!(to, Recipients::All) || to == Recipients::One(other);
            let tag = if is_meant { (self.tag)(&pair.outgoing[..], message) } else { Tag::default() };
            vector.extend_from_slice(&tag);
        }
        vector.freeze()
    }

    fn verify(&self, (replica, message, signature): Claim<'_>) -> bool {
        let (Some(me), Some(pair)) = (self.me, self.pairs.get(replica.index())) else { return false };
        if signature.len() != self.members * TAG_BYTES {
            return false;
        }
        let tag = &signature[me.index() * TAG_BYTES..][..TAG_BYTES];
        equal_tags(tag, &(self.tag)(&pair.incoming[..], message))
    }

    fn assemble(&self, claims: &[Claim<'_>]) -> Bytes {
        assemble_list(claims)
    }

    fn verify_proof(&self, signers: &Signers, statements: &Statements, proof: &[u8]) -> Result<Effort, ProofFault> {
        verify_list(signers, statements, proof, self.members * TAG_BYTES, |claims| self.verify_many(claims))
    }
}
