//! Checks that journals have the bundles of blocks that can become final.

use crate::oracles::property::{Property, Violation};
use crate::oracles::words::Words;
use quorate_consensus::recovery::journal::Record;
use quorate_types::{Digest, Domain, Height, ReplicaId, Signers, Subject};

/// A block that honest replicas have journaled or signed.
#[derive(Default)]
struct Signed {
    height: Height,
    payload: Vec<Digest>,
    by: Signers,
    /// Whether its bundles were found when a quorum had voted. The journal may be truncated later.
    found: bool,
}

/// Checks that when a quorum has voted for a block, each of its bundles is in the journals of f+1 honest replicas. From
/// then on the block may be final, and a quorum of signatures for the absence of a bundle must be impossible. Each lost
/// disk removes one of the f+1, but not the last one.
///
/// It sees records and signatures, but no storage certificates and no pools. Liars count as voters for every block and
/// as holders of no bundle.
pub struct Availability {
    quorum: usize,
    /// Number of honest journals that must contain a bundle: f+1.
    needed: usize,
    liars: Signers,
    /// Replicas that lost their disks.
    lost: Signers,
    blocks: Words<Signed>,
    /// Replicas with a bundle in their journals.
    journaled: Words<Signers>,
}

impl Availability {
    pub fn new(replicas: usize, faults: usize) -> Availability {
        Availability {
            quorum: crate::oracles::quorum(replicas, faults),
            needed: faults + 1,
            liars: Signers::empty(),
            lost: Signers::empty(),
            blocks: Words::default(),
            journaled: Words::default(),
        }
    }

    /// Resets everything except the size of the committee.
    pub fn clear(&mut self) {
        (self.liars, self.lost) = (Signers::empty(), Signers::empty());
        self.blocks.clear();
        self.journaled.clear();
    }

    /// Registers a lying replica.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.liars.insert(replica);
    }

    /// Observes that a replica writes a record to its journal, or reads it from there. Subsequent statements depend on
    /// it.
    pub fn journals(&mut self, replica: ReplicaId, record: &Record) {
        match record {
            Record::Bundles(bundles) | Record::Kept { bundles, .. } => {
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

    /// Observes that a replica has lost its disk.
    pub fn loses_disk(&mut self, replica: ReplicaId) {
        self.lost.insert(replica);
    }

    /// Observes that a replica restarts. The records of its journal follow.
    pub fn restarts(&mut self, replica: ReplicaId) {
        self.journaled.values_mut().for_each(|holders| holders.remove(replica));
    }

    /// Observes that a replica signs a statement. The statement's block is already in its journal.
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
        let needed = self.needed.saturating_sub(self.lost.len()).max(1);
        let holders = |bundle: &Digest| self.journaled.get(&bundle.prefix()).copied().unwrap_or_default();
        let honest = |bundle: &Digest| holders(bundle).iter().filter(|holder| !self.liars.contains(*holder)).count();
        let is_lost = |bundle: &&Digest| honest(bundle) < needed;
        match signed.payload.iter().find(is_lost) {
            None => {
                signed.found = true;
                Ok(())
            }
            Some(bundle) => {
                let (height, block) = (signed.height.0, subject.digest);
                let what = format!(
                    "a quorum voted for block {block:?} at height {height}, and fewer than {needed} honest replicas \
                     have journaled its bundle {bundle:?}"
                );
                Err(Violation { property: Property::Availability, what })
            }
        }
    }
}
