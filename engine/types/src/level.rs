//! Feature levels: numbers that tell an application how to behave, raised by all replicas at one height. The lower byte
//! is the application's, up to [`MAX_APPLICATION_LEVEL`]; the upper one is reserved for the engine.
//!
//! A *change of the level* is an ordered command with the sequence number [`SYSTEM_SEQUENCE`], which no client's
//! command has. It carries a statement of each replica, signed with its identity key: its program supports the level.
//!
//! ```text
//! payload:   "quorate level 1 "  16   tells changes of the level from later kinds of system commands
//!            level                2   little-endian
//!            count                4   of the statements, by replica id; then each:
//!            until                8   the last height at which the statement is valid
//!            signature            4   its length, and the signature
//!
//! statement: "quorate level 1 "  16
//!            epoch               32
//!            replica              2
//!            level                2
//!            until                8
//! ```

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::ids::{EpochId, FeatureLevel, Height, ReplicaId};
use crate::limits::{MAX_REPLICAS, MAX_SIGNATURE_BYTES};
use crate::wire;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Sequence number of commands to the executor itself. Sessions refuse it, so it has no effect on a replica that does
/// not know these commands.
pub const SYSTEM_SEQUENCE: u64 = 0;

/// Highest level of an application. The upper byte of a level is reserved for the engine's own rules of execution;
/// there are none yet. A program that does not know them supports no level above this one, so it stops where
/// such a level begins, as for an application's.
pub const MAX_APPLICATION_LEVEL: FeatureLevel = FeatureLevel(0xff);

const TAG: &[u8; 16] = b"quorate level 1 ";

/// A replica's signed statement that its program supports a level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelSupport {
    /// Last height at which the statement is valid.
    pub until: Height,
    /// Signature of [`statement`] with the replica's identity key.
    pub signature: Bytes,
}

wire! {
    struct LevelSupport {
        until,
        signature: bytes["signature of a level", MAX_SIGNATURE_BYTES],
    }
}

/// Command that raises the level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelChange {
    pub level: FeatureLevel,
    /// Statements of all replicas, by replica id.
    pub supports: Vec<LevelSupport>,
}

/// Bytes that a replica signs.
pub type LevelStatement = [u8; 16 + 32 + 2 + 2 + 8];

/// Returns the statement that the program of a replica of this cluster supports a level.
pub fn statement(epoch: &EpochId, replica: ReplicaId, level: FeatureLevel, until: Height) -> LevelStatement {
    let mut statement = [0; size_of::<LevelStatement>()];
    statement[..16].copy_from_slice(TAG);
    statement[16..48].copy_from_slice(&epoch.0.0);
    statement[48..50].copy_from_slice(&replica.0.to_le_bytes());
    statement[50..52].copy_from_slice(&level.0.to_le_bytes());
    statement[52..].copy_from_slice(&until.0.to_le_bytes());
    statement
}

impl LevelChange {
    /// Returns whether the payload of a system command is a change of the level, though perhaps a malformed one.
    pub fn is_in(payload: &[u8]) -> bool {
        payload.starts_with(TAG)
    }

    /// Returns the payload of the command.
    pub fn to_payload(&self) -> Bytes {
        let mut out = Encoder::default();
        out.put_slice(TAG);
        self.level.encode(&mut out);
        crate::codec::encode_list(&self.supports, &mut out);
        out.finish()
    }

    /// Decodes the payload of a command.
    ///
    /// # Errors
    /// If it is not exactly one change of the level.
    pub fn from_payload(payload: &[u8]) -> Result<LevelChange, DecodeError> {
        const WHAT: &str = "change of the feature level";
        let mut input = Decoder::new(Bytes::copy_from_slice(payload));
        if input.get_array::<16>(WHAT)? != *TAG {
            return Err(input.invalid(WHAT, "it does not begin as one"));
        }
        let level = FeatureLevel::decode(&mut input)?;
        // The length of a statement without its signature.
        let least_bytes = size_of::<Height>() + size_of::<u32>();
        let supports = crate::codec::decode_list(&mut input, WHAT, MAX_REPLICAS, least_bytes)?;
        input.finish(WHAT)?;
        Ok(LevelChange { level, supports })
    }
}

/// Level that becomes active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PendingLevel {
    pub level: FeatureLevel,
    /// Height of the first block that is executed at the level.
    pub height: Height,
}

wire! {
    struct PendingLevel { level, height }
}

impl fmt::Display for PendingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from height {} on", self.level, self.height)
    }
}

/// Levels of a replica, for its operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LevelStatus {
    /// Level of the next block.
    pub active: FeatureLevel,
    /// Highest level that the replica's program supports.
    pub supported: FeatureLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingLevel>,
}
