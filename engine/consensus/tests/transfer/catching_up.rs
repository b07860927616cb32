//! One replica was away for too long.

use super::*;
use quorate_consensus::config::{Dissemination, LeaderKind, ProtocolKind};
use quorate_consensus::recovery::journal::Record;
use quorate_types::{Domain, Quorum};

crate::for_all_protocols! {
    /// The replica adopts the state, votes, and proposes when it leads.
    a_replica_catches_up_by_state_transfer,
    /// Links lose and duplicate messages.
    a_state_is_fetched_over_lossy_links,
    /// The others drop the state while it is being fetched: the replica switches to a newer one.
    a_dropped_state_is_replaced_by_a_newer_one,
    /// The others continue while the state is fetched, and the transfer is not restarted for that.
    progress_does_not_restart_a_transfer,
    /// A later checkpoint is already stable, but the journal proves the fetched state nevertheless.
    a_journal_certifies_each_state_that_it_continues_from,
    /// The replica has all blocks, but their commands are no longer kept.
    blocks_without_their_commands_need_a_state,
    /// The replica is away repeatedly and has chunks of earlier states.
    repeated_transfers_reuse_chunks,
    /// Every replica elects the same leaders, including the one that came back from a state.
    all_replicas_elect_the_same_leaders_after_a_transfer,
}

mod bodies {
    use super::*;

    pub fn a_replica_catches_up_by_state_transfer<P: Play>() {
        let with = |leader: &LeaderKind| Config { leader: *leader, ..config::<P>() };
        let quorum = Quorum::of(4).expect("the committee size is valid");
        let goes_on_without = |config: &Config| config.stalls_with_silent(quorum, &[ReplicaId(AWAY)]).is_none();
        let moving = [LeaderKind::RoundRobin, LeaderKind::Reputation].iter().map(with);
        let fitting = moving.into_iter().find(|config| config.validate().is_ok() && goes_on_without(config));
        let mut world = with_one_away::<P>(fitting.unwrap_or_else(config::<P>));
        comes_back(&mut world);
        let adopted = adoptions(&world, AWAY);
        assert!(world.states(AWAY).contains(&adopted[0]) || adopted[0] < committed(&world, AWAY));
        // Disconnect each of the other replicas for a while. Without the returned replica nothing would be ordered, and
        // with stable leaders its turn to lead comes eventually.
        let since = world.now;
        for missed in 0..3 {
            world.network.isolate(ReplicaId(missed), true);
            let command = world.submit_to(&[0, 1, 2, 3], 1);
            let others = |world: &World<P>| {
                (0..4).all(|replica| replica == missed || world.commit_time(replica, &command).is_some())
            };
            assert!(world.run_until(PATIENCE, others), "{}: without R{missed}: {}", P::NAME, standing(&world));
            world.network.heal();
            goes_on(&mut world);
        }
        let authors = authors_since(&world, 0, since);
        assert!(authors.contains(&ReplicaId(AWAY)), "{}: the returned replica leads too: {authors:?}", P::NAME);
    }

    pub fn a_state_is_fetched_over_lossy_links<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        world.network.heal();
        (world.network.lost_per_mille, world.network.doubled_per_mille) = (250, 100);
        world.network.jitter = Duration::from_millis(3);
        world.crypto_time = Duration::from_millis(1);
        let adopted = |world: &World<P>| !adoptions(world, AWAY).is_empty();
        for _ in 0..100 {
            world.submit(1);
            if world.run_until(Duration::from_millis(500), adopted) {
                break;
            }
        }
        assert!(adopted(&world), "{}: {}", P::NAME, standing(&world));
        world.network.heal();
        goes_on(&mut world);
    }

    pub fn a_dropped_state_is_replaced_by_a_newer_one<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        world.network.heal();
        world.network.filter = Some(Box::new(|flight| flight.to == ReplicaId(AWAY) && is_chunk(flight.letter)));
        world.submit(1);
        assert!(world.run_until(PATIENCE, |world| !fetches(world, AWAY).is_empty()), "{}", standing(&world));
        load(&mut world, 40);
        let first = fetches(&world, AWAY)[0];
        assert!(world.states(0)[0] > first, "the others have only newer states");
        world.run_for(Duration::from_secs(2));
        assert!(fetches(&world, AWAY).last() > Some(&first), "{}: {}", P::NAME, standing(&world));
        comes_back(&mut world);
        assert!(adoptions(&world, AWAY)[0] > first);
    }

    pub fn progress_does_not_restart_a_transfer<P: Play>() {
        let mut world = with_one_away_of::<P>(Config { fetch_retry_ms: 20, ..config::<P>() }, 8);
        world.network.heal();
        world.network.filter = Some(Box::new(|flight| flight.to == ReplicaId(AWAY) && is_chunk(flight.letter)));
        world.submit(1);
        assert!(world.run_until(PATIENCE, |world| !fetches(world, AWAY).is_empty()), "{}", standing(&world));
        let first = fetches(&world, AWAY)[0];
        while newest_state(&world) <= first {
            load(&mut world, 1);
        }
        world.run_for(Duration::from_millis(500));
        world.network.filter = None;
        let adopted = |world: &World<P>| !adoptions(world, AWAY).is_empty();
        assert!(world.run_until(PATIENCE, adopted), "{}: {}", P::NAME, standing(&world));
        assert_eq!((fetches(&world, AWAY), adoptions(&world, AWAY)), (vec![first], vec![first]), "{}", P::NAME);
        comes_back(&mut world);
    }

    pub fn a_journal_certifies_each_state_that_it_continues_from<P: Play>() {
        const KEPT: u64 = 8;
        let config = config::<P>();
        let state_interval = KEPT * config.checkpoint_interval;
        let mut world = World::<P>::new(4, config, 1);
        (world.state_bytes, world.keeps_every) = (600_000, KEPT);
        world.start();
        // It sees only votes on checkpoints without a state.
        world.network.filter = Some(Box::new(move |flight| match flight.letter {
            Letter::Checkpoint(vote) if vote.subject.height.0 % state_interval != 0 => false,
            _ => flight.to == ReplicaId(AWAY),
        }));
        let stable = |world: &World<P>| world.replica(AWAY).parts().checkpoints.stable().subject.height;
        load(&mut world, 60);
        while stable(&world) <= newest_state(&world) {
            load(&mut world, 1);
        }
        comes_back(&mut world);
        let adopted = adoptions(&world, AWAY)[0];
        let summary = world.records(AWAY).position(|record| matches!(record, Record::Summary { .. }));
        let summary = summary.expect("a replica summarizes the state from which it continues");
        let certified = |record: &Record| match record {
            Record::Certificate(certificate) => {
                certificate.subject.domain == Domain::Checkpoint && certificate.subject.height == adopted
            }
            _ => false,
        };
        assert!(world.records(AWAY).take(summary).any(certified), "{}: nothing certifies {adopted:?}", P::NAME);
    }

    pub fn blocks_without_their_commands_need_a_state<P: Play>() {
        let mut world = World::<P>::started(4, Config { dissemination: Dissemination::Client, ..config::<P>() }, 1);
        world.network.filter =
            Some(Box::new(|flight| flight.to == ReplicaId(AWAY) && matches!(flight.letter, Letter::Bundles(_))));
        load(&mut world, 60);
        assert!(
            world.commits(AWAY).is_empty() || world.adopted(AWAY).is_some(),
            "the replica committed blocks without their commands"
        );
        comes_back(&mut world);
    }

    pub fn repeated_transfers_reuse_chunks<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        for round in 1..4 {
            comes_back(&mut world);
            assert_eq!(adoptions(&world, AWAY).len(), round, "{}: {}", P::NAME, standing(&world));
            world.network.isolate(ReplicaId(AWAY), true);
            load(&mut world, 60);
        }
        comes_back(&mut world);
    }

    pub fn all_replicas_elect_the_same_leaders_after_a_transfer<P: Play>() {
        if P::NAME.parse().is_ok_and(ProtocolKind::has_slots) {
            return;
        }
        let mut world = with_one_away::<P>(Config { leader: LeaderKind::Reputation, ..config::<P>() });
        comes_back(&mut world);
        for lives in 0..2 {
            if lives == 1 {
                world.kill(AWAY);
                world.restart(AWAY, usize::MAX);
            }
            for _ in 0..10 {
                let command = world.submit(1);
                assert!(world.run_until_done(PATIENCE, &command));
                let (one, other) = (&world.replica(0).parts().store, &world.replica(AWAY).parts().store);
                let head = one.tree.committed().0.min(other.tree.committed().0);
                let block = one.tree.committed_at(head).expect("the last committed block is kept");
                assert_eq!(one.tree.candidates(&block), other.tree.candidates(&block), "{} at {head:?}", P::NAME);
            }
        }
    }
}
