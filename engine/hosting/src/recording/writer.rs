//! A tape that writes a file.

use crate::recording::entry::{Begin, End, Entry, MAX_INPUT_BYTES, Step};
use crate::recording::error::{Fault, RecordingError};
use crate::recording::header::{FORMAT, HEAD_BYTES, Header, MAGIC};
use crate::recording::recorder::{Rerun, Tape};
use quorate_types::{Encoder, ReplicaId, Wire};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// File name extension of recordings.
pub const EXTENSION: &str = "recording";
/// Default maximum size of a recording, in MB (1,000,000 bytes).
pub const DEFAULT_LIMIT_MB: u64 = 512;
/// Maximum configurable limit, in MB.
pub const MAX_LIMIT_MB: u64 = 1_000_000;
/// Mode of a recording file, which contains data sent by clients.
const FILE_MODE: u32 = 0o600;
/// Size at which buffered entries are written, unless a flush comes first, in bytes.
const MAX_BUFFERED_BYTES: usize = 64 << 10;
/// Maximum size of a buffer that is reused for the next chunk, in bytes.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// Maximum number of recordings with the same name; after that, the replica refuses to start.
const MAX_STARTS: u32 = 10_000;

/// Returns the file of a replica in a directory of recordings.
pub fn path_of(directory: &Path, replica: ReplicaId) -> PathBuf {
    directory.join(format!("replica-{replica}.{EXTENSION}"))
}

/// Writer of a recording. Dropping it writes the buffered entries but no end, so the recording counts as cut short.
pub struct Writer {
    path: PathBuf,
    file: File,
    encoder: Encoder,
    /// The next chunk: space for its header, and the entries so far.
    chunk: Vec<u8>,
    written: u64,
    limit_bytes: u64,
    failed: Option<io::Error>,
    is_over: bool,
}

impl Writer {
    /// Begins a recording of at most about `limit_bytes`: the chunk that reaches the limit is the last. If the file
    /// exists, it is kept, and the new one gets the suffix `.1`, `.2` and so on: a restarted replica must not overwrite
    /// the recording of its crash.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, header: &Header, limit_bytes: u64) -> Result<Writer, RecordingError> {
        let (path, file) = open(path).map_err(|source| Fault::Write(source).of(path))?;
        let mut writer = Writer {
            path,
            file,
            encoder: Encoder::default(),
            chunk: new_chunk(),
            written: 0,
            limit_bytes,
            failed: None,
            is_over: false,
        };
        writer.put(format!("{MAGIC}{FORMAT}\n").as_bytes());
        serde_json::to_writer(&mut writer.chunk, header).expect("a header can be written as JSON");
        writer.flush()?;
        Ok(writer)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn end(&mut self, end: End) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.buffer(&Entry::End(end));
            self.write_chunk();
        }
    }

    fn add(&mut self, entry: &Entry) {
        if self.is_over {
            return;
        }
        self.buffer(entry);
        if self.chunk.len() >= MAX_BUFFERED_BYTES {
            self.write_chunk();
        }
    }

    fn buffer(&mut self, entry: &Entry) {
        entry.encode(&mut self.encoder);
        self.chunk.extend_from_slice(&self.encoder.take());
    }

    fn write_chunk(&mut self) {
        if self.chunk.len() == HEAD_BYTES {
            return;
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        let head = head_of(&chunk[HEAD_BYTES..]);
        chunk[..HEAD_BYTES].copy_from_slice(&head);
        self.put(&chunk);
        chunk.truncate(HEAD_BYTES);
        self.chunk = if chunk.capacity() > MAX_KEPT_BYTES { new_chunk() } else { chunk };
        if self.written >= self.limit_bytes {
            self.end(End::Limit { bytes: self.limit_bytes });
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
            self.written += bytes.len() as u64;
        }
    }
}

fn new_chunk() -> Vec<u8> {
    let mut chunk = Vec::with_capacity(2 * MAX_BUFFERED_BYTES);
    chunk.resize(HEAD_BYTES, 0);
    chunk
}

/// Returns the header of a chunk with this payload.
fn head_of(payload: &[u8]) -> [u8; HEAD_BYTES] {
    let length = u32::try_from(payload.len()).expect("a chunk is below 4 GiB");
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let check = crc32fast::hash(&head[..8]);
    head[8..].copy_from_slice(&check.to_le_bytes());
    head
}

impl Tape for Writer {
    fn begin(&mut self, begin: Begin) {
        self.add(&Entry::Begin(begin));
    }

    fn step(&mut self, step: Step) {
        assert!(step.input.len() <= MAX_INPUT_BYTES, "an input is over {MAX_INPUT_BYTES} bytes");
        self.add(&Entry::Step(step));
    }

    fn flush(&mut self) -> Result<(), RecordingError> {
        self.write_chunk();
        let Some(error) = self.failed.take() else { return Ok(()) };
        self.is_over = true;
        Err(Fault::Write(error).of(&self.path))
    }

    fn finish(&mut self, trace: Option<&str>) -> Result<Option<Rerun>, RecordingError> {
        self.end(End::Done { trace: trace.map(str::to_owned) });
        self.flush()?;
        Ok(None)
    }

    fn is_full(&self) -> bool {
        self.is_over
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.write_chunk();
    }
}

fn open(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let mut name = path.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&name) {
            Ok(file) => return Ok((name.into(), file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_STARTS => number += 1,
            Err(error) => return Err(error),
        }
    }
}
