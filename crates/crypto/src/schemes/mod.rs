//! The signature schemes. A new scheme is one file here and one line in [`SchemeKind::ALL`].

mod ed25519;
mod listed;
mod unsigned;

use crate::scheme::SchemeKind;
pub(crate) use ed25519::decode_members;
pub use listed::{assemble_list, verify_list};

impl SchemeKind {
    /// Ed25519 (RFC 8032), checked by the rules of ZIP-215.
    pub const ED25519: SchemeKind = SchemeKind::of(&ed25519::Ed25519);
    /// No signatures, for baselines.
    pub const NONE: SchemeKind = SchemeKind::of(&unsigned::Unsigned);

    /// All schemes, in the order of help and error texts.
    pub const ALL: &'static [SchemeKind] = &[SchemeKind::ED25519, SchemeKind::NONE];
}
