//! The names of the signature schemes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How replicas sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchemeKind {
    /// Ed25519 (RFC 8032), checked by the rules of ZIP-215; a certificate carries one signature for each signer.
    Ed25519,
    /// No signatures: proofs are empty and anybody can forge them. For baselines only, where the cost of signing is to be told apart.
    None,
}

impl SchemeKind {
    /// Every scheme, in the order in which errors list them.
    pub const ALL: [SchemeKind; 2] = [SchemeKind::Ed25519, SchemeKind::None];

    /// The name in configuration and key files.
    pub fn name(self) -> &'static str {
        match self {
            SchemeKind::Ed25519 => "ed25519",
            SchemeKind::None => "none",
        }
    }

    /// Bytes of one signature.
    pub fn signature_bytes(self) -> usize {
        match self {
            SchemeKind::Ed25519 => crate::ed25519::SIGNATURE_BYTES,
            SchemeKind::None => 0,
        }
    }

    /// Bytes of one public key.
    pub fn public_key_bytes(self) -> usize {
        match self {
            SchemeKind::Ed25519 => crate::ed25519::PUBLIC_KEY_BYTES,
            SchemeKind::None => 0,
        }
    }
}

impl fmt::Display for SchemeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SchemeKind {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, UnknownScheme> {
        SchemeKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownScheme(name.to_owned()))
    }
}

/// There is no signature scheme of that name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("there is no signature scheme {0:?}; the schemes are {names}", names = SchemeKind::ALL.map(SchemeKind::name).join(", "))]
pub struct UnknownScheme(
    /// The name that was given.
    pub String,
);
