//! Recovery from the state of a checkpoint when the blocks in between are no longer kept: under every protocol, with
//! Byzantine peers, and across restarts.

mod catching_up;
mod checkpoints;
mod liars;
mod restarts;

use crate::common::network::Letter;
use crate::common::play::Play;
use crate::common::world::World;
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Mark};
use quorate_types::{Digest, Height, ReplicaId, Time};
use std::time::Duration;

/// Long enough for several view timeouts in a row.
const PATIENCE: Duration = Duration::from_secs(60);
/// The replica that is away.
const AWAY: u16 = 3;

/// Returns a configuration with so little history that a replica which misses a few dozen blocks needs a state.
fn config<P: Play>() -> Config {
    Config {
        checkpoint_interval: 4,
        window: 16,
        retained_blocks: 16,
        view_timeout_ms: 100,
        ..crate::common::config::<P>()
    }
}

/// Creates a cluster with states of several chunks, in which one replica misses more blocks than the others keep.
fn with_one_away<P: Play>(config: Config) -> World<P> {
    with_one_away_of(config, 2)
}

/// Creates such a cluster with a state at every `keeps_every`-th checkpoint.
fn with_one_away_of<P: Play>(config: Config, keeps_every: u64) -> World<P> {
    let mut world = World::<P>::new(4, config, 1);
    (world.state_bytes, world.keeps_every) = (600_000, keeps_every);
    world.start();
    let first = world.submit(1);
    assert!(world.run_until_done(PATIENCE, &first));
    world.network.isolate(ReplicaId(AWAY), true);
    load(&mut world, 60);
    world
}

/// Orders this number of commands while one replica is away.
fn load<P: Play>(world: &mut World<P>, commands: usize) {
    for _ in 0..commands {
        let command = world.submit_to(&[0, 1, 2], 1);
        assert!(
            world.run_until(PATIENCE, |world| is_done_by_others(world, &command)),
            "three of four replicas make progress"
        );
    }
}

fn is_done_by_others<P: Play>(world: &World<P>, command: &Digest) -> bool {
    world.honest().iter().all(|replica| *replica == AWAY || world.commit_time(*replica, command).is_some())
}

fn committed<P: Play>(world: &World<P>, replica: u16) -> Height {
    world.replica(replica).committed_height()
}

/// Returns the heights of the states that a replica began to fetch.
fn fetches<P: Play>(world: &World<P>, replica: u16) -> Vec<Height> {
    let fetched = |mark: &Mark| match mark {
        Mark::Fetches { height } => Some(*height),
        _ => None,
    };
    world.marks(replica).iter().filter_map(fetched).collect()
}

/// Returns the heights at which a replica continued from a state.
fn adoptions<P: Play>(world: &World<P>, replica: u16) -> Vec<Height> {
    let adopted = |mark: &Mark| match mark {
        Mark::Adopted { height, .. } => Some(*height),
        _ => None,
    };
    world.marks(replica).iter().filter_map(adopted).collect()
}

/// Returns the height of the newest state that R0 serves.
fn newest_state<P: Play>(world: &World<P>) -> Height {
    world.states(0).last().copied().unwrap_or_default()
}

fn dropped<P: Play>(world: &World<P>, replica: u16, why: Drop) -> u64 {
    world.replica(replica).dropped().get(&why).copied().unwrap_or(0)
}

/// Heals the network and checks that the replica comes back from a state and that the whole cluster continues.
fn comes_back<P: Play>(world: &mut World<P>) {
    world.network.heal();
    goes_on(world);
    assert!(!adoptions(world, AWAY).is_empty(), "{}: the replica came back from a state", P::NAME);
}

/// Checks that new commands are ordered everywhere.
fn goes_on<P: Play>(world: &mut World<P>) {
    for _ in 0..5 {
        let command = world.submit(1);
        assert!(world.run_until_done(PATIENCE, &command), "{}: {}", P::NAME, standing(world));
    }
}

/// Describes the progress of all replicas, to explain why a test failed.
fn standing<P: Play>(world: &World<P>) -> String {
    let at = |replica: u16| {
        let (view, height) = (world.replica(replica).view(), committed(world, replica));
        format!("R{replica} in {view:?} at {height:?}, states {:?}", world.states(replica))
    };
    format!("{}, fetches {:?}", (0..4).map(at).collect::<Vec<_>>().join("; "), fetches(world, AWAY))
}

fn is_chunk<M>(letter: &Letter<M>) -> bool {
    matches!(letter, Letter::StatePart { part, bytes, .. } if *part > 0 && !bytes.is_empty())
}

/// Returns the authors of the blocks that were committed since `since`.
fn authors_since<P: Play>(world: &World<P>, replica: u16, since: Time) -> Vec<ReplicaId> {
    let late = world.commits(replica).iter().filter(|commit| commit.time > since);
    late.map(|commit| commit.block.author).collect()
}
