//! Snapshot files: the state of one replica at a height.
//!
//! A file is named `snapshot-HEIGHT`. Its directory is the journal's with the suffix `.snapshots`:
//!
//! ```text
//! offset  0  "qSnap003"     8
//!         8  epoch         32
//!        40  replica        2   little-endian, as all numbers
//!        42  height         8
//!        50  length         8   of the state
//!        58  length         4   of the certificate; 0 if the state is not certified
//!        62  digest        32   of everything else in the file
//!        94  the certificate of the checkpoint
//!            the state: the length (4) of the replica's part and that part, and the executor's snapshot
//! ```

use crate::error::HostError;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_storage::{Identity, private, with_descriptor};
use quorate_types::files::Replacement;
use quorate_types::{Certificate, Decoder, Digest, Encoder, Hasher, Height, Wire, tags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// First bytes of the file of a state, with the number of its format.
pub const MAGIC: &[u8; 8] = b"qSnap003";
/// The magic bytes without the format number.
const MAGIC_PREFIX: &[u8] = b"qSnap";
const LENGTHS_END: usize = 8 + 32 + 2 + 8 + 8 + 4;
const HEADER_BYTES: usize = LENGTHS_END + 32;
const PREFIX: &str = "snapshot-";
/// Mode of a snapshot file: a state contains the data of all clients.
const MODE: u32 = 0o600;
/// Prefix of a file being written; another state may be written at the same time.
const WRITING_PREFIX: &str = "writing-";

/// State at a height, with its certificate if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Height of the last block that the state includes.
    pub height: Height,
    /// Certificate of the checkpoint at that height, if a quorum has certified it.
    pub certificate: Option<Certificate>,
    /// The replica's part and the executor's, as taken by [`quorate_applications::Executor::adopt`].
    pub state: Bytes,
}

pub(crate) struct StateFile {
    file: File,
    offset: u64,
}

impl StateFile {
    /// Reads `length` bytes of the state, starting at `from`.
    pub fn read(&self, from: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = BytesMut::zeroed(length);
        self.file.read_exact_at(&mut bytes, self.offset + from)?;
        Ok(bytes.freeze())
    }
}

/// Snapshots of one replica.
#[derive(Clone)]
pub struct SnapshotFiles {
    directory: PathBuf,
    identity: Identity,
}

impl SnapshotFiles {
    /// Returns the snapshots that belong to a journal.
    pub fn beside(journal: &Path, identity: Identity) -> SnapshotFiles {
        SnapshotFiles { directory: SnapshotFiles::directory_beside(journal), identity }
    }

    /// Returns the directory of the snapshots that belong to a journal.
    pub fn directory_beside(journal: &Path) -> PathBuf {
        let mut name = journal.as_os_str().to_owned();
        name.push(".snapshots");
        name.into()
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the latest readable snapshot, if any. Skips damaged files and other replicas' files.
    ///
    /// # Errors
    /// [`HostError::SnapshotFormat`] if a newer file has the format of another version.
    pub fn read_last(&self) -> Result<Option<Snapshot>, HostError> {
        for height in self.heights()?.into_iter().rev() {
            let path = self.path(height);
            let bytes = with_descriptor(|| read(&path)).map_err(|source| self.fault("read", &path, source))?;
            let bytes = Bytes::from(bytes);
            if let Some(snapshot) = self.decode(height, bytes.clone()) {
                return Ok(Some(snapshot));
            }
            if let Some(found) = self.other_format(height, &bytes) {
                return Err(HostError::SnapshotFormat { path, found, expected: number(MAGIC).expect("a number") });
            }
        }
        Ok(None)
    }

    /// Returns the heights in the file names, ascending.
    pub fn heights(&self) -> Result<Vec<Height>, HostError> {
        self.heights_after(PREFIX)
    }

    fn heights_after(&self, prefix: &str) -> Result<Vec<Height>, HostError> {
        let entries = match with_descriptor(|| fs::read_dir(&self.directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(self.fault("list", &self.directory, source)),
        };
        let mut heights = Vec::new();
        for entry in entries {
            let name = entry.map_err(|source| self.fault("list", &self.directory, source))?.file_name();
            heights.extend(name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok()).map(Height));
        }
        heights.sort_unstable();
        Ok(heights)
    }

    /// Returns the path of the snapshot at a height.
    pub fn path(&self, height: Height) -> PathBuf {
        self.directory.join(format!("{PREFIX}{height}"))
    }

    fn decode(&self, height: Height, file: Bytes) -> Option<Snapshot> {
        let certificate_bytes = u32::from_le_bytes(file.get(LENGTHS_END - 4..LENGTHS_END)?.try_into().ok()?) as usize;
        let digest = file.get(LENGTHS_END..HEADER_BYTES)?;
        let body = file.slice(HEADER_BYTES..);
        let certificate = (certificate_bytes <= body.len()).then(|| body.slice(..certificate_bytes))?;
        let state = body.slice(certificate_bytes..);
        let lengths = self.lengths(height, state.len(), certificate_bytes);
        if file[..LENGTHS_END] != lengths[..] || digest != digest_of(&[&lengths, &certificate, &state]).0 {
            return None;
        }
        let certificate = match certificate.is_empty() {
            true => None,
            false => Some(Certificate::decode(&mut Decoder::new(certificate)).ok()?),
        };
        Some(Snapshot { height, certificate, state })
    }

    /// Returns a file's format number if it differs from this version's. A file of this format with a damaged number
    /// counts as damaged: its digest still matches.
    fn other_format(&self, height: Height, file: &Bytes) -> Option<u32> {
        let found = number(file.first_chunk()?).filter(|_| !file.starts_with(MAGIC))?;
        let repaired = [MAGIC, &file[MAGIC.len()..]].concat();
        self.decode(height, repaired.into()).is_none().then_some(found)
    }

    fn lengths(&self, height: Height, state: usize, certificate: usize) -> Bytes {
        let mut header = BytesMut::with_capacity(LENGTHS_END);
        header.put_slice(MAGIC);
        header.put_slice(&self.identity.epoch.0.0);
        header.put_u16_le(self.identity.replica.0);
        header.put_u64_le(height.0);
        header.put_u64_le(state as u64);
        header.put_u32_le(certificate as u32);
        header.freeze()
    }

    /// Writes a snapshot. The file gets its final name only when it is complete.
    pub fn write(&self, snapshot: &Snapshot) -> io::Result<()> {
        let unfinished = self.directory.join(format!("{WRITING_PREFIX}{}", snapshot.height));
        let mut certificate = Encoder::with_capacity(512);
        snapshot.certificate.iter().for_each(|proof| proof.encode(&mut certificate));
        let certificate = certificate.finish();
        let lengths = self.lengths(snapshot.height, snapshot.state.len(), certificate.len());
        private::create_directories(&self.directory)?;
        // If this is not permitted, the directory belongs to another user, who decides who may read it.
        let _ = private::close_to_others(&self.directory);
        let path = self.path(snapshot.height);
        // After an error the unfinished file is removed, which frees space that the journal may need.
        let mut file = with_descriptor(|| Replacement::begin_as(&unfinished, &path, MODE))?;
        file.write_all(&lengths)?;
        file.write_all(&digest_of(&[&lengths, &certificate, &snapshot.state]).0)?;
        file.write_all(&certificate)?;
        file.write_all(&snapshot.state)?;
        file.commit().map(drop)
    }

    /// Opens the snapshot at a height.
    pub(crate) fn open(&self, height: Height) -> Result<StateFile, HostError> {
        let path = self.path(height);
        let opened = with_descriptor(|| private::open_regular(&path)).and_then(|file| {
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, LENGTHS_END as u64 - 4)?;
            let offset = HEADER_BYTES as u64 + u64::from(u32::from_le_bytes(bytes));
            Ok(StateFile { file, offset })
        });
        opened.map_err(|source| self.fault("read", &path, source))
    }

    /// Removes the files of lower heights, including unfinished ones. Must not run while a snapshot is being written.
    pub(crate) fn remove_below(&self, height: Height) -> Result<(), HostError> {
        for prefix in [PREFIX, WRITING_PREFIX] {
            for old in self.heights_after(prefix)?.into_iter().filter(|old| *old < height) {
                let path = self.directory.join(format!("{prefix}{old}"));
                fs::remove_file(&path).map_err(|source| self.fault("remove", &path, source))?;
            }
        }
        Ok(())
    }

    /// Returns the error for a failed file operation.
    pub(crate) fn fault(&self, action: &'static str, path: &Path, source: io::Error) -> HostError {
        HostError::Snapshot { action, path: path.to_owned(), source }
    }
}

/// Returns the format number in the magic bytes.
fn number(magic: &[u8; 8]) -> Option<u32> {
    std::str::from_utf8(magic.strip_prefix(MAGIC_PREFIX)?).ok()?.parse().ok()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    private::open_regular(path)?.read_to_end(&mut bytes).map(|_| bytes)
}

fn digest_of(parts: &[&[u8]]) -> Digest {
    let mut hasher = Hasher::new(tags::SNAPSHOT);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finish()
}
