//! `quorate inspect`: shows and checks a replica's directory, and exports the committed chain in a format that third
//! parties can check.
//!
//! Nothing in the directory is written or locked, so a replica may be running there. The audit behind [`Verification`]
//! replays the journal as a restarting replica does, but trusts neither the engine that wrote it nor the checks made at
//! the time.

mod audit;
pub(crate) mod capture;
mod certificates;
mod chain;
pub mod check;
pub(crate) mod collector;
mod export;
mod fault;
mod overview;
mod place;
mod promises;
mod states;
mod table;

pub use audit::Verification;
pub(crate) use certificates::caveat;
pub use export::{Exported, FORMAT as EXPORT_FORMAT};
pub use fault::Fault;
pub use overview::{KindSummary, Memory, Said, Torn};
pub use place::SnapshotFile;

use audit::Audit;
use clap::Args;
use export::Writer;
use overview::Overview;
pub(crate) use place::Place;
use quorate_crypto::CryptoError;
use quorate_node::ConfigFault;
use quorate_node::config_file::ConfigFileError;
use quorate_node::initial_state::InitialStateError;
use quorate_storage::{Inspection, JournalError};
use quorate_types::files::{DEFAULT_MODE, Replacement};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Flags of `quorate inspect`.
#[derive(Args, Clone, Debug, Default)]
pub struct InspectArgs {
    /// A replica's directory, such as DIR/replica-0 of a testnet. It is only read, so the replica may be running.
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    pub dir: Option<PathBuf>,
    /// Check the whole journal: hash links, certificates, clients' signatures, and that commits leave no gap and
    /// promises do not contradict each other. Then re-execute it and compare the states with those certified by a
    /// quorum.
    #[arg(long)]
    pub verify: bool,
    /// Write the committed chain to this file, with everything needed to check it; docs/EXPORT.md describes every byte.
    /// Checks the journal as --verify does, and writes nothing if it is not sound.
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Keep the part of a damaged journal before the damage, and save the rest to other files. The replica must not be
    /// running. When it restarts, it asks the others about its earlier statements before it votes.
    #[arg(long, conflicts_with_all = ["verify", "export"])]
    pub repair: bool,
    /// Check a file written by --export: every hash, link and signature in it, and up to which height it proves
    /// commits. Needs no cluster.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "verify", "export", "repair"])]
    pub check: Option<PathBuf>,
    /// The client.toml, or its directory, with the replicas' keys for --check to trust [default: the keys in the
    /// export].
    #[arg(long, value_name = "PATH", requires = "check")]
    pub keys: Option<PathBuf>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Reason why a directory cannot be inspected.
#[derive(Debug, Error)]
pub enum InspectError {
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    #[error("the configuration is invalid: {0}")]
    Config(#[from] ConfigFault),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error(
        "the replica of {0} keeps its journal in memory, so there is nothing to inspect; set \
          `journal.kind = \"file\"`"
    )]
    InMemory(PathBuf),
    #[error(transparent)]
    InitialState(#[from] InitialStateError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot list {path}: {source}; grant this user read access")]
    Snapshots { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: {source}; name a file that --export wrote")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path}, line {line}: {what}; the export is not sound, and later lines were not checked")]
    Unsound {
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        what: String,
    },
    #[error("cannot write {path}: {source}; name a file in a writable directory with enough space")]
    Export { path: PathBuf, source: io::Error },
}

impl InspectError {
    /// Returns whether the caller's input is unusable, rather than the inspection failing.
    pub fn is_wrong_call(&self) -> bool {
        use InspectError::{Config, ConfigFile, Crypto, Export, InMemory, InitialState, Unreadable};
        matches!(self, ConfigFile(_) | Config(_) | Crypto(_) | InMemory(_) | InitialState(_) | Unreadable { .. })
            || matches!(self, Export { source, .. } if quorate_types::files::is_named_wrongly(source))
    }
}

/// Contents of a replica's directory.
#[derive(Clone, Debug, Serialize)]
pub struct InspectResult {
    pub directory: String,
    pub cluster: String,
    /// Hash of the cluster's name, members and protocol, included in every statement of its replicas.
    pub genesis_id: String,
    pub replica: u16,
    /// Number of replicas, n.
    pub replicas: usize,
    /// Tolerated Byzantine replicas, f.
    pub faults: usize,
    pub protocol: &'static str,
    pub scheme: &'static str,
    pub application: &'static str,
    /// Completeness of the replica's memory of its past.
    pub memory: Memory,
    /// Last view in which the replica abstains because it lost its memory, or `None` if it votes. The maximum means
    /// that the view is not known yet.
    pub abstains_up_to: Option<u64>,
    /// Last view in which the replica signed a statement.
    pub spoke_in_view: u64,
    /// Last statement of each kind in the journal.
    pub promises: Vec<Said>,
    pub lock: Option<Said>,
    /// Certificate of the highest view on which the replica relied.
    pub highest_certificate: Option<Said>,
    /// Height that the journal records as committed.
    pub committed_height: u64,
    /// Digest of the block at that height.
    pub committed_digest: String,
    pub journal: JournalResult,
    /// Files with application states, by height.
    pub snapshots: Vec<SnapshotFile>,
    pub verification: Option<Verification>,
    pub export: Option<Exported>,
    pub repair: Option<RepairResult>,
}

/// Contents of a journal's files.
#[derive(Clone, Debug, Serialize)]
pub struct JournalResult {
    pub directory: String,
    /// Id of the process that has the journal open for writing.
    pub held_by_process: Option<u32>,
    /// Segments before any damage.
    pub segments: Vec<SegmentResult>,
    pub records: u64,
    /// Readable records by kind.
    pub kinds: Vec<KindSummary>,
    /// Incomplete write at the end.
    pub torn: Option<Torn>,
    /// Damage that makes a replica refuse the journal, and how to repair it.
    pub damage: Option<String>,
    /// First record with a valid checksum that cannot be decoded.
    pub unreadable: Option<Fault>,
}

/// One segment file of a journal.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentResult {
    pub file: String,
    pub bytes: u64,
    pub used_bytes: u64,
    pub records: u64,
}

/// Data removed by a repair.
#[derive(Clone, Debug, Serialize)]
pub struct RepairResult {
    /// Damage found, or `None` if nothing was changed.
    pub damage: Option<String>,
    /// Files that contain everything from the damage on.
    pub saved: Vec<String>,
}

/// Collects everything in one pass over the journal.
struct Reading<'a> {
    overview: Overview,
    audit: Option<Audit<'a>>,
}

/// Inspects a replica's directory according to the flags.
///
/// # Errors
/// [`InspectError`] if the directory cannot be read or the export cannot be written. Faults in the contents are not
/// errors; [`InspectResult::failure`] reports them.
pub fn run(dir: &Path, arguments: &InspectArgs) -> Result<InspectResult, InspectError> {
    let place = Place::open(dir)?;
    if let Some(path) = &arguments.export {
        // Refuses an unwritable output before the whole journal is read.
        let begun = Replacement::begin(path, DEFAULT_MODE);
        begun.map_err(|source| InspectError::Export { path: path.clone(), source })?;
    }
    let repair = arguments.repair.then(|| repair(&place)).transpose()?;
    // A journal may be readable and still be refused by the replica at its start, so a repair is audited too.
    let audits = arguments.verify || arguments.export.is_some() || arguments.repair;
    let begin = || Reading {
        overview: Overview::new(&place),
        audit: audits.then(|| Audit::new(&place, arguments.export.as_deref().map(|path| Writer::create(path, &place)))),
    };
    let (Reading { overview, audit }, found) = read_all(&place, begin)?;
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

/// Reads the journal of a directory.
fn read_all<'a>(place: &'a Place, begin: impl Fn() -> Reading<'a>) -> Result<(Reading<'a>, Inspection), InspectError> {
    let visit = |reading: &mut Reading<'_>, id, bytes: &[u8]| {
        let record = overview::decode(bytes);
        reading.overview.take(id, bytes, &record);
        if let (Some(audit), Ok(record)) = (&mut reading.audit, record) {
            audit.take(id, record);
        }
    };
    match place.journal.is_dir() {
        true => Ok(quorate_storage::read(&place.journal, begin, visit)?),
        false => Ok((begin(), place::nothing())),
    }
}

fn repair(place: &Place) -> Result<RepairResult, InspectError> {
    let report = quorate_storage::repair(&place.journal)?;
    Ok(RepairResult { damage: report.damage.map(|damage| damage.to_string()), saved: report.saved })
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
