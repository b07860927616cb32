//! Checks the invariants of every scenario from the outside, after each step. The checker observes the instances'
//! statements and commits, and shares no code with them.

use crate::oracles::{Availability, Chain, Discord, Statements, Times, Words};
pub use crate::oracles::{Property, Violation};
use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use crate::twins::shares::Shares;
use crate::twins::words::mix_all;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::Message;
use quorate_consensus::{Config, Envelope};
use quorate_types::{Block, Bundle, Digest, Domain, Height, ReplicaId, Subject, View};

struct Submitted {
    /// Position in the order of submission, from 1.
    number: u64,
    /// Instances that have executed it.
    by: InstanceSet,
    /// Whether a block of the chain names it; tracked only if shares are checked.
    is_named: bool,
}

/// Checker that watches a world.
pub struct Checker {
    participants: Participants,
    slotted: bool,
    /// Instances whose behaviour is checked.
    trusted: InstanceSet,
    chain: Chain,
    /// Payloads of the blocks of the longest chain, genesis first; `None` if states cannot be adopted.
    payloads: Option<Vec<Vec<Digest>>>,
    /// Highest number of an executed bundle, by instance.
    newest: Vec<u64>,
    bundles: Words<Submitted>,
    submitted: u64,
    statements: Words<u64>,
    /// Checks replicas' statements against their own earlier ones and other replicas'.
    oracle: Statements,
    /// Checks the honest clients' share next to a hostile one. Not checked if blocks have no views.
    shares: Shares,
    /// Checks that bundles of certified blocks are in journals, if replicas certify the storage of bundles.
    availability: Option<Availability>,
    /// Checks the times of blocks by the common clock. Nothing is executed in a scenario.
    times: Times,
    violation: Option<Violation>,
    /// First violation reported by the oracle. It often precedes a more severe violation of the properties above, so
    /// checking continues.
    early: Option<Violation>,
}

impl Checker {
    /// Returns a checker at the beginning of a scenario. Twins are not checked.
    pub fn new(participants: &Participants, genesis: Digest, config: &Config) -> Checker {
        let (protocol, replicas, faults) = (config.protocol, participants.replicas(), participants.quorum().faults());
        let mut checker = Checker {
            slotted: protocol.has_slots(),
            oracle: Statements::new(protocol, replicas, faults),
            times: Times::new(replicas, faults, config),
            shares: Shares::default(),
            availability: None,
            early: None,
            trusted: 0,
            chain: Chain::new(genesis, participants.len()),
            payloads: None,
            newest: vec![0; participants.len()],
            bundles: Words::default(),
            submitted: 0,
            statements: Words::default(),
            violation: None,
            participants: participants.clone(),
        };
        checker.clear();
        checker
    }

    pub fn clear(&mut self) {
        self.trusted = self.participants.honest().fold(0, |set, identity| set | 1 << identity.index());
        self.chain.clear();
        self.payloads.iter_mut().for_each(|payloads| payloads.truncate(1));
        self.newest.fill(0);
        self.bundles.clear();
        self.submitted = 0;
        self.statements.clear();
        self.oracle.clear();
        self.shares.clear();
        self.availability.iter_mut().for_each(Availability::clear);
        self.times.clear();
        let twins = (0..self.participants.replicas() as u16)
            .map(ReplicaId)
            .filter(|identity| self.participants.is_twin(*identity));
        for identity in twins {
            self.oracle.distrust(identity);
            self.times.distrust(identity);
            self.availability.iter_mut().for_each(|availability| availability.distrust(identity));
        }
        (self.violation, self.early) = (None, None);
    }

    /// Stops checking an instance.
    pub fn distrust(&mut self, instance: InstanceId) {
        self.trusted &= !(1 << instance.0);
        let identity = self.participants.identity(instance);
        self.oracle.lies(identity);
        self.times.distrust(identity);
        self.availability.iter_mut().for_each(|availability| availability.distrust(identity));
    }

    /// Starts to check that the bundles of certified blocks are in journals. Must be called before the scenario begins.
    pub fn watch_availability(&mut self) {
        let quorum = self.participants.quorum();
        self.availability = Some(Availability::new(quorum.replicas(), quorum.faults()));
        self.clear();
    }

    /// Observes a record that an instance writes to its journal while its clock shows `clock_ms`, or reads from there.
    pub fn journals(&mut self, instance: InstanceId, record: &Record, clock_ms: Option<u64>) {
        let timely = self.times.journals(self.participants.identity(instance), record, clock_ms);
        self.breached(timely);
        if let Some(availability) = &mut self.availability {
            availability.journals(self.participants.identity(instance), record);
        }
    }

    /// Returns whether an instance is checked.
    #[inline]
    pub fn trusts(&self, instance: InstanceId) -> bool {
        self.trusted >> instance.0 & 1 == 1
    }

    /// Returns the instances that are checked.
    pub fn trusted(&self) -> InstanceSet {
        self.trusted
    }

    /// Returns the first violation. One that the oracle reported early counts only if nothing more severe followed.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref().or(self.early.as_ref())
    }

    /// Observes a message that an instance sends, even if it is lost.
    pub fn says<M: Message>(&mut self, identity: ReplicaId, message: &mut Envelope<M>) {
        let said = self.oracle.says(identity, message);
        self.breached(said);
    }

    /// Finishes a step of an instance.
    #[inline]
    pub fn settles(&mut self) {
        let settled = self.oracle.settles();
        self.breached(settled);
    }

    #[inline]
    fn breached(&mut self, said: Result<(), Violation>) {
        if let Err(violation) = said {
            self.early.get_or_insert(violation);
        }
    }

    /// Records a violation. Only the first one counts.
    #[cold]
    pub fn report(&mut self, property: Property, what: String) {
        self.violation.get_or_insert(Violation { property, what });
    }

    /// Records a bundle that a client sends.
    pub fn submits(&mut self, bundle: &Bundle) {
        self.submitted += 1;
        let number = self.submitted;
        self.bundles.entry(bundle.digest().prefix()).or_insert(Submitted { number, by: 0, is_named: false });
    }

    /// Records a bundle that a hostile client sends. It may be executed, but does not count as progress.
    pub fn admits(&mut self, bundle: &Bundle) {
        self.bundles.entry(bundle.digest().prefix()).or_insert(Submitted { number: 0, by: 0, is_named: false });
    }

    /// Returns the number of submitted bundles.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Returns whether every instance of a set has executed a bundle submitted after the first `number`.
    pub fn all_executed_after(&self, number: u64, instances: InstanceSet) -> bool {
        let mut rest = instances;
        while rest != 0 {
            if self.newest[rest.trailing_zeros() as usize] <= number {
                return false;
            }
            rest &= rest - 1;
        }
        true
    }

    /// Returns an instance's executed height.
    pub fn height(&self, instance: InstanceId) -> u64 {
        self.chain.height(instance.0)
    }

    /// Observes a statement; `statement` is a hash of its full contents.
    pub fn states(&mut self, instance: InstanceId, subject: &Subject, statement: u64) {
        if !self.trusts(instance) {
            return;
        }
        if let Some(availability) = &mut self.availability {
            let found = availability.signs(self.participants.identity(instance), subject);
            self.breached(found);
        }
        let Subject { domain, view, height, .. } = *subject;
        let by_slot = match domain {
            // It restricts no other statement.
            Domain::Stored => return,
            Domain::Checkpoint => true,
            Domain::Absent => {
                let quorum = self.participants.quorum();
                self.chain.allow_voids(quorum.quorum() - quorum.faults());
                self.chain.signs(self.participants.identity(instance), subject);
                true
            }
            Domain::Prepare | Domain::Commit => self.slotted,
            _ => false,
        };
        let slot = if by_slot { height.0 } else { 0 };
        let place = mix_all((instance.0 as u64) << 8 | domain as u64, [view.0, slot]);
        let earlier = *self.statements.entry(place).or_insert(statement);
        if earlier != statement {
            let name = self.participants.name(instance);
            self.report(Property::OneStatement, format!("{name} makes two statements of kind {domain:?} in {view:?}"));
        }
    }

    /// Observes that an instance commits a block on top of its parent and executes the bundles.
    pub fn commits(&mut self, instance: InstanceId, block: &Block, bundles: &[Bundle]) {
        if self.violation.is_some() || !self.trusts(instance) {
            self.chain.goes_to(instance.0, block.height);
            if self.violation.is_none() {
                self.executes(instance, bundles);
            }
            return;
        }
        let backed = self.oracle.commits(self.participants.identity(instance), block);
        self.breached(backed);
        let timely = self.times.commits(self.participants.identity(instance), block);
        self.breached(timely);
        match self.chain.commits(instance.0, block, bundles) {
            Ok(true) => {
                self.payloads.iter_mut().for_each(|payloads| payloads.push(block.payload.clone()));
                self.shares_out(block, bundles);
            }
            Ok(false) => {}
            Err(discord) => {
                self.disagrees(instance, &discord);
                if discord.property() == Property::Contiguity {
                    return;
                }
            }
        }
        self.executes(instance, bundles);
    }

    /// Records that a view of the script begins.
    pub fn opens(&mut self, view: View) {
        self.shares.opens(view, self.submitted);
    }

    /// Starts to check that honest clients get their share of the blocks of views after `last`. Returns the number of
    /// these blocks within which all bundles that wait now must be named.
    pub fn check_shares_after(&mut self, last: View) -> u64 {
        self.shares.check_after(last);
        self.shares.blocks_for_waiting(self.submitted)
    }

    /// Observes the next block of the chain.
    fn shares_out(&mut self, block: &Block, bundles: &[Bundle]) {
        if self.participants.hostile().is_none() || self.slotted {
            return;
        }
        let mut honest = 0;
        for bundle in bundles {
            let submitted = self.bundles.get_mut(&bundle.digest().prefix()).filter(|submitted| submitted.number > 0);
            honest += submitted.map_or(0, |submitted| u64::from(!std::mem::replace(&mut submitted.is_named, true)));
        }
        if let Err(behind) = self.shares.commits(block.view, honest) {
            let what = format!("honest clients are {behind} bundles behind their share of the blocks");
            self.report(Property::Served, what);
        }
    }

    fn disagrees(&mut self, instance: InstanceId, discord: &Discord) {
        self.report(discord.property(), format!("{} {discord}", self.participants.name(instance)));
    }

    fn executes(&mut self, instance: InstanceId, bundles: &[Bundle]) {
        // A Byzantine leader can propose a command again after it was ordered, and under PBFT two slots of two views
        // can hold the same command. Applications ensure that it is executed once.
        let once = !self.slotted && self.trusted == self.participants.everybody();
        let (trusted, bit) = (self.trusts(instance), 1 << instance.0);
        let mut violation = None;
        for bundle in bundles {
            match self.bundles.get_mut(&bundle.digest().prefix()) {
                None => violation = violation.or(Some((bundle.digest(), "no client sent it"))),
                Some(submitted) => {
                    if submitted.by & bit != 0 && once {
                        violation = violation
                            .or(Some((bundle.digest(), "it was executed before, and all replicas are honest")));
                    }
                    submitted.by |= bit;
                    self.newest[instance.0] = self.newest[instance.0].max(submitted.number);
                }
            }
        }
        if let Some((digest, why)) = violation.filter(|_| trusted) {
            self.report(
                Property::Validity,
                format!("{} executes bundle {digest:?}: {why}", self.participants.name(instance)),
            );
        }
    }

    /// Permits instances to adopt states instead of blocks. Must be called before the scenario begins.
    pub fn remember_payloads(&mut self) {
        assert_eq!(self.chain.agreed().len(), 1, "nothing has been executed yet");
        self.payloads = Some(vec![Vec::new()]);
    }

    /// Observes that an instance adopts the state after these blocks, listed without genesis.
    pub fn adopts(&mut self, instance: InstanceId, blocks: &[Digest]) {
        let (bit, height) = (1 << instance.0, blocks.len());
        let agreed = self.chain.adopts(instance.0, blocks);
        if self.violation.is_some() || !self.trusts(instance) {
            return;
        }
        if let Err(discord) = agreed {
            return self.disagrees(instance, &discord);
        }
        let payloads = self.payloads.as_ref().expect("the world keeps states");
        for digest in payloads[..=height].iter().flatten() {
            if let Some(submitted) = self.bundles.get_mut(&digest.prefix()) {
                submitted.by |= bit;
                self.newest[instance.0] = self.newest[instance.0].max(submitted.number);
            }
        }
    }

    /// Observes that a replica has proof of another's misbehaviour.
    pub fn accuses(&mut self, accuser: InstanceId, accused: ReplicaId) {
        if self.participants.instances_of(accused).all(|instance| self.trusts(instance)) {
            let what = format!("{} proves {accused:?} to misbehave, which is honest", self.participants.name(accuser));
            self.report(Property::Accusation, what);
        }
    }

    /// Records that an instance stops, possibly in the middle of a step.
    pub fn stops(&mut self) {
        self.oracle.stops();
    }

    /// Records that a stopped instance has lost its journal and will detect that.
    pub fn loses_journal(&mut self, instance: InstanceId) {
        let identity = self.participants.identity(instance);
        self.oracle.forgets(identity);
        self.availability.iter_mut().for_each(|availability| availability.loses_disk(identity));
    }

    /// Records that an instance has lost its state and executes everything again.
    pub fn forgets(&mut self, instance: InstanceId) {
        if let Some(availability) = &mut self.availability {
            availability.restarts(self.participants.identity(instance));
        }
        self.chain.goes_to(instance.0, Height(0));
        self.newest[instance.0] = 0;
        self.bundles.values_mut().for_each(|submitted| submitted.by &= !(1 << instance.0));
    }
}
