//! Bugs outside the rules: inputs or actions are changed between the replica and its host. Unlike a Byzantine replica,
//! such a replica is still checked.

use bytes::Bytes;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::recovery::transfer::Part;
use quorate_consensus::seam::{Action, Envelope, Input, Job, Purpose, Role};
use quorate_consensus::voting::safety::Promise;
use quorate_consensus::{Config, Message, data::ledger};
use quorate_types::{Bundle, Certificate, Digest, Domain, Height, ReplicaId, Subject, View, Vote};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A bug that changes inputs or actions of a replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rewriting {
    /// The view of a certificate is not covered by its signatures: relab/hotstuff issue 289. Here signed statements
    /// have one fixed encoding that contains the view, in another crate. The mutant injects the effect instead: it
    /// accepts certificates that were verified with another view.
    CertificateViewUnsigned,
    /// The certificate in a timeout message is not verified, and enters every aggregate unchecked: relab/hotstuff issue
    /// 224.
    TimeoutCertificateUnchecked,
    /// A missing block is not requested, so a replica that was down never catches up.
    UnknownBlockIgnored,
    /// A certificate of an unknown block is treated as impossible: relab/hotstuff issue 285.
    UnknownBlockPanics,
    /// A vote is sent before it is in the journal: diem/diem issue 1141 explains why it must not be;
    /// aptos-labs/aptos-core issue 18298.
    VoteNotDurable,
    /// The lock of a statement is not in the journal before the statement is sent; diem/diem issue 1141 mentions it,
    /// too.
    LockNotDurable,
    /// A timeout is sent before it is in the journal.
    TimeoutNotDurable,
    /// PBFT's PREPARE for a slot is sent before it is in the journal: celo-org/celo-blockchain issue 396.
    PreparedNotDurable,
    /// A timeout message is sent only once: category-labs/monad-bft issue 1670.
    TimeoutSentOnce,
    /// A VIEW-CHANGE is sent only once: hyperledger/fabric issue 1917.
    ViewChangeSentOnce,
    /// A commit omits the bundles that this replica remembers as executed, and replicas remember for different lengths
    /// of time.
    OutputForgets,
    /// A block is committed although an ancestor could not be fetched: Gogada et al., ApPLIED 2023, section 5.4. Here a
    /// block enters the tree only after its parent. The mutant injects the effect instead: blocks that had to be
    /// fetched are not executed, but their descendants are.
    CommitsOverMissing,
    /// A second vote of the same voter replaces the first without verification: category-labs/monad-bft issue 2214,
    /// ava-labs/Simplex issue 546. Here the votes of a quorum are verified together and the invalid ones removed, so it
    /// does not matter which of a voter's votes is kept; the mutant also hides from the replica which votes are
    /// invalid.
    VoteReplaced,
    /// A chunk of a fetched state is accepted from any sender without verification. The mutant stores the first
    /// received chunk, whether or not the replica accepted it.
    StateTrusted,
    /// Heights start from 1 again after a restart. Here a height follows from the previous block. The mutant injects
    /// the effect instead: the replica forgets all blocks, but not its statements and their views.
    HeightsStartAgain,
    /// All bundles wait in one queue, regardless of their link: a bug of our own. A client with many keys can put a
    /// backlog ahead of all others.
    OneQueue,
    /// Certificates of timeouts are not verified.
    TimeoutsUnverified,
    /// The proofs in a VIEW-CHANGE that blocks were prepared are not verified.
    ClaimsUnverified,
    /// The highest certificate is not in the journal with a vote.
    CertificateNotDurable,
}

impl Rewriting {
    /// Rewritings of exhibits.
    pub const ALL: [Rewriting; 16] = [
        Rewriting::CertificateViewUnsigned,
        Rewriting::TimeoutCertificateUnchecked,
        Rewriting::UnknownBlockIgnored,
        Rewriting::UnknownBlockPanics,
        Rewriting::VoteNotDurable,
        Rewriting::LockNotDurable,
        Rewriting::TimeoutNotDurable,
        Rewriting::PreparedNotDurable,
        Rewriting::TimeoutSentOnce,
        Rewriting::ViewChangeSentOnce,
        Rewriting::OutputForgets,
        Rewriting::CommitsOverMissing,
        Rewriting::VoteReplaced,
        Rewriting::StateTrusted,
        Rewriting::HeightsStartAgain,
        Rewriting::OneQueue,
    ];

    /// Rewritings without a scenario of their own.
    pub const MUTANTS: [Rewriting; 3] =
        [Rewriting::TimeoutsUnverified, Rewriting::ClaimsUnverified, Rewriting::CertificateNotDurable];
}

/// Layer between a replica with such a bug and its host.
pub(crate) struct Rewriter {
    bug: Rewriting,
    genesis: Subject,
    /// Verified certificates, and those that the host was asked to verify.
    genuine: Vec<Certificate>,
    asked: BTreeMap<Job, Vec<Certificate>>,
    /// Highest certificate in the latest timeout.
    shown: Option<Certificate>,
    /// Last view that the replica has timed out of.
    given_up: View,
    /// Bundles executed by the last blocks, and the number of blocks to remember.
    executed: VecDeque<Vec<Digest>>,
    remembers: usize,
    /// Blocks received as answers to requests.
    fetched: BTreeSet<Digest>,
    /// Last vote of each replica on each subject.
    voted: BTreeMap<(Subject, ReplicaId), Vote>,
    /// First received chunk of a state, by height and part.
    chunks: BTreeMap<(Height, Part), Bytes>,
}

impl Rewriter {
    /// Returns the layer for a replica with these settings.
    pub fn new(bug: Rewriting, config: &Config, genesis: Subject) -> Rewriter {
        Rewriter {
            bug,
            genesis,
            genuine: Vec::new(),
            asked: BTreeMap::new(),
            shown: None,
            given_up: View(0),
            executed: VecDeque::new(),
            remembers: config.retained_blocks * ledger::MAX_OVER_LIMITS,
            fetched: BTreeSet::new(),
            voted: BTreeMap::new(),
            chunks: BTreeMap::new(),
        }
    }

    /// Changes an input of the replica. Returns whether to deliver it.
    pub fn hear<M: Message>(&mut self, input: &mut Input<M>) -> bool {
        match (self.bug, input) {
            (Rewriting::CommitsOverMissing, Input::Receive { message: Envelope::Blocks(blocks), .. }) => {
                self.fetched.extend(blocks.iter().map(|block| block.digest()));
            }
            (Rewriting::VoteReplaced, Input::Receive { from, message: Envelope::Protocol(message) }) => {
                if let Some(vote) = message.clone().vote_to_sign().filter(|vote| vote.voter == *from) {
                    self.voted.insert((vote.subject, vote.voter), vote.clone());
                }
            }
            (Rewriting::VoteReplaced, Input::Assembled { result: Err(_), .. }) => return false,
            (Rewriting::StateTrusted, Input::Receive { message: Envelope::StatePart { height, part, bytes }, .. })
                if !bytes.is_empty() =>
            {
                self.chunks.entry((*height, *part)).or_insert_with(|| bytes.clone());
            }
            (Rewriting::OneQueue, Input::Submit { sources, .. }) => sources.clear(),
            (Rewriting::HeightsStartAgain, Input::Recall { record, .. }) => self.forget_blocks(record),
            (Rewriting::TimeoutCertificateUnchecked, Input::Receive { message: Envelope::Protocol(message), .. }) => {
                let shown = message.certificates().into_iter().find(|(role, _)| *role == Role::Base);
                self.shown = shown.filter(|_| message.purpose() == Purpose::Timeout).map(|(_, base)| base.clone());
            }
            (Rewriting::CertificateViewUnsigned, Input::Verdict { job, genuine }) => {
                self.genuine.extend(self.asked.remove(job).filter(|_| *genuine).into_iter().flatten());
            }
            (Rewriting::CertificateViewUnsigned, Input::Assembled { result: Ok(certificate), .. }) => {
                self.genuine.push(certificate.clone());
            }
            _ => {}
        }
        true
    }

    /// Changes the actions of the replica.
    pub fn rewrite<M: Message>(&mut self, actions: &mut Vec<Action<M>>) {
        actions.retain_mut(|action| match action {
            Action::Persist { record, .. } => {
                self.persist(record);
                true
            }
            Action::Verify { job, certificates, .. } => {
                self.verify(*job, certificates);
                true
            }
            Action::Commit { bundles, .. } if self.bug == Rewriting::OutputForgets => {
                self.execute(bundles);
                true
            }
            Action::Commit { block, .. } => !self.fetched.contains(&block.digest()),
            Action::Assemble { votes, .. } => {
                for vote in votes {
                    if let Some(last) = self.voted.get(&(vote.subject, vote.voter)) {
                        *vote = last.clone();
                    }
                }
                true
            }
            Action::KeepChunk { height, chunk, bytes } => {
                if let Some(first) = self.chunks.get(&(*height, *chunk + 1)) {
                    *bytes = first.clone();
                }
                true
            }
            Action::Send { message: Envelope::FetchBlocks { .. }, .. } => match self.bug {
                Rewriting::UnknownBlockPanics => panic!("the certified block is not in the tree"),
                bug => bug != Rewriting::UnknownBlockIgnored,
            },
            Action::Send { message: Envelope::Protocol(message), .. } => !self.is_said_already(message),
            _ => true,
        });
    }

    /// Reduces a journal record to statements and their views.
    fn forget_blocks(&self, record: &mut Record) {
        let kept = match record {
            Record::Promise(promise) => Record::Promise(Promise { lock: self.genesis, ..promise.clone() }),
            Record::Certificate(certificate) if certificate.subject.domain == Domain::Timeout => return,
            // A record without effect outside a summary.
            _ => Record::Summed,
        };
        *record = kept;
    }

    fn persist(&self, record: &mut Record) {
        if let Record::Certificate(certificate) = record
            && certificate.subject.domain != Domain::Timeout
            && self.bug == Rewriting::CertificateNotDurable
        {
            *record = Record::Summed;
        }
        let Record::Promise(promise) = record else { return };
        let lost = match self.bug {
            Rewriting::VoteNotDurable => Domain::Vote,
            Rewriting::TimeoutNotDurable => Domain::Timeout,
            Rewriting::PreparedNotDurable => Domain::Prepare,
            Rewriting::LockNotDurable => {
                promise.lock = self.genesis;
                return;
            }
            _ => return,
        };
        if promise.subject.domain == lost {
            *record = Record::Summed;
        }
    }

    fn verify(&mut self, job: Job, certificates: &mut Vec<Certificate>) {
        match self.bug {
            Rewriting::TimeoutsUnverified => certificates.retain(|one| one.subject.domain != Domain::Timeout),
            Rewriting::ClaimsUnverified => certificates.retain(|one| one.subject.domain != Domain::Prepare),
            Rewriting::TimeoutCertificateUnchecked => certificates.retain(|one| Some(one) != self.shown.as_ref()),
            Rewriting::CertificateViewUnsigned => {
                self.asked.insert(job, certificates.clone());
                let but_for_its_view = |one: &Certificate, known: &Certificate| {
                    one.subject.digest == known.subject.digest
                        && one.signers == known.signers
                        && one.proof == known.proof
                };
                certificates.retain(|one| !self.genuine.iter().any(|known| but_for_its_view(one, known)));
            }
            _ => {}
        }
    }

    fn execute(&mut self, bundles: &mut Vec<Bundle>) {
        bundles.retain(|bundle| !self.executed.iter().any(|block| block.contains(&bundle.digest())));
        self.executed.push_back(bundles.iter().map(Bundle::digest).collect());
        if self.executed.len() > self.remembers {
            self.executed.pop_front();
        }
    }

    /// Returns whether the message repeats a timeout of a view.
    fn is_said_already<M: Message>(&mut self, message: &M) -> bool {
        let once = matches!(self.bug, Rewriting::TimeoutSentOnce | Rewriting::ViewChangeSentOnce);
        let Some(view) = message.view().filter(|_| once && message.purpose() == Purpose::Timeout) else { return false };
        let said = view <= self.given_up;
        self.given_up = self.given_up.max(view);
        said
    }
}
