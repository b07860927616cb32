//! What the clients ask for: commands of a fixed size, the key-value mixes of YCSB, or the lines of a file.
//!
//! YCSB is Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010. Workload A reads and updates half and half,
//! B reads 95 %, C only reads, F reads half and reads, modifies and writes half. Keys are zipfian with exponent 0.99, and the rank
//! is hashed, so that popular keys are spread over the key space.

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

/// Makes commands. All its randomness comes from a seed: the same seed gives the same commands.
pub trait Workload: Send {
    /// Writes the next command that is to run before anything is measured; false when there is none left.
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        let _ = payload;
        false
    }

    /// Writes the next command of a client into `payload`, which is empty.
    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>);
}

/// Writes the key-value application's commands. The client knows no application, so whoever assembles it hands this in.
pub trait KeyValueEncoder: Send {
    /// Sets a key to a value.
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>);
    /// Reads a key.
    fn get(&self, key: &[u8], out: &mut Vec<u8>);
    /// Returns a key's value and replaces it.
    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>);
}

/// Bytes of a YCSB value, unless told otherwise.
pub const DEFAULT_VALUE_BYTES: usize = 100;
/// The exponent of YCSB's zipfian distribution.
pub const ZIPFIAN_EXPONENT: f64 = 0.99;
/// Most records: their numbers have to be exact in a 64-bit float.
pub const MAX_RECORDS: u64 = 1 << 32;
/// Most bytes of a file of commands.
pub const MAX_COMMAND_FILE_BYTES: u64 = 1 << 30;

/// The workloads that there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadKind {
    /// Commands of a fixed size with no meaning.
    Fixed,
    /// Half reads, half updates.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Reads only.
    YcsbC,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// The lines of a file, one command each, again from the start when they are used up.
    File(PathBuf),
}

/// The workloads that are a bare name.
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
        f.write_str(named.expect("every workload but a file has a name").0)
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
    /// Whether the commands are those of the key-value application.
    pub fn is_key_value(&self) -> bool {
        self.reads().is_some()
    }

    /// The fraction of reads in a YCSB mix.
    pub fn reads(&self) -> Option<f64> {
        match self {
            WorkloadKind::YcsbA | WorkloadKind::YcsbF => Some(0.5),
            WorkloadKind::YcsbB => Some(0.95),
            WorkloadKind::YcsbC => Some(1.0),
            WorkloadKind::Fixed | WorkloadKind::File(_) => None,
        }
    }
}

/// Why there is no such workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// A command would be over the wire's limit.
    #[error("commands of {0} bytes are over the limit of {MAX_PAYLOAD_BYTES} bytes: choose a smaller payload")]
    PayloadTooLarge(usize),
    /// There would be nothing to read, or more than can be told apart.
    #[error("a YCSB workload has between 1 and {MAX_RECORDS} records, not {0}")]
    Records(u64),
    /// A file cannot be read.
    #[error("cannot read the commands in {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// A path leads to a directory or a device.
    #[error("{0} is not a regular file: commands are read from a file with one command on each line")]
    NotAFile(PathBuf),
    /// A file has no commands.
    #[error("there is no command in {0}: write one command on each line")]
    FileEmpty(PathBuf),
    /// A file is too large to be held in memory.
    #[error(
        "{path} has {bytes} bytes, over the limit of {MAX_COMMAND_FILE_BYTES}: use a shorter file, its commands are repeated"
    )]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A line is over the wire's limit.
    #[error("line {line} of {path} has {bytes} bytes, over the limit of {MAX_PAYLOAD_BYTES} for one command")]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Its size.
        bytes: usize,
    },
    /// A key-value workload needs a key-value application.
    #[error(
        "a YCSB workload sends key-value commands, and the cluster runs another application: use `--workload fixed` or a file"
    )]
    NeedsKeyValue,
}

/// Makes a workload: `payload` is the size of a command in bytes (of a value for YCSB, where 0 means 100), `records` the number
/// of YCSB keys, `encoder` the application's encoding, which only YCSB needs.
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

/// Commands of one size. From eight bytes on no two are equal: the first eight are a counter, the rest is noise from the seed.
pub struct FixedWorkload {
    filler: Vec<u8>,
    count: u64,
}

impl FixedWorkload {
    /// Commands of `payload` bytes.
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

/// Tells one filler from the next.
fn stamp(filler: &mut [u8], count: &mut u64) {
    *count += 1;
    if let Some(head) = filler.first_chunk_mut::<8>() {
        *head = count.to_le_bytes();
    }
}

/// Bytes that a key-value command has besides its value, at most: an operation, a key and their lengths.
const KEY_VALUE_OVERHEAD_BYTES: usize = 256;

/// A YCSB mix.
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
    /// A mix with that fraction of reads; the rest are read-modify-writes or updates, with values of `value` bytes.
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
        match self.modifies {
            true => self.encoder.read_modify_write(&self.key, &self.value, payload),
            false => self.encoder.put(&self.key, &self.value, payload),
        }
    }
}

/// The key of a record: `user` and the number in twelve digits.
fn write_key(record: u64, key: &mut Vec<u8>) {
    use std::io::Write;
    key.clear();
    write!(key, "user{record:012}").expect("writing to memory does not fail");
}

/// The 64-bit FNV-1a hash of a rank, as YCSB spreads popular records. Two ranks may fall on one record, as they may there.
pub fn scramble(rank: u64) -> u64 {
    rank.to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The lines of a file.
pub struct FileWorkload {
    text: Vec<u8>,
    lines: Vec<std::ops::Range<usize>>,
    at: usize,
}

impl FileWorkload {
    /// Reads the whole file. Empty lines are commands too, except that a file of nothing but line ends has no command.
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
}

impl Workload for FileWorkload {
    fn next(&mut self, _: ClientId, payload: &mut Vec<u8>) {
        payload.extend_from_slice(&self.text[self.lines[self.at].clone()]);
        self.at = (self.at + 1) % self.lines.len();
    }
}
