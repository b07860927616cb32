//! Clients' commands: of a fixed size, from the key-value mixes of YCSB, or the lines of a file.

use quorate_types::limits::MAX_PAYLOAD_BYTES;
use quorate_types::{ClientId, UnknownName};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Source of commands. The same seed produces the same commands.
pub trait Workload: Send {
    /// Writes the next command to execute before the load starts. Returns false if none is left.
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        let _ = payload;
        false
    }

    /// Writes the next command of a client into `payload`, which is empty.
    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>);
}

/// Encoder of the key-value application's commands. This crate does not depend on applications, so the caller provides
/// it.
pub trait KeyValueEncoder: Send {
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>);
    fn get(&self, key: &[u8], out: &mut Vec<u8>);
    /// Encodes a command that returns a key's value and replaces it.
    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>);
}

/// Default size of a YCSB value, in bytes.
pub const DEFAULT_VALUE_BYTES: usize = 100;
/// Exponent of YCSB's zipfian distribution.
pub const ZIPFIAN_EXPONENT: f64 = 0.99;
/// Maximum number of records. Record numbers must be exact in a 64-bit float.
pub const MAX_RECORDS: u64 = 1 << 32;
/// Maximum size of a command file, in bytes.
pub const MAX_COMMAND_FILE_BYTES: u64 = 1 << 30;

/// Source of a load's commands. The mixes are YCSB's, on the key-value store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadKind {
    /// Meaningless commands of a fixed size.
    Fixed,
    /// Half reads, half updates.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Reads only.
    YcsbC,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// The lines of a file, one command each, repeated.
    File(PathBuf),
}

const NAMED: [(&str, WorkloadKind); 5] = [
    ("fixed", WorkloadKind::Fixed),
    ("ycsb-a", WorkloadKind::YcsbA),
    ("ycsb-b", WorkloadKind::YcsbB),
    ("ycsb-c", WorkloadKind::YcsbC),
    ("ycsb-f", WorkloadKind::YcsbF),
];

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let WorkloadKind::File(path) = self {
            return write!(f, "file:{}", path.display());
        }
        let named = NAMED.iter().find(|(_, workload)| workload == self);
        f.write_str(named.expect("every workload except a file has a name").0)
    }
}

impl FromStr for WorkloadKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<WorkloadKind, UnknownName> {
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(WorkloadKind::File(path.into()));
        }
        let named = NAMED.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, workload)| workload).ok_or_else(|| UnknownName {
            what: "workload",
            given: text.to_owned(),
            known: NAMED.iter().map(|(name, _)| *name).chain(["file:PATH"]).collect(),
        })
    }
}

impl Serialize for WorkloadKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkloadKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl WorkloadKind {
    /// Returns whether the commands are for the key-value application.
    pub fn is_key_value(&self) -> bool {
        self.reads().is_some()
    }

    /// Returns the fraction of reads in a YCSB mix.
    pub fn reads(&self) -> Option<f64> {
        match self {
            WorkloadKind::YcsbA | WorkloadKind::YcsbF => Some(0.5),
            WorkloadKind::YcsbB => Some(0.95),
            WorkloadKind::YcsbC => Some(1.0),
            WorkloadKind::Fixed | WorkloadKind::File(_) => None,
        }
    }
}

/// Reason why a workload cannot be created.
#[derive(Debug, Error)]
pub enum WorkloadError {
    #[error("commands of {0} bytes are over the limit of {MAX_PAYLOAD_BYTES} bytes; help: choose a smaller payload")]
    PayloadTooLarge(usize),
    #[error("a YCSB workload has 1 to {MAX_RECORDS} records, not {0}")]
    Records(u64),
    #[error("cannot read the commands in {path}: {error}")]
    File { path: PathBuf, error: std::io::Error },
    #[error("{0} is not a regular file; help: name a file with one command on each line")]
    NotAFile(PathBuf),
    #[error("{0} has no commands; help: write one command on each line")]
    FileEmpty(PathBuf),
    #[error(
        "{path} has {bytes} bytes, over the limit of {MAX_COMMAND_FILE_BYTES}; help: use a shorter file, which repeats"
    )]
    FileTooLarge { path: PathBuf, bytes: u64 },
    #[error("line {line} of {path} has {bytes} bytes, over the limit of {MAX_PAYLOAD_BYTES} for one command")]
    LineTooLong {
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        bytes: usize,
    },
    #[error(
        "--payload: a value of the key-value store has at most {limit} bytes, not {bytes}; help: set --payload to at \
         most {limit}"
    )]
    ValueTooLarge { bytes: usize, limit: usize },
    #[error(
        "line {line} of {path} is no command of the key-value store; help: use --workload fixed or ycsb-a, or a \
         cluster with another application"
    )]
    NotACommand {
        path: PathBuf,
        /// Line number from 1.
        line: usize,
    },
    #[error("a YCSB workload needs the key-value application; help: use it, `--workload fixed` or a file of commands")]
    NeedsKeyValue,
}

/// Creates a workload. `payload` is the size of a command in bytes, or for YCSB of a value, where 0 means
/// [`DEFAULT_VALUE_BYTES`]. Only YCSB uses `records`, the number of keys, and `encoder`.
pub fn workload(
    kind: &WorkloadKind,
    payload: usize,
    records: u64,
    seed: u64,
    encoder: Option<Box<dyn KeyValueEncoder>>,
) -> Result<Box<dyn Workload>, WorkloadError> {
    let Some(reads) = kind.reads() else {
        return match kind {
            WorkloadKind::File(path) => Ok(Box::new(FileWorkload::read(path)?)),
            _ => Ok(Box::new(FixedWorkload::new(payload, seed)?)),
        };
    };
    let encoder = encoder.ok_or(WorkloadError::NeedsKeyValue)?;
    let value = if payload == 0 { DEFAULT_VALUE_BYTES } else { payload };
    Ok(Box::new(YcsbWorkload::new(reads, *kind == WorkloadKind::YcsbF, value, records, seed, encoder)?))
}

/// Commands of one size: an eight-byte counter, so that no two are equal, followed by pseudorandom bytes. Commands
/// shorter than the counter are all equal.
pub struct FixedWorkload {
    filler: Vec<u8>,
    count: u64,
}

impl FixedWorkload {
    pub fn new(payload: usize, seed: u64) -> Result<Self, WorkloadError> {
        Ok(FixedWorkload { filler: filler(payload, &mut ChaCha8Rng::seed_from_u64(seed))?, count: 0 })
    }
}

impl Workload for FixedWorkload {
    fn next(&mut self, _: ClientId, payload: &mut Vec<u8>) {
        stamp(&mut self.filler, &mut self.count);
        payload.extend_from_slice(&self.filler);
    }
}

fn filler(bytes: usize, random: &mut ChaCha8Rng) -> Result<Vec<u8>, WorkloadError> {
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(WorkloadError::PayloadTooLarge(bytes));
    }
    let mut filler = vec![0; bytes];
    random.fill_bytes(&mut filler);
    Ok(filler)
}

/// Makes each filler unique.
fn stamp(filler: &mut [u8], count: &mut u64) {
    *count += 1;
    if let Some(head) = filler.first_chunk_mut::<8>() {
        *head = count.to_le_bytes();
    }
}

/// Maximum size of a key-value command without its value, in bytes: an operation, a key and their lengths.
const KEY_VALUE_OVERHEAD_BYTES: usize = 256;

/// Reads and updates of records that it inserts first; their keys have YCSB's Zipfian distribution.
pub struct YcsbWorkload {
    reads: f64,
    modifies: bool,
    records: u64,
    loaded: u64,
    value: Vec<u8>,
    values: u64,
    key: Vec<u8>,
    ranks: Zipf<f64>,
    random: ChaCha8Rng,
    encoder: Box<dyn KeyValueEncoder>,
}

impl YcsbWorkload {
    /// Returns a mix with a fraction of `reads`. The rest are read-modify-writes or updates with values of `value`
    /// bytes.
    pub fn new(
        reads: f64,
        modifies: bool,
        value: usize,
        records: u64,
        seed: u64,
        encoder: Box<dyn KeyValueEncoder>,
    ) -> Result<Self, WorkloadError> {
        assert!((0.0..=1.0).contains(&reads), "a fraction is between 0 and 1, not {reads}");
        if records == 0 || records > MAX_RECORDS {
            return Err(WorkloadError::Records(records));
        }
        if value > MAX_PAYLOAD_BYTES - KEY_VALUE_OVERHEAD_BYTES {
            return Err(WorkloadError::PayloadTooLarge(value.saturating_add(KEY_VALUE_OVERHEAD_BYTES)));
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let value = filler(value, &mut random)?;
        let ranks = Zipf::new(records as f64, ZIPFIAN_EXPONENT).expect("the number of records was checked");
        Ok(YcsbWorkload {
            reads,
            modifies,
            records,
            loaded: 0,
            value,
            values: 0,
            key: Vec::with_capacity(32),
            ranks,
            random,
            encoder,
        })
    }
}

impl Workload for YcsbWorkload {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        if self.loaded == self.records {
            return false;
        }
        write_key(self.loaded, &mut self.key);
        self.loaded += 1;
        stamp(&mut self.value, &mut self.values);
        self.encoder.put(&self.key, &self.value, payload);
        true
    }

    fn next(&mut self, _: ClientId, payload: &mut Vec<u8>) {
        let rank = self.ranks.sample(&mut self.random) as u64 - 1;
        write_key(scramble(rank) % self.records, &mut self.key);
        if self.random.random::<f64>() < self.reads {
            return self.encoder.get(&self.key, payload);
        }
        stamp(&mut self.value, &mut self.values);
        if self.modifies {
            self.encoder.read_modify_write(&self.key, &self.value, payload);
        } else {
            self.encoder.put(&self.key, &self.value, payload);
        }
    }
}

/// Writes the key of a YCSB record: `user` and the number in twelve digits.
pub fn write_key(record: u64, key: &mut Vec<u8>) {
    use std::io::Write;
    key.clear();
    write!(key, "user{record:012}").expect("writing to memory does not fail");
}

/// Returns the 64-bit FNV-1a hash of a rank, by which YCSB spreads popular records. Two ranks may share a record, as in
/// YCSB itself.
pub fn scramble(rank: u64) -> u64 {
    rank.to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Lines of a file, repeated.
pub struct FileWorkload {
    text: Vec<u8>,
    lines: Vec<std::ops::Range<usize>>,
    at: usize,
}

impl FileWorkload {
    /// Reads the whole file. Empty lines are commands too, but a file of only empty lines contains no commands.
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let failed = |error| WorkloadError::File { path: path.to_owned(), error };
        let about = std::fs::metadata(path).map_err(failed)?;
        if !about.is_file() {
            return Err(WorkloadError::NotAFile(path.to_owned()));
        }
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_COMMAND_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_COMMAND_FILE_BYTES {
            return Err(WorkloadError::FileTooLarge { path: path.to_owned(), bytes: about.len() });
        }
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let content = line.strip_suffix(b"\n").unwrap_or(line);
            let content = content.strip_suffix(b"\r").unwrap_or(content);
            if content.len() > MAX_PAYLOAD_BYTES {
                let (line, bytes) = (lines.len() + 1, content.len());
                return Err(WorkloadError::LineTooLong { path: path.to_owned(), line, bytes });
            }
            lines.push(start..start + content.len());
            start += line.len();
        }
        if lines.iter().all(|line| line.is_empty()) {
            return Err(WorkloadError::FileEmpty(path.to_owned()));
        }
        Ok(FileWorkload { text, lines, at: 0 })
    }

    /// Returns the commands of the file.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|line| &self.text[line.clone()])
    }
}

impl Workload for FileWorkload {
    fn next(&mut self, _: ClientId, payload: &mut Vec<u8>) {
        payload.extend_from_slice(&self.text[self.lines[self.at].clone()]);
        self.at = (self.at + 1) % self.lines.len();
    }
}
