//! A key-value store.

mod command;
mod pairs;

pub use command::{
    KeyValueCommand, KeyValueResult, MAX_KEY_BYTES, MAX_SCAN_BYTES, MAX_SCAN_PAIRS, MAX_VALUE_BYTES, Page,
};

use crate::application::{Application, Frozen, RestoreError};
use crate::context::BlockContext;
use crate::footprint::{Footprint, Rest, Touched};
use bytes::Bytes;
use pairs::Pairs;
use quorate_types::{Command, Decoder};

/// The name used in configurations and snapshots.
pub const NAME: &str = "kv";
/// Maximum size of the state in bytes; each pair counts as its key, its value and [`PAIR_OVERHEAD_BYTES`]. A command
/// that would exceed it gets the result [`KeyValueResult::Full`], on every replica.
pub const MAX_STATE_BYTES: usize = 2 << 30;
/// Bytes counted per pair in addition to its key and value: about the overhead of the table.
pub const PAIR_OVERHEAD_BYTES: usize = 64;

/// Estimated time to read a value, in nanoseconds.
const READ_NS: u64 = 150;
/// Estimated time per pair of a scan, which is looked up by its key and copied, in nanoseconds.
const SCANNED_PAIR_NS: u64 = 200;

/// Map from byte strings to byte strings.
///
/// It is a hash table, because lookups are much faster than in an ordered tree; a store that is scanned also keeps its
/// keys sorted. Clients choose the keys, and could make a table with a known hash function arbitrarily slow. So the
/// hash is the standard library's SipHash with random keys per process. This randomness affects only the order of the
/// table, which is not observable: snapshots and scans are sorted.
pub struct KeyValue {
    pairs: Pairs,
    bytes: usize,
    limit_bytes: usize,
}

impl KeyValue {
    /// Creates an empty store of at most [`MAX_STATE_BYTES`].
    pub fn new() -> KeyValue {
        KeyValue::with_limit(MAX_STATE_BYTES)
    }

    /// Creates an empty store of at most `limit_bytes`, which must be the same on every replica.
    pub fn with_limit(limit_bytes: usize) -> KeyValue {
        assert!(limit_bytes <= MAX_STATE_BYTES, "a state of {limit_bytes} bytes would not fit a snapshot");
        KeyValue { pairs: Pairs::with_capacity(0), bytes: 0, limit_bytes }
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the state as defined by [`MAX_STATE_BYTES`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.pairs.get(key)
    }

    /// Writes a value and appends `reply(old value)` to the result. A full store does not change.
    fn put(&mut self, key: &[u8], value: &[u8], result: &mut Vec<u8>, reply: fn(Option<&[u8]>) -> KeyValueResult<'_>) {
        let old = self.pairs.get_mut(key);
        let bytes = match &old {
            Some(old) => self.bytes - old.len() + value.len(),
            None => self.bytes + key.len() + value.len() + PAIR_OVERHEAD_BYTES,
        };
        if bytes > self.limit_bytes {
            return KeyValueResult::Full.encode(result);
        }
        reply(old.as_deref().map(|old| &**old)).encode(result);
        self.bytes = bytes;
        match old {
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            Some(old) => *old = value.into(),
            None => self.pairs.add(key, value),
        }
    }

    fn delete(&mut self, key: &[u8]) -> KeyValueResult<'static> {
        match self.pairs.remove(key) {
            Some(value_bytes) => {
                self.bytes -= key.len() + value_bytes + PAIR_OVERHEAD_BYTES;
                KeyValueResult::Done
            }
            None => KeyValueResult::Absent,
        }
    }

    fn found(value: Option<&[u8]>) -> KeyValueResult<'_> {
        value.map_or(KeyValueResult::Absent, KeyValueResult::Value)
    }
}

impl Default for KeyValue {
    fn default() -> Self {
        KeyValue::new()
    }
}

impl Application for KeyValue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn execute(&mut self, _block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        self.pairs.settle();
        let Ok(command) = KeyValueCommand::decode(command.payload) else {
            return KeyValueResult::Malformed.encode(result);
        };
        match command {
            KeyValueCommand::Put { key, value } => self.put(key, value, result, |_| KeyValueResult::Done),
            KeyValueCommand::Get { key } => KeyValue::found(self.get(key)).encode(result),
            KeyValueCommand::Delete { key } => self.delete(key).encode(result),
            KeyValueCommand::ReadModifyWrite { key, value } => self.put(key, value, result, KeyValue::found),
            KeyValueCommand::CompareAndSwap { key, expected, value } => match self.get(key) {
                current if current == expected => self.put(key, value, result, |_| KeyValueResult::Done),
                current => KeyValueResult::Conflict(current).encode(result),
            },
            KeyValueCommand::Scan { from, to, limit } => Page::encode_of(self.pairs.range(from, to), limit, result),
        }
    }

    /// Only commands that read without writing are prepared: `Get` and `Scan`. A write depends on whether the store is
    /// full, but it is executed at its turn, and no other command reads the fill level.
    fn footprint<'a>(&self, command: &Command<'a>) -> Footprint<'a> {
        let Ok(command) = KeyValueCommand::decode(command.payload) else {
            return Footprint { reads: Touched::Nothing, writes: Touched::Nothing, effort_ns: 0 };
        };
        let reading = |reads, effort_ns| Footprint { reads, writes: Touched::Nothing, effort_ns };
        match command {
            KeyValueCommand::Get { key } => reading(Touched::Key(key), READ_NS),
            KeyValueCommand::Scan { from, to, limit } => {
                let pairs = u64::from(limit).min(self.len() as u64);
                reading(Touched::Range { from, to }, pairs * SCANNED_PAIR_NS)
            }
            KeyValueCommand::Put { key, .. }
            | KeyValueCommand::Delete { key }
            | KeyValueCommand::ReadModifyWrite { key, .. }
            | KeyValueCommand::CompareAndSwap { key, .. } => {
                Footprint { reads: Touched::Key(key), writes: Touched::Key(key), effort_ns: 0 }
            }
        }
    }

    fn prepare(&self, command: &Command<'_>, result: &mut Vec<u8>) -> Option<Rest> {
        match KeyValueCommand::decode(command.payload).ok()? {
            KeyValueCommand::Get { key } => KeyValue::found(self.get(key)).encode(result),
            KeyValueCommand::Scan { from, to, limit } => {
                Page::encode_of(self.pairs.sorted_range(from, to)?, limit, result);
            }
            _ => return None,
        }
        Some(Rest::Nothing)
    }

    /// Answers an encoded [`KeyValueCommand::Get`]; any other query is malformed.
    fn query(&self, question: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        match KeyValueCommand::decode(question) {
            Ok(KeyValueCommand::Get { key }) => KeyValue::found(self.get(key)).encode(&mut answer),
            _ => KeyValueResult::Malformed.encode(&mut answer),
        }
        answer
    }

    /// The canonical form is a count and the pairs, ascending by key.
    fn freeze(&mut self) -> Frozen {
        let (pairs, bytes) = (self.pairs.freeze(), self.bytes);
        Box::new(move || pairs.encode(bytes))
    }

    fn snapshot_bytes(&self) -> usize {
        self.bytes
    }

    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        let mut input = Decoder::new(snapshot);
        let count = input.get_count("pairs", self.limit_bytes / PAIR_OVERHEAD_BYTES, 8)?;
        let mut restored = KeyValue { pairs: Pairs::with_capacity(count), ..KeyValue::with_limit(self.limit_bytes) };
        let mut last: Option<Bytes> = None;
        for _ in 0..count {
            let key = input.get_bytes("key", MAX_KEY_BYTES)?;
            let value = input.get_bytes("value", MAX_VALUE_BYTES)?;
            if last.is_some_and(|last| last >= key) {
                return Err(input.invalid("key", "the keys do not ascend").into());
            }
            restored.bytes += key.len() + value.len() + PAIR_OVERHEAD_BYTES;
            if restored.bytes > self.limit_bytes {
                return Err(input.over_limit("state bytes", restored.bytes, self.limit_bytes).into());
            }
            restored.pairs.add(&key, &value);
            last = Some(key);
        }
        input.finish("end of the key-value snapshot")?;
        *self = restored;
        Ok(())
    }
}
