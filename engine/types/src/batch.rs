//! Size of the blocks that leaders propose.

use crate::limits::MAX_BLOCK_BUNDLES;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Name of [`BatchSize::Auto`].
const AUTO: &str = "auto";

/// Size of blocks. Written as `auto` or as an integer, in files, flags and statuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum BatchSize {
    /// Leaders adapt the size of their blocks to measurements.
    #[default]
    Auto,
    /// Maximum number of commands in a block of several bundles.
    Commands(u32),
}

impl BatchSize {
    /// Returns the maximum number of commands in a block of several bundles.
    pub fn max_commands(self) -> usize {
        match self {
            BatchSize::Auto => MAX_BLOCK_BUNDLES,
            BatchSize::Commands(commands) => commands as usize,
        }
    }

    pub fn is_auto(self) -> bool {
        self == BatchSize::Auto
    }
}

impl From<u32> for BatchSize {
    fn from(commands: u32) -> BatchSize {
        BatchSize::Commands(commands)
    }
}

impl fmt::Display for BatchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchSize::Auto => f.write_str(AUTO),
            BatchSize::Commands(commands) => write!(f, "{commands}"),
        }
    }
}

/// Text that is not the size of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotABatchSize;

impl fmt::Display for NotABatchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write `{AUTO}`, or a whole number of commands from 1 to {MAX_BLOCK_BUNDLES}")
    }
}

impl std::error::Error for NotABatchSize {}

impl FromStr for BatchSize {
    type Err = NotABatchSize;

    fn from_str(text: &str) -> Result<BatchSize, NotABatchSize> {
        match text {
            AUTO => Ok(BatchSize::Auto),
            _ => text.parse().map(BatchSize::Commands).map_err(|_| NotABatchSize),
        }
    }
}

impl Serialize for BatchSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            BatchSize::Auto => serializer.serialize_str(AUTO),
            BatchSize::Commands(commands) => serializer.serialize_u32(*commands),
        }
    }
}

impl<'de> Deserialize<'de> for BatchSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BatchSize, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = BatchSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{AUTO}` or a whole number of commands")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<BatchSize, E> {
        u32::try_from(number).map(BatchSize::Commands).map_err(|_| E::custom(NotABatchSize))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<BatchSize, E> {
        u32::try_from(number).map(BatchSize::Commands).map_err(|_| E::custom(NotABatchSize))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<BatchSize, E> {
        text.parse().map_err(E::custom)
    }
}

impl JsonSchema for BatchSize {
    fn schema_name() -> Cow<'static, str> {
        "BatchSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "minimum": 1, "maximum": MAX_BLOCK_BUNDLES })
    }
}
