//! The number of threads that verify signatures for a replica.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Maximum number of threads that verify signatures for a replica.
pub const MAX_CRYPTO_THREADS: u16 = 64;
/// Maximum number of threads that [`CryptoThreads::Auto`] starts for a replica.
pub const MAX_AUTO_CRYPTO_THREADS: u16 = 4;

/// Name of [`CryptoThreads::Auto`].
const AUTO: &str = "auto";

/// Threads that verify signatures for a replica. Written as `auto` or as a whole number, in files and flags alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CryptoThreads {
    /// One for each core that the replicas of the process leave over, up to [`MAX_AUTO_CRYPTO_THREADS`] a replica.
    Auto,
    /// This many; with 0 the replica's own thread verifies.
    Count(u16),
}

impl Default for CryptoThreads {
    fn default() -> CryptoThreads {
        CryptoThreads::Count(0)
    }
}

impl CryptoThreads {
    /// Returns the number of threads of each of `replicas` that share `cores`.
    ///
    /// # Panics
    /// If there is no replica.
    pub fn of(self, cores: usize, replicas: usize) -> u16 {
        assert!(replicas > 0, "threads belong to a replica");
        let left_over = cores.saturating_sub(replicas) / replicas;
        match self {
            CryptoThreads::Auto => left_over.min(MAX_AUTO_CRYPTO_THREADS.into()) as u16,
            CryptoThreads::Count(threads) => threads,
        }
    }
}

impl fmt::Display for CryptoThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CryptoThreads::Auto => f.write_str(AUTO),
            CryptoThreads::Count(threads) => write!(f, "{threads}"),
        }
    }
}

/// Text or a number that is not a number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCryptoThreads;

impl fmt::Display for NotCryptoThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write `{AUTO}`, or a whole number of threads from 0 to {MAX_CRYPTO_THREADS}")
    }
}

impl std::error::Error for NotCryptoThreads {}

impl TryFrom<u64> for CryptoThreads {
    type Error = NotCryptoThreads;

    fn try_from(threads: u64) -> Result<CryptoThreads, NotCryptoThreads> {
        let threads = u16::try_from(threads).ok().filter(|threads| *threads <= MAX_CRYPTO_THREADS);
        threads.map(CryptoThreads::Count).ok_or(NotCryptoThreads)
    }
}

impl FromStr for CryptoThreads {
    type Err = NotCryptoThreads;

    fn from_str(text: &str) -> Result<CryptoThreads, NotCryptoThreads> {
        match text {
            AUTO => Ok(CryptoThreads::Auto),
            _ => text.parse::<u64>().map_err(|_| NotCryptoThreads)?.try_into(),
        }
    }
}

impl Serialize for CryptoThreads {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CryptoThreads::Auto => serializer.serialize_str(AUTO),
            CryptoThreads::Count(threads) => serializer.serialize_u16(*threads),
        }
    }
}

impl<'de> Deserialize<'de> for CryptoThreads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CryptoThreads, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = CryptoThreads;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{AUTO}` or a whole number of threads")
    }

    fn visit_u64<E: de::Error>(self, threads: u64) -> Result<CryptoThreads, E> {
        threads.try_into().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, threads: i64) -> Result<CryptoThreads, E> {
        u64::try_from(threads).map_err(|_| NotCryptoThreads).and_then(CryptoThreads::try_from).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<CryptoThreads, E> {
        text.parse().map_err(E::custom)
    }
}
