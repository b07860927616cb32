//! Wall clocks that differ, and the times of blocks.

use crate::common::config;
use crate::common::play::Play;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::config::LeaderKind;
use quorate_consensus::seam::Drop;
use quorate_types::ReplicaId;
use std::time::Duration;

crate::for_all_protocols! {
    /// Nobody votes for the blocks of a leader whose clock is far off; the next leader's blocks are ordered, and the
    /// first one follows.
    a_leader_whose_clock_is_wrong_is_replaced,
    /// Clocks that differ by no more than the bound cost no timeout.
    clocks_within_the_bound_cost_nothing,
    /// No delay makes replicas refuse blocks forever.
    any_delay_is_survived,
}

/// Wall clock at the start, in milliseconds since the Unix epoch.
const ORIGIN_MS: u64 = 1_000_000_000_000;
const HOUR_MS: i64 = 3_600_000;
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a cluster in which some wall clocks are ahead, by these milliseconds.
fn with_clocks<P: Play>(config: Config, ahead_ms: [i64; 4]) -> World<P> {
    let mut world = World::<P>::new(4, config, 1);
    for (replica, ahead_ms) in (0..).zip(ahead_ms) {
        world.set_clock(replica, ORIGIN_MS.saturating_add_signed(ahead_ms));
    }
    world.start();
    world
}

/// Checks that the times of all blocks with commands lie between the start and now, by the right clocks.
fn assert_right_times<P: Play>(world: &World<P>, slack_ms: u64) {
    let now_ms = ORIGIN_MS + world.now.0 / 1_000_000;
    for replica in world.honest() {
        for committed in world.commits(replica).iter().filter(|committed| !committed.block.payload.is_empty()) {
            let time_ms = committed.block.time_ms;
            let right = ORIGIN_MS - slack_ms..=now_ms + slack_ms;
            assert!(right.contains(&time_ms), "{:?} at {time_ms}, not in {right:?}", committed.block);
        }
    }
}

fn refused<P: Play>(world: &World<P>, by: u16) -> [u64; 2] {
    [Drop::TimeAhead, Drop::TimeBehind].map(|why| world.replica(by).dropped().get(&why).copied().unwrap_or(0))
}

mod bodies {
    use super::*;

    pub fn a_leader_whose_clock_is_wrong_is_replaced<P: Play>() {
        for ahead_ms in [HOUR_MS, -HOUR_MS] {
            let config = Config { leader: LeaderKind::Fixed, view_timeout_ms: 50, ..config::<P>() };
            let first = World::<P>::started(4, config.clone(), 1).replica(0).leader().expect("it is known");
            let mut clocks = [0; 4];
            clocks[first.index()] = ahead_ms;
            let mut world = with_clocks::<P>(config, clocks);
            for _ in 0..3 {
                let command = world.submit(1);
                assert!(world.run_until_done(MINUTE, &command), "a clock is {ahead_ms} ms ahead");
            }
            assert_right_times(&world, 0);
            let other = (first.0 + 1) % 4;
            let [ahead, behind] = refused(&world, other);
            assert_eq!((ahead > 0, behind > 0), (ahead_ms > 0, ahead_ms < 0), "replica {other} says why it refuses");
            assert_ne!(world.replica(other).leader(), Some(first));
            let disagrees = |replica: u16| world.replica(replica).parts().clock.disagreement_ms();
            let off_ms = disagrees(first.0).expect("the replica learns that its clock differs");
            assert!((off_ms + ahead_ms).abs() < 1000, "it is {ahead_ms} ms ahead, and takes a block for {off_ms} ms");
            assert_eq!(disagrees(other), None);
        }
    }

    pub fn clocks_within_the_bound_cost_nothing<P: Play>() {
        for leader in [LeaderKind::Fixed, LeaderKind::RoundRobin] {
            let config = Config { leader, ..config::<P>() };
            if config.validate().is_err() {
                continue;
            }
            let mut world = with_clocks::<P>(config, [0, 250, -250, 100]);
            for _ in 0..6 {
                let command = world.submit(1);
                assert!(world.run_until_done(MINUTE, &command), "{leader} leaders");
            }
            assert_right_times(&world, 250);
            assert_eq!(world.view_timeouts(), 0, "{leader} leaders");
            assert!(world.replicas().iter().all(|ReplicaId(replica)| refused(&world, *replica) == [0, 0]));
        }
    }

    /// At first, each message takes longer than a block may be behind a clock.
    pub fn any_delay_is_survived<P: Play>() {
        const TIMEOUT_MS: u64 = 50;
        let config = Config { view_timeout_ms: TIMEOUT_MS, max_clock_skew_ms: 1, ..config::<P>() };
        let mut world = World::<P>::new(4, config, 1);
        for (from, to) in world.replicas().into_iter().flat_map(|from| (0..4).map(move |to| (from, ReplicaId(to)))) {
            world.network.set_delay(from, to, Duration::from_millis(8 * TIMEOUT_MS));
        }
        world.start();
        let command = world.submit(1);
        assert!(world.run_until_done(10 * MINUTE, &command));
    }
}

/// A primary's block that comes too early for a backup's clock is prepared once it comes again.
#[test]
fn a_block_that_was_ahead_is_prepared_when_it_comes_again() {
    use crate::common::told_pbft::Pbft;
    let ahead_ms = 600;
    let config = Config { max_clock_skew_ms: 500, view_timeout_ms: 1000, ..config::<Pbft>() };
    let mut world = with_clocks::<Pbft>(config, [ahead_ms, 0, 0, 0]);
    let command = world.submit(1);
    assert!(world.run_until_done(MINUTE, &command));
    assert!(refused(&world, 1)[0] > 0, "it came too early");
    assert_eq!(world.view_timeouts(), 0);
}
