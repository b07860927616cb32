//! Bugs that a replica has in the eyes of all others, though it follows the rules: what it hears, or what it does, is changed between it
//! and its host. Unlike a liar's, what it does goes on being judged.

use quorate_consensus::journal::Record;
use quorate_consensus::safety::Promise;
use quorate_consensus::seam::{Action, Envelope, Input, Job};
use quorate_consensus::seam::{Purpose, Role};
use quorate_consensus::{Config, Message, ledger};
use quorate_types::{Bundle, Certificate, Digest, Domain, Subject, View};
use std::collections::{BTreeMap, VecDeque};

/// A bug that is a change of what a replica hears or does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rewriting {
    /// The view of a certificate is not covered by its signatures: relab/hotstuff issue 289. Here the statement that is signed is one
    /// fixed form with the view in it, made in another crate; what is put back is its effect, on certificates that were found genuine
    /// with another view.
    CertificateViewUnsigned,
    /// The certificate that a timeout message shows is not verified, and goes unseen into every aggregate: relab/hotstuff issue 224.
    TimeoutCertificateUnchecked,
    /// A block that is missing is not asked for: who was away for a while never comes back.
    UnknownBlockIgnored,
    /// A certificate of a block that is not here is taken for impossible: relab/hotstuff issue 285.
    UnknownBlockPanics,
    /// A vote is not in the journal before it is sent: diem/diem issue 1141 says why it has to be; aptos-labs/aptos-core issue 18298.
    VoteNotDurable,
    /// The same, of the lock that goes with each statement, which diem/diem issue 1141 names too.
    LockNotDurable,
    /// The same, of a timeout.
    TimeoutNotDurable,
    /// The same, of PBFT's PREPARE for a slot: celo-org/celo-blockchain issue 396.
    PreparedNotDurable,
    /// A timeout message is sent once: category-labs/monad-bft issue 1670.
    TimeoutSentOnce,
    /// A VIEW-CHANGE is sent once: hyperledger/fabric issue 1917.
    ViewChangeSentOnce,
    /// What a commit hands to execution leaves out what this replica remembers as executed, and how long it remembers is its own
    /// business.
    OutputForgets,
    /// After a restart heights count from 1 again. Here a height follows from the block before; what is put back is that a replica knows
    /// no block any more, and what it has said and in which views all the same.
    HeightsStartAgain,
    /// All bundles wait in one queue, whatever link they came over: a bug of our own. Whoever makes keys puts a backlog before everybody.
    OneQueue,
}

impl Rewriting {
    /// Every one.
    pub const ALL: [Rewriting; 13] = [
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
        Rewriting::HeightsStartAgain,
        Rewriting::OneQueue,
    ];
}

/// What is between a replica with such a bug and its host.
pub(crate) struct Rewriter {
    bug: Rewriting,
    genesis: Subject,
    /// Certificates that were found genuine, and those about which the host was asked.
    genuine: Vec<Certificate>,
    asked: BTreeMap<Job, Vec<Certificate>>,
    /// The highest certificate in the timeout that came in last.
    shown: Option<Certificate>,
    /// The last view given up.
    given_up: View,
    /// What was executed in the last blocks, and of how many that is remembered.
    executed: VecDeque<Vec<Digest>>,
    remembers: usize,
}

impl Rewriter {
    /// Of a replica with these settings.
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
        }
    }

    /// What the replica hears.
    pub fn hear<M: Message>(&mut self, input: &mut Input<M>) {
        match (self.bug, input) {
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
    }

    /// What the replica has its host do.
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
            Action::Send { message: Envelope::FetchBlocks { .. }, .. } => match self.bug {
                Rewriting::UnknownBlockPanics => panic!("a certificate is of a block that is here"),
                bug => bug != Rewriting::UnknownBlockIgnored,
            },
            Action::Send { message: Envelope::Protocol(message), .. } => !self.is_said_already(message),
            _ => true,
        });
    }

    /// Of a journal the views are left in which something was said, and what was said.
    fn forget_blocks(&self, record: &mut Record) {
        let kept = match record {
            Record::Promise(promise) => Record::Promise(Promise { lock: self.genesis, ..promise.clone() }),
            Record::Certificate(certificate) if certificate.subject.domain == Domain::Timeout => return,
            // It says nothing where no summary has begun.
            _ => Record::Summed,
        };
        *record = kept;
    }

    fn persist(&self, record: &mut Record) {
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

    /// Whether a view is given up by this message that was given up before.
    fn is_said_already<M: Message>(&mut self, message: &M) -> bool {
        let once = matches!(self.bug, Rewriting::TimeoutSentOnce | Rewriting::ViewChangeSentOnce);
        let Some(view) = message.view().filter(|_| once && message.purpose() == Purpose::Timeout) else { return false };
        let said = view <= self.given_up;
        self.given_up = self.given_up.max(view);
        said
    }
}
