//! `quorate inspect`: what a replica's directory holds, whether it is sound, and the committed chain in a form that anybody can check.
//!
//! Nothing is written to the directory or locked in it, so that a replica may be at work there. [`audit`](Verification)
//! goes through the journal as a replica does that comes back, but believes nothing: neither the engine that wrote it
//! nor the checks that were made then.

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
    /// Its configuration cannot be used.
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// Its committee cannot be one.
    #[error("the configuration cannot work: {0}")]
    Config(#[from] ConfigFault),
    /// Its committee's keys cannot be used.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Its replica remembers nothing on a disk.
    #[error(
        "the replica of {0} keeps its journal in memory, so there is nothing to inspect; `journal.kind = \"file\"` keeps it"
    )]
    InMemory(PathBuf),
    /// The journal cannot be read at all.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The snapshots cannot be listed.
    #[error("cannot list {path}: {source}; give this user the right to read it")]
    Snapshots {
        /// Their directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// An export cannot be read.
    #[error("cannot read {path}: {source}; name a file that --export has written")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// An export is not what it has to be.
    #[error("{path}, line {line}: {what}; the export is not sound up to there, and nothing behind was looked at")]
    Unsound {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The export cannot be written.
    #[error("cannot write {path}: {source}; name a file in a directory that can be written and has room")]
    Export {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl InspectError {
    /// Whether what the caller gave cannot be used, as against what happened on the way.
    pub fn is_wrong_call(&self) -> bool {
        use InspectError::{Config, ConfigFile, Crypto, InMemory, Unreadable};
        matches!(self, ConfigFile(_) | Config(_) | Crypto(_) | InMemory(_) | Unreadable { .. })
    }
}

/// What a directory holds.
#[derive(Clone, Debug, Serialize)]
pub struct InspectResult {
    /// The directory.
    pub directory: String,
    /// The cluster's name.
    pub cluster: String,
    /// The cluster's id, which every signature covers.
    pub cluster_id: String,
    /// Whose directory it is.
    pub replica: u16,
    /// n.
    pub replicas: usize,
    /// f.
    pub faults: usize,
    /// The protocol.
    pub protocol: &'static str,
    /// The signature scheme.
    pub scheme: &'static str,
    /// The application.
    pub application: &'static str,
    /// What the replica remembers.
    pub memory: Memory,
    /// The last view up to which it says nothing because it has lost its memory; none if it speaks. The largest number:
    /// it does not know yet.
    pub abstains_up_to: Option<u64>,
    /// The last view in which it said anything.
    pub spoke_in_view: u64,
    /// The last statement of each kind that it has bound itself to.
    pub promises: Vec<Said>,
    /// What it is locked on, if anything.
    pub lock: Option<Said>,
    /// The certificate of the highest view that it relied on, if there is any.
    pub highest_certificate: Option<Said>,
    /// The height up to which it has recorded that all is committed.
    pub committed_height: u64,
    /// The block of that height.
    pub committed_digest: String,
    /// The journal's files.
    pub journal: JournalResult,
    /// Files with the state, by height.
    pub snapshots: Vec<SnapshotFile>,
    /// What came of `--verify`.
    pub verification: Option<Verification>,
    /// What came of `--export`.
    pub export: Option<Exported>,
    /// What came of `--repair`.
    pub repair: Option<RepairResult>,
}

/// The journal's files.
#[derive(Clone, Debug, Serialize)]
pub struct JournalResult {
    /// Where it is.
    pub directory: String,
    /// The process that has it open to write.
    pub held_by_process: Option<u32>,
    /// Its segments up to the damage, if there is any.
    pub segments: Vec<SegmentResult>,
    /// Records that can be read.
    pub records: u64,
    /// The same by kind.
    pub kinds: Vec<KindSummary>,
    /// A write at the end that is not whole.
    pub torn: Option<Torn>,
    /// The damage because of which a replica refuses it, and what to do.
    pub damage: Option<String>,
    /// The first record that is whole and makes no sense.
    pub unreadable: Option<Fault>,
}

/// A segment of the journal.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentResult {
    /// The file.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// The bytes in use.
    pub used_bytes: u64,
    /// Records in it.
    pub records: u64,
}

/// What a repair did.
#[derive(Clone, Debug, Serialize)]
pub struct RepairResult {
    /// The damage that was found; none if there was none, and then nothing was changed.
    pub damage: Option<String>,
    /// The files to which everything from there on was saved.
    pub saved: Vec<String>,
}

/// What is taken from the journal in one reading.
struct Reading<'a> {
    overview: Overview,
    audit: Option<Audit<'a>>,
}

/// Looks into a replica's directory as the flags say.
///
/// # Errors
/// [`InspectError`] if the directory cannot be read or the export not be written. What is wrong with what was read is no error but in
/// [`InspectResult::failure`].
pub fn run(dir: &Path, arguments: &InspectArgs) -> Result<InspectResult, InspectError> {
    let place = Place::open(dir)?;
    let repair = arguments.repair.then(|| repair(&place)).transpose()?;
    // A journal that can be read again is of no use if the replica then refuses to start on it.
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
    /// What is not as it should be; nothing if all is well as far as it was looked at.
    pub fn failure(&self) -> Option<String> {
        let whole = self.journal.damage.clone().or(self.journal.unreadable.as_ref().map(Fault::to_string));
        let unsound = self.verification.as_ref().filter(|verification| !verification.sound);
        whole.or_else(|| unsound.map(Verification::verdict))
    }

    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a result is plain data");
        text.push('\n');
        text
    }
}

/// The segments of a journal, for the result.
fn segments(found: &Inspection) -> Vec<SegmentResult> {
    let segments = found.segments.iter().map(|segment| SegmentResult {
        file: segment.file.clone(),
        bytes: segment.bytes,
        used_bytes: segment.used_bytes,
        records: segment.records,
    });
    segments.collect()
}
