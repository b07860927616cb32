//! Location of a replica's journal, and the information in it about earlier runs.
//!
//! A replica that has never run has a marker file, `journal.new`, next to its journal's directory. The file is removed
//! once the first record is durable. A journal without records and without the marker has been lost, and its replica
//! must not vote as if it had never voted.

use crate::config_file::{ConfigFault, Place};
use crate::error::NodeError;
use quorate_storage::{
    DEFAULT_CAPACITY_BYTES, DEFAULT_SEGMENT_BYTES, DEFAULT_WAITING_BYTES, FileJournal, Fsync, Identity, Journal,
    JournalKind, JournalOptions, MemoryJournal, private, with_descriptor,
};
use quorate_types::settings::{Flag, RUN, With};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Default directory of the journal, relative to the replica's.
pub const JOURNAL_DIRECTORY: &str = "journal";
/// Default for the bytes of records after which the state is written, so that the journal can be truncated.
pub const DEFAULT_SNAPSHOT_BYTES: u64 = 256 << 20;
/// Default free space of the disk below which the replica stops: a segment.
pub const DEFAULT_MIN_FREE_BYTES: u64 = DEFAULT_SEGMENT_BYTES;
/// Bytes of a segment in addition to its largest record: headers, padding, and the framing of a bundle.
const SEGMENT_SLACK_BYTES: u64 = 63 << 10;
/// At most one byte in this many of a segment is overhead.
const SEGMENT_SHARE_BYTES: u64 = 256;

/// The table `[journal]` of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JournalConfig {
    /// Kind of journal: `file`, or `memory` for experiments.
    #[schemars(extend("x-reported" = true))]
    pub kind: JournalKind,
    /// Whether records are synced to disk: `always`, or `never` for experiments.
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(RUN).rare()))]
    #[schemars(extend("x-with" = With::one("journal.kind", &["file"]), "x-real" = true))]
    pub fsync: Fsync,
    /// Directory of the journal, relative to the configuration's.
    pub directory: PathBuf,
    /// Size of a segment in bytes, a multiple of 512 and larger than `consensus.batch_bytes`.
    pub segment_bytes: u64,
    /// Maximum bytes of all segments together; the replica stops when the journal is full. At most 1 PiB.
    pub capacity_bytes: u64,
    /// Free space of the disk, in bytes, below which the replica stops in order, with exit status 3. 0: it stops when
    /// the disk is full.
    pub min_free_bytes: u64,
    /// Maximum bytes of records that wait for the disk; the replica stops when it falls further behind.
    pub waiting_bytes: usize,
    /// Bytes of records after which the state is written to a file, so that the journal can be truncated; at most a
    /// quarter of `capacity_bytes`.
    #[schemars(range(min = 1))]
    pub snapshot_bytes: u64,
}

impl Default for JournalConfig {
    fn default() -> Self {
        JournalConfig {
            kind: JournalKind::default(),
            fsync: Fsync::default(),
            directory: JOURNAL_DIRECTORY.into(),
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            capacity_bytes: DEFAULT_CAPACITY_BYTES,
            min_free_bytes: DEFAULT_MIN_FREE_BYTES,
            waiting_bytes: DEFAULT_WAITING_BYTES,
            snapshot_bytes: DEFAULT_SNAPSHOT_BYTES,
        }
    }
}

impl JournalConfig {
    /// Returns a configuration that keeps the journal in memory.
    pub fn memory() -> JournalConfig {
        JournalConfig { kind: JournalKind::Memory, ..JournalConfig::default() }
    }

    fn options(&self) -> JournalOptions {
        JournalOptions {
            segment_bytes: self.segment_bytes,
            capacity_bytes: self.capacity_bytes,
            waiting_bytes: self.waiting_bytes,
            fsync: self.fsync,
            ..JournalOptions::default()
        }
    }

    /// Rejects settings that cannot work with blocks of `batch_bytes` bytes.
    pub(crate) fn validate(&self, batch_bytes: usize) -> Result<(), ConfigFault> {
        let fault =
            |key, what: String, help: String| Err(ConfigFault { place: Place::in_table("journal", key), what, help });
        if self.directory.as_os_str().is_empty() {
            return fault("directory", "is empty".into(), "name a directory, or leave the key out".into());
        }
        let least = batch_bytes as u64 + batch_bytes as u64 / SEGMENT_SHARE_BYTES + SEGMENT_SLACK_BYTES;
        if self.kind == JournalKind::File && self.segment_bytes < least {
            let what = format!("is {}, but `consensus.batch_bytes` is {batch_bytes}", self.segment_bytes);
            return fault("segment_bytes", what, format!("set at least {least}: the largest bundle must fit in one"));
        }
        let min_capacity = JournalConfig::default().snapshot_bytes.min(self.snapshot_bytes).max(1) * 4;
        if self.snapshot_bytes == DEFAULT_SNAPSHOT_BYTES && self.capacity_bytes < min_capacity {
            let what =
                format!("is {}, but the state is written every {} bytes", self.capacity_bytes, self.snapshot_bytes);
            return fault("capacity_bytes", what, format!("set at least {min_capacity}, or lower `snapshot_bytes`"));
        }
        if self.snapshot_bytes == 0 || self.snapshot_bytes > self.capacity_bytes / 4 {
            let what = format!("is {}, but `capacity_bytes` is {}", self.snapshot_bytes, self.capacity_bytes);
            return fault("snapshot_bytes", what, "set 1 to a quarter of `capacity_bytes`".into());
        }
        self.options().validate().map_err(|error| ConfigFault {
            place: Place::table("journal"),
            what: error.to_string(),
            help: "correct the key, or leave it out for its default".into(),
        })
    }
}

/// A replica's memory of its earlier runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// It has never run.
    New,
    /// All votes and promises are known.
    Kept,
    /// Some votes or promises may be missing.
    Lost,
}

/// A journal that is ready to use.
pub(crate) struct Opened {
    pub journal: Box<dyn Journal>,
    pub memory: Memory,
    /// Marker file: the replica has never run. Removed once the first record is durable.
    pub mark: Option<PathBuf>,
    /// Directory of the journal; `None` if it is in memory.
    pub directory: Option<PathBuf>,
    pub finding: Option<String>,
}

/// Creates the marker file of a replica that has never run. The journal need not exist.
pub fn mark_as_new(journal: &Path) -> Result<(), NodeError> {
    let mark = new_mark(journal);
    let text = "This replica has never run. It removes this file when it first runs. Never put the file back: the \
                replica could contradict its earlier votes.\n";
    private::write(&mark, text.as_bytes()).map_err(|source| NodeError::Write { path: mark, source })
}

/// Returns the path of the marker file of a replica that has never run.
pub fn new_mark(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Removes the marker file; durable on return.
pub(crate) fn remove_mark(mark: &Path) -> io::Result<()> {
    fs::remove_file(mark)?;
    let parent = mark.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    with_descriptor(|| File::open(parent))?.sync_all()
}

/// Opens the journal of a configuration located in `home`.
pub(crate) fn open(config: &JournalConfig, home: &Path, identity: Identity) -> Result<Opened, NodeError> {
    if config.kind == JournalKind::Memory {
        let journal = Box::new(MemoryJournal::default());
        return Ok(Opened { journal, memory: Memory::New, mark: None, directory: None, finding: None });
    }
    let directory = home.join(&config.directory);
    let journal = FileJournal::open(&directory, identity, &config.options())
        .map_err(|source| NodeError::Journal { replica: identity.replica, source })?;
    let mark = Some(new_mark(&directory)).filter(|mark| mark.exists());
    let recovery = journal.recovery();
    let memory = match recovery.last_id {
        _ if recovery.repaired => Memory::Lost,
        Some(_) => Memory::Kept,
        None if mark.is_some() => Memory::New,
        None => Memory::Lost,
    };
    let finding = recovery.cut.as_ref().map(|cut| {
        format!(
            "cut off the remains of an interrupted write: {} bytes at byte {} of {}",
            cut.bytes, cut.offset, cut.file
        )
    });
    Ok(Opened { journal: Box::new(journal), memory, mark, directory: Some(directory), finding })
}
