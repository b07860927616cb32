//! Reading of a recording, chunk by chunk.

use crate::recording::entry::{End, Entry, MAX_ACTIONS, MAX_INPUT_BYTES};
use crate::recording::error::{Fault, RecordingError};
use crate::recording::header::{FORMAT, HEAD_BYTES, Header, MAGIC, MAX_HEADER_BYTES, MAX_LINE_BYTES};
use bytes::Bytes;
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_types::{Decoder, Wire};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a chunk, in bytes: the largest entry, and the entries buffered before it.
const MAX_CHUNK_BYTES: u32 = (MAX_INPUT_BYTES + MAX_ACTIONS * Fingerprint::BYTES + (1 << 20)) as u32;

/// How a recording ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Regular, with an end entry.
    Told(End),
    /// Abrupt, because the recorder was killed, with an incomplete chunk of `torn_bytes` at the end.
    BrokenOff { torn_bytes: u64 },
}

/// A file read as chunks.
struct Chunks {
    path: PathBuf,
    file: BufReader<File>,
    length: u64,
    /// The chunk read last, and its offset; the header is number 0.
    number: Option<u64>,
    begins: u64,
    /// Offset of the next chunk.
    next: u64,
}

/// Reads a recording entry by entry, a chunk of the file at a time.
pub struct Reader {
    chunks: Chunks,
    header: Header,
    entries: Decoder,
    steps: u64,
    ending: Option<Ending>,
}

impl Reader {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read, is not a recording or has another format, or if its header is damaged or invalid.
    pub fn open(path: &Path) -> Result<Reader, RecordingError> {
        let mut chunks = Chunks::open(path)?;
        let header = match chunks.next(MAX_HEADER_BYTES, 0)? {
            Some(payload) => Header::parse(&payload),
            None => Err("the file is truncated".into()),
        };
        let header = header.map_err(|why| Fault::Header(why).of(path))?;
        Ok(Reader { chunks, header, entries: Decoder::new(Bytes::new()), steps: 0, ending: None })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn path(&self) -> &Path {
        &self.chunks.path
    }

    /// Returns the number of steps read so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the end of the recording, once it was read.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Reads the next entry and checks that its replica is a member of the committee; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RecordingError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        if self.entries.left() == 0 {
            match self.chunks.next(MAX_CHUNK_BYTES, self.steps)? {
                Some(payload) => self.entries = Decoder::new(payload),
                None => {
                    self.ending = Some(Ending::BrokenOff { torn_bytes: self.chunks.left() });
                    return Ok(None);
                }
            }
        }
        let entry = Entry::decode(&mut self.entries);
        let entry = entry.map_err(|error| self.chunks.damaged(error.to_string(), self.steps))?;
        let replica = match &entry {
            Entry::Begin(begin) => begin.replica,
            Entry::Step(step) => {
                self.steps += 1;
                step.replica
            }
            Entry::End(_) if self.entries.left() > 0 || self.chunks.left() > 0 => {
                return Err(self.chunks.damaged("continues after its end".into(), self.steps));
            }
            Entry::End(end) => {
                self.ending = Some(Ending::Told(end.clone()));
                return Ok(None);
            }
        };
        if replica.index() >= self.header.replicas {
            let why = format!("names replica {replica} of {}", self.header.replicas);
            return Err(self.chunks.damaged(why, self.steps));
        }
        Ok(Some(entry))
    }
}

impl Chunks {
    fn open(path: &Path) -> Result<Chunks, RecordingError> {
        let fail = |source| Fault::Read(source).of(path);
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        (&mut file).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(fail)?;
        match format_of(&line) {
            Some(FORMAT) => {}
            Some(other) => return Err(Fault::Format(other).of(path)),
            None => return Err(Fault::Foreign.of(path)),
        }
        let next = line.len() as u64;
        Ok(Chunks { path: path.to_owned(), file, length, number: None, begins: next, next })
    }

    /// Returns the number of bytes left.
    fn left(&self) -> u64 {
        self.length - self.next
    }

    /// Reads the payload of the next chunk; `None` if the file ends before its end. `steps` is the number of steps
    /// before it.
    fn next(&mut self, max_bytes: u32, steps: u64) -> Result<Option<Bytes>, RecordingError> {
        let left = self.left();
        if left < HEAD_BYTES as u64 {
            return Ok(None);
        }
        self.number = Some(self.number.map_or(0, |number| number + 1));
        self.begins = self.next;
        let mut head = [0; HEAD_BYTES];
        self.read(&mut head)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, sum, check) = (number(0), number(4), number(8));
        if crc32fast::hash(&head[..8]) != check {
            return Err(self.damaged("has a wrong checksum in its head".into(), steps));
        }
        if length == 0 || length > max_bytes {
            return Err(self.damaged(format!("claims {length} bytes, not 1 to {max_bytes}"), steps));
        }
        if u64::from(length) > left - HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut payload = vec![0; length as usize];
        self.read(&mut payload)?;
        if crc32fast::hash(&payload) != sum {
            return Err(self.damaged("has a wrong checksum".into(), steps));
        }
        self.next += HEAD_BYTES as u64 + u64::from(length);
        Ok(Some(payload.into()))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), RecordingError> {
        self.file.read_exact(buffer).map_err(|source| Fault::Read(source).of(&self.path))
    }

    fn damaged(&self, why: String, steps: u64) -> RecordingError {
        Fault::Damaged { chunk: self.number.unwrap_or(0), at: self.begins, why, steps }.of(&self.path)
    }
}

/// Returns the format number in the first line.
fn format_of(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix(MAGIC)?.strip_suffix('\n')?;
    let format: u64 = text.parse().ok()?;
    (format.to_string() == text).then_some(format)
}
