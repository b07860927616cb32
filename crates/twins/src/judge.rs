//! What must hold of every scenario, judged from the outside on every step: the judge sees what actors state and what they commit,
//! and shares no code with them.

use crate::cast::{ActorId, ActorSet, Cast};
use crate::words::{Words, mix_all};
use quorate_consensus::Envelope;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::seam::Message;
use quorate_oracles::{Breach, Chain, Discord, Statements};
use quorate_types::{Block, Bundle, Digest, Domain, Height, ReplicaId, Subject};
use std::fmt;

/// What can be broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Law {
    /// What honest replicas executed are prefixes of one chain.
    Agreement,
    /// Heights come without gaps, and each block extends the one before.
    Contiguity,
    /// An honest replica makes one statement of a kind in a view, and for a slot where there are slots.
    OneStatement,
    /// Only what clients sent is executed, in the blocks that name it, and once where all are honest.
    Validity,
    /// Nobody honest is proven to misbehave.
    Accusation,
    /// When all is healed, commands are executed within a bound of views.
    Liveness,
    /// What an honest replica signs does not contradict what it signed of another kind or in another view.
    Order,
    /// Behind what honest replicas show, vote on and commit there are signed votes of a quorum.
    Backing,
    /// Nobody honest is in a view far ahead of what a quorum can have brought about.
    Views,
    /// Tables stay within their bounds.
    Memory,
    /// What others ask costs an honest replica a bounded number of messages.
    Work,
    /// Nothing makes a replica panic.
    Panic,
}

impl Law {
    /// Every law.
    pub const ALL: [Law; 12] = [
        Law::Agreement,
        Law::Contiguity,
        Law::OneStatement,
        Law::Validity,
        Law::Accusation,
        Law::Liveness,
        Law::Order,
        Law::Backing,
        Law::Views,
        Law::Memory,
        Law::Work,
        Law::Panic,
    ];

    /// The name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Law::Agreement => "agreement",
            Law::Contiguity => "contiguity",
            Law::OneStatement => "one-statement",
            Law::Validity => "validity",
            Law::Accusation => "accusation",
            Law::Liveness => "liveness",
            Law::Order => quorate_oracles::Law::Order.name(),
            Law::Backing => quorate_oracles::Law::Backing.name(),
            Law::Views => "view-gap",
            Law::Memory => "memory",
            Law::Work => "work",
            Law::Panic => "panic",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// The law that is broken.
    pub law: Law,
    /// What was seen.
    pub what: String,
}

struct Submitted {
    /// Its number in the order of submission, from 1.
    number: u64,
    /// Who has executed it.
    by: ActorSet,
}

/// Watches a stage.
pub struct Judge {
    cast: Cast,
    slotted: bool,
    /// Whose deeds are judged.
    trusted: ActorSet,
    chain: Chain,
    /// What the blocks of that chain name, genesis first, if states may be taken over.
    payloads: Option<Vec<Vec<Digest>>>,
    /// The highest number of a bundle that each has executed.
    newest: Vec<u64>,
    bundles: Words<Submitted>,
    submitted: u64,
    statements: Words<u64>,
    /// What replicas sign, held against what they signed before and what others have.
    oracle: Statements,
    complaint: Option<Complaint>,
    /// The first thing that the oracle said. Its laws hold what leads to a broken one above before that happens, so the others go on.
    early: Option<Complaint>,
}

impl Judge {
    /// Nothing has happened. Nobody who is a twin is judged.
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

    /// Forgets everything.
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

    /// What an actor does proves nothing from now on.
    pub fn distrust(&mut self, actor: ActorId) {
        self.trusted &= !(1 << actor.0);
        self.oracle.lies(self.cast.identity(actor));
    }

    /// Whether an actor's deeds are judged.
    #[inline]
    pub fn trusts(&self, actor: ActorId) -> bool {
        self.trusted >> actor.0 & 1 == 1
    }

    /// Those whose deeds are judged.
    pub fn trusted(&self) -> ActorSet {
        self.trusted
    }

    /// The first thing that was wrong; what leads to something worse only if nothing worse came of it.
    pub fn complaint(&self) -> Option<&Complaint> {
        self.complaint.as_ref().or(self.early.as_ref())
    }

    /// An actor sends a message, to whomever.
    pub fn says<M: Message>(&mut self, identity: ReplicaId, message: &mut Envelope<M>) {
        let said = self.oracle.says(identity, message);
        self.breached(said);
    }

    /// An actor's step is over.
    #[inline]
    pub fn settles(&mut self) {
        if let Err(breach) = self.oracle.settles() {
            self.breached(Err(breach));
        }
    }

    fn breached(&mut self, said: Result<(), Breach>) {
        let Err(Breach { law, what }) = said else { return };
        let law = match law {
            quorate_oracles::Law::Order => Law::Order,
            quorate_oracles::Law::Backing => Law::Backing,
        };
        self.early.get_or_insert(Complaint { law, what });
    }

    /// Something is wrong; the first such thing counts.
    #[cold]
    pub fn complain(&mut self, law: Law, what: String) {
        self.complaint.get_or_insert(Complaint { law, what });
    }

    /// A client sends a bundle.
    pub fn submits(&mut self, bundle: &Bundle) {
        self.submitted += 1;
        let number = self.submitted;
        self.bundles.entry(bundle.digest().prefix()).or_insert(Submitted { number, by: 0 });
    }

    /// A hostile client sends a bundle: it may be executed, and that is no progress for anybody.
    pub fn admits(&mut self, bundle: &Bundle) {
        self.bundles.entry(bundle.digest().prefix()).or_insert(Submitted { number: 0, by: 0 });
    }

    /// How many bundles were submitted.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Whether a bundle that was submitted after the first `number` has been executed by every actor of a set.
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

    /// The height up to which an actor has executed.
    pub fn height(&self, actor: ActorId) -> u64 {
        self.chain.height(actor.0)
    }

    /// The longest chain that an honest actor executed; genesis first.
    pub fn chain(&self) -> &[Digest] {
        self.chain.agreed()
    }

    /// An actor makes a statement; `statement` is a word for all of it.
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

    /// An actor commits a block on top of `parent`, and executes its bundles.
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
            Err(discord @ (Discord::Gap { .. } | Discord::Detached { .. })) => return self.disagrees(actor, &discord),
            Err(discord) => self.disagrees(actor, &discord),
        }
        self.executes(actor, bundles);
    }

    fn disagrees(&mut self, actor: ActorId, discord: &Discord) {
        let law = match discord {
            Discord::Gap { .. } | Discord::Detached { .. } => Law::Contiguity,
            Discord::Fork { .. } | Discord::StrangeState { .. } => Law::Agreement,
            Discord::OtherBundles { .. } => Law::Validity,
        };
        self.complain(law, format!("{} {discord}", self.cast.name(actor)));
    }

    fn executes(&mut self, actor: ActorId, bundles: &[Bundle]) {
        // A leader that lies orders a command again that it knows to be ordered, and under PBFT so do two slots of two views;
        // applications see to it that it is executed once.
        let once = !self.slotted && self.trusted == self.cast.everybody();
        let (trusted, bit) = (self.trusts(actor), 1 << actor.0);
        let mut complaint = None;
        for bundle in bundles {
            match self.bundles.get_mut(&bundle.digest().prefix()) {
                None => complaint = complaint.or(Some((bundle.digest(), "no client sent it"))),
                Some(submitted) => {
                    if submitted.by & bit != 0 && once {
                        complaint = complaint.or(Some((bundle.digest(), "it did so before, and all are honest")));
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

    /// From the beginning on, states may be taken over in place of blocks.
    pub fn remember_payloads(&mut self) {
        assert_eq!(self.chain.agreed().len(), 1, "nothing has been executed yet");
        self.payloads = Some(vec![Vec::new()]);
    }

    /// An actor takes over a state, which is that after these blocks, genesis left out.
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

    /// A replica has proof against another.
    pub fn accuses(&mut self, accuser: ActorId, accused: ReplicaId) {
        if self.cast.instances(accused).all(|instance| self.trusts(instance)) {
            let what = format!("{} proves {accused:?} to misbehave, which is honest", self.cast.name(accuser));
            self.complain(Law::Accusation, what);
        }
    }

    /// An actor stops, perhaps in the middle of a step.
    pub fn stops(&mut self) {
        self.oracle.stops();
    }

    /// An actor has lost its state and executes everything again.
    pub fn forgets(&mut self, actor: ActorId) {
        self.chain.goes_to(actor.0, Height(0));
        self.newest[actor.0] = 0;
        self.bundles.values_mut().for_each(|submitted| submitted.by &= !(1 << actor.0));
    }
}
