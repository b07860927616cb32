//! Whether the bundles of blocks that can become final are in a journal.

use crate::property::{Property, Violation};
use crate::words::Words;
use quorate_consensus::recovery::journal::Record;
use quorate_types::{Digest, Domain, Height, ReplicaId, Signers, Subject};

/// A block that honest replicas journaled or signed for.
#[derive(Default)]
struct Signed {
    height: Height,
    payload: Vec<Digest>,
    by: Signers,
    /// Whether its bundles were found when a quorum had voted. A journal may be cut later.
    found: bool,
}

/// Checks that when a quorum has voted for a block, each of its bundles is in the journal of an honest replica. From
/// then on the block may be final, and a replica that lacks a bundle must be able to fetch it.
///
/// It sees records and signatures, no certificate of storage and no pool. Liars count as voters of every block and
/// as holders of no bundle.
pub struct Availability {
    quorum: usize,
    liars: Signers,
    blocks: Words<Signed>,
    /// Replicas whose journals have a bundle.
    journaled: Words<Signers>,
}

impl Availability {
    pub fn new(replicas: usize, faults: usize) -> Availability {
        Availability {
            quorum: crate::quorum(replicas, faults),
            liars: Signers::empty(),
            blocks: Words::default(),
            journaled: Words::default(),
        }
    }

    /// Forgets everything but the size of the committee.
    pub fn clear(&mut self) {
        self.liars = Signers::empty();
        self.blocks.clear();
        self.journaled.clear();
    }

    /// Notes that a replica lies.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.liars.insert(replica);
    }

    /// Observes that a replica writes a record to its journal, or reads it from there. Statements that follow wait for
    /// it.
    pub fn journals(&mut self, replica: ReplicaId, record: &Record) {
        match record {
            Record::Bundles(bundles) => {
                for bundle in bundles {
                    self.journaled.entry(bundle.digest().prefix()).or_default().insert(replica);
                }
            }
            Record::Block(block) => {
                let signed = self.blocks.entry(block.digest().prefix()).or_default();
                (signed.height, signed.payload) = (block.height, block.payload.clone());
            }
            _ => {}
        }
    }

    /// Observes that a replica restarts. The records of its journal follow.
    pub fn restarts(&mut self, replica: ReplicaId) {
        self.journaled.values_mut().for_each(|holders| holders.remove(replica));
    }

    /// Observes that a replica signs a statement, after it journaled the block of the statement.
    pub fn signs(&mut self, replica: ReplicaId, subject: &Subject) -> Result<(), Violation> {
        if !matches!(subject.domain, Domain::Vote | Domain::Prepare) || self.liars.contains(replica) {
            return Ok(());
        }
        let signed = self.blocks.entry(subject.digest.prefix()).or_default();
        signed.by.insert(replica);
        let mut voters = signed.by;
        voters.union(&self.liars);
        if voters.len() < self.quorum || signed.found {
            return Ok(());
        }
        let holders = |bundle: &Digest| self.journaled.get(&bundle.prefix()).copied().unwrap_or_default();
        let is_lost = |bundle: &&Digest| holders(bundle).iter().all(|holder| self.liars.contains(holder));
        match signed.payload.iter().find(is_lost) {
            None => {
                signed.found = true;
                Ok(())
            }
            Some(bundle) => {
                let (height, block) = (signed.height.0, subject.digest);
                let what = format!(
                    "a quorum voted for block {block:?} at height {height}, and no honest replica has journaled its \
                     bundle {bundle:?}"
                );
                Err(Violation { property: Property::Availability, what })
            }
        }
    }
}
