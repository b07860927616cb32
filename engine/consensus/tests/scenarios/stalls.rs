//! Clusters that can or cannot commit with silent replicas, and the configuration check that predicts it.

use crate::common::play::Viewed;
use crate::common::{config, world::World};
use quorate_consensus::Config;
use quorate_consensus::config::{LeaderKind, VotesTo};
use quorate_types::{Quorum, ReplicaId};
use std::time::Duration;

crate::for_every_protocol! {
    /// Round-robin needs one more consecutive live leader than the protocol's chain has links.
    round_robin_stalls_as_predicted,
    /// If votes go to all, it needs as many as the chain has links.
    round_robin_with_votes_to_all_stalls_as_predicted,
    /// Other elections skip the silent replicas.
    other_elections_skip_silent_replicas,
}

mod bodies {
    use super::*;

    pub fn round_robin_stalls_as_predicted<R: Viewed>() {
        let three_chain = config::<R>().protocol.chain_length() == 3;
        for (n, silent, stalls) in
            [(4, vec![3], three_chain), (7, vec![2, 5], three_chain), (7, vec![5, 6], false), (7, vec![6], false)]
        {
            expect::<R>(n, &silent, LeaderKind::RoundRobin, VotesTo::Collector, stalls);
        }
    }

    pub fn round_robin_with_votes_to_all_stalls_as_predicted<R: Viewed>() {
        if !config::<R>().protocol.is_chained() {
            return;
        }
        // With 3f + 1 leaders in turn, f silent ones always leave three live ones in a row.
        for (n, silent) in [(4, vec![3]), (7, vec![1, 4]), (7, vec![2, 6])] {
            expect::<R>(n, &silent, LeaderKind::RoundRobin, VotesTo::All, false);
        }
    }

    pub fn other_elections_skip_silent_replicas<R: Viewed>() {
        for leader in [LeaderKind::Fixed, LeaderKind::Reputation] {
            for (n, silent) in [(4, vec![3]), (4, vec![0]), (4, vec![1]), (7, vec![2, 5]), (7, vec![0, 1])] {
                expect::<R>(n, &silent, leader, VotesTo::Collector, false);
            }
        }
    }

    fn expect<R: Viewed>(n: usize, silent: &[u16], leader: LeaderKind, votes: VotesTo, stalls: bool) {
        let config = Config { leader, votes, view_timeout_ms: 50, ..config::<R>() };
        let quorum = Quorum::of(n).expect("the committee size is valid");
        let ids: Vec<ReplicaId> = silent.iter().copied().map(ReplicaId).collect();
        let warning = config.stalls_with_silent(quorum, &ids);
        assert_eq!(warning.is_some(), stalls, "{n} replicas, {silent:?} silent, {leader} leaders: {warning:?}");
        let mut world = World::<R>::new(n, config, 1);
        silent.iter().for_each(|replica| world.kill(*replica));
        world.start();
        let command = world.submit(1);
        let done = world.run_until_done(Duration::from_secs(60), &command);
        assert_eq!(done, !stalls, "{n} replicas with {silent:?} silent and {leader} leaders");
        let height = world.honest().iter().map(|replica| world.commits(*replica).len()).max();
        assert!(!stalls || height == Some(0), "a cluster that stalls commits nothing");
    }
}
