//! The canonical wire codec: little-endian, length-prefixed, versioned, bounds-checked.
//!
//! A message has exactly one encoding. Every length is checked against a named limit and the remaining bytes before any
//! allocation, and trailing bytes are an error. Byte strings are slices of the received buffer, not copies.

use crate::choices::PayloadPath;
use bytes::{Bytes, BytesMut};
use thiserror::Error;

/// The first byte of every message; a receiver refuses any other. It is the wire version that introduced today's layout
/// of messages; the version of a link may be higher.
pub const WIRE_VERSION: u8 = 6;

/// A type with exactly one encoding.
pub trait Wire: Sized {
    fn encode(&self, out: &mut Encoder);
    /// Decodes one value. Never panics on invalid bytes.
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError>;
}

/// Decoding error: the field, its offset in the message, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("cannot decode {what} at byte {at}: {why}")]
pub struct DecodeError {
    pub what: &'static str,
    pub at: usize,
    pub why: DecodeReason,
}

/// Defect of an encoded field.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DecodeReason {
    /// The message ends too early.
    #[error("{needed} bytes are needed and {left} are left")]
    Short { needed: usize, left: usize },
    /// A length or count exceeds its limit.
    #[error("{value} is over the limit of {limit}")]
    OverLimit { value: usize, limit: usize },
    /// The value is of an unknown kind, or not canonical.
    #[error("{0}")]
    Invalid(&'static str),
    #[error("{0} bytes are left over")]
    Trailing(usize),
}

/// Buffer for an encoding. Numbers are little-endian.
#[derive(Default)]
pub struct Encoder {
    buffer: BytesMut,
}

impl Encoder {
    pub fn with_capacity(bytes: usize) -> Self {
        Encoder { buffer: BytesMut::with_capacity(bytes) }
    }

    pub fn put_u8(&mut self, value: u8) {
        self.buffer.extend_from_slice(&[value]);
    }

    pub fn put_u16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    pub fn put_u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    pub fn put_u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends bytes without a length.
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends a count or a length as four bytes.
    pub fn put_count(&mut self, count: usize) {
        self.put_u32(u32::try_from(count).expect("every count on the wire has a limit below 2^32"));
    }

    /// Appends bytes, preceded by their length.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_count(bytes.len());
        self.put_slice(bytes);
    }

    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the encoding so far and continues in the same allocation, so that many small messages share one. It is
    /// freed when all of them are dropped.
    pub fn take(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    pub fn finish(self) -> Bytes {
        self.buffer.freeze()
    }
}

/// Decoder of a shared buffer. `what` names the field in errors.
pub struct Decoder {
    buffer: Bytes,
    at: usize,
    path: PayloadPath,
}

impl Decoder {
    pub fn new(buffer: Bytes) -> Self {
        Decoder { buffer, at: 0, path: PayloadPath::Shared }
    }

    /// Returns whether byte strings are shared or copied.
    pub fn path(&self) -> PayloadPath {
        self.path
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns an error about the value just read.
    pub fn invalid(&self, what: &'static str, why: &'static str) -> DecodeError {
        DecodeError { what, at: self.at, why: DecodeReason::Invalid(why) }
    }

    /// Returns an error about a count over its limit.
    pub fn over_limit(&self, what: &'static str, value: usize, limit: usize) -> DecodeError {
        DecodeError { what, at: self.at, why: DecodeReason::OverLimit { value, limit } }
    }

    fn take(&mut self, what: &'static str, count: usize) -> Result<&[u8], DecodeError> {
        if count > self.left() {
            let why = DecodeReason::Short { needed: count, left: self.left() };
            return Err(DecodeError { what, at: self.at, why });
        }
        let start = self.at;
        self.at += count;
        Ok(&self.buffer[start..self.at])
    }

    pub fn get_array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        Ok(self.take(what, N)?.try_into().expect("take returns the count asked for"))
    }

    pub fn get_u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.take(what, 1)?[0])
    }

    pub fn get_u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.get_array(what)?))
    }

    pub fn get_u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.get_array(what)?))
    }

    pub fn get_u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.get_array(what)?))
    }

    /// Reads a count of items of at least `each` bytes. Fails if it exceeds `limit` or the items cannot fit in the
    /// remaining bytes.
    pub fn get_count(&mut self, what: &'static str, limit: usize, each: usize) -> Result<usize, DecodeError> {
        let (_, count) = self.get_flagged_count(what, 0, limit, each)?;
        Ok(count)
    }

    /// Reads a count like [`Decoder::get_count`], and whether the bit `flag`, above all valid counts, is set in it.
    pub fn get_flagged_count(
        &mut self,
        what: &'static str,
        flag: u32,
        limit: usize,
        each: usize,
    ) -> Result<(bool, usize), DecodeError> {
        let read = self.get_u32(what)?;
        let count = (read & !flag) as usize;
        if count > limit {
            return Err(self.over_limit(what, count, limit));
        }
        let needed = count.saturating_mul(each);
        if needed > self.left() {
            let why = DecodeReason::Short { needed, left: self.left() };
            return Err(DecodeError { what, at: self.at, why });
        }
        Ok((read & flag != 0, count))
    }

    /// Reads 0 or 1.
    pub fn get_flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.get_u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.invalid(what, "neither 0 nor 1")),
        }
    }

    /// Reads length-prefixed UTF-8.
    pub fn get_text(&mut self, what: &'static str, limit: usize) -> Result<String, DecodeError> {
        let bytes = self.get_bytes(what, limit)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| self.invalid(what, "it is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// Reads length-prefixed bytes, as a slice of the received buffer unless the path copies.
    pub fn get_bytes(&mut self, what: &'static str, limit: usize) -> Result<Bytes, DecodeError> {
        let bytes = self.get_shared_bytes(what, limit)?;
        Ok(match self.path {
            PayloadPath::Shared => bytes,
            PayloadPath::Copied => Bytes::copy_from_slice(&bytes),
        })
    }

    /// Reads length-prefixed bytes, as a slice of the received buffer.
    pub fn get_shared_bytes(&mut self, what: &'static str, limit: usize) -> Result<Bytes, DecodeError> {
        let count = self.get_count(what, limit, 1)?;
        let start = self.at;
        self.at += count;
        Ok(self.buffer.slice(start..self.at))
    }

    /// Returns the bytes from an earlier position to the current one, as a slice of the received buffer.
    pub fn slice_from(&self, start: usize) -> Bytes {
        assert!(start <= self.at, "a slice ends after it starts");
        self.buffer.slice(start..self.at)
    }

    /// Skips bytes that were read through [`Decoder::rest`].
    pub fn skip(&mut self, what: &'static str, count: usize) -> Result<(), DecodeError> {
        self.take(what, count).map(|_| ())
    }

    /// Returns the bytes that are left.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Fails if bytes are left.
    pub fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            left => Err(DecodeError { what, at: self.at, why: DecodeReason::Trailing(left) }),
        }
    }
}

/// Encodes a whole message: the version, then the value.
pub fn encode_message<T: Wire>(value: &T) -> Bytes {
    let mut out = Encoder::with_capacity(256);
    out.put_u8(WIRE_VERSION);
    value.encode(&mut out);
    out.finish()
}

/// Decodes a whole message. A different version and trailing bytes are errors.
pub fn decode_message<T: Wire>(message: Bytes) -> Result<T, DecodeError> {
    decode_message_by(message, PayloadPath::Shared)
}

/// Like [`decode_message`], but copies byte strings if the path requires it.
pub fn decode_message_by<T: Wire>(message: Bytes, path: PayloadPath) -> Result<T, DecodeError> {
    let mut input = Decoder { path, ..Decoder::new(message) };
    if input.get_u8("wire version")? != WIRE_VERSION {
        return Err(DecodeError {
            what: "wire version",
            at: 0,
            why: DecodeReason::Invalid("the peer uses another version of the wire format"),
        });
    }
    let value = T::decode(&mut input)?;
    input.finish("end of message")?;
    Ok(value)
}

/// Decodes a list of at most `limit` items of at least `each` bytes.
pub fn decode_list<T: Wire>(
    input: &mut Decoder,
    what: &'static str,
    limit: usize,
    each: usize,
) -> Result<Vec<T>, DecodeError> {
    let count = input.get_count(what, limit, each)?;
    (0..count).map(|_| T::decode(input)).collect()
}

/// Encodes a list: its count, then the items.
pub fn encode_list<T: Wire>(items: &[T], out: &mut Encoder) {
    out.put_count(items.len());
    for item in items {
        item.encode(out);
    }
}

/// By hand, as the macro does not write generic types: one byte, 0 or 1, then the value if present.
impl<T: Wire> Wire for Option<T> {
    fn encode(&self, out: &mut Encoder) {
        out.put_u8(self.is_some().into());
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        match input.get_u8("presence")? {
            0 => Ok(None),
            1 => Ok(Some(T::decode(input)?)),
            _ => Err(input.invalid("presence", "neither 0 nor 1")),
        }
    }
}

/// By hand, as the macro does not write generic types: the value alone.
impl<T: Wire> Wire for Box<T> {
    fn encode(&self, out: &mut Encoder) {
        T::encode(self, out);
    }
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Box::new(T::decode(input)?))
    }
}

/// By hand, as the macro does not write generic types: the value alone.
impl<T: Wire> Wire for std::sync::Arc<T> {
    fn encode(&self, out: &mut Encoder) {
        T::encode(self, out);
    }
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(std::sync::Arc::new(T::decode(input)?))
    }
}
