//! Reads the last certified state of a cluster from the directory of one replica.

use super::audit::Audit;
use super::collector::{Base, Collector, Proof};
use super::overview::Overview;
use super::{InspectError, Place, Reading, Verification, read_all};
use bytes::Bytes;
use quorate_types::{Block, Bundle, Height};
use std::path::Path;
use std::sync::Arc;

/// Contents of a replica's directory.
pub(crate) struct Capture {
    pub place: Place,
    pub verification: Verification,
    pub base: Base,
    /// Executed blocks above the base, up to the proof.
    pub blocks: Vec<(Arc<Block>, Vec<Bundle>)>,
    /// The last certified checkpoint above the base.
    pub proof: Option<Proof>,
    /// Height of the block with the command that was looked for.
    pub marked: Option<Height>,
}

/// Audits the journal of a replica, which may be running, and collects the last state that a quorum has certified.
/// `mark` is the payload of a command to look for.
///
/// # Errors
/// If the directory cannot be read. A journal that is not sound is no error.
pub(crate) fn capture(dir: &Path, mark: Option<Bytes>) -> Result<Capture, InspectError> {
    let place = Place::open(dir)?;
    let begin = || Reading {
        overview: Overview::new(&place),
        audit: Some(Audit::new(&place, None).collecting(Collector::new(mark.clone()))),
    };
    let (Reading { overview, audit }, found) = read_all(&place, begin)?;
    let result = overview.finish(&place, &found, None)?;
    let (verification, mut ending) = audit.expect("it was begun").finish(&found, &result);
    let Collector { base, mut blocks, marked, .. } = ending.states.take_collector().expect("it was begun");
    let least = blocks.first().map_or(Height(u64::MAX), |(block, _)| block.height);
    let proof = ending.states.last_proof().filter(|(certificate, _)| certificate.subject.height >= least);
    let proven = proof.as_ref().map(|(certificate, _)| certificate.subject.height);
    blocks.retain(|(block, _)| Some(block.height) <= proven);
    drop(ending);
    Ok(Capture { place, verification, base, blocks, proof, marked })
}
