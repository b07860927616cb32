//! Invariants of every run, checked from outside: the oracles see the replicas' signed statements and commits, and
//! share no code with the replicas. [`Chain`] checks that commits agree; the simulator and Twins use it too.

use super::play::Play;
use quorate_adversary::oracles::{Availability, Chain};
use quorate_consensus::Evidence;
use quorate_consensus::recovery::journal::Record;
use quorate_types::{Attachment, Block, Bundle, Digest, Domain, Height, Quorum, ReplicaId, Subject, View};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

/// Key of a statement. A replica signs at most one statement per key.
type Slot = (ReplicaId, Domain, View, Height);

/// Oracle that watches a cluster and panics at the first violation.
pub struct Oracle<P> {
    quorum: Quorum,
    /// Byzantine replicas, whose statements and commits are not checked.
    byzantine: BTreeSet<ReplicaId>,
    chain: Chain,
    submitted: BTreeSet<Digest>,
    executed: Vec<BTreeSet<Digest>>,
    persisted: BTreeMap<Slot, (Subject, Attachment)>,
    signed: BTreeMap<Slot, (Subject, Attachment)>,
    voters: BTreeMap<Digest, BTreeSet<ReplicaId>>,
    accused: BTreeSet<ReplicaId>,
    availability: Availability,
    /// Whether replicas may have forgotten bundles that were executed before their journals begin. They may order such
    /// bundles again, but execute them only once.
    pub forgetful: bool,
    /// Whether replicas agree. Otherwise they skip failed slots.
    pub agrees: bool,
    play: PhantomData<P>,
}

impl<P: Play> Oracle<P> {
    pub fn new(quorum: Quorum, genesis: Digest) -> Self {
        Oracle {
            quorum,
            byzantine: BTreeSet::new(),
            chain: Chain::new(genesis, quorum.replicas()),
            submitted: BTreeSet::new(),
            executed: vec![BTreeSet::new(); quorum.replicas()],
            persisted: BTreeMap::new(),
            signed: BTreeMap::new(),
            voters: BTreeMap::new(),
            accused: BTreeSet::new(),
            availability: Availability::new(quorum.replicas(), quorum.faults()),
            forgetful: false,
            agrees: true,
            play: PhantomData,
        }
    }

    /// Stops checking this replica.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.byzantine.insert(replica);
        self.availability.distrust(replica);
        assert!(self.byzantine.len() <= self.quorum.faults(), "at most f replicas are faulty");
    }

    pub fn is_byzantine(&self, replica: ReplicaId) -> bool {
        self.byzantine.contains(&replica)
    }

    pub fn submitted(&mut self, bundle: &Bundle) {
        self.submitted.insert(bundle.digest());
    }

    /// Returns the replicas that were proven to misbehave.
    pub fn accused(&self) -> &BTreeSet<ReplicaId> {
        &self.accused
    }

    /// Records that a replica made a statement durable.
    pub fn persisted(&mut self, replica: ReplicaId, subject: Subject, attachment: &Attachment) {
        let slot = slot::<P>(replica, &subject);
        let earlier = self.persisted.insert(slot, (subject, attachment.clone()));
        assert!(
            earlier.is_none_or(|(other, _)| self.is_byzantine(replica) || other == subject),
            "{replica:?} records two statements of one kind in {:?}",
            subject.view
        );
    }

    /// Records a record that a replica writes to its journal, or reads from it after a restart.
    pub fn journaled(&mut self, replica: ReplicaId, record: &Record) {
        self.availability.journals(replica, record);
    }

    /// Records that a replica restarts, before it reads its journal.
    pub fn restarts(&mut self, replica: ReplicaId) {
        self.availability.restarts(replica);
    }

    /// Records that a statement which no replica has received was lost together with its record.
    pub fn lost(&mut self, replica: ReplicaId, subject: Subject) {
        let slot = slot::<P>(replica, &subject);
        if !self.signed.contains_key(&slot) {
            self.persisted.remove(&slot);
        }
    }

    /// Records that a replica lost its disk, or the bundles on it.
    pub fn loses_disk(&mut self, replica: ReplicaId) {
        self.availability.loses_disk(replica);
    }

    /// Records that a replica lost its whole journal.
    pub fn forgets(&mut self, replica: ReplicaId) {
        self.loses_disk(replica);
        let signed = &self.signed;
        self.persisted.retain(|slot, _| slot.0 != replica || signed.contains_key(slot));
    }

    /// Checks that a replica signs only the statement that it recorded for the view.
    pub fn signed(&mut self, replica: ReplicaId, subject: Subject, attachment: &Attachment) {
        if subject.domain == P::VOTED_IN {
            self.voters.entry(subject.digest).or_default().insert(replica);
        }
        // An acknowledgement of a batch does not bind a replica.
        if self.is_byzantine(replica) || subject.domain == Domain::Stored {
            return;
        }
        self.chain.signs(replica, &subject);
        self.chain.allow_voids(self.quorum.quorum() - self.byzantine.len());
        if let Err(violation) = self.availability.signs(replica, &subject) {
            panic!("{replica:?} signs {subject:?}: {}", violation.what);
        }
        let slot = slot::<P>(replica, &subject);
        let statement = (subject, attachment.clone());
        assert_eq!(self.persisted.get(&slot), Some(&statement), "{replica:?} signs a statement that is not durable");
        if let Some(earlier) = self.signed.insert(slot, statement.clone()) {
            assert_eq!(earlier, statement, "{replica:?} signs two statements of one kind in {:?}", subject.view);
        }
    }

    /// Checks a block that a replica commits.
    pub fn committed(&mut self, replica: ReplicaId, block: &Block, bundles: &[Bundle]) {
        if self.is_byzantine(replica) {
            return;
        }
        if !self.agrees && block.payload.is_empty() {
            let passed = self.chain.passes_over(replica.index(), block.height);
            return passed.unwrap_or_else(|discord| panic!("{replica:?} {discord}"));
        }
        if let Err(discord) = self.chain.commits(replica.index(), block, bundles) {
            panic!("{replica:?} {discord}");
        }
        let voters = self.voters.get(&block.digest()).map_or(0, BTreeSet::len);
        assert!(
            voters + self.byzantine.len() >= self.quorum.quorum(),
            "{replica:?} commits a block at height {} that only {voters} voted for",
            block.height
        );
        for digest in bundles.iter().map(Bundle::digest) {
            assert!(self.submitted.contains(&digest), "{replica:?} executes a bundle that no client sent");
            let first = self.executed[replica.index()].insert(digest);
            assert!(
                first || P::ORDERS_TWICE || self.forgetful || !self.byzantine.is_empty(),
                "{replica:?} executes a bundle twice although all are honest"
            );
        }
    }

    /// Records that a replica continues from a state, without the blocks before it.
    pub fn adopted(&mut self, replica: ReplicaId, height: Height, chain: &[Digest]) {
        if self.is_byzantine(replica) {
            return;
        }
        assert_eq!(chain.len(), height.0 as usize, "a state lists all blocks up to its height");
        let at = self.chain.height(replica.index());
        if let Err(discord) = self.chain.adopts(replica.index(), chain) {
            panic!("{replica:?} {discord}");
        }
        self.chain.goes_to(replica.index(), Height(at.max(height.0)));
        // The replica does not know which individual bundles were executed before that state.
        self.forgetful = true;
    }

    /// Checks that the evidence of a replica against another is valid.
    pub fn accuses(&mut self, evidence: &Evidence) {
        let Evidence { first, second } = evidence;
        assert_eq!(first.voter, second.voter, "evidence is against one replica");
        assert_eq!(
            slot::<P>(first.voter, &first.subject),
            slot::<P>(second.voter, &second.subject),
            "evidence is two statements of one kind in one view"
        );
        assert_ne!(
            (&first.subject, &first.attachment),
            (&second.subject, &second.attachment),
            "the statements of evidence differ"
        );
        assert!(self.is_byzantine(first.voter), "{:?} is honest and was accused", first.voter);
        self.accused.insert(first.voter);
    }
}

/// Checkpoints belong to no view, so there is one statement per height.
fn slot<P: Play>(replica: ReplicaId, subject: &Subject) -> Slot {
    let of_height = matches!(subject.domain, Domain::Checkpoint | Domain::Absent);
    let height = if of_height { subject.height } else { P::slot(subject) };
    (replica, subject.domain, subject.view, height)
}
