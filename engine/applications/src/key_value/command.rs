//! Commands and results of the key-value store. Each has one encoding: a byte for the kind, then the fields; byte
//! strings have a four-byte length prefix. Decoded values borrow from the input.

use quorate_types::DecodeError;
use quorate_types::codec::DecodeReason;

/// Maximum size of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 4 << 10;
/// Maximum size of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// Maximum number of pairs in the result of one scan.
pub const MAX_SCAN_PAIRS: u32 = 10_000;
/// Bytes of pairs after which a scan ends. The last pair is complete, so a result may exceed this by one pair and a
/// header.
pub const MAX_SCAN_BYTES: usize = 512 << 10;

const PUT: u8 = 1;
const GET: u8 = 2;
const DELETE: u8 = 3;
const READ_MODIFY_WRITE: u8 = 4;
const COMPARE_AND_SWAP: u8 = 5;
const SCAN: u8 = 6;

const VALUE: u8 = 1;
const ABSENT: u8 = 2;
const CONFLICT: u8 = 3;
const MALFORMED: u8 = 4;
const FULL: u8 = 5;
const PAGE: u8 = 6;

/// A client's command to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyValueCommand<'a> {
    /// Writes a value: [`KeyValueResult::Done`].
    Put { key: &'a [u8], value: &'a [u8] },
    /// Reads a value: [`KeyValueResult::Value`] or [`KeyValueResult::Absent`].
    Get { key: &'a [u8] },
    /// Removes a pair: [`KeyValueResult::Done`], or [`KeyValueResult::Absent`] if the key is absent.
    Delete { key: &'a [u8] },
    /// Reads and replaces a value in one step (YCSB's workload F): [`KeyValueResult::Value`] with the old value, or
    /// [`KeyValueResult::Absent`]. The new value is written in either case.
    ReadModifyWrite { key: &'a [u8], value: &'a [u8] },
    /// Writes a value if the current one is `expected`, where `None` means absent: [`KeyValueResult::Done`], or else
    /// [`KeyValueResult::Conflict`].
    CompareAndSwap { key: &'a [u8], expected: Option<&'a [u8]>, value: &'a [u8] },
    /// Reads up to `limit` pairs, 1 to [`MAX_SCAN_PAIRS`], ascending by key, from the key `from` (inclusive) to `to`
    /// (exclusive) or the end: [`KeyValueResult::Page`].
    Scan { from: &'a [u8], to: Option<&'a [u8]>, limit: u32 },
}

impl<'a> KeyValueCommand<'a> {
    /// Appends the encoding.
    ///
    /// # Panics
    /// If a key, a value or the limit of a scan exceeds its maximum.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, key) = match *self {
            KeyValueCommand::Put { key, .. } => (PUT, key),
            KeyValueCommand::Get { key } => (GET, key),
            KeyValueCommand::Delete { key } => (DELETE, key),
            KeyValueCommand::ReadModifyWrite { key, .. } => (READ_MODIFY_WRITE, key),
            KeyValueCommand::CompareAndSwap { key, .. } => (COMPARE_AND_SWAP, key),
            KeyValueCommand::Scan { from, .. } => (SCAN, from),
        };
        out.push(kind);
        put_bytes(out, key, MAX_KEY_BYTES);
        match *self {
            KeyValueCommand::Get { .. } | KeyValueCommand::Delete { .. } => {}
            KeyValueCommand::Put { value, .. } | KeyValueCommand::ReadModifyWrite { value, .. } => {
                put_bytes(out, value, MAX_VALUE_BYTES);
            }
            KeyValueCommand::CompareAndSwap { expected, value, .. } => {
                put_option(out, expected);
                put_bytes(out, value, MAX_VALUE_BYTES);
            }
            KeyValueCommand::Scan { to, limit, .. } => {
                assert!((1..=MAX_SCAN_PAIRS).contains(&limit), "scan of {limit} pairs, at most {MAX_SCAN_PAIRS}");
                put_option(out, to);
                out.extend_from_slice(&limit.to_le_bytes());
            }
        }
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Decodes a whole payload. Never panics on invalid bytes.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Reader { bytes: payload, at: 0 };
        let command = match input.byte("key-value command")? {
            PUT => KeyValueCommand::Put { key: input.key()?, value: input.value()? },
            GET => KeyValueCommand::Get { key: input.key()? },
            DELETE => KeyValueCommand::Delete { key: input.key()? },
            READ_MODIFY_WRITE => KeyValueCommand::ReadModifyWrite { key: input.key()?, value: input.value()? },
            COMPARE_AND_SWAP => {
                let key = input.key()?;
                KeyValueCommand::CompareAndSwap { key, expected: input.option(MAX_VALUE_BYTES)?, value: input.value()? }
            }
            SCAN => {
                let (from, to) = (input.key()?, input.option(MAX_KEY_BYTES)?);
                KeyValueCommand::Scan { from, to, limit: input.count("pairs wanted", 1, MAX_SCAN_PAIRS)? }
            }
            _ => return Err(input.error("key-value command", DecodeReason::Invalid("no such kind"))),
        };
        input.finish("end of the key-value command")?;
        Ok(command)
    }
}

/// Result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyValueResult<'a> {
    /// Success. Encoded as zero bytes, so that the results of a bundle of writes are short.
    Done,
    /// Value of the key before the command.
    Value(&'a [u8]),
    /// The key is absent.
    Absent,
    /// Nothing was written, because the store contained this value instead of the expected one.
    Conflict(Option<&'a [u8]>),
    /// The command is invalid, or a key or a value is too long; [`KeyValueCommand::decode`] returns the reason.
    Malformed,
    /// Nothing was written, because the store has reached its limit.
    Full,
    /// The pairs found by a scan.
    Page(Page<'a>),
}

/// Encoded pairs in ascending order of their keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'a> {
    pub pairs: u32,
    /// Whether the scan stopped at a limit, and more pairs of its range follow the last key of this page.
    pub has_more: bool,
    bytes: &'a [u8],
}

impl<'a> Page<'a> {
    /// Iterates over the keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut input = Reader { bytes: self.bytes, at: 0 };
        (0..self.pairs).map(move |_| {
            const VALIDATED: &str = "a page is validated when it is decoded";
            (input.key().expect(VALIDATED), input.value().expect(VALIDATED))
        })
    }

    /// Appends the result of a scan over these pairs, which stops at `limit` pairs or at [`MAX_SCAN_BYTES`].
    pub(super) fn encode_of<'b>(pairs: impl Iterator<Item = (&'b [u8], &'b [u8])>, limit: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[PAGE, 0, 0, 0, 0, 0]);
        let (mut count, mut has_more) = (0u32, false);
        for (key, value) in pairs {
            if count == limit || out.len() - start >= MAX_SCAN_BYTES {
                has_more = true;
                break;
            }
            put_bytes(out, key, MAX_KEY_BYTES);
            put_bytes(out, value, MAX_VALUE_BYTES);
            count += 1;
        }
        out[start + 1] = has_more.into();
        out[start + 2..start + 6].copy_from_slice(&count.to_le_bytes());
    }
}

impl<'a> KeyValueResult<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            KeyValueResult::Done => {}
            KeyValueResult::Value(value) => {
                out.push(VALUE);
                put_bytes(out, value, MAX_VALUE_BYTES);
            }
            KeyValueResult::Absent => out.push(ABSENT),
            KeyValueResult::Conflict(current) => {
                out.push(CONFLICT);
                put_option(out, current);
            }
            KeyValueResult::Malformed => out.push(MALFORMED),
            KeyValueResult::Full => out.push(FULL),
            KeyValueResult::Page(page) => {
                out.extend_from_slice(&[PAGE, page.has_more.into()]);
                out.extend_from_slice(&page.pairs.to_le_bytes());
                out.extend_from_slice(page.bytes);
            }
        }
    }

    /// Decodes a whole result. Never panics on invalid bytes.
    pub fn decode(result: &'a [u8]) -> Result<Self, DecodeError> {
        if result.is_empty() {
            return Ok(KeyValueResult::Done);
        }
        let mut input = Reader { bytes: result, at: 0 };
        let decoded = match input.byte("key-value result")? {
            VALUE => KeyValueResult::Value(input.value()?),
            ABSENT => KeyValueResult::Absent,
            CONFLICT => KeyValueResult::Conflict(input.option(MAX_VALUE_BYTES)?),
            MALFORMED => KeyValueResult::Malformed,
            FULL => KeyValueResult::Full,
            PAGE => KeyValueResult::Page(input.page()?),
            _ => return Err(input.error("key-value result", DecodeReason::Invalid("no such kind"))),
        };
        input.finish("end of the key-value result")?;
        Ok(decoded)
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    assert!(bytes.len() <= limit, "{} bytes exceed the limit of {limit}", bytes.len());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_option(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        put_bytes(out, value, MAX_VALUE_BYTES);
    }
}

/// Decoder of a borrowed payload. The workspace's decoder returns shared slices of an owned buffer, which would cost an
/// atomic operation per field.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, what: &'static str, why: DecodeReason) -> DecodeError {
        DecodeError { what, at: self.at, why }
    }

    fn take(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..count)
            .ok_or_else(|| self.error(what, DecodeReason::Short { needed: count, left: rest.len() }))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.take(what, 1)?[0])
    }

    fn bytes(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], DecodeError> {
        let length = u32::from_le_bytes(self.take(what, 4)?.try_into().expect("four bytes")) as usize;
        if length > limit {
            return Err(self.error(what, DecodeReason::OverLimit { value: length, limit }));
        }
        self.take(what, length)
    }

    fn key(&mut self) -> Result<&'a [u8], DecodeError> {
        self.bytes("key", MAX_KEY_BYTES)
    }

    fn value(&mut self) -> Result<&'a [u8], DecodeError> {
        self.bytes("value", MAX_VALUE_BYTES)
    }

    fn option(&mut self, limit: usize) -> Result<Option<&'a [u8]>, DecodeError> {
        Ok(if self.flag("presence")? { Some(self.bytes("optional bytes", limit)?) } else { None })
    }

    fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.byte(what)? {
            byte @ 0..=1 => Ok(byte == 1),
            _ => Err(self.error(what, DecodeReason::Invalid("neither 0 nor 1"))),
        }
    }

    fn count(&mut self, what: &'static str, least: u32, most: u32) -> Result<u32, DecodeError> {
        let count = u32::from_le_bytes(self.take(what, 4)?.try_into().expect("four bytes"));
        if count > most {
            return Err(self.error(what, DecodeReason::OverLimit { value: count as usize, limit: most as usize }));
        }
        if count < least { Err(self.error(what, DecodeReason::Invalid("too few"))) } else { Ok(count) }
    }

    fn page(&mut self) -> Result<Page<'a>, DecodeError> {
        let has_more = self.flag("flag for more pairs")?;
        let pairs = self.count("pairs of a page", 0, MAX_SCAN_PAIRS)?;
        let start = self.at;
        let mut last: Option<&[u8]> = None;
        for _ in 0..pairs {
            let key = self.key()?;
            self.value()?;
            if last.is_some_and(|last| last >= key) {
                return Err(self.error("keys of a page", DecodeReason::Invalid("they do not ascend")));
            }
            last = Some(key);
        }
        Ok(Page { pairs, has_more, bytes: &self.bytes[start..self.at] })
    }

    fn finish(&self, what: &'static str) -> Result<(), DecodeError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(self.error(what, DecodeReason::Trailing(left))),
        }
    }
}
