//! A state on its way here, chunk by chunk.
//!
//! What has come is also appended to a file, so that a replica that is stopped in the middle need not fetch it again. The file is a
//! list of lengths (4 bytes, little-endian) and chunks; whether a chunk is one that is wanted its digest tells, so nothing in the
//! file has to be believed, and it is never waited for.

use bytes::Bytes;
use quorate_types::state::{CHUNK_BYTES, chunk_digest};
use quorate_types::{Digest, Height, Manifest};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const RECEIVED: &str = "received";

/// What has been received of one state.
pub(crate) struct Receiving {
    pub height: Height,
    manifest: Manifest,
    chunks: Vec<Option<Bytes>>,
    spool: Option<File>,
}

impl Receiving {
    /// Begins, with what is found of it among chunks that are here, by their digests.
    pub fn begin(
        height: Height,
        manifest: Manifest,
        mut find: impl FnMut(&Digest) -> Option<Bytes>,
        directory: Option<&Path>,
    ) -> Receiving {
        let spooled = directory.map(read_spool).unwrap_or_default();
        let known = |digest: &Digest| spooled.get(digest).cloned();
        let chunks: Vec<_> = manifest.digests().iter().map(|digest| known(digest).or_else(|| find(digest))).collect();
        let mut receiving = Receiving { height, manifest, chunks, spool: directory.and_then(new_spool) };
        let held: Vec<Bytes> = receiving.chunks.iter().flatten().cloned().collect();
        held.iter().for_each(|chunk| receiving.spool(chunk));
        receiving
    }

    /// The chunks that are here.
    pub fn held(&self) -> Vec<u32> {
        (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.is_some()).map(|(index, _)| index).collect()
    }

    /// Chunks that are here, by their digests.
    pub fn find(&self, digest: &Digest) -> Option<Bytes> {
        let index = self.manifest.digests().iter().position(|known| known == digest)?;
        self.chunks[index].clone()
    }

    /// Keeps a chunk, which is genuine.
    pub fn keep(&mut self, chunk: u32, bytes: Bytes) {
        self.spool(&bytes);
        self.chunks[chunk as usize] = Some(bytes);
    }

    /// A spool that cannot be written costs a second transfer at worst.
    fn spool(&mut self, chunk: &[u8]) {
        if let Some(file) = &mut self.spool {
            let length = (chunk.len() as u32).to_le_bytes();
            if file.write_all(&length).and_then(|()| file.write_all(chunk)).is_err() {
                self.spool = None;
            }
        }
    }

    /// The state and what it consists of; all chunks are here.
    pub fn finish(self) -> (Manifest, Bytes) {
        let mut state = Vec::with_capacity(self.manifest.bytes() as usize);
        for chunk in self.chunks {
            state.extend_from_slice(&chunk.expect("the replica has the state adopted when it is complete"));
        }
        (self.manifest, state.into())
    }
}

/// Forgets what was received.
pub(crate) fn remove_spool(directory: &Path) -> io::Result<()> {
    match fs::remove_file(path(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join(RECEIVED)
}

fn new_spool(directory: &Path) -> Option<File> {
    fs::create_dir_all(directory).and_then(|()| File::create(path(directory))).ok()
}

fn read_spool(directory: &Path) -> BTreeMap<Digest, Bytes> {
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
