//! A replica that learns that its state has diverged stops, and sends nothing more, not even in the same step.

use crate::common::network::Letter;
use crate::common::play::Play;
use crate::common::told_pbft::{Pbft, PbftMac};
use crate::common::world::World;
use quorate_consensus::{Config, Halt};
use quorate_types::ReplicaId;
use std::time::Duration;

crate::for_every_protocol! {
    /// The replica executes up to a checkpoint whose certificate it already has, and would vote there for its own
    /// state. (In PBFT it adopts the state of the checkpoint.)
    a_replica_that_is_behind_halts_before_it_votes_for_a_wrong_state,
}

/// The replica has voted for its own state when the certificate of a different state arrives. The window moves on, and
/// the replica would propose.
#[test]
fn a_primary_halts_before_it_proposes_on_a_wrong_state() {
    bodies::a_primary_halts_before_it_proposes_on_a_wrong_state::<Pbft>();
    bodies::a_primary_halts_before_it_proposes_on_a_wrong_state::<PbftMac>();
}

fn config<P: Play>() -> Config {
    Config { checkpoint_interval: 2, window: 4, pipeline: 4, batch: 1.into(), ..crate::common::config::<P>() }
}

fn until_it_halts<P: Play>(world: &mut World<P>, replica: u16) {
    for _ in 0..40 {
        world.submit(1);
        if world.run_until(Duration::from_millis(50), |world| world.halted.is_some()) {
            break;
        }
    }
    assert!(matches!(world.halted, Some(Halt::Diverged { .. })), "{}: R{replica} does not notice", P::NAME);
}

mod bodies {
    use super::*;

    pub fn a_replica_that_is_behind_halts_before_it_votes_for_a_wrong_state<P: Play>() {
        let mut world = World::<P>::new(4, config::<P>(), 1);
        world.spoil_state(3);
        world.network.filter =
            Some(Box::new(|flight| flight.to == ReplicaId(3) && !matches!(flight.letter, Letter::Checkpoint(_))));
        world.start();
        for _ in 0..8 {
            world.submit_to(&[0, 1, 2], 1);
            world.run_for(Duration::from_millis(100));
        }
        assert_eq!(world.halted, None, "{}: it has executed nothing", P::NAME);
        world.network.heal();
        until_it_halts(&mut world, 3);
    }

    pub fn a_primary_halts_before_it_proposes_on_a_wrong_state<P: Play>() {
        let mut world = World::<P>::new(4, config::<P>(), 1);
        world.spoil_state(0);
        world.start();
        for _ in 0..20 {
            world.submit(1);
        }
        until_it_halts(&mut world, 0);
    }
}
