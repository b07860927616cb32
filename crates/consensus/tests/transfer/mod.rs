//! Coming back by the state of a checkpoint, when the blocks in between are gone: under every protocol, whatever others do, and
//! across restarts.

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

/// Long enough for views that were given up a few times.
const PATIENCE: Duration = Duration::from_secs(60);
/// The one that is away.
const AWAY: u16 = 3;

/// One test for each protocol out of one generic function.
#[macro_export]
macro_rules! for_all_protocols {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $crate::for_every_protocol! { $($(#[$doc])* $name),+ }
        mod pbft {
            $($(#[$doc])* #[test] fn $name() { super::bodies::$name::<$crate::common::told_pbft::Pbft>(); })+
        }
    };
}

/// Little is kept: who misses a few dozen blocks needs a state.
fn config<P: Play>() -> Config {
    Config {
        checkpoint_interval: 4,
        window: 16,
        retained_blocks: 16,
        view_timeout_ms: 100,
        ..crate::common::config::<P>()
    }
}

/// A cluster with states of several chunks, of which one replica misses more than the others keep.
fn with_one_away<P: Play>(config: Config) -> World<P> {
    with_one_away_of(config, 2)
}

/// The same, with a state at each so-manieth checkpoint.
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

/// Has the others order so many commands of which the one that is away does not hear.
fn load<P: Play>(world: &mut World<P>, commands: usize) {
    for _ in 0..commands {
        let command = world.submit_to(&[0, 1, 2], 1);
        assert!(world.run_until(PATIENCE, |world| is_done_by_others(world, &command)), "three of four go on");
    }
}

fn is_done_by_others<P: Play>(world: &World<P>, command: &Digest) -> bool {
    world.honest().iter().all(|replica| *replica == AWAY || world.commit_time(*replica, command).is_some())
}

fn committed<P: Play>(world: &World<P>, replica: u16) -> Height {
    world.replica(replica).committed_height()
}

/// The heights of the states that it began to fetch.
fn fetches<P: Play>(world: &World<P>, replica: u16) -> Vec<Height> {
    let fetched = |mark: &Mark| match mark {
        Mark::Fetches { height } => Some(*height),
        _ => None,
    };
    world.marks(replica).iter().filter_map(fetched).collect()
}

/// The heights at which it has gone on from a state.
fn adoptions<P: Play>(world: &World<P>, replica: u16) -> Vec<Height> {
    let adopted = |mark: &Mark| match mark {
        Mark::Adopted { height, .. } => Some(*height),
        _ => None,
    };
    world.marks(replica).iter().filter_map(adopted).collect()
}

/// The height of the newest state that R0 hands out.
fn newest_state<P: Play>(world: &World<P>) -> Height {
    world.states(0).last().copied().unwrap_or_default()
}

fn dropped<P: Play>(world: &World<P>, replica: u16, why: Drop) -> u64 {
    world.replica(replica).dropped().get(&why).copied().unwrap_or(0)
}

/// The network is whole again: the one that was away comes back by a state, and all of the cluster goes on.
fn comes_back<P: Play>(world: &mut World<P>) {
    world.network.heal();
    goes_on(world);
    assert!(!adoptions(world, AWAY).is_empty(), "{}: it came back by a state", P::NAME);
}

/// What is sent from now on is ordered, and everywhere.
fn goes_on<P: Play>(world: &mut World<P>) {
    for _ in 0..5 {
        let command = world.submit(1);
        assert!(world.run_until_done(PATIENCE, &command), "{}: {}", P::NAME, standing(world));
    }
}

/// Where all are, for whoever reads why a test failed.
fn standing<P: Play>(world: &World<P>) -> String {
    let at = |replica: u16| {
        let (view, height) = (world.replica(replica).view(), committed(world, replica));
        format!("R{replica} in {view:?} at {height:?}, states {:?}", world.states(replica))
    };
    format!("{}, fetches {:?}", (0..4).map(at).collect::<Vec<_>>().join("; "), fetches(world, AWAY))
}

/// Whether a message carries a chunk.
fn is_chunk<M>(letter: &Letter<M>) -> bool {
    matches!(letter, Letter::StatePart { part, bytes, .. } if *part > 0 && !bytes.is_empty())
}

/// Who proposed what was committed after a moment.
fn authors_since<P: Play>(world: &World<P>, replica: u16, since: Time) -> Vec<ReplicaId> {
    let late = world.commits(replica).iter().filter(|commit| commit.time > since);
    late.map(|commit| commit.block.author).collect()
}
