//! Files with the state, so that the journal can be cut and a restart replays little.
//!
//! When so many bytes of records have been written the replica sums its journal up and the state is taken, both at one height. When
//! the sum is durable the state goes to a file on a thread of its own, and when that is durable the journal is cut at the sum
//! *before*: blocks between the two are not executed again after a restart, but are there for replicas that lag behind.
//!
//! A file is `snapshot-HEIGHT`, in the directory of the journal's name with `.snapshots` behind it:
//!
//! ```text
//! offset  0  "qSnap001"     8
//!         8  cluster       32
//!        40  replica        2   little-endian, as all numbers
//!        42  height         8
//!        50  length         8   of the state
//!        58  digest        32   of all that precedes it and of the state
//!        90  the state: the executor's snapshot
//! ```

use crate::error::HostError;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_storage::Identity;
use quorate_types::{Digest, Hasher, Height};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

const MAGIC: &[u8; 8] = b"qSnap001";
const HEADER_BYTES: usize = 8 + 32 + 2 + 8 + 8;
const PREFIX: &str = "snapshot-";
const WRITING: &str = "writing";

/// A sum of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sum {
    /// Its first record: where the journal may be cut.
    pub first: u64,
    /// The committed height at that time.
    pub height: Height,
}

/// What is under way.
enum Work {
    Nothing,
    /// The state waits for the sum to be durable.
    Waiting {
        sum: Sum,
        last: u64,
        state: Bytes,
    },
    Writing {
        sum: Sum,
        thread: JoinHandle<io::Result<()>>,
    },
}

/// The snapshots of one replica.
pub(crate) struct Snapshots {
    directory: PathBuf,
    identity: Identity,
    every_bytes: u64,
    /// Bytes of records since the last sum.
    bytes: u64,
    work: Work,
    /// The last sum whose state is in a file.
    last: Option<Sum>,
}

impl Snapshots {
    pub fn new(journal: &Path, identity: Identity, every_bytes: u64) -> Snapshots {
        let mut name = journal.as_os_str().to_owned();
        name.push(".snapshots");
        Snapshots { directory: name.into(), identity, every_bytes, bytes: 0, work: Work::Nothing, last: None }
    }

    /// The last state that was written, if there is any that can be read.
    pub fn read_last(&self) -> Result<Option<(Height, Bytes)>, HostError> {
        let mut heights = self.heights()?;
        heights.sort_unstable();
        for height in heights.into_iter().rev() {
            let path = self.path(height);
            let bytes = fs::read(&path).map_err(|source| self.fault("read", &path, source))?;
            if let Some(state) = self.check(height, bytes.into()) {
                return Ok(Some((height, state)));
            }
        }
        Ok(None)
    }

    fn heights(&self) -> Result<Vec<Height>, HostError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(self.fault("list", &self.directory, source)),
        };
        let mut heights = Vec::new();
        for entry in entries {
            let name = entry.map_err(|source| self.fault("list", &self.directory, source))?.file_name();
            heights.extend(name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok()).map(Height));
        }
        Ok(heights)
    }

    fn path(&self, height: Height) -> PathBuf {
        self.directory.join(format!("{PREFIX}{height}"))
    }

    fn check(&self, height: Height, file: Bytes) -> Option<Bytes> {
        let header = file.get(..HEADER_BYTES)?;
        let (digest, state) = (file.get(HEADER_BYTES..HEADER_BYTES + 32)?, file.slice(HEADER_BYTES + 32..));
        let expected = self.header(height, state.len() as u64);
        (header == &expected[..] && digest == digest_of(&expected, &state).0).then_some(state)
    }

    fn header(&self, height: Height, length: u64) -> Bytes {
        let mut header = BytesMut::with_capacity(HEADER_BYTES);
        header.put_slice(MAGIC);
        header.put_slice(&self.identity.cluster.0.0);
        header.put_u16_le(self.identity.replica.0);
        header.put_u64_le(height.0);
        header.put_u64_le(length);
        header.freeze()
    }

    fn fault(&self, action: &'static str, path: &Path, source: io::Error) -> HostError {
        HostError::Snapshot { action, path: path.to_owned(), source }
    }

    /// A sum was found in the journal, complete; the state of `restored` or below need not be written again.
    pub fn recalled(&mut self, sum: Sum, restored: Height) {
        if sum.height <= restored {
            self.last = Some(sum);
            self.bytes = 0;
        }
    }

    /// So many bytes were added to the journal.
    pub fn added(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Whether the journal is to be summed up and the state to be taken.
    pub fn is_due(&self) -> bool {
        self.bytes >= self.every_bytes && self.is_idle()
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.work, Work::Nothing)
    }

    /// The journal was summed up by the records from `sum.first` to `last`, and this is the state at that height.
    pub fn taken(&mut self, sum: Sum, last: u64, state: Bytes) {
        self.bytes = 0;
        self.work = Work::Waiting { sum, last, state };
    }

    /// Goes on with what is under way. Returns where the journal may be cut, if it has become shorter by that; `settled` is the height
    /// up to which nobody needs its blocks to agree any more.
    pub fn go_on(&mut self, durable: Option<u64>, settled: Height) -> Result<Option<u64>, HostError> {
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Waiting { sum, last, state } if durable >= Some(last) => {
                let (directory, path) = (self.directory.clone(), self.path(sum.height));
                let header = self.header(sum.height, state.len() as u64);
                let thread = thread::Builder::new().name("snapshot".to_owned());
                let thread = thread.spawn(move || write(&directory, &path, &header, &state));
                let thread = thread.map_err(|source| self.fault("write", &self.directory, source))?;
                self.work = Work::Writing { sum, thread };
                Ok(None)
            }
            Work::Writing { sum, thread } if thread.is_finished() => {
                let written = thread.join().expect("writing a file does not panic");
                written.map_err(|source| self.fault("write", &self.path(sum.height), source))?;
                let before = self.last.replace(sum);
                for height in self.heights()?.into_iter().filter(|height| *height < sum.height) {
                    let path = self.path(height);
                    fs::remove_file(&path).map_err(|source| self.fault("remove", &path, source))?;
                }
                let cut = before.filter(|before| before.height <= settled);
                Ok(cut.map(|before| before.first))
            }
            work => {
                self.work = work;
                Ok(None)
            }
        }
    }
}

fn digest_of(header: &[u8], state: &[u8]) -> Digest {
    let mut hasher = Hasher::new(*b"qS01");
    hasher.update(header);
    hasher.update(state);
    hasher.finish()
}

/// Writes a file so that it has its name only when it is whole.
fn write(directory: &Path, path: &Path, header: &[u8], state: &[u8]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let unfinished = directory.join(WRITING);
    let mut file = File::create(&unfinished)?;
    file.write_all(header)?;
    file.write_all(&digest_of(header, state).0)?;
    file.write_all(state)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(directory)?.sync_all()
}
