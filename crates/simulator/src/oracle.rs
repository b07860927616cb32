//! What must hold of every run, judged from the outside on every step: the oracles see what replicas sign and commit, and share no
//! code with them.

use crate::statements::Statements as Signed;
use quorate_applications::Reply;
use quorate_consensus::digest_map::{DigestMap, Salt};
use quorate_consensus::{Config, Envelope, Evidence, Message};
use quorate_oracles::{Breach, Chain, Relays, Statements, Weight, Work};
use quorate_types::{
    Attachment, Block, Bundle, ClientId, Digest, Domain, Height, Outcome, Quorum, ReplicaId, Signers, Subject, Time,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Words of a set of replicas.
const WORDS: usize = quorate_types::limits::MAX_REPLICAS / 64;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// `agreement`, `contiguity`, `validity`, `one-statement`, `statement-order`, `backing`, `work`, `liveness`, `served`, `spin` or `panic`.
    pub oracle: &'static str,
    /// What was seen.
    pub what: String,
}

#[derive(Default)]
struct Submitted {
    /// Who has executed it.
    by: [u64; WORDS],
    /// In the block of which height it was executed first.
    height: Option<Height>,
    weight: Weight,
    /// Whether a proposal names it.
    proposed: bool,
    /// Whether a command of it was refused: then it may be ordered again.
    refused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Vouched {
    /// What a quorum is to vouch for.
    checkpoint: Digest,
    /// All that was executed.
    history: Digest,
}

/// Watches a cluster.
pub struct Oracle {
    /// Whether votes go by slot.
    slotted: bool,
    chain: Chain,
    /// Who misbehaves: nobody waits for them.
    faulty: Signers,
    /// Who of them says what is not so: what they sign is not judged. What they execute is, for inside they are honest.
    liars: Signers,
    /// Every bundle that was submitted.
    bundles: DigestMap<Submitted>,
    /// What was executed up to each checkpoint, by whoever came there first.
    checkpoints: BTreeMap<Height, Vouched>,
    signed: Vec<Signed>,
    /// What replicas sign, held against what they signed before and what others have.
    statements: Statements,
    /// The commands of bundles that repeat some, and which of them each replica has executed.
    repeated: DigestMap<Vec<(ClientId, u64)>>,
    done: Vec<BTreeSet<(ClientId, u64)>>,
    /// Bundles of honest clients in the order in which they were sent, as far as they wait to be executed; if somebody watches that.
    awaited: Option<VecDeque<(Time, Digest)>>,
    /// How long they may.
    served_within: Duration,
    quorum: Quorum,
    /// What replicas do for one peer, and for one block.
    work: Work,
    relays: Relays,
    /// Proposed blocks that hold more than a block may: nobody honest votes for one.
    too_large: DigestMap<Weight>,
    /// The first thing that was wrong.
    pub complaint: Option<Complaint>,
}

impl Oracle {
    /// Nothing has happened.
    pub fn new(quorum: Quorum, genesis: Digest, config: &Config) -> Oracle {
        let (replicas, protocol) = (quorum.replicas(), config.protocol);
        Oracle {
            slotted: protocol.has_slots(),
            statements: Statements::new(protocol, replicas, quorum.faults()),
            work: Work::new(replicas, config),
            relays: Relays::new(replicas),
            too_large: DigestMap::with_hasher(Salt(0)),
            chain: Chain::new(genesis, replicas),
            faulty: Signers::empty(),
            liars: Signers::empty(),
            bundles: DigestMap::with_hasher(Salt(0)),
            checkpoints: BTreeMap::new(),
            signed: (0..replicas).map(|_| Signed::default()).collect(),
            repeated: DigestMap::with_hasher(Salt(0)),
            done: vec![BTreeSet::new(); replicas],
            awaited: None,
            served_within: Duration::ZERO,
            quorum,
            complaint: None,
        }
    }

    /// A replica is going to misbehave, and perhaps to lie.
    pub fn distrust(&mut self, replica: ReplicaId, lies: bool) {
        self.faulty.insert(replica);
        match lies {
            true => {
                self.liars.insert(replica);
                self.statements.lies(replica);
            }
            false => self.statements.distrust(replica),
        }
    }

    /// Whether a replica misbehaves at some time.
    pub fn is_faulty(&self, replica: usize) -> bool {
        self.faulty.contains(ReplicaId(replica as u16))
    }

    /// A replica shows two statements that another has signed, and that contradict each other.
    pub fn accused(&mut self, by: ReplicaId, evidence: &Evidence) {
        let who = evidence.first.voter;
        if !self.liars.contains(who) {
            self.complain("one-statement", format!("replica {by} accuses {who}, who does not lie: {evidence}"));
        }
    }

    /// Something is wrong; the first such thing counts.
    pub fn complain(&mut self, oracle: &'static str, what: String) {
        self.complaint.get_or_insert(Complaint { oracle, what });
    }

    /// A client has sent a bundle.
    pub fn submitted(&mut self, bundle: &Bundle) {
        let unseen = || Submitted { weight: Weight::of(bundle), ..Submitted::default() };
        self.bundles.entry(bundle.digest()).or_insert_with(unseen);
    }

    /// A client has sent a bundle with commands that were in others before: each of them counts by itself.
    pub fn repeats(&mut self, bundle: &Bundle) {
        let commands = bundle.commands().map(|command| (command.client, command.sequence));
        self.repeated.insert(bundle.digest(), commands.collect());
    }

    /// From the beginning on, watches how long bundles of honest clients take.
    pub fn watch_service(&mut self, within: Duration) {
        (self.awaited, self.served_within) = (Some(VecDeque::new()), within);
    }

    /// An honest client has sent a bundle.
    pub fn awaits(&mut self, now: Time, bundle: &Bundle) {
        if let Some(awaited) = &mut self.awaited {
            awaited.push_back((now, bundle.digest()));
        }
    }

    /// Looks whether a bundle of an honest client waits for longer than it may until f+1 replicas have executed it.
    pub fn is_served(&mut self, now: Time) {
        let Some(awaited) = &mut self.awaited else { return };
        let executed = |digest: &Digest| {
            let by = self.bundles.get(digest).map_or(0, |bundle| bundle.by.iter().map(|word| word.count_ones()).sum());
            by as usize >= self.quorum.weak()
        };
        while awaited.front().is_some_and(|(_, digest)| executed(digest)) {
            awaited.pop_front();
        }
        let Some((sent, digest)) = awaited.front().copied() else { return };
        if now.since(sent) > self.served_within {
            let what = format!("bundle {digest:?} of an honest client, sent at {sent:?}, is not executed at {now:?}");
            self.complain("served", what);
        }
    }

    /// Whether so many of these replicas have executed a bundle.
    pub fn is_executed_by(&self, bundle: &Digest, replica: usize) -> bool {
        self.bundles.get(bundle).is_some_and(|bundle| bundle.by[replica / 64] >> (replica % 64) & 1 == 1)
    }

    /// A replica signs a statement.
    pub fn signs(&mut self, replica: ReplicaId, subject: &Subject, attachment: &Attachment) {
        let by_slot = match subject.domain {
            Domain::Checkpoint => true,
            Domain::Prepare | Domain::Commit => self.slotted,
            _ => false,
        };
        let first = self.signed[replica.index()].enter(subject, attachment, by_slot);
        if !first && !self.liars.contains(replica) {
            let what =
                format!("replica {replica} signs two statements of kind {:?} in view {}", subject.domain, subject.view);
            self.complain("one-statement", what);
        }
        if let Some(holds) = self.too_large.get(&subject.digest).copied() {
            let votes = matches!(subject.domain, Domain::Vote | Domain::Prepare | Domain::Commit);
            if votes && !self.faulty.contains(replica) {
                self.holds(replica, "votes for", holds);
            }
        }
    }

    fn holds(&mut self, replica: ReplicaId, what: &str, holds: Weight) {
        if let Some(what) = self.work.block(replica, what, holds) {
            self.complain("work", what);
        }
    }

    fn proposes(&mut self, replica: ReplicaId, block: &Block) {
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

    /// A replica hears bundles from clients.
    pub fn heard_clients(&mut self, replica: ReplicaId, bundles: &[Digest]) {
        self.relays.clients_send(replica, bundles);
    }

    /// A replica has heard a peer's relay: bundles, and whether it had each before. `is_pending` says whether one waits in its pool now.
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
            let what = format!("replica {replica} has executed bundle {old:?}, and lets replica {from} relay it again");
            return self.complain("work", what);
        }
        // Where f is 0, one relay is that of f+1: what is owed is in nobody's share.
        if self.quorum.faults() == 0 {
            return;
        }
        let weigh = |digest: Digest| Some((digest, self.bundles.get(&digest)?.weight));
        let waits = |digest: &Digest| is_pending(digest) && self.bundles.get(digest).is_some_and(|it| !it.proposed);
        let all = relayed.iter().map(|(digest, _)| *digest);
        let share = self.relays.relays(replica, from, all, entered.filter_map(weigh), waits);
        if let Some(what) = self.work.relays(replica, from, share) {
            self.complain("work", what);
        }
    }

    /// A replica sends a message, to whomever.
    pub fn says<M: Message>(&mut self, replica: ReplicaId, message: &mut Envelope<M>) {
        if let Envelope::Protocol(message) = message
            && let Some((block, _)) = message.proposed()
        {
            self.proposes(replica, block);
        }
        let said = self.statements.says(replica, message);
        self.breached(said);
    }

    /// Whether a message to one replica is an answer to it.
    pub fn is_answer<M: Message>(&self, message: &Envelope<M>) -> bool {
        quorate_oracles::is_answer(message, self.slotted)
    }

    /// A replica sends so many bytes to another in answer to something, and made a signature for that or not.
    pub fn answers(&mut self, by: ReplicaId, to: ReplicaId, now: Time, bytes: u64, signed: bool) {
        if !self.faulty.contains(by)
            && let Some(what) = self.work.answers(by, to, now, bytes, signed)
        {
            self.complain("work", what);
        }
    }

    /// A replica holds so many bytes of results of one block.
    pub fn results(&mut self, replica: ReplicaId, bytes: u64) {
        if let Some(what) = self.work.results(replica, bytes) {
            self.complain("work", what);
        }
    }

    /// A replica's step is over.
    #[inline]
    pub fn settles(&mut self) {
        if let Err(breach) = self.statements.settles() {
            self.breached(Err(breach));
        }
    }

    /// A replica is struck down, perhaps in the middle of a step.
    pub fn stops(&mut self) {
        self.statements.stops();
    }

    /// A replica has lost its memory, and knows it.
    pub fn forgets(&mut self, replica: ReplicaId) {
        self.statements.forgets(replica);
    }

    fn breached(&mut self, said: Result<(), Breach>) {
        if let Err(Breach { law, what }) = said {
            self.complain(law.name(), what);
        }
    }

    /// A replica comes back from a crash. It executes once more what it has committed, to be where it was; what it has signed holds.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.chain.goes_to(replica.index(), Height(0));
        self.done[replica.index()].clear();
        let (word, bit) = (replica.index() / 64, 1 << (replica.index() % 64));
        // The order in which they are visited is seen nowhere.
        self.bundles.values_mut().for_each(|bundle| bundle.by[word] &= !bit);
    }

    /// A replica commits a block and executes its bundles.
    pub fn committed(&mut self, replica: ReplicaId, block: &Block, bundles: &[Bundle]) {
        self.holds(replica, "commits", bundles.iter().map(Weight::of).sum());
        let backed = self.statements.commits(replica, block);
        self.breached(backed);
        if let Err(discord) = self.chain.commits(replica.index(), block, bundles) {
            self.complain(discord.law(), format!("replica {replica} {discord}"));
        }
    }

    /// A replica has executed a bundle.
    pub fn executed(&mut self, replica: ReplicaId, reply: &Reply) {
        let Some(Submitted { by: who, height, refused, .. }) = self.bundles.get_mut(&reply.bundle) else {
            let what = format!("replica {replica} executes bundle {:?}, which no client sent", reply.bundle);
            return self.complain("validity", what);
        };
        let (word, bit) = (replica.index() / 64, 1 << (replica.index() % 64));
        let again = who[word] & bit != 0;
        who[word] |= bit;
        // Every replica has the same outcomes.
        if height.is_none() {
            *height = Some(reply.height);
            *refused = reply.results.outcomes().any(|outcome| outcome == Outcome::Refused);
        }
        if again && reply.results.outcomes().any(|outcome| matches!(outcome, Outcome::Executed(_))) {
            let what = format!("replica {replica} executes commands of bundle {:?} a second time", reply.bundle);
            self.complain("validity", what);
        }
        let Some(commands) = self.repeated.get(&reply.bundle) else { return };
        let done = &mut self.done[replica.index()];
        let executed = reply.results.outcomes().zip(commands);
        let executed = executed.filter(|(outcome, _)| matches!(outcome, Outcome::Executed(_)));
        if let Some((_, (client, sequence))) = executed.into_iter().find(|(_, command)| !done.insert(**command)) {
            let what = format!("replica {replica} executes command {sequence} of client {client:?} a second time");
            self.complain("validity", what);
        }
    }

    /// A replica has executed all up to a checkpoint, block by block.
    pub fn vouches(&mut self, replica: ReplicaId, height: Height, checkpoint: Digest, history: Digest) {
        let executed = Vouched { checkpoint, history };
        if *self.checkpoints.entry(height).or_insert(executed) != executed {
            self.complain("agreement", format!("replica {replica} has another state at height {height} than others"));
        }
    }

    /// A replica becomes the state of a checkpoint, without the blocks before it. Others executed these, so nobody else has to have.
    pub fn adopts(&mut self, replica: ReplicaId, height: Height, checkpoint: Digest, history: Digest) {
        if self.checkpoints.get(&height) != Some(&Vouched { checkpoint, history }) {
            let what = format!("replica {replica} adopts a state at height {height} that nobody had who executed");
            return self.complain("agreement", what);
        }
        let at = self.chain.height(replica.index());
        if height.0 < at {
            let what = format!("replica {replica} goes back from height {at} to the state of {height}");
            return self.complain("contiguity", what);
        }
        self.chain.goes_to(replica.index(), height);
        let (word, bit) = (replica.index() / 64, 1 << (replica.index() % 64));
        // The order in which they are visited is seen nowhere.
        let executed = self.bundles.values_mut().filter(|bundle| bundle.height.is_some_and(|at| at <= height));
        executed.for_each(|bundle| bundle.by[word] |= bit);
    }

    /// The height that a replica has committed.
    pub fn height(&self, replica: usize) -> u64 {
        self.chain.height(replica)
    }
}
