//! File of received state chunks, so that a replica stopped during a transfer does not fetch them again.
//!
//! The file is a list of lengths (4 bytes, little-endian) and chunks. Each chunk's digest is checked against the
//! manifest, so the file need not be trusted, and writes to it are never synced.

use bytes::Bytes;
use quorate_storage::private;
use quorate_types::Digest;
use quorate_types::state::{CHUNK_BYTES, chunk_digest};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const RECEIVED: &str = "received";

/// The file, open for writing.
pub(crate) struct Spool(File);

impl Spool {
    /// Creates an empty spool. A failure is harmless: without a spool, a restart costs a second transfer.
    pub fn create(directory: &Path) -> Option<Spool> {
        let create = |()| private::options().write(true).create(true).truncate(true).open(path(directory));
        private::create_directories(directory).and_then(create).ok().map(Spool)
    }
}

/// Appends a chunk; drops a spool that cannot be written.
pub(crate) fn append(spool: &mut Option<Spool>, chunk: &[u8]) {
    if let Some(Spool(file)) = spool {
        let length = (chunk.len() as u32).to_le_bytes();
        if file.write_all(&length).and_then(|()| file.write_all(chunk)).is_err() {
            *spool = None;
        }
    }
}

pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_file(path(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join(RECEIVED)
}

/// Reads the chunks of an interrupted transfer, by digest.
pub(crate) fn read(directory: &Path) -> BTreeMap<Digest, Bytes> {
    let mut rest = Bytes::from(fs::read(path(directory)).unwrap_or_default());
    let mut chunks = BTreeMap::new();
    while rest.len() > 4 {
        let length = u32::from_le_bytes(rest.split_to(4)[..].try_into().expect("four bytes are four")) as usize;
        if length > CHUNK_BYTES || length > rest.len() {
            break;
        }
        let chunk = rest.split_to(length);
        chunks.insert(chunk_digest(&chunk), chunk);
    }
    chunks
}
