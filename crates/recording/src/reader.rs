//! Reads a recording, chunk by chunk.

use crate::entry::{End, Entry, MAX_ACTIONS, MAX_INPUT_BYTES};
use crate::error::{Fault, RecordingError};
use crate::header::{FORMAT, HEAD_BYTES, Header, MAGIC, MAX_HEADER_BYTES, MAX_LINE_BYTES};
use bytes::Bytes;
use quorate_consensus::encoding::Fingerprint;
use quorate_types::{Decoder, Wire};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Most bytes of a chunk: the largest entry, and what was gathered before it.
const MAX_CHUNK_BYTES: u32 = (MAX_INPUT_BYTES + MAX_ACTIONS * Fingerprint::BYTES + (1 << 20)) as u32;

/// How a recording ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It says so itself.
    Told(End),
    /// It breaks off, because who recorded was killed; so many bytes at the end are no whole chunk.
    BrokenOff {
        /// How many.
        torn_bytes: u64,
    },
}

/// A file as chunks.
struct Chunks {
    path: PathBuf,
    file: BufReader<File>,
    length: u64,
    /// Which chunk was read last, and where it begins; the header is number 0.
    number: Option<u64>,
    begins: u64,
    /// Where the next one begins.
    next: u64,
}

/// A recording, read from its beginning.
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
    /// If the file cannot be read, is no recording, or is one of another format; if its header is damaged or cannot be run.
    pub fn open(path: &Path) -> Result<Reader, RecordingError> {
        let mut chunks = Chunks::open(path)?;
        let header = match chunks.next(MAX_HEADER_BYTES, 0)? {
            Some(payload) => Header::parse(&payload),
            None => Err("it is cut short".into()),
        };
        let header = header.map_err(|why| Fault::Header(why).of(path))?;
        Ok(Reader { chunks, header, entries: Decoder::new(Bytes::new()), steps: 0, ending: None })
    }

    /// What it is a recording of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.chunks.path
    }

    /// The steps that were read so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How it ends, once that was read.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// What it tells next, of a replica that its committee has; nothing when it has ended.
    ///
    /// # Errors
    /// If the file cannot be read, or is not as it was written.
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
                return Err(self.chunks.damaged("goes on after its end".into(), self.steps));
            }
            Entry::End(end) => {
                self.ending = Some(Ending::Told(end.clone()));
                return Ok(None);
            }
        };
        if replica.index() >= self.header.replicas {
            let why = format!("tells of replica {replica}, and there are {}", self.header.replicas);
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

    /// Bytes that were not read yet.
    fn left(&self) -> u64 {
        self.length - self.next
    }

    /// The payload of the next chunk; nothing if the file ends before it does. `steps` are those before it.
    fn next(&mut self, most_bytes: u32, steps: u64) -> Result<Option<Bytes>, RecordingError> {
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
            return Err(self.damaged("has a head whose checksum is wrong".into(), steps));
        }
        if length == 0 || length > most_bytes {
            return Err(self.damaged(format!("claims {length} bytes, and 1 to {most_bytes} can be"), steps));
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

/// The format that a first line names.
fn format_of(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix(MAGIC)?.strip_suffix('\n')?;
    let format: u64 = text.parse().ok()?;
    (format.to_string() == text).then_some(format)
}
