//! Crashing replicas, and how long commits pause.

use crate::common::play::Viewed;
use crate::common::random::Random;
use crate::common::{config, world::World};
use quorate_consensus::Config;
use quorate_consensus::config::LeaderKind;
use quorate_types::Time;
use std::time::Duration;

const STEADY: [LeaderKind; 2] = [LeaderKind::Fixed, LeaderKind::Reputation];

crate::for_every_protocol! {
    /// Any replica crashes at any time: at most one view times out, and commits pause for less than two view timeouts.
    a_crash_costs_at_most_one_view_timeout,
    /// The leader of the current view crashes, or the leader of the next view, which collects the votes.
    commits_resume_after_a_leader_crashes,
    /// A leader crashes while it sends, so only some replicas have its last messages.
    commits_resume_after_a_leader_crashes_while_sending,
    /// A silent replica is not elected any more.
    reputation_excludes_silent_replicas,
    /// f replicas crash one after the other.
    commits_continue_after_f_crashes,
}

mod bodies {
    use super::*;

    pub fn a_crash_costs_at_most_one_view_timeout<R: Viewed>() {
        for leader in STEADY {
            for seed in 0..25 {
                let mut random = Random::new(seed);
                let n = *random.pick(&[4, 4, 7]);
                let mut world = busy::<R>(n, leader, seed);
                load(&mut world, 20 + random.below(40));
                let victim = random.below(n as u64) as u16;
                world.run_for(random.time_below(Duration::from_millis(2)));
                world.kill(victim);
                load(&mut world, 150);
                check(
                    &world,
                    &format!("{n} replicas, {leader} leaders, seed {seed}, R{victim} crashes"),
                    most::<R>(leader),
                );
            }
        }
    }

    pub fn commits_resume_after_a_leader_crashes<R: Viewed>() {
        for leader in STEADY {
            for (seed, ahead) in (0..12).flat_map(|seed| [(seed, 0), (seed, 1)]) {
                let mut world = busy::<R>(4, leader, seed);
                load(&mut world, 20 + seed);
                let view = world.replica(0).view();
                load(&mut world, 1);
                let found = world.run_until(Duration::from_millis(50), |world| world.replica(1).view() > view);
                assert!(found, "views advance under load");
                let replica = world.replica(1);
                let victim = replica.protocol().leader(replica.parts()).expect("the basis of the view is in the tree");
                let victim = (victim.0 + ahead) % 4;
                world.kill(victim);
                load(&mut world, 150);
                check(
                    &world,
                    &format!("{leader} leaders, seed {seed}, leader + {ahead} = R{victim} crashes"),
                    most::<R>(leader),
                );
            }
        }
    }

    pub fn commits_resume_after_a_leader_crashes_while_sending<R: Viewed>() {
        for leader in STEADY {
            for seed in 0..60 {
                let mut world = busy::<R>(4, leader, seed);
                load(&mut world, 20 + seed % 7);
                world.submit(1);
                let view = world.replica(0).view();
                // A chained protocol moves on to the next view after one command. A protocol that orders a block in a
                // single view stays in its view.
                let last = if R::VOTES == R::ENDS_VIEW { view.next() } else { view };
                let leads = |world: &World<R>| world.replica(1).view() > last;
                assert!(world.run_until(Duration::from_millis(50), leads), "views advance under load");
                let replica = world.replica(1);
                let victim =
                    replica.protocol().leader(replica.parts()).expect("the basis of the view is in the tree").0;
                if R::VOTES != R::ENDS_VIEW {
                    world.submit(1);
                    world.run_for(Duration::from_millis(seed % 12));
                }
                world.kill_in_mid_sentence(victim, 500);
                load(&mut world, 300);
                check(
                    &world,
                    &format!("{leader} leaders, seed {seed}, R{victim} crashes while sending"),
                    1 + most::<R>(leader),
                );
            }
        }
    }

    pub fn reputation_excludes_silent_replicas<R: Viewed>() {
        for (n, silent) in [(4, vec![0]), (4, vec![1]), (4, vec![2]), (4, vec![3]), (7, vec![1, 2]), (7, vec![3, 6])] {
            let mut world = busy::<R>(n, LeaderKind::Reputation, 1);
            silent.iter().for_each(|replica| world.kill(*replica));
            load(&mut world, 1000);
            let timeouts = world.max_view_timeouts();
            let most = 3 * silent.len() as u64;
            assert!(timeouts <= most, "{silent:?} of {n} are silent and {timeouts} views timed out");
            load(&mut world, 600);
            assert_eq!(world.max_view_timeouts(), timeouts, "silent replicas {silent:?} of {n} are elected again");
        }
    }

    pub fn commits_continue_after_f_crashes<R: Viewed>() {
        for leader in STEADY {
            let mut world = busy::<R>(7, leader, 3);
            for victim in [0, 1] {
                load(&mut world, 30);
                world.kill(victim);
            }
            load(&mut world, 400);
            let last = world.submit(1);
            assert!(
                world.run_until_done(Duration::from_secs(1), &last),
                "five of seven replicas make progress with {leader} leaders"
            );
        }
    }

    /// Returns the maximum number of view timeouts after one crash. If a block is prepared before its view ends, a
    /// leader may crash in between. No block shows that, so reputation elects the leader once more before it is
    /// excluded.
    fn most<R: Viewed>(leader: LeaderKind) -> u64 {
        1 + u64::from(leader == LeaderKind::Reputation && R::VOTES != R::ENDS_VIEW)
    }

    fn busy<R: Viewed>(n: usize, leader: LeaderKind, seed: u64) -> World<R> {
        let config = Config { leader, view_timeout_ms: 100, ..config::<R>() };
        let mut world = World::new(n, config, seed);
        world.network.jitter = Duration::from_millis(1);
        world.start();
        world
    }

    /// Submits this number of commands, one every two milliseconds.
    fn load<R: Viewed>(world: &mut World<R>, commands: u64) {
        for _ in 0..commands {
            world.submit(1);
            world.run_for(Duration::from_millis(2));
        }
    }

    fn check<R: Viewed>(world: &World<R>, what: &str, most: u64) {
        let limit = Duration::from_millis(200);
        for replica in world.honest() {
            let commits = world.commits(replica).iter().filter(|commit| !commit.block.payload.is_empty());
            let times: Vec<Time> = commits.map(|commit| commit.time).chain([world.now]).collect();
            let gap = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default();
            assert!(gap < limit, "{what}: R{replica} commits nothing for {gap:?}");
        }
        let timeouts = world.max_view_timeouts();
        assert!(timeouts <= most, "{what}: {timeouts} views time out");
    }
}
