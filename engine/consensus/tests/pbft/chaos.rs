//! Random faults, then recovery: replicas never disagree, and after the network recovers, all commands are ordered
//! within bounded virtual time. `QUORATE_CHAOS_SEED=<seed>` runs only one seed, and `QUORATE_CHAOS_SEEDS=<count>` runs
//! more seeds.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::Play;
use crate::common::random::Random;
use crate::common::told_pbft::{Pbft, PbftMac, copy_messages};
use crate::common::world::{Act, World};
use quorate_adversary::copies::CopyRules;
use quorate_consensus::config::{BatchPolicy, BatchSize, Dissemination, ViewDuration};
use quorate_consensus::protocols::pbft::engine::Engine;
use quorate_consensus::protocols::pbft::message::{Declaration, PbftMessage, PrePrepare, ViewChange, bare};
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_consensus::{Action, Config, To};
use quorate_types::{Block, Digest, Domain, Quorum, ReplicaId, View, Vote};
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 150;
const VIEW_TIMEOUT_MS: u64 = 50;
/// A view after many timeouts lasts up to 64 view timeouts, and a crashed replica may lead the next one.
const PATIENCE: Duration = Duration::from_millis(VIEW_TIMEOUT_MS * 64 * 4);

#[test]
fn replicas_recover_from_random_faults() {
    recover::<Pbft, _>();
}

#[test]
fn replicas_with_claims_recover_from_random_faults() {
    recover::<PbftMac, _>();
}

fn recover<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>() {
    let number =
        |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("the variable is a number"));
    let seeds: Vec<u64> = match number("QUORATE_CHAOS_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("QUORATE_CHAOS_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let mut views = 0;
    for seed in seeds {
        let replay = Replay(seed);
        views += live::<P, S>(seed);
        drop(replay);
    }
    assert!(views > 0, "some seeds must change views");
}

struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "reproduce: QUORATE_CHAOS_SEED={} cargo test -p quorate-consensus --test tests pbft::chaos",
                self.0
            );
        }
    }
}

fn live<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let (n, f) = *random.pick(&[(4, 1), (4, 1), (4, 1), (5, 1), (6, 1), (7, 2)]);
    let quorum = Quorum::with_faults(n, f).expect("the committee shape is valid");
    let faulty = ReplicaId(random.below(n as u64) as u16);
    let (config, copies) = random_config::<P>(&mut random);
    let mut world = World::<P>::with_quorum(quorum, config, seed);
    copy_messages(&mut world, copies);
    world.network.jitter = random.time_below(Duration::from_millis(4));
    world.crypto_time = random.time_below(Duration::from_millis(1));
    world.start();
    let fault = random.below(4);
    if fault >= 2 {
        let mut liar = Liar { dice: Random::new(seed ^ 0xbad), replicas: n as u16 };
        world.corrupt(faulty.0, Box::new(move |_, action, out| liar.misbehave(action, out)));
    }
    let mut commands: Vec<Digest> = Vec::new();
    for _ in 0..40 {
        world.network.disturb(&mut random);
        for _ in 0..random.below(4) {
            commands.push(world.submit(1 + random.below(3)));
        }
        world.run_for(random.time_below(Duration::from_millis(40)));
    }
    if fault == 1 {
        world.kill(faulty.0);
    }
    world.network.heal();
    commands.push(world.submit(1));
    let all = |world: &World<P>| commands.iter().all(|command| world.is_done(command));
    let ordered = world.run_until(PATIENCE, all);
    let missing = commands.iter().filter(|command| !world.is_done(command)).count();
    if !ordered {
        world.honest().into_iter().for_each(|replica| eprintln!("R{replica}: {}", state(&world, replica)));
    }
    assert!(ordered, "seed {seed}: {missing} of {} commands are not ordered in time", commands.len());
    world.honest().iter().map(|replica| world.replica(*replica).view().0 - 1).max().unwrap_or(0)
}

/// Describes the state of a replica, to explain why a seed failed.
pub(super) fn state<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>(
    world: &World<P>,
    replica: u16,
) -> String {
    let replica = world.replica(replica);
    let (engine, parts) = (replica.protocol(), replica.parts());
    let (log, pending) = (engine.log(), parts.store.pool.pending_commands());
    format!(
        "{:?}, open: {}, executed {:?}, window {:?} to {:?}, decided {:?}, {pending} pending",
        replica.view(),
        engine.is_active(),
        replica.committed_height(),
        log.low(),
        log.high(),
        log.decided.keys()
    )
}

fn random_config<P: Play>(random: &mut Random) -> (Config, CopyRules) {
    let interval = *random.pick(&[2, 5, 20]);
    let config = Config {
        batch: *random.pick(&[BatchSize::Commands(1), BatchSize::Commands(5), BatchSize::Auto]),
        batch_policy: *random.pick(BatchPolicy::ALL),
        dissemination: *random.pick(Dissemination::ALL),
        view_duration: *random.pick(ViewDuration::ALL),
        view_timeout_ms: VIEW_TIMEOUT_MS,
        min_view_timeout_ms: 30,
        retained_blocks: *random.pick(&[200, 1024]),
        checkpoint_interval: interval,
        window: interval * *random.pick(&[2, 5]),
        pipeline: *random.pick(&[1, 2, 4]),
        ..config::<P>()
    };
    (config, CopyRules { pre_prepare_repeat: *random.pick(&[0, 0, 1]), ..CopyRules::default() })
}

/// Faulty replica that sometimes assigns two blocks to a slot, leaves a gap, votes for a block that does not exist,
/// signs incorrectly, or is silent.
struct Liar {
    dice: Random,
    replicas: u16,
}

impl Liar {
    fn misbehave(&mut self, action: Act<PbftMessage>, out: &mut Vec<Act<PbftMessage>>) {
        let (to, message, after, sign) = match action {
            Action::Send { to, message: Letter::Checkpoint(vote), .. } if self.dice.per_mille(200) => {
                return self.misstate(to, vote, Letter::Checkpoint, out);
            }
            Action::Send { to, message: Letter::Protocol(message), after, sign } => (to, message, after, sign),
            action => return out.push(action),
        };
        match message {
            PbftMessage::PrePrepare(honest) => self.equivocate(&honest, out),
            PbftMessage::Prepare(vote) if self.dice.per_mille(200) => {
                self.misstate(to, vote, |vote| Letter::Protocol(PbftMessage::Prepare(vote)), out);
            }
            PbftMessage::Commit(mut vote) if self.dice.per_mille(200) => {
                vote.subject.digest = Digest([self.dice.below(3) as u8; 32]);
                out.push(Action::Send { to, message: Letter::Protocol(PbftMessage::Commit(vote)), after, sign: false });
            }
            PbftMessage::Decided { above, mut digests, checkpoint } if self.dice.per_mille(500) => {
                digests.iter_mut().for_each(|digest| *digest = Digest([9; 32]));
                let message = Letter::Protocol(PbftMessage::Decided { above, digests, checkpoint });
                out.push(Action::Send { to, message, after, sign });
            }
            PbftMessage::ViewChange(mut change) if !change.voted.is_empty() && self.dice.per_mille(500) => {
                self.claim(&mut change);
                out.push(Action::Send { to, message: Letter::Protocol(PbftMessage::ViewChange(change)), after, sign });
            }
            PbftMessage::ViewChange(mut change) if self.dice.per_mille(300) => {
                // The proofs of the view change do not match its signed statement.
                change.prepared.pop();
                out.push(Action::Send { to, message: Letter::Protocol(PbftMessage::ViewChange(change)), after, sign });
            }
            _ if self.dice.per_mille(100) => {}
            message => out.push(Action::Send { to, message: Letter::Protocol(message), after, sign }),
        }
    }

    /// Claims, with a valid signature, that a different block was prepared or that none was.
    fn claim(&mut self, change: &mut ViewChange) {
        for at in (0..change.voted.len()).rev() {
            let last = View(change.view().0 - 1);
            let vote = &mut change.voted[at];
            match self.dice.below(4) {
                0 => vote.digest = Digest([self.dice.below(3) as u8; 32]),
                1 => vote.view = last,
                2 => drop(change.voted.remove(at)),
                _ => {}
            }
        }
        change.voted.dedup_by_key(|vote| vote.height);
        let claimed = change.voted.iter().filter(|_| self.dice.per_mille(800));
        change.prepared = claimed.map(|vote| bare(*vote)).collect();
        let Declaration { checkpoint, prepared, voted, .. } = change.declaration();
        change.vote.subject.digest = Declaration::digest(&checkpoint, &prepared, &voted);
    }

    /// Changes a statement, or signs it incorrectly.
    fn misstate(
        &mut self,
        to: To,
        mut vote: Vote,
        wrap: impl FnOnce(Vote) -> Letter<PbftMessage>,
        out: &mut Vec<Act<PbftMessage>>,
    ) {
        if self.dice.per_mille(500) {
            vote.subject.digest = Digest([self.dice.below(3) as u8; 32]);
        }
        let forged = self.dice.per_mille(500);
        vote.signature = vec![0; 32].into();
        out.push(Action::Send { to, message: wrap(vote), after: None, sign: !forged });
    }

    fn equivocate(&mut self, honest: &PrePrepare, out: &mut Vec<Act<PbftMessage>>) {
        let block = &honest.block;
        let other = match self.dice.below(4) {
            0 => Block::of_slot(
                block.view,
                block.author,
                block.height,
                block.payload.iter().rev().copied().collect(),
                block.time_ms,
            ),
            1 => Block::of_slot(block.view, block.author, block.height.next(), block.payload.clone(), block.time_ms),
            2 => Block::of_slot(block.view, block.author, block.height, vec![Digest([7; 32])], block.time_ms),
            _ => (**block).clone(),
        };
        let endorsement = Vote { subject: other.subject(Domain::Prepare), ..honest.endorsement.clone() };
        let other = PrePrepare { endorsement, block: Arc::new(other), bundles: honest.bundles.clone() };
        let both = self.dice.per_mille(500);
        for to in 0..self.replicas {
            // Its messages to itself are not falsified, because it knows its own actions.
            let myself = ReplicaId(to) == block.author;
            let chosen = if myself { [honest, honest] } else { [&other, honest] };
            for chosen in chosen.into_iter().take(1 + usize::from(both)) {
                if myself || self.dice.per_mille(800) {
                    let message = Letter::Protocol(PbftMessage::PrePrepare(Box::new(chosen.clone())));
                    out.push(Action::Send { to: To::One(ReplicaId(to)), message, after: None, sign: true });
                }
            }
        }
    }
}
