//! The replicas that `reputation` allows to lead while all of them vote.

use crate::common::config;
use crate::common::play::Viewed;
use crate::common::world::{HOP, World};
use quorate_consensus::Config;
use quorate_consensus::config::LeaderKind;
use quorate_types::{ReplicaId, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longer than it takes to commit the blocks that `reputation` considers.
const AWAY: Duration = Duration::from_millis(2000);
/// Time after the return within which the replica must lead again: long enough to catch up, and for the replica's
/// failed views to leave the blocks that `reputation` considers.
const RETURN: Duration = Duration::from_millis(2000);
const VIEW_TIMEOUT_MS: u64 = 100;

crate::for_every_protocol! {
    /// A replica was disconnected for long. Once it votes again, it also leads again.
    a_replica_that_votes_again_leads_again,
    /// If nobody fails, all replicas lead, and continue to lead.
    all_replicas_that_vote_go_on_leading,
}

fn world<R: Viewed>(n: usize) -> World<R> {
    let config = Config { leader: LeaderKind::Reputation, view_timeout_ms: VIEW_TIMEOUT_MS, ..config::<R>() };
    let mut world = World::<R>::started(n, config, 1);
    // The voters thus differ from quorum to quorum.
    world.network.jitter = HOP;
    world
}

/// Runs under constant load.
fn run<R: Viewed>(world: &mut World<R>, time: Duration) {
    let end = world.now + time;
    while world.now < end {
        world.submit(1);
        world.run_for(HOP);
    }
}

/// Returns the authors of the blocks that R0 has committed since a time, and the number of these blocks.
fn authors<R: Viewed>(world: &World<R>, since: Time) -> (BTreeSet<ReplicaId>, usize) {
    let recent = world.commits(0).iter().filter(|commit| commit.time >= since);
    let authors: Vec<ReplicaId> = recent.map(|commit| commit.block.author).collect();
    (authors.iter().copied().collect(), authors.len())
}

mod bodies {
    use super::*;

    pub fn a_replica_that_votes_again_leads_again<R: Viewed>() {
        for n in [4, 7] {
            let away = ReplicaId(n as u16 - 1);
            let mut world = world::<R>(n);
            run(&mut world, RETURN);
            world.network.isolate(away, true);
            run(&mut world, AWAY);
            let before = world.now;
            run(&mut world, AWAY);
            let (leading, blocks) = authors(&world, before);
            let window = 4 * n;
            assert!(blocks > window && !leading.contains(&away), "{blocks} blocks without R{}", away.0);
            world.network.isolate(away, false);
            run(&mut world, RETURN);
            let (since, timeouts) = (world.now, world.view_timeouts());
            run(&mut world, RETURN);
            let (leading, blocks) = authors(&world, since);
            assert_eq!(leading.len(), n, "n={n}: only {leading:?} lead in {blocks} blocks, though all vote");
            assert_eq!(world.view_timeouts(), timeouts, "n={n}: no view fails");
        }
    }

    pub fn all_replicas_that_vote_go_on_leading<R: Viewed>() {
        for n in [4, 7] {
            let mut world = world::<R>(n);
            run(&mut world, AWAY);
            let since = world.now;
            run(&mut world, AWAY);
            let (leading, blocks) = authors(&world, since);
            assert_eq!(leading.len(), n, "n={n}: only {leading:?} lead in {blocks} blocks");
        }
    }
}
