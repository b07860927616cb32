//! A replica that has adopted a state is restarted: immediately, or before or while its journal records the adoption.

use super::*;
use quorate_types::View;

crate::for_all_protocols! {
    /// The replica restarts where it was, bound by its earlier statements.
    a_replica_restarts_after_an_adoption,
    /// The host has adopted the state, but the replica does not know it yet.
    a_restart_completes_an_adoption,
    /// The replica survives a crash between any two actions after the adoption.
    a_crash_between_any_two_actions_is_survived,
    /// The replica's journal is truncated after the adoption.
    a_journal_truncated_after_an_adoption_suffices,
    /// The replica crashes while chunks arrive, and does not fetch the chunks again that it already has.
    a_restart_keeps_the_received_chunks,
    /// All others crash at the same time, and still have states for the replica that is away.
    restarted_peers_still_have_states,
    /// A replica that has lost its journal is too far behind to fetch blocks.
    a_replica_without_its_journal_fetches_a_state,
}

const ALL: usize = usize::MAX;

fn spoken<P: Play>(world: &World<P>) -> View {
    world.replica(AWAY).parts().safety.spoke_in()
}

/// Returns whether the replica remembers that it made a statement in a view. In protocols with slots, there are no more
/// statements for slots at or below the state.
fn is_bound<P: Play>(world: &World<P>, spoke: View) -> bool {
    let safety = &world.replica(AWAY).parts().safety;
    safety.spoke_in() >= spoke || (P::ORDERS_TWICE && safety.votes_on_slots().next().is_none())
}

/// Heals the network and waits until the host of the replica that was away has a state.
fn until_adopted_by_the_host<P: Play>(world: &mut World<P>) {
    world.network.heal();
    world.crypto_time = Duration::from_millis(1);
    world.submit(1);
    assert!(world.run_until(PATIENCE, |world| world.adopted(AWAY).is_some()), "{}", standing(world));
}

mod bodies {
    use super::*;

    pub fn a_replica_restarts_after_an_adoption<P: Play>() {
        for unawaited in [0, 3, ALL] {
            let mut world = with_one_away::<P>(config::<P>());
            comes_back(&mut world);
            let (height, spoke) = (adoptions(&world, AWAY)[0], spoken(&world));
            for _ in 0..2 {
                world.kill(AWAY);
                world.restart(AWAY, unawaited);
                assert!(committed(&world, AWAY) >= height, "{}: at {:?}", P::NAME, committed(&world, AWAY));
                assert!(is_bound(&world, spoke), "{}: the replica is bound by its earlier statements", P::NAME);
                goes_on(&mut world);
            }
        }
    }

    pub fn a_restart_completes_an_adoption<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        until_adopted_by_the_host(&mut world);
        let height = world.adopted(AWAY).expect("a state was adopted");
        assert!(committed(&world, AWAY) < height, "the replica does not know of the adoption");
        for unawaited in [0, ALL] {
            world.kill(AWAY);
            world.restart(AWAY, unawaited);
            assert_eq!(committed(&world, AWAY), height);
        }
        goes_on(&mut world);
    }

    pub fn a_crash_between_any_two_actions_is_survived<P: Play>() {
        for actions in 0..16 {
            let mut world = with_one_away::<P>(config::<P>());
            until_adopted_by_the_host(&mut world);
            let (height, spoke) = (world.adopted(AWAY).expect("a state was adopted"), spoken(&world));
            world.crash_after(AWAY, actions);
            world.submit(1);
            world.run_until(PATIENCE, |world| !world.is_alive(AWAY));
            assert!(!world.is_alive(AWAY), "the replica did not crash after {actions} actions");
            for unawaited in [2 * actions as usize, 0] {
                world.restart(AWAY, unawaited);
                assert!(committed(&world, AWAY) >= height, "{} after {actions} actions", P::NAME);
                assert!(is_bound(&world, spoke), "{} after {actions} actions", P::NAME);
                world.kill(AWAY);
            }
            world.restart(AWAY, ALL);
            goes_on(&mut world);
        }
    }

    pub fn a_journal_truncated_after_an_adoption_suffices<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        until_adopted_by_the_host(&mut world);
        world.kill(AWAY);
        world.restart(AWAY, ALL);
        for _ in 0..3 {
            let (height, spoke) = (committed(&world, AWAY), spoken(&world));
            world.shorten_journal(AWAY);
            world.kill(AWAY);
            world.restart(AWAY, ALL);
            assert!(committed(&world, AWAY) >= height, "{}", P::NAME);
            assert!(is_bound(&world, spoke), "{}", P::NAME);
            goes_on(&mut world);
        }
    }

    pub fn a_restart_keeps_the_received_chunks<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        world.network.heal();
        let mut chunks = 0;
        world.network.filter = Some(Box::new(move |flight| {
            chunks += u32::from(is_chunk(flight.letter));
            is_chunk(flight.letter) && chunks > 2
        }));
        world.submit(1);
        world.run_for(Duration::from_millis(300));
        let before = fetches(&world, AWAY);
        assert_eq!(before.len(), 1, "{}: {}", P::NAME, standing(&world));
        world.kill(AWAY);
        world.drop_all_in_flight();
        world.restart(AWAY, 0);
        comes_back(&mut world);
    }

    pub fn restarted_peers_still_have_states<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        for replica in 0..3 {
            world.shorten_journal(replica);
        }
        (0..3).for_each(|replica| world.kill(replica));
        world.drop_all_in_flight();
        (0..3).for_each(|replica| world.restart(replica, 0));
        comes_back(&mut world);
    }

    pub fn a_replica_without_its_journal_fetches_a_state<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        world.kill(AWAY);
        world.restart_without_memory(AWAY);
        comes_back(&mut world);
    }
}
