//! Checks the invariants of every scenario from the outside, after each step. The judge observes the actors' statements
//! and commits, and shares no code with them.

use crate::cast::{ActorId, ActorSet, Cast};
use crate::words::mix_all;
use quorate_consensus::Envelope;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::seam::Message;
use quorate_oracles::{Chain, Discord, Statements, Words};
pub use quorate_oracles::{Complaint, Law};
use quorate_types::{Block, Bundle, Digest, Domain, Height, ReplicaId, Subject};

struct Submitted {
    /// Position in the order of submission, from 1.
    number: u64,
    /// Actors that have executed it.
    by: ActorSet,
}

/// Checker that watches a stage.
pub struct Judge {
    cast: Cast,
    slotted: bool,
    /// Actors whose behaviour is checked.
    trusted: ActorSet,
    chain: Chain,
    /// Payloads of the blocks of the longest chain, genesis first; `None` if states cannot be adopted.
    payloads: Option<Vec<Vec<Digest>>>,
    /// By actor, the highest number of a bundle that it has executed.
    newest: Vec<u64>,
    bundles: Words<Submitted>,
    submitted: u64,
    statements: Words<u64>,
    /// Checks the statements of replicas against their earlier ones and against those of others.
    oracle: Statements,
    complaint: Option<Complaint>,
    /// First violation that the oracle reported. It often precedes a more severe violation of the laws above, so the
    /// checks go on.
    early: Option<Complaint>,
}

impl Judge {
    /// Returns a judge at the beginning of a scenario. Twins are not checked.
    pub fn new(cast: &Cast, genesis: Digest, protocol: ProtocolKind) -> Judge {
        let mut judge = Judge {
            slotted: protocol.has_slots(),
            oracle: Statements::new(protocol, cast.replicas(), cast.quorum().faults()),
            early: None,
            trusted: 0,
            chain: Chain::new(genesis, cast.len()),
            payloads: None,
            newest: vec![0; cast.len()],
            bundles: Words::default(),
            submitted: 0,
            statements: Words::default(),
            complaint: None,
            cast: cast.clone(),
        };
        judge.clear();
        judge
    }

    /// Resets the judge.
    pub fn clear(&mut self) {
        self.trusted = self.cast.honest().fold(0, |set, identity| set | 1 << identity.index());
        self.chain.clear();
        self.payloads.iter_mut().for_each(|payloads| payloads.truncate(1));
        self.newest.fill(0);
        self.bundles.clear();
        self.submitted = 0;
        self.statements.clear();
        self.oracle.clear();
        let twins = (0..self.cast.replicas() as u16).map(ReplicaId).filter(|identity| self.cast.is_twin(*identity));
        twins.for_each(|identity| self.oracle.distrust(identity));
        (self.complaint, self.early) = (None, None);
    }

    /// Stops checking an actor.
    pub fn distrust(&mut self, actor: ActorId) {
        self.trusted &= !(1 << actor.0);
        self.oracle.lies(self.cast.identity(actor));
    }

    /// Returns whether an actor is checked.
    #[inline]
    pub fn trusts(&self, actor: ActorId) -> bool {
        self.trusted >> actor.0 & 1 == 1
    }

    /// Returns the actors that are checked.
    pub fn trusted(&self) -> ActorSet {
        self.trusted
    }

    /// Returns the first violation. A violation that the oracle reported early counts only if nothing more severe
    /// followed.
    pub fn complaint(&self) -> Option<&Complaint> {
        self.complaint.as_ref().or(self.early.as_ref())
    }

    /// Observes a message that an actor sends, even if it is lost.
    pub fn says<M: Message>(&mut self, identity: ReplicaId, message: &mut Envelope<M>) {
        let said = self.oracle.says(identity, message);
        self.breached(said);
    }

    /// Finishes a step of an actor.
    #[inline]
    pub fn settles(&mut self) {
        let settled = self.oracle.settles();
        self.breached(settled);
    }

    #[inline]
    fn breached(&mut self, said: Result<(), Complaint>) {
        if let Err(complaint) = said {
            self.early.get_or_insert(complaint);
        }
    }

    /// Records a violation. Only the first one counts.
    #[cold]
    pub fn complain(&mut self, law: Law, what: String) {
        self.complaint.get_or_insert(Complaint { law, what });
    }

    /// Notes a bundle that a client sends.
    pub fn submits(&mut self, bundle: &Bundle) {
        self.submitted += 1;
        let number = self.submitted;
        self.bundles.entry(bundle.digest().prefix()).or_insert(Submitted { number, by: 0 });
    }

    /// Notes a bundle that a hostile client sends. It may be executed, but does not count as progress.
    pub fn admits(&mut self, bundle: &Bundle) {
        self.bundles.entry(bundle.digest().prefix()).or_insert(Submitted { number: 0, by: 0 });
    }

    /// Returns the number of submitted bundles.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Returns whether every actor of a set has executed a bundle submitted after the first `number`.
    pub fn all_executed_after(&self, number: u64, actors: ActorSet) -> bool {
        let mut rest = actors;
        while rest != 0 {
            if self.newest[rest.trailing_zeros() as usize] <= number {
                return false;
            }
            rest &= rest - 1;
        }
        true
    }

    /// Returns the height that an actor has executed up to.
    pub fn height(&self, actor: ActorId) -> u64 {
        self.chain.height(actor.0)
    }

    /// Observes a statement; `statement` is a hash of all of it.
    pub fn states(&mut self, actor: ActorId, subject: &Subject, statement: u64) {
        if !self.trusts(actor) {
            return;
        }
        let Subject { domain, view, height, .. } = *subject;
        let by_slot = match domain {
            Domain::Checkpoint => true,
            Domain::Prepare | Domain::Commit => self.slotted,
            _ => false,
        };
        let slot = if by_slot { height.0 } else { 0 };
        let place = mix_all((actor.0 as u64) << 8 | domain as u64, [view.0, slot]);
        let earlier = *self.statements.entry(place).or_insert(statement);
        if earlier != statement {
            let name = self.cast.name(actor);
            self.complain(Law::OneStatement, format!("{name} makes two statements of kind {domain:?} in {view:?}"));
        }
    }

    /// Observes that an actor commits a block on top of its parent and executes the bundles.
    pub fn commits(&mut self, actor: ActorId, block: &Block, bundles: &[Bundle]) {
        if self.complaint.is_some() || !self.trusts(actor) {
            self.chain.goes_to(actor.0, block.height);
            if self.complaint.is_none() {
                self.executes(actor, bundles);
            }
            return;
        }
        let backed = self.oracle.commits(self.cast.identity(actor), block);
        self.breached(backed);
        match self.chain.commits(actor.0, block, bundles) {
            Ok(true) => self.payloads.iter_mut().for_each(|payloads| payloads.push(block.payload.clone())),
            Ok(false) => {}
            Err(discord) => {
                self.disagrees(actor, &discord);
                if discord.law() == Law::Contiguity {
                    return;
                }
            }
        }
        self.executes(actor, bundles);
    }

    fn disagrees(&mut self, actor: ActorId, discord: &Discord) {
        self.complain(discord.law(), format!("{} {discord}", self.cast.name(actor)));
    }

    fn executes(&mut self, actor: ActorId, bundles: &[Bundle]) {
        // A Byzantine leader can propose a command again although it was ordered, and under PBFT two slots of two views
        // can hold the same command. Applications ensure that it is executed once.
        let once = !self.slotted && self.trusted == self.cast.everybody();
        let (trusted, bit) = (self.trusts(actor), 1 << actor.0);
        let mut complaint = None;
        for bundle in bundles {
            match self.bundles.get_mut(&bundle.digest().prefix()) {
                None => complaint = complaint.or(Some((bundle.digest(), "no client sent it"))),
                Some(submitted) => {
                    if submitted.by & bit != 0 && once {
                        complaint = complaint
                            .or(Some((bundle.digest(), "it was executed before, and all replicas are honest")));
                    }
                    submitted.by |= bit;
                    self.newest[actor.0] = self.newest[actor.0].max(submitted.number);
                }
            }
        }
        if let Some((digest, why)) = complaint.filter(|_| trusted) {
            self.complain(Law::Validity, format!("{} executes bundle {digest:?}: {why}", self.cast.name(actor)));
        }
    }

    /// Allows actors to adopt states instead of blocks. Call it before the scenario begins.
    pub fn remember_payloads(&mut self) {
        assert_eq!(self.chain.agreed().len(), 1, "nothing has been executed yet");
        self.payloads = Some(vec![Vec::new()]);
    }

    /// Observes that an actor adopts the state after these blocks, genesis excluded.
    pub fn adopts(&mut self, actor: ActorId, blocks: &[Digest]) {
        let (bit, height) = (1 << actor.0, blocks.len());
        let agreed = self.chain.adopts(actor.0, blocks);
        if self.complaint.is_some() || !self.trusts(actor) {
            return;
        }
        if let Err(discord) = agreed {
            return self.disagrees(actor, &discord);
        }
        let payloads = self.payloads.as_ref().expect("the stage keeps states");
        for digest in payloads[..=height].iter().flatten() {
            if let Some(submitted) = self.bundles.get_mut(&digest.prefix()) {
                submitted.by |= bit;
                self.newest[actor.0] = self.newest[actor.0].max(submitted.number);
            }
        }
    }

    /// Observes that a replica has proof of misbehaviour by another.
    pub fn accuses(&mut self, accuser: ActorId, accused: ReplicaId) {
        if self.cast.instances(accused).all(|instance| self.trusts(instance)) {
            let what = format!("{} proves {accused:?} to misbehave, which is honest", self.cast.name(accuser));
            self.complain(Law::Accusation, what);
        }
    }

    /// Notes that an actor stops, possibly in the middle of a step.
    pub fn stops(&mut self) {
        self.oracle.stops();
    }

    /// Notes that an actor has lost its state and executes everything again.
    pub fn forgets(&mut self, actor: ActorId) {
        self.chain.goes_to(actor.0, Height(0));
        self.newest[actor.0] = 0;
        self.bundles.values_mut().for_each(|submitted| submitted.by &= !(1 << actor.0));
    }
}
