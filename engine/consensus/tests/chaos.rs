//! Random faults, then recovery: replicas never disagree, and after the network recovers, all commands are ordered
//! within bounded virtual time.
//!
//! A failure names its seed. `QUORATE_CHAOS_SEED=<seed>` runs only that seed, and `QUORATE_CHAOS_SEEDS=<count>` runs
//! more seeds.

use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::random::Random;
use crate::common::world::{Act, World};
use quorate_consensus::config::{BatchPolicy, BatchSize, Dissemination, LeaderKind, ViewDuration};
use quorate_consensus::data::block_tree::BlockTree;
use quorate_consensus::facts::Facts;
use quorate_consensus::protocols::chained::engine::Chained;
use quorate_consensus::protocols::chained::rules::{Candidate, Jolteon, Refusal, Rules};
use quorate_consensus::protocols::views::message::{FromView, Proposal, ViewMessage};
use quorate_consensus::{Action, Config, To};
use quorate_types::{Block, Certificate, Digest, Domain, Quorum, ReplicaId, Subject, Vote};
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 60;
/// Seeds that once failed: a replica missed the last commit, and the others had nothing left to send.
const ONCE_FAILED: [u64; 2] = [131, 437];
const VIEW_TIMEOUT_MS: u64 = 50;
/// Time after the recovery within which everything must be ordered. A view after many timeouts lasts up to 64 view
/// timeouts, and a crashed replica may lead the next one.
const PATIENCE: Duration = Duration::from_millis(VIEW_TIMEOUT_MS * 64 * 4);

crate::for_every_protocol! {
    /// Partitions, losses, delays and a faulty replica, then recovery.
    replicas_recover_from_random_faults,
}

/// Rules that commit a block as soon as it is certified.
struct CommitsTooSoon;

impl Rules for CommitsTooSoon {
    const FACTS: Facts = Jolteon::FACTS;

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        Jolteon::may_vote(candidate, tree)
    }

    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject> {
        Jolteon::lock_after(certified, tree)
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        tree.get(&certified.digest()).cloned()
    }
}

/// The oracles are useful only if they detect violations, so under rules that commit too early they must report a
/// violation of agreement.
#[test]
fn the_oracles_detect_early_commits() {
    let disagreement = |seed: &u64| {
        let found = std::panic::catch_unwind(|| live::<Chained<CommitsTooSoon>>(*seed)).err();
        let said = found.and_then(|panic| panic.downcast::<String>().ok()).unwrap_or_default();
        ["disagrees", "does not extend", "finds a conflict"].iter().any(|words| said.contains(words))
    };
    assert!((0..200).any(|seed| disagreement(&seed)), "the oracles do not detect rules that break agreement");
}

mod bodies {
    use super::*;

    pub fn replicas_recover_from_random_faults<R: Viewed>() {
        let number =
            |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("the variable is a number"));
        let seeds: Vec<u64> = match number("QUORATE_CHAOS_SEED") {
            Some(seed) => vec![seed],
            None => (0..number("QUORATE_CHAOS_SEEDS").unwrap_or(SEEDS)).chain(ONCE_FAILED).collect(),
        };
        for seed in seeds {
            let replay = Replay { seed, protocol: R::FACTS.name.replace('-', "_") };
            live::<R>(seed);
            drop(replay);
        }
    }
}

/// Drop guard that prints how to reproduce a failed seed.
struct Replay {
    seed: u64,
    protocol: String,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Replay { seed, protocol } = self;
            eprintln!("reproduce: QUORATE_CHAOS_SEED={seed} cargo test -p quorate-consensus --test tests {}", protocol);
        }
    }
}

fn live<R: Viewed>(seed: u64) {
    let mut random = Random::new(seed);
    let n = *random.pick(&[4, 4, 4, 5, 7]);
    let config = random_config::<R>(&mut random);
    let faulty = ReplicaId(random.below(n as u64) as u16);
    let quorum = Quorum::of(n).expect("the committee size is valid");
    let may_fail = config.stalls_with_silent(quorum, &[faulty]).is_none();
    let mut world = World::<R>::new(n, config, seed);
    world.network.jitter = random.time_below(Duration::from_millis(4));
    world.crypto_time = random.time_below(Duration::from_millis(1));
    world.start();
    let fault = random.below(4);
    if may_fail && fault >= 2 {
        let mut liar = Liar { dice: Random::new(seed ^ 0xbad), replicas: n as u16, old: Vec::new() };
        world.corrupt(faulty.0, Box::new(move |_, action, out| liar.misbehave::<R>(action, out)));
    }
    let mut commands: Vec<Digest> = Vec::new();
    for _ in 0..40 {
        world.network.disturb(&mut random);
        for _ in 0..random.below(4) {
            commands.push(world.submit(1 + random.below(3)));
        }
        world.run_for(random.time_below(Duration::from_millis(40)));
    }
    if may_fail && fault == 1 {
        world.kill(faulty.0);
    }
    world.network.heal();
    commands.push(world.submit(1));
    let all = |world: &World<R>| commands.iter().all(|command| world.is_done(command));
    let ordered = world.run_until(PATIENCE, all);
    let missing = commands.iter().filter(|command| !world.is_done(command)).count();
    assert!(ordered, "seed {seed}: {missing} of {} commands are not ordered in time", commands.len());
}

fn random_config<R: Viewed>(random: &mut Random) -> Config {
    let config = any_config::<R>(random);
    // Views of fixed duration must last for all phases over the slowest links.
    let phases = if R::VOTES == R::ENDS_VIEW { 1 } else { 4 };
    match config.view_duration {
        ViewDuration::Fixed => Config { view_timeout_ms: VIEW_TIMEOUT_MS * phases, ..config },
        ViewDuration::Exponential | ViewDuration::Adaptive => config,
    }
}

fn any_config<R: Viewed>(random: &mut Random) -> Config {
    Config {
        leader: *random.pick(LeaderKind::ALL),
        batch: *random.pick(&[BatchSize::Commands(1), BatchSize::Commands(5), BatchSize::Auto]),
        batch_policy: *random.pick(BatchPolicy::ALL),
        dissemination: *random.pick(Dissemination::ALL),
        view_duration: *random.pick(ViewDuration::ALL),
        view_timeout_ms: VIEW_TIMEOUT_MS,
        min_view_timeout_ms: 30,
        retained_blocks: *random.pick(&[200, 1024]),
        ..crate::common::config::<R>()
    }
}

/// Faulty replica that sometimes proposes two blocks, builds on an old certificate, signs a vote incorrectly, or is
/// silent.
struct Liar {
    dice: Random,
    replicas: u16,
    old: Vec<Certificate>,
}

impl Liar {
    fn misbehave<R: Viewed>(&mut self, action: Act<R::Message>, out: &mut Vec<Act<R::Message>>) {
        let Action::Send { to, message: Letter::Protocol(message), after, sign } = action else {
            return match action {
                Action::Send { .. } if self.dice.per_mille(100) => {}
                action => out.push(action),
            };
        };
        let message = match message.into_view() {
            Ok(ViewMessage::Proposal(proposal)) => return self.propose::<R>(&proposal, sign, out),
            Ok(ViewMessage::Vote(mut vote)) if self.dice.per_mille(200) => {
                vote.signature = vec![0; 32].into();
                let message = Letter::Protocol(ViewMessage::Vote(vote).into());
                return out.push(Action::Send { to, message, after: None, sign: false });
            }
            Ok(message) => message.into(),
            Err(message) => message,
        };
        if !self.dice.per_mille(100) {
            out.push(Action::Send { to, message: Letter::Protocol(message), after, sign });
        }
    }

    fn propose<R: Viewed>(&mut self, proposal: &Proposal, sign: bool, out: &mut Vec<Act<R::Message>>) {
        let other = match self.dice.below(4) {
            0 => Proposal { block: self.twin(&proposal.block, None), bundles: Vec::new(), ..proposal.clone() },
            1 | 2 if !self.old.is_empty() => self.rebased(proposal),
            _ => proposal.clone(),
        };
        let subject = other.block.subject(Domain::Proposal);
        let other = Proposal { endorsement: Vote { subject, ..proposal.endorsement.clone() }, ..other };
        self.old.push(proposal.block.justify.clone());
        let both = self.dice.per_mille(500);
        for to in 0..self.replicas {
            for chosen in [&other, proposal].into_iter().take(1 + usize::from(both)) {
                let message = Letter::Protocol(ViewMessage::Proposal(Arc::new(chosen.clone())).into());
                if self.dice.per_mille(800) {
                    out.push(Action::Send { to: To::One(ReplicaId(to)), message, after: None, sign });
                }
            }
        }
    }

    fn twin(&self, block: &Block, justify: Option<Certificate>) -> Arc<Block> {
        let justify = justify.unwrap_or_else(|| block.justify.clone());
        Arc::new(Block::new(block.view, block.author, justify, Vec::new(), block.time_ms))
    }

    /// Returns a proposal for the same view, which began by the newest certificate, but on an old certificate.
    fn rebased(&mut self, proposal: &Proposal) -> Proposal {
        let newest = proposal.evidence.clone().unwrap_or_else(|| proposal.block.justify.clone());
        let recent = self.old.len().saturating_sub(3);
        let old = self.dice.pick(&self.old[recent..]).clone();
        let shown = proposal.evidence.is_some() || old.view() != newest.view();
        let evidence = shown.then_some(newest);
        Proposal { block: self.twin(&proposal.block, Some(old)), evidence, bundles: Vec::new(), ..proposal.clone() }
    }
}
