//! What must hold of every run, judged from the outside: the oracles see what replicas sign and commit and share no code with them.
//! Whether commits agree is for [`Chain`], which the simulator and Twins ask too.

use super::play::Play;
use quorate_consensus::Evidence;
use quorate_oracles::Chain;
use quorate_types::{Attachment, Block, Bundle, Digest, Domain, Height, Quorum, ReplicaId, Subject, View};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

/// Where a replica has one statement to make.
type Slot = (ReplicaId, Domain, View, Height);

/// Watches a cluster and panics at the first thing that must not be.
pub struct Oracle<P> {
    quorum: Quorum,
    /// Replicas whose deeds prove nothing.
    byzantine: BTreeSet<ReplicaId>,
    chain: Chain,
    submitted: BTreeSet<Digest>,
    executed: Vec<BTreeSet<Digest>>,
    persisted: BTreeMap<Slot, (Subject, Attachment)>,
    signed: BTreeMap<Slot, (Subject, Attachment)>,
    voters: BTreeMap<Digest, BTreeSet<ReplicaId>>,
    accused: BTreeSet<ReplicaId>,
    /// Replicas forget what they executed before the beginning of their journals, and may order it again; it is executed once for
    /// all that.
    pub forgetful: bool,
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
            forgetful: false,
            play: PhantomData,
        }
    }

    /// What this replica does proves nothing from now on.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.byzantine.insert(replica);
        assert!(self.byzantine.len() <= self.quorum.faults(), "with more than f faulty replicas nothing is promised");
    }

    pub fn is_byzantine(&self, replica: ReplicaId) -> bool {
        self.byzantine.contains(&replica)
    }

    pub fn submitted(&mut self, bundle: &Bundle) {
        self.submitted.insert(bundle.digest());
    }

    /// Whom somebody has proven to misbehave.
    pub fn accused(&self) -> &BTreeSet<ReplicaId> {
        &self.accused
    }

    /// A replica had a statement made durable.
    pub fn persisted(&mut self, replica: ReplicaId, subject: Subject, attachment: &Attachment) {
        let slot = slot::<P>(replica, &subject);
        let earlier = self.persisted.insert(slot, (subject, attachment.clone()));
        assert!(
            earlier.is_none_or(|(other, _)| self.is_byzantine(replica) || other == subject),
            "{replica:?} records two statements of one kind in {:?}",
            subject.view
        );
    }

    /// A statement that nobody has heard was lost with the record of it.
    pub fn lost(&mut self, replica: ReplicaId, subject: Subject) {
        let slot = slot::<P>(replica, &subject);
        if !self.signed.contains_key(&slot) {
            self.persisted.remove(&slot);
        }
    }

    /// A replica has lost all that it remembered of what it had made durable.
    pub fn forgets(&mut self, replica: ReplicaId) {
        let signed = &self.signed;
        self.persisted.retain(|slot, _| slot.0 != replica || signed.contains_key(slot));
    }

    /// A replica signs a statement: the same that it recorded, and no other in that view.
    pub fn signed(&mut self, replica: ReplicaId, subject: Subject, attachment: &Attachment) {
        if subject.domain == P::VOTED_IN {
            self.voters.entry(subject.digest).or_default().insert(replica);
        }
        if self.is_byzantine(replica) {
            return;
        }
        let slot = slot::<P>(replica, &subject);
        let statement = (subject, attachment.clone());
        assert_eq!(self.persisted.get(&slot), Some(&statement), "{replica:?} signs what it has not made durable");
        if let Some(earlier) = self.signed.insert(slot, statement.clone()) {
            assert_eq!(earlier, statement, "{replica:?} signs two statements of one kind in {:?}", subject.view);
        }
    }

    /// A replica commits a block.
    pub fn committed(&mut self, replica: ReplicaId, block: &Block, bundles: &[Bundle]) {
        if self.is_byzantine(replica) {
            return;
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

    /// A replica goes on from a state, without the blocks before it.
    pub fn adopted(&mut self, replica: ReplicaId, height: Height, chain: &[Digest]) {
        if self.is_byzantine(replica) {
            return;
        }
        assert_eq!(chain.len(), height.0 as usize, "a state tells of all blocks up to its height");
        let at = self.chain.height(replica.index());
        if let Err(discord) = self.chain.adopts(replica.index(), chain) {
            panic!("{replica:?} {discord}");
        }
        self.chain.goes_to(replica.index(), Height(at.max(height.0)));
        // It does not know one by one what was executed up to there.
        self.forgetful = true;
    }

    /// A replica says that another misbehaved.
    pub fn accuses(&mut self, evidence: &Evidence) {
        let Evidence { first, second } = evidence;
        assert_eq!(first.voter, second.voter, "evidence is against one replica");
        assert_eq!(
            slot::<P>(first.voter, &first.subject),
            slot::<P>(second.voter, &second.subject),
            "evidence is about one kind of statement in one view"
        );
        assert_ne!(
            (&first.subject, &first.attachment),
            (&second.subject, &second.attachment),
            "evidence is two different statements"
        );
        assert!(self.is_byzantine(first.voter), "{:?} is honest and was accused", first.voter);
        self.accused.insert(first.voter);
    }
}

/// Checkpoints are of no view: there is one statement for each height.
fn slot<P: Play>(replica: ReplicaId, subject: &Subject) -> Slot {
    let height = if subject.domain == Domain::Checkpoint { subject.height } else { P::slot(subject) };
    (replica, subject.domain, subject.view, height)
}
