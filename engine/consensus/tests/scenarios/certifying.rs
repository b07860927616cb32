//! Replicas that disseminate bundles and certify that they hold them: no vote waits for a bundle, even if somebody
//! withholds it.

use super::spreading::orders_unaided;
use crate::common::config;
use crate::common::keys::forged_certificate;
use crate::common::network::{Flight, Letter};
use crate::common::play::{Play, Viewed};
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::data::batches::{Batch, Cover, Entry};
use quorate_consensus::data::early::MAX_EARLY_BATCHES;
use quorate_consensus::data::kept::RELIANCE_BLOCKS;
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Envelope};
use quorate_types::{Digest, Height, ReplicaId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const VIEW_TIMEOUT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(1);

crate::for_every_protocol! {
    /// A command that one replica receives is certified and ordered without a relay or a fetch.
    a_command_at_one_replica_is_certified,
    /// A faulty replica sends its bundles to just enough replicas, and does not vote. The replica that never gets the
    /// bundles votes nevertheless, and executes the blocks once it gets them.
    no_vote_waits_for_a_bundle,
    /// A replica that voted without the bundles restarts before and after it gets them.
    a_replica_that_voted_without_bundles_restarts,
    /// A replica that lost bundles in a crash does not vote merely because it once acknowledged them.
    a_replica_does_not_rely_on_its_own_acknowledgement,
    /// If the first replica of a bundle never gets it certified, the next one does.
    a_bundle_is_certified_by_the_next_replica,
    /// Bundles that are lost on their way are sent again.
    lost_bundles_are_spread_again,
    /// A batch that arrives before its bundles is acknowledged once they arrive.
    a_batch_waits_for_bundles_that_it_overtakes,
    /// The leader gets a batch and its certificate before the bundles, and proposes them once they arrive.
    a_certificate_that_overtakes_bundles_is_kept,
    /// The leader gets a certificate before its batch, and proposes the bundles once the batch arrives.
    a_certificate_waits_for_the_batch_that_it_overtakes,
    /// A liar lists bundles that never arrive, and one bundle many times before it arrives.
    early_batches_hold_little_and_give_few_signatures,
    /// Batches that contradict each other, certificates that nobody signed, and foreign batches change nothing.
    lies_about_batches_change_nothing,
    /// Bundles that no quorum acknowledges are dropped after a minute.
    bundles_that_nobody_certifies_are_dropped,
}

macro_rules! for_pbft {
    ($($name:ident,)+) => {
        mod pbft {
            use super::*;
            $(#[test] fn $name() { bodies_of_all::$name::<Pbft>(); })+
        }
        mod bodies {
            use super::*;
            $(pub fn $name<R: Viewed>() { bodies_of_all::$name::<R>(); })+
        }
    };
}

for_pbft! {
    a_command_at_one_replica_is_certified,
    no_vote_waits_for_a_bundle,
    a_replica_that_voted_without_bundles_restarts,
    a_replica_does_not_rely_on_its_own_acknowledgement,
    a_bundle_is_certified_by_the_next_replica,
    lost_bundles_are_spread_again,
    a_batch_waits_for_bundles_that_it_overtakes,
    a_certificate_that_overtakes_bundles_is_kept,
    a_certificate_waits_for_the_batch_that_it_overtakes,
    early_batches_hold_little_and_give_few_signatures,
    lies_about_batches_change_nothing,
    bundles_that_nobody_certifies_are_dropped,
}

/// Returns a cluster of four whose leader is R0 and that has ordered a command.
fn started<P: Play>(dissemination: Dissemination, view_timeout: Duration) -> World<P> {
    let view_timeout_ms = view_timeout.as_millis() as u64;
    let config = Config { dissemination, leader: LeaderKind::Fixed, view_timeout_ms, ..config::<P>() };
    let mut world = World::<P>::started(4, config, 1);
    let command = world.submit_to(&[1], 1);
    assert!(world.run_until_done(VIEW_TIMEOUT, &command), "the first command");
    world
}

fn certifying<P: Play>() -> World<P> {
    started(Dissemination::ReplicasCertified, VIEW_TIMEOUT)
}

fn carries_bundles<M>(letter: &Letter<M>) -> bool {
    matches!(letter, Envelope::Spread(_) | Envelope::Bundles(_) | Envelope::Relay(_))
}

/// Keeps all bundles from a replica, while R3 acknowledges bundles but says nothing else, so that the replica's votes
/// are needed.
fn needs<P: Play>(world: &mut World<P>, replica: u16) {
    let silent =
        |flight: &Flight<'_, P::Message>| flight.from == ReplicaId(3) && matches!(flight.letter, Envelope::Protocol(_));
    let withheld =
        move |flight: &Flight<'_, P::Message>| flight.to == ReplicaId(replica) && carries_bundles(flight.letter);
    world.network.filter = Some(Box::new(move |flight| silent(&flight) || withheld(&flight)));
}

/// Disseminates a bundle from R1. It reaches these replicas only some time after its batch.
fn spread_late<P: Play>(world: &mut World<P>, replicas: &[u16]) -> Digest {
    let late = replicas.to_vec();
    let bundle = world.bundle(1);
    let spread = |letter: &Letter<P::Message>| matches!(letter, Envelope::Spread(_));
    world.network.filter = Some(Box::new(move |flight| spread(flight.letter) && late.contains(&flight.to.0)));
    world.resubmit_to(&[1], &bundle);
    world.run_for(20 * TICK);
    world.network.filter = None;
    for replica in replicas {
        world.inject_letter(1, *replica, Envelope::Spread(vec![bundle.clone()]));
    }
    bundle.digest()
}

mod bodies_of_all {
    use super::*;

    pub fn a_command_at_one_replica_is_certified<P: Play>() {
        let mut world = certifying::<P>();
        orders_unaided(&mut world, |world| {
            let pool = &world.replica(0).parts().store.pool;
            assert_eq!(pool.uncertified(), (0, 0), "an executed bundle needs no certificate");
        });
    }

    pub fn no_vote_waits_for_a_bundle<P: Play>() {
        let ordered = |dissemination| {
            let mut world = started::<P>(dissemination, VIEW_TIMEOUT);
            needs(&mut world, 2);
            let commands: Vec<Digest> = (0..20)
                .map(|_| {
                    let command = world.submit_to(&[1], 1);
                    world.run_for(15 * TICK);
                    command
                })
                .collect();
            let without_fault = world.view_timeouts() == 0;
            world.run_for(VIEW_TIMEOUT);
            let (mut at_r0, mut at_r2) = (0, 0);
            for command in &commands {
                at_r0 += u32::from(world.commit_time(0, command).is_some());
                at_r2 += u32::from(world.commit_time(2, command).is_some());
            }
            assert_eq!(at_r2, 0, "R2 executes a bundle that it does not have");
            world.network.heal();
            let last = commands[19];
            assert!(world.run_until_done(20 * VIEW_TIMEOUT, &last), "R2 gets the bundles from others");
            (at_r0, without_fault)
        };
        assert_eq!(ordered(Dissemination::ReplicasCertified), (20, true));
        assert_eq!(ordered(Dissemination::Replicas).0, 0, "without certificates, R2 must wait");
    }

    pub fn a_replica_that_voted_without_bundles_restarts<P: Play>() {
        let mut world = certifying::<P>();
        needs(&mut world, 2);
        let command = world.submit_to(&[1], 3);
        assert!(world.run_until(VIEW_TIMEOUT, |world| world.commit_time(0, &command).is_some()), "R2 votes");
        world.run_for(10 * TICK);
        world.kill(2);
        world.restart(2, 0);
        world.run_for(10 * TICK);
        assert!(world.commit_time(2, &command).is_none(), "R2 has never had the bundle");
        world.network.heal();
        assert!(world.run_until_done(20 * VIEW_TIMEOUT, &command), "R2 fetches the bundle");
        // Now the journal holds the bundle after its block.
        world.kill(2);
        world.restart(2, 0);
        let next = world.submit_to(&[1], 1);
        assert!(world.run_until_done(20 * VIEW_TIMEOUT, &next));
    }

    pub fn a_replica_does_not_rely_on_its_own_acknowledgement<P: Play>() {
        let mut world = certifying::<P>();
        // All votes are needed, since R3 casts none. R1 and R2 acknowledge the bundle and then lose it.
        let silent = |letter: &Letter<P::Message>| matches!(letter, Envelope::Protocol(_));
        let proposed = |letter: &Letter<P::Message>| matches!(letter, Envelope::Covers(_) | Envelope::Certified(_));
        let held_back = Rc::new(Cell::new(true));
        let held = held_back.clone();
        world.network.filter = Some(Box::new(move |flight| {
            let mute = flight.from == ReplicaId(3) && silent(flight.letter);
            let certified = flight.from == ReplicaId(3) && proposed(flight.letter) && held.get();
            mute || certified
        }));
        let command = world.submit_to(&[3], 1);
        world.run_for(20 * TICK);
        for replica in [1, 2] {
            world.kill(replica);
            world.lose_kept(replica);
            world.restart(replica, 0);
        }
        // From now on nobody sends them the bundle again, and the leader learns that it is certified.
        let known = |replica: u16, world: &World<P>| world.replica(replica).is_known(&command);
        assert!(known(0, &world) && !known(1, &world) && !known(2, &world));
        held_back.set(false);
        let batches = world.replica(3).parts().store.batches();
        let covers = batches.covers([&command]);
        assert_eq!(covers.len(), 1, "R3 has the certificate");
        let signers: Vec<u16> = covers[0].certificate.signers.iter().map(|signer| signer.0).collect();
        let lost: Vec<u16> = [1, 2].into_iter().filter(|replica| signers.contains(replica)).collect();
        assert!(!lost.is_empty(), "a quorum includes R1 or R2");
        for replica in 0..3 {
            world.inject_letter(3, replica, Envelope::Covers(covers.clone()));
        }
        let lost = lost[0];
        needs(&mut world, lost);
        world.run_for(VIEW_TIMEOUT / 2);
        let accepts = world.replica(lost).parts().store.pool.is_absent(&command);
        assert!(!accepts, "R{lost} accepts a block on its own word");
        assert!(world.commit_time(0, &command).is_none(), "a quorum needs R{lost}");
        world.network.heal();
        assert!(world.run_until_done(40 * VIEW_TIMEOUT, &command), "R{lost} fetches the bundle and continues");
    }

    pub fn a_bundle_is_certified_by_the_next_replica<P: Play>() {
        let mut world = certifying::<P>();
        let lists = |letter: &Letter<P::Message>| matches!(letter, Envelope::Batch(_));
        world.network.filter = Some(Box::new(move |flight| flight.from == ReplicaId(3) && lists(flight.letter)));
        let command = world.submit_to(&[3], 1);
        world.run_for(2 * VIEW_TIMEOUT);
        assert!(world.commit_time(0, &command).is_none(), "nobody has certified the command");
        assert_eq!(world.view_timeouts(), 0, "the leader is not to blame");
        world.submit_again(&command);
        assert!(world.run_until_done(VIEW_TIMEOUT / 2, &command));
        world.run_for(20 * VIEW_TIMEOUT);
        let times = world.commits(0).iter().flat_map(|commit| &commit.block.payload).filter(|one| **one == command);
        assert_eq!(times.count(), 1, "the command is ordered once");
    }

    pub fn lost_bundles_are_spread_again<P: Play>() {
        let mut world = certifying::<P>();
        let spread = |letter: &Letter<P::Message>| matches!(letter, Envelope::Spread(_));
        world.network.filter = Some(Box::new(move |flight| spread(flight.letter)));
        let command = world.submit_to(&[1], 1);
        world.run_for(10 * TICK);
        world.network.heal();
        assert!(world.run_until_done(10 * VIEW_TIMEOUT, &command));
        assert_eq!(world.view_timeouts(), 0, "the leader is not to blame");
    }

    pub fn a_batch_waits_for_bundles_that_it_overtakes<P: Play>() {
        let mut world = certifying::<P>();
        let bundle = spread_late(&mut world, &[0, 2, 3]);
        assert!(world.run_until_done(VIEW_TIMEOUT, &bundle), "the bundle waits until it is listed again");
        assert_eq!(world.view_timeouts(), 0, "the leader is not to blame");
    }

    pub fn a_certificate_that_overtakes_bundles_is_kept<P: Play>() {
        let mut world = certifying::<P>();
        let bundle = spread_late(&mut world, &[0]);
        assert!(world.run_until_done(VIEW_TIMEOUT, &bundle), "the leader has forgotten the certificate");
        assert_eq!(world.view_timeouts(), 0, "the leader is not to blame");
    }

    pub fn a_certificate_waits_for_the_batch_that_it_overtakes<P: Play>() {
        let mut world = certifying::<P>();
        let late: Rc<RefCell<Vec<Letter<P::Message>>>> = Rc::default();
        let held = late.clone();
        world.network.filter = Some(Box::new(move |flight| {
            let is_late = matches!(flight.letter, Envelope::Batch(_)) && flight.to == ReplicaId(0);
            if is_late {
                held.borrow_mut().push(flight.letter.clone());
            }
            is_late
        }));
        let bundle = world.submit_to(&[1], 1);
        world.run_for(20 * TICK);
        world.network.filter = None;
        let early = |world: &World<P>| world.replica(0).parts().store.early.certificates();
        assert_eq!(early(&world), 1, "the certificate is at the leader before its batch");
        for letter in late.borrow_mut().drain(..) {
            world.inject_letter(1, 0, letter);
        }
        assert!(world.run_until_done(VIEW_TIMEOUT, &bundle), "the leader has forgotten the certificate");
        assert_eq!(early(&world), 0);
        assert_eq!(world.view_timeouts(), 0, "the leader is not to blame");
    }

    pub fn early_batches_hold_little_and_give_few_signatures<P: Play>() {
        let mut world = certifying::<P>();
        world.oracle.distrust(ReplicaId(3));
        let list = |world: &mut World<P>, number, entries: Vec<Entry>| {
            let batch = Arc::new(Batch::new(ReplicaId(3), number, Height(RELIANCE_BLOCKS), entries));
            world.inject_letter(3, 0, Envelope::Batch(batch));
        };
        let early = |world: &World<P>| world.replica(0).parts().store.early.len();
        for number in 0..100u64 {
            let made_up = |at: u8| Entry { bundle: Digest([at; 32]), commands: 1, bytes: 100 };
            list(&mut world, number, (0..=200).map(made_up).collect());
        }
        world.run_for(10 * TICK);
        assert_eq!(early(&world), (MAX_EARLY_BATCHES, 201 * MAX_EARLY_BATCHES), "the last batches wait");
        let bundle = spread_late(&mut world, &[0, 2]);
        assert!(world.run_until_done(VIEW_TIMEOUT, &bundle), "a liar's batches displace an honest replica's");
        let one = world.bundle(1);
        for number in 1000..1020 {
            list(&mut world, number, vec![Entry::of(&one)]);
        }
        world.run_for(10 * TICK);
        let signatures: Rc<Cell<u32>> = Rc::default();
        let counted = signatures.clone();
        world.network.filter = Some(Box::new(move |flight| {
            let signs = matches!(flight.letter, Envelope::Stored(_)) && flight.to == ReplicaId(3);
            counted.set(counted.get() + u32::from(signs));
            false
        }));
        world.inject_letter(3, 0, Envelope::Spread(vec![one]));
        world.run_for(VIEW_TIMEOUT);
        assert_eq!(signatures.get(), 1, "one bundle, one signature");
        for _ in 0..6 {
            let command = world.submit_to(&[2], 1);
            assert!(world.run_until_done(VIEW_TIMEOUT, &command));
            world.run_for(4 * VIEW_TIMEOUT);
        }
        assert_eq!(early(&world), (0, 0), "batches whose bundles never arrive are forgotten");
    }

    pub fn lies_about_batches_change_nothing<P: Play>() {
        let mut world = certifying::<P>();
        let bundles = [world.bundle(1), world.bundle(2)];
        let batch = |spreader, bundle| {
            Arc::new(Batch::new(ReplicaId(spreader), 9, Height(RELIANCE_BLOCKS), vec![Entry::of(bundle)]))
        };
        let batches = [batch(3, &bundles[0]), batch(3, &bundles[1])];
        world.inject_letter(3, 0, Envelope::Spread(bundles.to_vec()));
        for batch in &batches {
            world.inject_letter(3, 0, Envelope::Batch(batch.clone()));
        }
        // Two batches with the same number are two batches. Their certificates are forged, and so are the sizes in the
        // next one.
        for batch in &batches {
            let certificate = forged_certificate(batch.subject(), [0, 1, 2]);
            world.inject_letter(3, 0, Envelope::Certified(Box::new(certificate.clone())));
            world.inject_letter(3, 0, Envelope::Covers(vec![Cover { batch: batch.clone(), certificate }]));
        }
        world.run_for(10 * TICK);
        let pool = |world: &World<P>| world.replica(0).parts().store.pool.uncertified().0;
        assert_eq!(pool(&world), 2, "nothing is certified");
        assert_eq!(world.replica(0).dropped().get(&Drop::NotGenuine), Some(&4));
        let listed = world.replica(0).parts().store.batches().len();
        let false_size = Entry { commands: 1000, ..Entry::of(&bundles[0]) };
        world.inject_letter(
            3,
            0,
            Envelope::Batch(Arc::new(Batch::new(ReplicaId(3), 10, Height(RELIANCE_BLOCKS), vec![false_size]))),
        );
        world.inject_letter(3, 0, Envelope::Batch(batch(2, &bundles[0])));
        let certificate = forged_certificate(batches[1].subject(), [0, 1, 2]);
        world.inject_letter(3, 0, Envelope::Covers(vec![Cover { batch: batches[0].clone(), certificate }]));
        world.run_for(10 * TICK);
        assert_eq!(world.replica(0).parts().store.batches().len(), listed, "none of these is acknowledged");
        assert_eq!(world.replica(0).dropped().get(&Drop::Malformed), Some(&2));
        let command = world.submit_to(&[2], 1);
        assert!(world.run_until_done(VIEW_TIMEOUT, &command));
        assert!(world.oracle.accused().is_empty(), "two batches with one number are no evidence");
    }

    pub fn bundles_that_nobody_certifies_are_dropped<P: Play>() {
        let mut world = certifying::<P>();
        let bundle = world.bundle(1);
        world.inject_letter(3, 0, Envelope::Spread(vec![bundle.clone()]));
        let known = |world: &World<P>| world.replica(0).is_known(&bundle.digest());
        for second in 0..70 {
            let command = world.submit_to(&[2], 1);
            assert!(world.run_until_done(VIEW_TIMEOUT, &command));
            assert!(known(&world) || second >= 59, "the bundle is dropped after {second} s");
            world.run_for(Duration::from_secs(1));
        }
        assert!(!known(&world), "the bundle is kept forever");
    }
}
