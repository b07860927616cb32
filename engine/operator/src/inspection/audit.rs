//! Audit of a journal that trusts nothing in it.

use super::InspectResult;
use super::certificates::{Certificates, caveat, shown};
use super::chain::Chain;
use super::check::of_voids;
use super::collector::Collector;
use super::export::{Ending, Writer};
use super::fault::Fault;
use super::place::Place;
use super::promises::Promises;
use super::states::States;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::recovery::journal::Record;
use quorate_crypto::ClientAuthentication;
use quorate_storage::Inspection;
use quorate_types::parameters::list;
use quorate_types::{Attachment, Block, Bundle, Certificate, Digest, Domain, Height};
use serde::Serialize;
use std::sync::Arc;

/// Maximum number of reported faults; the others are only counted.
const MAX_FAULTS: usize = 20;

/// Result of checking a journal.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// Whether no fault was found.
    pub sound: bool,
    /// Height above which the journal has blocks: 0, or the height of its first summary.
    pub from_height: u64,
    /// Height that the journal claims is committed.
    pub committed_height: u64,
    /// Height up to which the journal proves commits to a third party, counted from the last state fetched by the
    /// replica.
    pub proven_height: u64,
    /// Blocks, committed or not.
    pub blocks: u64,
    /// Bundles in these blocks.
    pub bundles: u64,
    /// Number of distinct verified certificates.
    pub certificates: u64,
    /// Number of distinct statements signed by this replica.
    pub promises: u64,
    /// Height up to which the journal was re-executed, or `None` if the state before its first block is missing.
    pub executed_height: Option<u64>,
    /// Number of states that match a checkpoint certified by a quorum.
    pub states: u64,
    /// Caveats: checks that were skipped, or that prove less than a reader may assume.
    pub notes: Vec<String>,
    /// The first faults; any others are only counted.
    pub faults: Vec<Fault>,
    pub fault_count: u64,
}

impl Verification {
    /// Returns the verdict in one sentence.
    pub fn verdict(&self) -> String {
        let Some(first) = self.faults.first() else {
            return "the journal is sound".to_owned();
        };
        let more = self.fault_count - 1;
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        format!(
            "the journal is not sound: {first}{more}. Do not start the replica on it: move the journal and its \
             snapshots away and start without them; the replica then asks the others what it may have signed"
        )
    }
}

/// Checks records one at a time.
pub(super) struct Audit<'a> {
    place: &'a Place,
    certificates: Certificates<'a>,
    promises: Promises,
    chain: Chain,
    states: States<'a>,
    bundles: Vec<Bundle>,
    writer: Option<Writer>,
    /// Height at which the chain begins, once known.
    root: Option<Height>,
    /// Height at which the chain last began: it restarts wherever the replica fetched a state.
    last_root: Height,
    any: bool,
    /// Whether the current records are leftovers: they precede the first complete summary of a truncated journal.
    leftovers: bool,
    summary: Vec<(u64, Record)>,
    /// Whether the current records belong to a summary.
    summing: bool,
    /// Number of blocks with an invalid proof from a peer, and the height of the first.
    unproven: (u64, Option<Height>),
    /// Number of bundles without which committed blocks were executed.
    voids: u64,
    /// Whether the chain is broken, so that later blocks cannot be judged.
    broken: bool,
    notes: Vec<String>,
    faults: Vec<Fault>,
    fault_count: u64,
}

impl<'a> Audit<'a> {
    pub fn new(place: &'a Place, writer: Option<Writer>) -> Audit<'a> {
        let by_slot = place.config.consensus.protocol.has_slots();
        Audit {
            place,
            certificates: Certificates::new(place),
            promises: Promises::new(place.committee.epoch, by_slot),
            chain: Chain::new(place),
            states: States::new(place),
            bundles: Vec::new(),
            writer,
            root: None,
            last_root: Height(0),
            any: false,
            leftovers: false,
            summary: Vec::new(),
            summing: false,
            unproven: (0, None),
            voids: 0,
            broken: false,
            notes: Vec::new(),
            faults: Vec::new(),
            fault_count: 0,
        }
    }

    fn fault(&mut self, record: Option<u64>, what: String) {
        self.fault_count += 1;
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { record, what });
        }
    }

    fn demand(&mut self, id: u64, outcome: Result<(), String>) -> bool {
        let holds = outcome.is_ok();
        if let Err(what) = outcome {
            self.fault(Some(id), what);
        }
        holds
    }

    pub fn take(&mut self, id: u64, record: Record) {
        if !std::mem::replace(&mut self.any, true) {
            // A restarting replica decides in the same way: the journal is not truncated if its first record is
            // present.
            self.leftovers = id > 1;
            if !self.leftovers {
                self.begin(Height(0), self.chain.committed().1);
            }
        }
        if !self.leftovers {
            return self.take_kept(id, record);
        }
        match record {
            Record::Summary { .. } => self.summary = vec![(id, record)],
            Record::Commit { .. } => self.summary.clear(),
            Record::Summed if !self.summary.is_empty() => {
                self.leftovers = false;
                let summary = std::mem::take(&mut self.summary);
                summary.into_iter().for_each(|(id, record)| self.take_kept(id, record));
                self.take_kept(id, record);
            }
            record if !self.summary.is_empty() => self.summary.push((id, record)),
            // Contradictory promises are a fault even among leftovers.
            Record::Promise(promise) => {
                let outcome = self.promises.take(&promise, true);
                self.demand(id, outcome);
            }
            _ => {}
        }
    }

    fn begin(&mut self, height: Height, digest: Digest) {
        self.root.get_or_insert(height);
        self.last_root = height;
        self.states.begin_on(height);
        if let Some(writer) = &mut self.writer {
            writer.root(height, &digest);
        }
    }

    fn take_kept(&mut self, id: u64, record: Record) {
        match record {
            Record::Promise(promise) => {
                let outcome = self.promises.take(&promise, self.summing);
                self.demand(id, outcome);
                if let Attachment::HighCertificate(certificate) = &promise.attachment {
                    self.certificate(id, certificate);
                }
            }
            Record::Bundles(bundles) => self.bundles.extend(bundles),
            Record::Kept { until, bundles, .. } => {
                let outcome = self.chain.keep(until, bundles);
                self.demand(id, outcome);
            }
            Record::Block(block) => self.block(id, block),
            Record::Certificate(certificate) => self.certificate(id, &certificate),
            Record::Void(certificate) => {
                let outcome = self.certificates.check(&certificate);
                if self.demand(id, outcome) {
                    self.chain.void(*certificate);
                }
            }
            Record::Message(message) => match shown(self.place.config.consensus.protocol, message) {
                Ok(certificates) => certificates.iter().for_each(|certificate| self.certificate(id, certificate)),
                Err(why) => self.fault(Some(id), format!("cannot decode a protocol message: {why}")),
            },
            Record::Standing(standing) => {
                standing.certificates.iter().for_each(|certificate| self.certificate(id, certificate));
                for vote in &standing.votes {
                    let outcome = self.certificates.check_vote(vote);
                    self.demand(id, outcome);
                }
            }
            Record::Commit { height, digest } => {
                self.summing = false;
                self.commit(id, height, digest);
            }
            Record::Summary { height, digest } => self.summary(id, height, digest),
            Record::Claims(claims) => claims.iter().for_each(|claim| self.certificate(id, claim)),
            Record::Summed => self.summing = false,
            Record::Ancestor { block, candidates } => {
                let has_proof = !block.is_unlinked() && !block.justify.proof.is_empty();
                let block = if has_proof && block.justify.view().0 > 0 { self.link(id, block) } else { block };
                if !self.broken && self.chain.awaits_ancestors {
                    let outcome = self.chain.ancestor(block, candidates);
                    self.broken = !self.demand(id, outcome);
                }
            }
            Record::Abstain(_) | Record::LostKept { .. } | Record::Stopped { .. } => {}
        }
    }

    /// Checks a certificate on which the replica relied, and commits the blocks that it commits.
    fn certificate(&mut self, id: u64, certificate: &Certificate) {
        // Votes that convince only their receivers are kept without a proof.
        let shows_votes = self.place.config.consensus.protocol.facts().shows_votes;
        if !shows_votes && certificate.subject.domain == Domain::Prepare && certificate.signers.is_empty() {
            return;
        }
        let outcome = self.certificates.check(certificate);
        if !self.demand(id, outcome) {
            return;
        }
        if certificate.subject.domain == Domain::Checkpoint {
            self.states.vouch(id, certificate);
        }
        for known in [Some(certificate), certificate.highest_attached_certificate()].into_iter().flatten() {
            let outcome = self.chain.learn(known);
            self.demand(id, outcome);
        }
    }

    /// Returns the block with its parent's certificate, without the proof if the proof is invalid. A block's digest
    /// does not cover the proof, so a peer may send a fetched block with any proof; the replica does not rely on it.
    fn link(&mut self, id: u64, block: Arc<Block>) -> Arc<Block> {
        if block.is_optimistic() {
            return block;
        }
        if self.certificates.is_genuine(&block.justify) {
            self.certificate(id, &block.justify);
            return block;
        }
        self.unproven.0 += 1;
        let _ = self.unproven.1.get_or_insert(block.height);
        let justify = Certificate { proof: bytes::Bytes::new(), ..block.justify.clone() };
        let bare = Block::new(block.view, block.author, justify, block.payload.clone(), block.time_ms);
        bare.with_covers(block.covers().clone()).into()
    }

    fn block(&mut self, id: u64, block: Arc<Block>) {
        let bundles = std::mem::take(&mut self.bundles);
        if self.broken {
            return;
        }
        let block = if block.is_unlinked() { block } else { self.link(id, block) };
        let outcome = self.chain.insert(block, bundles);
        self.broken = !self.demand(id, outcome);
    }

    fn summary(&mut self, id: u64, height: Height, digest: Digest) {
        self.summing = true;
        let committed = self.chain.committed();
        if self.root.is_some() && committed == (height, digest) || self.broken {
            return;
        }
        if self.root.is_some() {
            if height <= committed.0 {
                let what = format!(
                    "the summary is of block {digest} at height {height}, but {} at height {} is committed",
                    committed.1, committed.0
                );
                self.broken = true;
                return self.fault(Some(id), what);
            }
            if !self.states.is_vouched(height) {
                self.fault(Some(id), format!("the state at height {height} was fetched, but no quorum certified it"));
            }
            self.notes.push(format!(
                "the blocks from height {} to {height} are not in this journal: the replica was away and fetched the \
                 state instead",
                committed.0.next()
            ));
        }
        self.chain.begin_on(height, digest);
        self.begin(height, digest);
    }

    fn commit(&mut self, id: u64, height: Height, digest: Digest) {
        if self.broken {
            return;
        }
        let late = std::mem::take(&mut self.bundles);
        let outcome = self.chain.add_late(late);
        self.demand(id, outcome);
        let Self { chain, states, writer, voids, .. } = self;
        let committed = chain.path_to(height, &digest).and_then(|path| {
            path.into_iter().try_for_each(|block| {
                let committed = chain.commit(block)?;
                *voids += committed.voids.len() as u64;
                let executed = states.execute(&committed, || Frontier::new(chain.frontier()));
                if let Some(writer) = writer {
                    writer.committed(&committed, executed);
                }
                Ok(())
            })
        });
        self.broken = !self.demand(id, committed);
    }

    /// Collects the executed blocks for a snapshot of the cluster.
    pub fn collecting(mut self, collector: Collector) -> Audit<'a> {
        self.states.collect(collector);
        self
    }

    /// Takes the writer, so that the export gets no further blocks.
    pub fn take_writer(&mut self) -> Option<Writer> {
        self.writer.take()
    }

    /// Returns the result, and the data for the end of the export.
    pub fn finish(mut self, found: &Inspection, result: &InspectResult) -> (Verification, Ending<'a>) {
        self.judge_files(found, result);
        if self.leftovers {
            let what = "the journal was truncated and has no complete summary to begin with; it was written by another \
                        version, or files are missing";
            self.fault(None, what.to_owned());
        }
        let (states, wrong) = self.states.compare();
        wrong.into_iter().for_each(|(id, what)| self.fault(id, what));
        let beyond = self.chain.beyond_commit().unwrap_or_else(|what| {
            self.fault(None, what);
            Vec::new()
        });
        let committed = self.chain.committed();
        let root = self.root.unwrap_or_default();
        let by_rule = self.chain.proof.as_ref().map(|proof| proof.height);
        let proven = self.last_root.max(by_rule.max(self.states.proven()).unwrap_or_default()).min(committed.0);
        let executed = self.states.executed().filter(|height| *height <= committed.0);
        self.judge_state(root, committed.0, result.journal.held_by_process.is_some());
        self.take_notes(proven, committed.0, executed, states);
        let verification = Verification {
            sound: self.fault_count == 0,
            from_height: root.0,
            committed_height: committed.0.0,
            proven_height: proven.0,
            blocks: self.chain.blocks,
            bundles: self.chain.bundles_checked,
            certificates: self.certificates.checked,
            promises: self.promises.count(),
            executed_height: executed.map(|height| height.0),
            states,
            notes: self.notes,
            faults: self.faults,
            fault_count: self.fault_count,
        };
        let certificate = self.chain.proof.map(|proof| proof.certificate);
        (verification, Ending { committed, proven, certificate, beyond, states: self.states })
    }

    /// Checks the files as a whole.
    fn judge_files(&mut self, found: &Inspection, result: &InspectResult) {
        if let Some(damage) = &found.damage {
            self.fault(None, damage.to_string());
        }
        if let Some(unreadable) = &result.journal.unreadable {
            self.fault(unreadable.record, unreadable.what.clone());
        }
        let (epoch, replica) = (self.place.committee.epoch, self.place.config.replica);
        if let Some(identity) = found.identity.filter(|found| (found.epoch, found.replica) != (epoch, replica)) {
            let differences = self.place.config.genesis_differences(&identity.epoch).unwrap_or_default();
            let differences = match differences.is_empty() {
                true => String::new(),
                false => format!(" (`here` is the configuration: {})", list(&differences)),
            };
            let what = format!(
                "the journal belongs to replica {} and the genesis {}, but the configuration is for replica \
                 {replica} and {}{differences}; restore the one that belongs here",
                identity.replica, identity.epoch.0, epoch.0
            );
            self.fault(None, what);
        }
    }

    /// Checks that the replica has the state on which its journal begins, since it refuses to start without it. A state
    /// above the committed height was fetched, and is not in the journal yet. A running replica (`at_work`) may replace
    /// its snapshots while they are read.
    fn judge_state(&mut self, root: Height, committed: Height, at_work: bool) {
        let executed = self.states.executed();
        if !self.any || self.leftovers || self.broken || executed >= Some(committed) {
            return;
        }
        let what = match executed {
            None => format!(
                "the journal begins after height {root}, but no readable snapshot has the state at that height or a \
                 later one"
            ),
            Some(executed) => {
                format!("it commits up to height {committed}, but could be executed only up to height {executed}")
            }
        };
        match at_work {
            true => {
                self.notes.push(format!("{what}; the replica is running and may have replaced its snapshots meanwhile"))
            }
            false => self.fault(None, what),
        }
    }

    fn take_notes(&mut self, proven: Height, committed: Height, executed: Option<Height>, states: u64) {
        if proven < committed {
            self.notes.push(format!(
                "only this replica claims that the blocks from height {} to {committed} are committed: the proof \
                 follows its last record",
                proven.next()
            ));
        }
        self.notes.extend(of_voids(self.voids));
        if let (blocks, Some(first)) = self.unproven {
            self.notes.push(format!(
                "{blocks} blocks, the first at height {first}, contain a certificate with an invalid proof from a \
                 peer; nothing relies on these proofs, and an export omits them"
            ));
        }
        if executed.is_some() && self.last_root > Height(0) && states == 0 {
            self.notes.push(
                "it was executed from a state that only this replica claims: no checkpoint has followed".to_owned(),
            );
        }
        self.notes.extend(caveat(self.place.config.scheme));
        match self.place.config.client_authentication {
            ClientAuthentication::Ed25519 => {}
            ClientAuthentication::Mac => {
                let note = "clients' MACs convince only replicas: nothing proves to others who sent a command";
                self.notes.push(note.to_owned());
            }
            ClientAuthentication::None => {
                self.notes.push("clients are not authenticated: nothing proves who sent a command".to_owned());
            }
        }
    }
}
