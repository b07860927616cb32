//! `quorate inspect`: shows and checks a replica's directory, and exports the committed chain in a form that anybody
//! can check.
//!
//! Nothing in the directory is written or locked, so a replica may be running there. The audit behind [`Verification`]
//! replays the journal as a restarting replica does, but trusts nothing: neither the engine that wrote it nor the
//! checks made at the time.

mod audit;
mod certificates;
mod chain;
pub mod check;
mod export;
mod fault;
mod overview;
mod place;
mod promises;
mod states;
mod table;

pub use audit::Verification;
pub use export::Exported;
pub use fault::Fault;
pub use overview::{KindSummary, Memory, Said, Torn};
pub use place::SnapshotFile;

use audit::Audit;
use clap::Args;
use export::Writer;
use overview::Overview;
use place::Place;
use quorate_crypto::CryptoError;
use quorate_node::ConfigFault;
use quorate_node::config_file::ConfigFileError;
use quorate_storage::{Inspection, JournalError};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// All flags of `quorate inspect`.
#[derive(Args, Clone, Debug, Default)]
pub struct InspectArgs {
    /// A replica's directory, such as DIR/replica-0 of a testnet. It is only read, and a replica may be running in it.
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    pub dir: Option<PathBuf>,
    /// Check all that the journal holds: hash links, certificates, clients' signatures, that commits leave no gap and
    /// promises do not contradict each other; and execute it again to compare states with what a quorum vouched for.
    #[arg(long)]
    pub verify: bool,
    /// Write the committed chain to this file, with all that it takes to check it; docs/EXPORT.md describes every byte.
    /// Checks the journal as --verify does, and writes nothing if it is not sound.
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Of a damaged journal keep what is before the damage, and save the rest aside. The replica then asks the others
    /// what it may have said before it speaks again. It must not be running.
    #[arg(long, conflicts_with_all = ["verify", "export"])]
    pub repair: bool,
    /// Check a file that --export wrote: every hash, link and signature in it, and how far it proves what is committed.
    /// Needs no cluster.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "verify", "export", "repair"])]
    pub check: Option<PathBuf>,
    /// The client.toml, or the directory it lies in, with the replicas' keys that --check is to trust [default: the
    /// keys in the export].
    #[arg(long, value_name = "PATH", requires = "check")]
    pub keys: Option<PathBuf>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Why a directory cannot be inspected.
#[derive(Debug, Error)]
pub enum InspectError {
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// The configured committee is impossible.
    #[error("the configuration cannot work: {0}")]
    Config(#[from] ConfigFault),
    /// The keys of the committee are invalid.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The replica keeps its journal in memory.
    #[error(
        "the replica of {0} keeps its journal in memory, so there is nothing to inspect; `journal.kind = \"file\"` keeps it"
    )]
    InMemory(PathBuf),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot list {path}: {source}; give this user the right to read it")]
    Snapshots {
        /// Directory of the snapshots.
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot read {path}: {source}; name a file that --export has written")]
    Unreadable { path: PathBuf, source: io::Error },
    /// An export is invalid.
    #[error("{path}, line {line}: {what}; the export is not sound up to there, and nothing behind was looked at")]
    Unsound {
        path: PathBuf,
        /// From 1.
        line: u64,
        what: String,
    },
    /// An export cannot be written.
    #[error("cannot write {path}: {source}; name a file in a directory that can be written and has room")]
    Export { path: PathBuf, source: io::Error },
}

impl InspectError {
    /// Returns whether the caller's input is unusable, as opposed to a failure during the inspection.
    pub fn is_wrong_call(&self) -> bool {
        use InspectError::{Config, ConfigFile, Crypto, InMemory, Unreadable};
        matches!(self, ConfigFile(_) | Config(_) | Crypto(_) | InMemory(_) | Unreadable { .. })
    }
}

/// Contents of a replica's directory.
#[derive(Clone, Debug, Serialize)]
pub struct InspectResult {
    pub directory: String,
    pub cluster: String,
    /// Every signature covers it.
    pub cluster_id: String,
    /// Id of the replica that the directory belongs to.
    pub replica: u16,
    /// n.
    pub replicas: usize,
    /// f.
    pub faults: usize,
    pub protocol: &'static str,
    pub scheme: &'static str,
    pub application: &'static str,
    /// How much of its past the replica remembers.
    pub memory: Memory,
    /// Last view in which the replica abstains because its memory is lost, or `None` if it takes part. The maximum
    /// means that it does not know yet.
    pub abstains_up_to: Option<u64>,
    /// Last view in which the replica made a statement.
    pub spoke_in_view: u64,
    /// Last statement of each kind in the journal.
    pub promises: Vec<Said>,
    pub lock: Option<Said>,
    /// Certificate of the highest view that the replica relied on.
    pub highest_certificate: Option<Said>,
    /// Height that the journal records as committed.
    pub committed_height: u64,
    /// Digest of the block at that height.
    pub committed_digest: String,
    pub journal: JournalResult,
    /// Files with application states, by height.
    pub snapshots: Vec<SnapshotFile>,
    /// Result of `--verify`.
    pub verification: Option<Verification>,
    /// Result of `--export`.
    pub export: Option<Exported>,
    /// Result of `--repair`.
    pub repair: Option<RepairResult>,
}

/// Contents of a journal's files.
#[derive(Clone, Debug, Serialize)]
pub struct JournalResult {
    pub directory: String,
    /// Id of the process that has it open for writing.
    pub held_by_process: Option<u32>,
    /// Segments before any damage.
    pub segments: Vec<SegmentResult>,
    /// Readable records.
    pub records: u64,
    /// Readable records by kind.
    pub kinds: Vec<KindSummary>,
    /// Incomplete write at the end.
    pub torn: Option<Torn>,
    /// Damage that makes a replica refuse the journal, and how to repair it.
    pub damage: Option<String>,
    /// First record that is intact but cannot be decoded.
    pub unreadable: Option<Fault>,
}

/// A segment of the journal.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentResult {
    pub file: String,
    /// Size of the file.
    pub bytes: u64,
    pub used_bytes: u64,
    pub records: u64,
}

/// Result of a repair.
#[derive(Clone, Debug, Serialize)]
pub struct RepairResult {
    /// Damage found. `None` means that nothing was changed.
    pub damage: Option<String>,
    /// Files to which everything from the damage on was saved.
    pub saved: Vec<String>,
}

/// What one pass over the journal collects.
struct Reading<'a> {
    overview: Overview,
    audit: Option<Audit<'a>>,
}

/// Inspects a replica's directory as the flags ask.
///
/// # Errors
/// [`InspectError`] if the directory cannot be read or the export cannot be written. Faults in the contents are no
/// error; [`InspectResult::failure`] reports them.
pub fn run(dir: &Path, arguments: &InspectArgs) -> Result<InspectResult, InspectError> {
    let place = Place::open(dir)?;
    let repair = arguments.repair.then(|| repair(&place)).transpose()?;
    // A readable journal is useless if the replica then refuses to start on it, so a repair is audited too.
    let audits = arguments.verify || arguments.export.is_some() || arguments.repair;
    let part = arguments.export.as_deref().map(export::part);
    let begin = || Reading {
        overview: Overview::new(&place),
        audit: audits.then(|| Audit::new(&place, part.as_deref().map(|part| Writer::create(part, &place)))),
    };
    let visit = |reading: &mut Reading<'_>, id, bytes: &[u8]| {
        let record = overview::decode(bytes);
        reading.overview.take(id, bytes, &record);
        if let (Some(audit), Ok(record)) = (&mut reading.audit, record) {
            audit.take(id, record);
        }
    };
    let (reading, found) = match place.journal.is_dir() {
        true => quorate_storage::read(&place.journal, begin, visit)?,
        false => (begin(), place::nothing()),
    };
    let Reading { overview, audit } = reading;
    let mut result = overview.finish(&place, &found, repair)?;
    if let Some(mut audit) = audit {
        let writer = audit.take_writer();
        let (verification, ending) = audit.finish(&found, &result);
        if let (Some(path), Some(writer)) = (&arguments.export, writer.filter(|_| verification.sound)) {
            result.export = Some(writer.finish(path, &ending)?);
        }
        result.verification = Some(verification);
    }
    Ok(result)
}

fn repair(place: &Place) -> Result<RepairResult, InspectError> {
    let report = quorate_storage::repair(&place.journal)?;
    Ok(RepairResult { damage: report.damage.map(|damage| damage.to_string()), saved: report.saved })
}

impl InspectResult {
    /// Returns what is wrong, or `None` if every check that ran passed.
    pub fn failure(&self) -> Option<String> {
        let whole = self.journal.damage.clone().or(self.journal.unreadable.as_ref().map(Fault::to_string));
        let unsound = self.verification.as_ref().filter(|verification| !verification.sound);
        whole.or_else(|| unsound.map(Verification::verdict))
    }

    /// Returns the JSON of `--json`: indented, ending with a line feed.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a result is plain data");
        text.push('\n');
        text
    }
}

/// Returns the segments of a journal, for the result.
fn segments(found: &Inspection) -> Vec<SegmentResult> {
    let segments = found.segments.iter().map(|segment| SegmentResult {
        file: segment.file.clone(),
        bytes: segment.bytes,
        used_bytes: segment.used_bytes,
        records: segment.records,
    });
    segments.collect()
}
