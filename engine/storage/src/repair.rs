//! Tools for operators: inspecting a journal, and removing its damaged part.

use crate::directory::Directory;
use crate::error::JournalError;
use crate::format::{Entry, Identity, Place, encode_group};
use crate::log::Cut;
use crate::medium::{Medium, MediumFile};
use crate::options::{Flush, Fsync};
use crate::scan::Tail;
use crate::survey::{Break, REPAIRED_MARK, Survey, names, segment_name, survey};
use std::path::Path;

/// Content of a journal.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// `None` if the journal is empty.
    pub identity: Option<Identity>,
    /// Segments up to the damage, if any.
    pub segments: Vec<SegmentSummary>,
    /// Number of readable records.
    pub records: u64,
    /// Remains, at the end, of a write that was interrupted or is in progress.
    pub torn: Option<Cut>,
    /// The reason why the journal is refused.
    pub damage: Option<JournalError>,
    /// Whether a repair has cut the journal and no replica has accepted the repair yet.
    pub repaired: bool,
}

/// One segment of a journal.
#[derive(Clone, Debug)]
pub struct SegmentSummary {
    pub file: String,
    /// Length of the file.
    pub bytes: u64,
    pub used_bytes: u64,
    /// Number of readable records.
    pub records: u64,
    pub first_id: Option<u64>,
    pub last_id: Option<u64>,
}

/// Outcome of a repair.
#[derive(Clone, Debug)]
pub struct RepairReport {
    /// `None` if no segment header could be read.
    pub identity: Option<Identity>,
    /// The damage found; if `None`, nothing was changed.
    pub damage: Option<JournalError>,
    /// Number of records kept.
    pub records: u64,
    /// The highest id kept.
    pub last_id: Option<u64>,
    /// Files that contain everything that was removed.
    pub saved: Vec<String>,
}

/// Inspects the journal in `directory` without changing or locking it. `visit` receives the records up to the first
/// damage.
pub fn inspect(directory: &Path, visit: &mut dyn FnMut(u64, &[u8])) -> Result<Inspection, JournalError> {
    inspect_medium(&Directory::look(directory), visit)
}

/// Inspects a journal on any medium, like [`inspect`].
pub fn inspect_medium<M: Medium>(medium: &M, visit: &mut dyn FnMut(u64, &[u8])) -> Result<Inspection, JournalError> {
    let found = survey(medium, None, visit)?;
    let segments: Vec<SegmentSummary> = found
        .segments
        .iter()
        .map(|segment| SegmentSummary {
            file: medium.describe(&segment_name(segment.index)),
            bytes: segment.bytes,
            used_bytes: segment.scan.end as u64,
            records: segment.scan.records,
            first_id: segment.scan.first_id,
            last_id: segment.scan.first_id.and(segment.scan.last_id),
        })
        .collect();
    let torn = found.segments.iter().find_map(|segment| match segment.scan.tail {
        Tail::Torn { end } => Some(Cut {
            file: medium.describe(&segment_name(segment.index)),
            offset: segment.scan.end as u64,
            bytes: (end - segment.scan.end) as u64,
        }),
        _ => None,
    });
    Ok(Inspection {
        identity: found.identity,
        records: segments.iter().map(|segment| segment.records).sum(),
        segments,
        torn,
        damage: found.error(medium),
        repaired: names(medium)?.iter().any(|name| name == REPAIRED_MARK),
    })
}

/// Repairs the journal in `directory` so that it opens again: keeps the records before the first damage, and moves the
/// rest to files in the same directory whose names end in `aside-N`.
///
/// The lost records may be promises. The journal remembers this, as [`crate::Recovery::repaired`], until the replica
/// accepts it. An interrupted repair can be repeated.
pub fn repair(directory: &Path) -> Result<RepairReport, JournalError> {
    if !directory.is_dir() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(JournalError::io("open", directory.display().to_string(), error));
    }
    repair_medium(&Directory::open(directory, Fsync::Always, Flush::default())?)
}

/// Repairs a journal on any medium, like [`repair`].
pub fn repair_medium<M: Medium>(medium: &M) -> Result<RepairReport, JournalError> {
    let found = survey(medium, None, &mut |_, _| {})?;
    let last = found.segments.last().map(|segment| &segment.scan);
    let mut report = RepairReport {
        identity: found.identity,
        damage: found.error(medium),
        records: found.segments.iter().map(|segment| segment.scan.records).sum(),
        last_id: last.and_then(|scan| scan.last_id),
        saved: Vec::new(),
    };
    if let Some(broken) = &found.broken {
        let names = names(medium)?;
        if !names.iter().any(|name| name == REPAIRED_MARK) {
            let marked = medium.create(REPAIRED_MARK, 0).and_then(|_| medium.sync_names());
            marked.map_err(|error| JournalError::io("create", medium.describe(REPAIRED_MARK), error))?;
        }
        let attempt = (1..).find(|attempt| !names.iter().any(|name| name.ends_with(&aside("", *attempt))));
        cut(medium, &found, broken, attempt.expect("fewer repairs than numbers"), &mut report)?;
    }
    Ok(report)
}

fn aside(name: &str, attempt: u32) -> String {
    format!("{name}.aside-{attempt}")
}

/// Saves everything after the break, then removes it. Later segments are removed first, in descending order, so that
/// the journal is refused as before until the cut itself.
fn cut<M: Medium>(
    medium: &M,
    found: &Survey,
    broken: &Break,
    attempt: u32,
    report: &mut RepairReport,
) -> Result<(), JournalError> {
    let name = segment_name(broken.index);
    let fail = |error| JournalError::io("repair", medium.describe(&name), error);
    let mut damaged = None;
    if broken.end > 0 {
        let file = medium.open(&name).map_err(fail)?;
        let bytes = file.bytes().map_err(fail)?;
        let mut rest = vec![0; usize::try_from(bytes).expect("the survey read it whole") - broken.end];
        file.read(broken.end as u64, &mut rest).map_err(fail)?;
        let copy = aside(&format!("{name}.from-{}", broken.end), attempt);
        let mut saved = medium.create(&copy, rest.len() as u64).map_err(fail)?;
        saved.write(0, &rest).and_then(|()| medium.sync_names()).map_err(fail)?;
        report.saved.push(medium.describe(&copy));
        damaged = Some((file, rest));
    }
    for index in found.indices.iter().rev() {
        if *index > broken.index || (*index == broken.index && damaged.is_none()) {
            let (from, to) = (segment_name(*index), aside(&segment_name(*index), attempt));
            medium.rename(&from, &to).and_then(|()| medium.sync_names()).map_err(fail)?;
            report.saved.push(medium.describe(&to));
        }
    }
    let Some((mut file, mut rest)) = damaged else { return Ok(()) };
    rest.fill(0);
    let intact = &broken.damage.intact;
    if let Some((last, _)) = intact.last() {
        let segment = found.segments.iter().find(|segment| segment.index == broken.index).expect("the survey read it");
        let mut group = Vec::new();
        let entries: Vec<Entry> = intact.iter().map(|(id, record)| Entry::new(*id, vec![record.clone()])).collect();
        let sequence = segment.scan.next_sequence.unwrap_or(0);
        encode_group(Place { sequence, index: broken.index, life: segment.life }, &entries, &mut group);
        rest[..group.len()].copy_from_slice(&group);
        report.records += intact.len() as u64;
        report.last_id = Some(*last);
    }
    file.write(broken.end as u64, &rest).map_err(fail)
}
