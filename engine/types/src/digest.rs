//! SHA-256 digests. Every hash begins with a four-byte tag that identifies the kind of its content.

use crate::meter::{self, Primitive, Timer};
use crate::stages::{self, Stage};
use crate::wire;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// SHA-256 digest of a hash input that begins with a [tag](crate::tags).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest in subjects without content, such as timeouts.
    pub const ZERO: Digest = Digest([0; 32]);

    /// Returns 64 lower-case hexadecimal characters.
    pub fn to_hex(&self) -> String {
        encode_hex(&self.0)
    }

    /// Parses 64 hexadecimal characters.
    pub fn from_hex(text: &str) -> Option<Digest> {
        Some(Digest(decode_hex(text)?.try_into().ok()?))
    }

    /// Returns the first eight bytes as a number, for hash tables.
    pub fn prefix(&self) -> u64 {
        u64::from_le_bytes(self.0[..8].try_into().expect("a digest has 32 bytes"))
    }
}

/// Encodes bytes in lower-case hexadecimal.
pub fn encode_hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes hexadecimal of either case; `None` if the text is not hexadecimal.
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}{:02x}{:02x}", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Digest::from_hex(&text).ok_or_else(|| serde::de::Error::custom("a digest is 64 hexadecimal characters"))
    }
}

wire! {
    struct Digest(array["digest"])
}

/// Fixed cost of a hash, as the number of bytes hashed in the same time; for [estimates](meter) only.
const BYTES_FOR_EACH: u64 = 200;

/// Block size of SHA-256, in bytes. Shorter inputs are only copied.
const BLOCK_BYTES: usize = 64;

/// Incremental SHA-256 over tagged content.
#[derive(Clone)]
pub struct Hasher {
    state: Sha256,
    bytes: u64,
    timer: Option<Timer>,
    timed_ns: u64,
}

impl Hasher {
    /// Starts a hash of the kind named by `tag`, one of [`tags`](crate::tags). No two kinds share a tag.
    pub fn new(tag: [u8; 4]) -> Self {
        let mut state = Sha256::new();
        state.update(tag);
        Hasher { state, bytes: BYTES_FOR_EACH, timer: meter::timer(Primitive::Hash), timed_ns: 0 }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let _stage = (bytes.len() >= BLOCK_BYTES).then(|| stages::enter(Stage::Hash));
        match self.timer {
            None => self.state.update(bytes),
            Some(timer) => timer.time(&mut self.timed_ns, || self.state.update(bytes)),
        }
    }

    pub fn finish(mut self) -> Digest {
        let _stage = stages::enter(Stage::Hash);
        let digest = match self.timer {
            None => self.state.finalize(),
            Some(timer) => timer.time(&mut self.timed_ns, || self.state.finalize()),
        };
        meter::count(Primitive::Hash, self.bytes, self.timer.map(|_| self.timed_ns));
        Digest(digest.into())
    }
}
