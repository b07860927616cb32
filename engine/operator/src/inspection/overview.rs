//! Summarises a journal's records without checking them.

use super::fault::Fault;
use super::place::Place;
use super::{InspectError, InspectResult, JournalResult, RepairResult, segments};
use bytes::Bytes;
use quorate_consensus::recovery::journal::Record;
use quorate_storage::{Inspection, holder};
use quorate_types::{Attachment, Certificate, DecodeError, Decoder, Digest, Domain, Height, Subject, View, Wire};
use serde::Serialize;
use std::collections::BTreeMap;

/// Record kinds by the first byte of their encoding, starting at 1.
const KINDS: [&str; 11] = [
    "promise",
    "bundles",
    "block",
    "certificate",
    "message",
    "commit",
    "abstain",
    "summary",
    "ancestor",
    "summed",
    "standing",
];

/// A statement, or the subject of a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Said {
    pub kind: &'static str,
    pub view: u64,
    /// Height of the block, or the slot.
    pub height: u64,
    /// Digest of the block or other subject; zeros without a subject.
    pub digest: String,
}

impl Said {
    pub(super) fn of(subject: &Subject) -> Said {
        Said {
            kind: kind_of(subject.domain),
            view: subject.view.0,
            height: subject.height.0,
            digest: subject.digest.to_hex(),
        }
    }
}

/// Returns the name of a kind of statement.
pub(super) fn kind_of(domain: Domain) -> &'static str {
    match domain {
        Domain::Proposal => "proposal",
        Domain::OptimisticProposal => "optimistic-proposal",
        Domain::Vote => "vote",
        Domain::Timeout => "timeout",
        Domain::Prepare => "prepare",
        Domain::PreCommit => "pre-commit",
        Domain::Commit => "commit",
        Domain::Checkpoint => "checkpoint",
        Domain::Stored => "stored",
        Domain::Absent => "absent",
        Domain::ViewChange => "view-change",
    }
}

/// Completeness of a replica's memory of its past.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The replica has never run.
    New,
    /// The journal contains every promise of the replica.
    Kept,
    /// The journal is lost or was truncated by a repair, so the replica abstains in views in which it may have voted.
    Lost,
}

/// Records of one kind in a journal: their number and size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KindSummary {
    pub kind: String,
    pub records: u64,
    pub bytes: u64,
}

/// Incomplete write, interrupted by a crash or in progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Torn {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
}

pub(super) fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let mut input = Decoder::new(Bytes::copy_from_slice(bytes));
    let record = Record::decode(&mut input)?;
    input.finish("end of a record")?;
    Ok(record)
}

/// Summary of the records read so far.
pub(super) struct Overview {
    kinds: BTreeMap<u8, (u64, u64)>,
    promises: BTreeMap<Domain, Subject>,
    spoke_in: View,
    genesis: Subject,
    lock: Subject,
    high: Subject,
    committed: (Height, Digest),
    abstains: Option<View>,
    unreadable: Option<Fault>,
}

impl Overview {
    pub fn new(place: &Place) -> Overview {
        let genesis = Certificate::genesis(&place.committee.epoch).subject;
        Overview {
            kinds: BTreeMap::new(),
            promises: BTreeMap::new(),
            spoke_in: View(0),
            genesis,
            lock: genesis,
            high: genesis,
            committed: (Height(0), genesis.digest),
            abstains: None,
            unreadable: None,
        }
    }

    pub fn take(&mut self, id: u64, bytes: &[u8], record: &Result<Record, DecodeError>) {
        let kind = self.kinds.entry(bytes.first().copied().unwrap_or_default()).or_default();
        *kind = (kind.0 + 1, kind.1 + bytes.len() as u64);
        match record {
            Ok(record) => self.note(record),
            Err(why) => {
                let what = format!(
                    "cannot decode the record: {why}; it was written by another version of quorate, or has damage \
                     that no checksum detects: use the version that wrote it"
                );
                self.unreadable.get_or_insert(Fault { record: Some(id), what });
            }
        }
    }

    fn note(&mut self, record: &Record) {
        match record {
            // Its view field contains a position.
            Record::Promise(promise) if promise.subject.domain == Domain::Absent => {}
            Record::Promise(promise) => {
                let Subject { domain, view, height, .. } = promise.subject;
                let last = self.promises.entry(domain).or_insert(promise.subject);
                if (view, height) >= (last.view, last.height) {
                    *last = promise.subject;
                }
                self.spoke_in = self.spoke_in.max(view);
                if promise.lock.view > self.lock.view {
                    self.lock = promise.lock;
                }
                self.abstains = self.abstains.filter(|bound| view <= *bound);
                if let Attachment::HighCertificate(certificate) = &promise.attachment {
                    self.certificate(certificate);
                }
            }
            Record::Block(block) => self.certificate(&block.justify),
            Record::Certificate(certificate) => self.certificate(certificate),
            Record::Commit { height, digest } | Record::Summary { height, digest } if *height > self.committed.0 => {
                self.committed = (*height, *digest);
            }
            Record::Abstain(bound) => self.abstains = Some(*bound),
            _ => {}
        }
    }

    fn certificate(&mut self, certificate: &Certificate) {
        let subject = certificate.subject;
        let rank = |subject: &Subject| (subject.view, subject.height, subject.domain);
        let of_block = !matches!(subject.domain, Domain::Timeout | Domain::Checkpoint);
        if of_block && rank(&subject) > rank(&self.high) {
            self.high = subject;
        }
    }

    /// Returns the result, without verification, export and repair.
    pub fn finish(
        self,
        place: &Place,
        found: &Inspection,
        repair: Option<RepairResult>,
    ) -> Result<InspectResult, InspectError> {
        let config = &place.config;
        let memory = match (found.records, place.is_marked_new()) {
            (0, true) => Memory::New,
            (0, false) => Memory::Lost,
            _ if found.repaired || self.abstains.is_some() => Memory::Lost,
            _ => Memory::Kept,
        };
        let beyond_genesis = |subject: &Subject| (*subject != self.genesis).then(|| Said::of(subject));
        let quorum = place.committee.quorum;
        Ok(InspectResult {
            directory: place.home.display().to_string(),
            cluster: config.cluster.clone(),
            genesis_id: place.committee.epoch.0.to_hex(),
            replica: config.replica.0,
            replicas: quorum.replicas(),
            faults: quorum.faults(),
            protocol: config.consensus.protocol.name(),
            scheme: config.scheme.name(),
            application: config.application.name(),
            memory,
            abstains_up_to: self.abstains.map(|bound| bound.0),
            spoke_in_view: self.spoke_in.0,
            promises: self.promises.values().map(Said::of).collect(),
            lock: beyond_genesis(&self.lock),
            highest_certificate: beyond_genesis(&self.high),
            committed_height: self.committed.0.0,
            committed_digest: self.committed.1.to_hex(),
            journal: JournalResult {
                directory: place.journal.display().to_string(),
                held_by_process: holder(&place.journal),
                segments: segments(found),
                records: found.records,
                kinds: self.kinds.iter().map(|(kind, counts)| summary(*kind, *counts)).collect(),
                torn: found.torn.as_ref().map(|torn| Torn {
                    file: torn.file.clone(),
                    offset: torn.offset,
                    bytes: torn.bytes,
                }),
                damage: found.damage.as_ref().map(|damage| damage.to_string()),
                unreadable: self.unreadable,
            },
            snapshots: place.snapshots()?,
            verification: None,
            export: None,
            repair,
        })
    }
}

fn summary(kind: u8, (records, bytes): (u64, u64)) -> KindSummary {
    let name = usize::from(kind).checked_sub(1).and_then(|at| KINDS.get(at));
    KindSummary { kind: name.map_or_else(|| format!("kind {kind}"), |name| (*name).to_owned()), records, bytes }
}
