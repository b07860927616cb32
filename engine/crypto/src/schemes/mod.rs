//! The signature schemes. A new scheme is one file here and one line in [`SchemeKind::ALL`].

mod bls12381;
mod ecdsa_p256;
mod ed25519;
mod listed;
mod mac;
mod rsa;
mod secp256k1;
mod separate;
mod unsigned;

use crate::scheme::SchemeKind;
pub use bls12381::BlsVerification;
pub(crate) use ed25519::decode_members;
pub use listed::{assemble_list, verify_list};

impl SchemeKind {
    /// Ed25519 (RFC 8032), verified by the rules of ZIP-215.
    pub const ED25519: SchemeKind = SchemeKind::of(&ed25519::Ed25519);
    pub const ECDSA_P256: SchemeKind = SchemeKind::of(&ecdsa_p256::EcdsaP256);
    /// ECDSA over secp256k1.
    pub const SECP256K1: SchemeKind = SchemeKind::of(&secp256k1::Secp256k1);
    /// BLS multi-signatures over BLS12-381, verified as [`BlsVerification::Cached`] unless another method is chosen.
    pub const BLS12_381: SchemeKind = SchemeKind::of(&bls12381::CACHED);
    /// RSA with keys of 2,048 bits.
    pub const RSA_2048: SchemeKind = SchemeKind::of(&rsa::RSA_2048);
    /// RSA with keys of 1,024 bits, which are weak.
    pub const RSA_1024: SchemeKind = SchemeKind::of(&rsa::RSA_1024);
    /// An HMAC-SHA-256 tag for each member.
    pub const HMAC_SHA256: SchemeKind = SchemeKind::of(&mac::HMAC_SHA256);
    /// An AES-256-CMAC tag for each member.
    pub const AES_256_CMAC: SchemeKind = SchemeKind::of(&mac::AES_256_CMAC);
    /// No signatures, for baselines.
    pub const NONE: SchemeKind = SchemeKind::of(&unsigned::Unsigned);

    /// All schemes, in the order of help and error texts.
    pub const ALL: &'static [SchemeKind] = &[
        SchemeKind::ED25519,
        SchemeKind::ECDSA_P256,
        SchemeKind::SECP256K1,
        SchemeKind::BLS12_381,
        SchemeKind::RSA_2048,
        SchemeKind::RSA_1024,
        SchemeKind::HMAC_SHA256,
        SchemeKind::AES_256_CMAC,
        SchemeKind::NONE,
    ];

    /// Returns all schemes that have a cost, with each of their verification methods. Their [`SchemeKind::costs_name`]
    /// differ.
    pub fn with_costs() -> Vec<SchemeKind> {
        let ways = |kind: SchemeKind| {
            let mut ways: Vec<SchemeKind> = BlsVerification::ALL.iter().map(|way| way.of(kind)).collect();
            ways.dedup_by_key(|way| way.costs_name());
            ways
        };
        let costly = SchemeKind::ALL.iter().copied().filter(|kind| kind.profile().unforgeable);
        costly.flat_map(ways).collect()
    }
}
