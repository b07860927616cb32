//! Checker of the invariants of every run. It observes the replicas' statements and commits in each step, and shares no
//! protocol code with them.

use crate::shares::HonestShare;
use crate::statements::Statements as Signed;
use quorate_adversary::oracles::{
    Availability, Chain, Levels, Property, Relays, Statements, Times, Violation, Weight, Work,
};
use quorate_applications::Reply;
use quorate_consensus::data::digest_map::{DigestMap, Salt};
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::{Config, Envelope, Evidence, Halt, Message};
use quorate_types::{
    Attachment, Block, Bundle, ClientId, Digest, Domain, FeatureLevel, Height, Outcome, Quorum, ReplicaId, Signers,
    Subject, Time,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Default)]
struct Submitted {
    /// Replicas that have executed it.
    by: Signers,
    /// Height at which it was first executed.
    height: Option<Height>,
    weight: Weight,
    /// Whether a proposal names it.
    proposed: bool,
    /// Whether one of its commands was refused, so that it may be ordered again.
    refused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Vouched {
    /// Digest certified by a quorum.
    checkpoint: Digest,
    /// Digest of everything executed so far.
    history: Digest,
}

/// Checker of one cluster.
pub struct Oracle {
    /// Whether votes are unique per slot instead of per view.
    slotted: bool,
    /// Whether replicas agree. Otherwise they skip failed slots.
    agrees: bool,
    chain: Chain,
    /// Misbehaving replicas, which need not make progress.
    faulty: Signers,
    /// Faulty replicas whose statements are not checked. Their execution is checked, because their state machine is
    /// honest.
    liars: Signers,
    /// Replicas that executed each block without a void bundle.
    voided: BTreeMap<Height, Signers>,
    /// Honest replicas that executed such a bundle. They stop once they receive the certificate of a later checkpoint.
    diverged: Signers,
    bundles: DigestMap<Submitted>,
    /// First result at each checkpoint.
    checkpoints: BTreeMap<Height, Vouched>,
    signed: Vec<Signed>,
    statements: Statements,
    /// Commands of bundles that contain repeated ones.
    repeated: DigestMap<Vec<(ClientId, u64)>>,
    /// Executed commands of these bundles, by replica.
    done: Vec<BTreeSet<(ClientId, u64)>>,
    /// Unexecuted bundles of honest clients, ordered by send time; `None` if service is not checked.
    awaited: Option<VecDeque<(Time, Digest)>>,
    /// Maximum time to execute such a bundle.
    served_within: Duration,
    /// Checks the honest clients' share of the service next to clients that favour one replica.
    shares: Option<HonestShare>,
    /// Time of the last client event.
    now: Time,
    quorum: Quorum,
    work: Work,
    relays: Relays,
    /// Checks that bundles of certified blocks are in journals, if replicas certify the storage of bundles.
    availability: Option<Availability>,
    /// Checks the times of blocks.
    times: Times,
    /// Checks the feature levels of blocks.
    levels: Levels,
    /// Proposed blocks over the size limit. No honest replica may vote for one.
    too_large: DigestMap<Weight>,
    /// The first violation; the run ends with it.
    pub violation: Option<Violation>,
}

impl Oracle {
    pub fn new(quorum: Quorum, genesis: Digest, config: &Config) -> Oracle {
        let (replicas, protocol) = (quorum.replicas(), config.protocol);
        Oracle {
            slotted: protocol.has_slots(),
            agrees: config.protocol.facts().repairs_losses,
            statements: Statements::new(protocol, replicas, quorum.faults()),
            work: Work::new(replicas, config),
            relays: Relays::new(replicas),
            availability: config.dissemination.is_certified().then(|| Availability::new(replicas, quorum.faults())),
            times: Times::new(replicas, quorum.faults(), config),
            levels: Levels::default(),
            too_large: DigestMap::with_hasher(Salt(0)),
            chain: Chain::new(genesis, replicas),
            faulty: Signers::empty(),
            liars: Signers::empty(),
            voided: BTreeMap::new(),
            diverged: Signers::empty(),
            bundles: DigestMap::with_hasher(Salt(0)),
            checkpoints: BTreeMap::new(),
            signed: (0..replicas).map(|_| Signed::default()).collect(),
            repeated: DigestMap::with_hasher(Salt(0)),
            done: vec![BTreeSet::new(); replicas],
            awaited: None,
            served_within: Duration::ZERO,
            shares: None,
            now: Time(0),
            quorum,
            violation: None,
        }
    }

    /// Registers a misbehaving replica, and whether its statements will be false.
    pub fn distrust(&mut self, replica: ReplicaId, lies: bool) {
        self.faulty.insert(replica);
        if lies {
            self.liars.insert(replica);
            self.statements.lies(replica);
            self.times.distrust(replica);
            self.availability.iter_mut().for_each(|availability| availability.distrust(replica));
        } else {
            self.statements.distrust(replica);
        }
    }

    /// Returns whether a replica misbehaves at any time.
    pub fn is_faulty(&self, replica: usize) -> bool {
        self.faulty.contains(ReplicaId(replica as u16))
    }

    /// Observes that a replica presents two contradictory statements of another one.
    pub fn accused(&mut self, by: ReplicaId, evidence: &Evidence) {
        let who = evidence.first.voter;
        if !self.liars.contains(who) {
            self.report(Property::OneStatement, format!("replica {by} accuses {who}, which is honest: {evidence}"));
        }
    }

    /// Reports a violation. Only the first one is kept.
    pub fn report(&mut self, property: Property, what: String) {
        self.violation.get_or_insert(Violation { property, what });
    }

    /// Observes that a client sends a bundle.
    pub fn submitted(&mut self, bundle: &Bundle) {
        let unseen = || Submitted { weight: Weight::of(bundle), ..Submitted::default() };
        self.bundles.entry(bundle.digest()).or_insert_with(unseen);
    }

    /// Observes that a client sends a bundle that repeats commands of earlier ones. Each replica must execute each
    /// command once.
    pub fn repeats(&mut self, bundle: &Bundle) {
        let commands = bundle.commands().map(|command| (command.client, command.sequence));
        self.repeated.insert(bundle.digest(), commands.collect());
    }

    /// Starts to check the service time of honest clients' bundles. Must be called before the run.
    pub fn watch_service(&mut self, within: Duration) {
        (self.awaited, self.served_within) = (Some(VecDeque::new()), within);
    }

    /// Starts to check the honest clients' share. Must be called before the run.
    pub fn watch_shares(&mut self, shares: HonestShare) {
        self.shares = Some(shares);
    }

    /// Observes that an honest client sends a bundle.
    pub fn awaits(&mut self, now: Time, bundle: &Bundle) {
        self.now = now;
        self.shares.iter_mut().for_each(|shares| shares.sends(now, bundle));
        if let Some(awaited) = &mut self.awaited {
            awaited.push_back((now, bundle.digest()));
        }
    }

    /// Checks that f+1 replicas have executed each bundle of an honest client within its time limit.
    pub fn check_service(&mut self, now: Time) {
        self.now = now;
        let Some(awaited) = &mut self.awaited else { return };
        let executed =
            |digest: &Digest| self.bundles.get(digest).map_or(0, |bundle| bundle.by.len()) >= self.quorum.weak();
        while awaited.front().is_some_and(|(_, digest)| executed(digest)) {
            awaited.pop_front();
        }
        let Some((sent, digest)) = awaited.front().copied() else { return };
        if now.since(sent) > self.served_within {
            let what =
                format!("bundle {digest:?} of an honest client, sent at {sent:?}, is still not executed at {now:?}");
            self.report(Property::Served, what);
        }
    }

    pub fn is_executed_by(&self, bundle: &Digest, replica: usize) -> bool {
        self.bundles.get(bundle).is_some_and(|bundle| bundle.by.contains(ReplicaId(replica as u16)))
    }

    /// Observes that a replica signs a statement.
    pub fn signs(&mut self, replica: ReplicaId, subject: &Subject, attachment: &Attachment) {
        if let Some(availability) = &mut self.availability {
            let found = availability.signs(replica, subject);
            self.breached(found);
        }
        let by_slot = match subject.domain {
            // This statement restricts no other.
            Domain::Stored => return,
            Domain::Checkpoint => true,
            Domain::Absent => {
                let quorum = self.quorum;
                self.chain.allow_voids(quorum.quorum() - quorum.faults());
                self.chain.signs(replica, subject);
                true
            }
            Domain::Prepare | Domain::Commit => self.slotted,
            _ => false,
        };
        let first = self.signed[replica.index()].enter(subject, attachment, by_slot);
        if !first && !self.liars.contains(replica) {
            let what = format!("replica {replica} signs two {:?} statements in view {}", subject.domain, subject.view);
            self.report(Property::OneStatement, what);
        }
        if let Some(weight) = self.too_large.get(&subject.digest).copied() {
            let votes = matches!(subject.domain, Domain::Vote | Domain::Prepare | Domain::Commit);
            if votes && !self.faulty.contains(replica) {
                self.check_block(replica, "votes for", weight);
            }
        }
    }

    fn check_block(&mut self, replica: ReplicaId, does: &str, weight: Weight) {
        let excess = self.work.block(replica, does, weight);
        self.report_excess(excess);
    }

    fn report_excess(&mut self, excess: Option<String>) {
        if let Some(what) = excess {
            self.report(Property::Work, what);
        }
    }

    fn proposes(&mut self, replica: ReplicaId, block: &Block) {
        if let Some(shares) = self.shares.as_mut().filter(|_| !self.faulty.contains(replica)) {
            shares.proposes(self.now, block);
        }
        let holds = block.payload.iter().filter_map(|digest| {
            let bundle = self.bundles.get_mut(digest)?;
            bundle.proposed = true;
            Some(bundle.weight)
        });
        let holds: Weight = holds.sum();
        if self.work.block(replica, "proposes", holds).is_some() {
            self.too_large.insert(block.digest(), holds);
        }
    }

    /// Observes that a replica receives bundles from clients.
    pub fn heard_clients(&mut self, replica: ReplicaId, bundles: &[Digest]) {
        self.relays.clients_send(replica, bundles);
    }

    /// Observes that a replica receives relayed bundles, each with a flag that is set if the replica already knew it.
    /// `is_pending` returns whether a bundle is in its pool now.
    pub fn heard_relay(
        &mut self,
        replica: ReplicaId,
        from: ReplicaId,
        relayed: &[(Digest, bool)],
        is_pending: impl Fn(&Digest) -> bool,
    ) {
        if self.faulty.contains(replica) {
            return;
        }
        let entered = relayed.iter().filter(|(digest, known)| !known && is_pending(digest)).map(|(digest, _)| *digest);
        let old = |digest: &Digest| {
            self.is_executed_by(digest, replica.index()) && self.bundles.get(digest).is_some_and(|it| !it.refused)
        };
        if let Some(old) = entered.clone().find(old) {
            let what = format!("replica {replica} accepts executed bundle {old:?} from replica {from}");
            return self.report(Property::Work, what);
        }
        // With f = 0, a single relay already amounts to f+1 relays, so such bundles count towards no share.
        if self.quorum.faults() == 0 {
            return;
        }
        let weigh = |digest: Digest| Some((digest, self.bundles.get(&digest)?.weight));
        let waits = |digest: &Digest| is_pending(digest) && self.bundles.get(digest).is_some_and(|it| !it.proposed);
        let all = relayed.iter().map(|(digest, _)| *digest);
        let few = |weight: &Weight| self.work.fits_share(weight);
        let share = self.relays.relays(replica, from, all, entered.filter_map(weigh), waits, few);
        let excess = self.work.relays(replica, from, share);
        self.report_excess(excess);
    }

    /// Observes that a replica sends a message.
    pub fn says<M: Message>(&mut self, replica: ReplicaId, message: &mut Envelope<M>) {
        if let Envelope::Protocol(message) = message
            && let Some((block, _)) = message.proposed()
        {
            self.proposes(replica, block);
        }
        let said = self.statements.says(replica, message);
        self.breached(said);
    }

    /// Returns whether a message to a single replica answers a request.
    pub fn is_answer<M: Message>(&self, message: &Envelope<M>) -> bool {
        quorate_adversary::oracles::is_answer(message, self.slotted)
    }

    /// Observes that a replica sends an answer of `bytes` to a peer, and whether it signed it.
    pub fn answers(&mut self, by: ReplicaId, to: ReplicaId, now: Time, bytes: u64, signed: bool) {
        if !self.faulty.contains(by) {
            let excess = self.work.answers(by, to, now, bytes, signed);
            self.report_excess(excess);
        }
    }

    /// Observes the size of a block's results.
    pub fn results(&mut self, replica: ReplicaId, bytes: u64) {
        let excess = self.work.results(replica, bytes);
        self.report_excess(excess);
    }

    /// Observes the end of a replica's step.
    #[inline]
    pub fn settles(&mut self) {
        let settled = self.statements.settles();
        self.breached(settled);
    }

    /// Observes that a replica crashes, possibly in the middle of a step.
    pub fn stops(&mut self) {
        self.statements.stops();
    }

    /// Observes that a replica restarts without its journal and has detected that.
    pub fn forgets(&mut self, replica: ReplicaId) {
        self.statements.forgets(replica);
        self.availability.iter_mut().for_each(|availability| availability.loses_disk(replica));
    }

    #[inline]
    fn breached(&mut self, said: Result<(), Violation>) {
        if let Err(violation) = said {
            self.violation.get_or_insert(violation);
        }
    }

    /// Observes a record that a replica writes to its journal while its wall clock shows `clock_ms`, or reads from
    /// there after a restart.
    pub fn journals(&mut self, replica: ReplicaId, record: &Record, clock_ms: Option<u64>) {
        let timely = self.times.journals(replica, record, clock_ms);
        self.breached(timely);
        if let Some(availability) = &mut self.availability {
            availability.journals(replica, record);
        }
    }

    /// Observes that a replica restarts. It executes its committed blocks again, and its earlier statements still bind
    /// it.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.availability.iter_mut().for_each(|availability| availability.restarts(replica));
        self.chain.goes_to(replica.index(), Height(0));
        self.diverged.remove(replica);
        self.voided.values_mut().for_each(|voiding| voiding.remove(replica));
        self.done[replica.index()].clear();
        // The order of iteration has no effect.
        self.bundles.values_mut().for_each(|bundle| bundle.by.remove(replica));
    }

    /// Observes that a replica commits a block and will execute its bundles.
    pub fn committed(&mut self, replica: ReplicaId, block: &Block, bundles: &[Bundle]) {
        if !self.agrees && block.payload.is_empty() {
            if let Err(discord) = self.chain.passes_over(replica.index(), block.height) {
                self.report(discord.property(), format!("replica {replica} {discord}"));
            }
            return;
        }
        self.check_block(replica, "commits", bundles.iter().map(Weight::of).sum());
        let backed = self.statements.commits(replica, block);
        self.breached(backed);
        let timely = self.times.commits(replica, block);
        self.breached(timely);
        let agrees = self.chain.commits(replica.index(), block, bundles);
        if agrees.is_ok() {
            self.compare_voids(replica, block, bundles.len() == block.payload.len());
        }
        match agrees {
            Ok(true) => {
                self.levels.commits(block);
                let behind = self.shares.as_mut().and_then(|shares| shares.commits(block, bundles).err());
                if let Some(behind) = behind {
                    let what =
                        format!("honest clients are {behind} millionths of a block behind their share of blocks");
                    self.report(Property::Served, what);
                }
            }
            Ok(false) => {}
            Err(discord) => self.report(discord.property(), format!("replica {replica} {discord}")),
        }
    }

    /// Observes that a replica has executed a block at a time. Without repairs, each replica executes other blocks.
    pub fn executed_at(&mut self, replica: ReplicaId, block: &Block, time_ms: u64) {
        if self.agrees {
            let agreed = self.times.executes(replica, block, time_ms);
            self.breached(agreed);
        }
    }

    /// Observes that a client sends a change of the feature level that all replicas have signed.
    pub fn orders_level(&mut self, bundle: &Digest, level: FeatureLevel) {
        self.levels.orders(bundle, level);
    }

    /// Observes the feature level at which a replica's application executed commands of a block. Without repairs, each
    /// replica executes other blocks.
    pub fn executed_at_level(&mut self, replica: ReplicaId, height: Height, level: FeatureLevel) {
        if self.agrees {
            let agreed = self.levels.executes(replica, height, level);
            self.breached(agreed);
        }
    }

    /// Observes that a replica has executed a bundle.
    pub fn executed(&mut self, replica: ReplicaId, reply: &Reply) {
        let Some(Submitted { by: who, height, refused, .. }) = self.bundles.get_mut(&reply.bundle) else {
            let what = format!("replica {replica} executes bundle {:?}, which no client sent", reply.bundle);
            return self.report(Property::Validity, what);
        };
        let again = !who.insert(replica);
        // The outcomes are the same on all replicas.
        if height.is_none() {
            *height = Some(reply.height);
            *refused = reply.results.outcomes().any(|outcome| outcome == Outcome::Refused);
        }
        if again && reply.results.outcomes().any(|outcome| matches!(outcome, Outcome::Executed(_))) {
            let what = format!("replica {replica} executes commands of bundle {:?} a second time", reply.bundle);
            self.report(Property::Validity, what);
        }
        let Some(commands) = self.repeated.get(&reply.bundle) else { return };
        let done = &mut self.done[replica.index()];
        let executed = reply.results.outcomes().zip(commands);
        let executed = executed.filter(|(outcome, _)| matches!(outcome, Outcome::Executed(_)));
        if let Some((_, (client, sequence))) = executed.into_iter().find(|(_, command)| !done.insert(**command)) {
            let what = format!("replica {replica} executes command {sequence} of client {client:?} a second time");
            self.report(Property::Validity, what);
        }
    }

    /// Observes that a replica has executed all blocks up to a checkpoint.
    pub fn vouches(&mut self, replica: ReplicaId, height: Height, checkpoint: Digest, history: Digest) {
        let executed = Vouched { checkpoint, history };
        if !self.diverged.contains(replica) && *self.checkpoints.entry(height).or_insert(executed) != executed {
            self.report(Property::Agreement, format!("replica {replica} has a different state at height {height}"));
        }
    }

    /// Records the replicas that executed a block with a bundle that others treat as void: at most n-q, because a
    /// quorum q signed its absence.
    fn compare_voids(&mut self, replica: ReplicaId, block: &Block, is_whole: bool) {
        if is_whole && !self.chain.has_void(&block.digest()) {
            return;
        }
        let voiding = self.voided.entry(block.height).or_default();
        if !is_whole {
            voiding.insert(replica);
        }
        let voiding = *voiding;
        for other in (0..self.quorum.replicas() as u16).map(ReplicaId) {
            if self.chain.height(other.index()) >= block.height.0 && !voiding.is_empty() && !voiding.contains(other) {
                self.diverged.insert(other);
            }
        }
        if self.diverged.len() > self.quorum.replicas() - self.quorum.quorum() {
            let what =
                format!("replicas {:?} have executed a bundle of block {} that is void", self.diverged, block.height);
            self.report(Property::Agreement, what);
        }
    }

    /// Returns whether a replica may stop for this reason: more disks were lost than the cluster tolerates, and it had
    /// executed a bundle that the others treat as void.
    pub fn may_halt(&self, replica: ReplicaId, why: &Halt) -> bool {
        matches!(why, Halt::Diverged { .. }) && self.diverged.contains(replica)
    }

    /// Observes that a replica adopts the state of a checkpoint instead of executing the blocks before it. Another
    /// replica must have executed them.
    pub fn adopts(&mut self, replica: ReplicaId, height: Height, checkpoint: Digest, history: Digest, time_ms: u64) {
        let agreed = self.times.adopts(replica, height, time_ms);
        self.breached(agreed);
        if self.checkpoints.get(&height) != Some(&Vouched { checkpoint, history }) {
            let what = format!("replica {replica} adopts a state at height {height} that no replica has executed");
            return self.report(Property::Agreement, what);
        }
        let at = self.chain.height(replica.index());
        if height.0 < at {
            let what = format!("replica {replica} goes back from height {at} to the state of {height}");
            return self.report(Property::Contiguity, what);
        }
        self.chain.goes_to(replica.index(), height);
        self.diverged.remove(replica);
        // The order of iteration has no effect.
        let executed = self.bundles.values_mut().filter(|bundle| bundle.height.is_some_and(|at| at <= height));
        for bundle in executed {
            bundle.by.insert(replica);
        }
    }

    /// Returns the committed height of a replica.
    pub fn height(&self, replica: usize) -> u64 {
        self.chain.height(replica)
    }
}
