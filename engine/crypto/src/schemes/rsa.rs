//! RSA signatures of PKCS #1 version 1.5 with SHA-256 (RFC 8017).

use super::separate::{self, VerifyingKey};
use crate::awslc::{RsaPublic, RsaSecret};
use crate::error::CryptoError;
use crate::scheme::{Keys, PrivateKey, SEED_BYTES, Scheme, SchemeProfile};
use bytes::Bytes;
use quorate_types::{Committee, ReplicaId};
use zeroize::Zeroizing;

/// RSA with a fixed modulus length. A public key is its modulus in big-endian bytes: the exponent is always 65537.
pub struct Rsa {
    bits: usize,
    profile: SchemeProfile,
}

pub(super) static RSA_2048: Rsa = Rsa::new(2048, "rsa-2048", "2048-bit RSA with PKCS #1 v1.5 and SHA-256", None);
pub(super) static RSA_1024: Rsa = Rsa::new(
    1024,
    "rsa-1024",
    "1024-bit RSA with PKCS #1 v1.5 and SHA-256: weak, for measurements only",
    Some("1024-bit keys can be factored"),
);

impl Rsa {
    const fn new(bits: usize, name: &'static str, summary: &'static str, weakness: Option<&'static str>) -> Rsa {
        let profile = SchemeProfile { weakness, ..separate::profile(name, summary, bits / 8, bits / 8) };
        Rsa { bits, profile }
    }
}

impl Scheme for Rsa {
    fn profile(&self) -> &SchemeProfile {
        &self.profile
    }

    fn derive(&self, seed: &[u8; SEED_BYTES]) -> Box<dyn PrivateKey> {
        Box::new(RsaSecret::derive(seed, self.bits))
    }

    fn decode(&self, secret: &[u8]) -> Option<Box<dyn PrivateKey>> {
        Some(Box::new(RsaSecret::decode(secret, self.bits)?))
    }

    fn keys(
        &self,
        committee: &Committee,
        _: Option<(ReplicaId, &dyn PrivateKey)>,
    ) -> Result<Box<dyn Keys>, CryptoError> {
        separate::keys::<RsaPublic>(&self.profile, committee)
    }
}

impl PrivateKey for RsaSecret {
    fn public_key(&self) -> Bytes {
        self.modulus().into()
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        RsaSecret::sign(self, message).into()
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        RsaSecret::encode(self)
    }
}

impl VerifyingKey for RsaPublic {
    fn decode(encoded: &[u8]) -> Option<RsaPublic> {
        RsaPublic::decode(encoded)
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        RsaPublic::verify(self, message, signature)
    }
}
