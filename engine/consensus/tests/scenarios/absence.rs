//! Final blocks with a bundle that no replica has any more: more than f disks were lost, and a quorum makes the
//! bundle void. This never happens within the fault model.

use crate::common::config;
use crate::common::network::{Flight, Letter};
use crate::common::play::Play;
use crate::common::random::Random;
use crate::common::world::{Tamper, World};
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::data::kept::MAX_RELIANCE_BLOCKS;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::{Action, Config, Envelope, Mark, To};
use quorate_types::{Attachment, Bundle, Digest, Domain, Height, Quorum, ReplicaId, Subject, View, Vote};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const VIEW_TIMEOUT: Duration = Duration::from_millis(100);
/// A replica signs that it lacks a bundle after a hundred of these.
const FETCH_RETRY_MS: u64 = 5;
const PATIENCE: Duration = Duration::from_millis(FETCH_RETRY_MS * 100);
const SECOND: Duration = Duration::from_secs(1);
/// Replica that never gets the bundle. The others lose their disks.
const LATE: u16 = 3;
const SEEDS: u64 = 4;

crate::for_all_protocols! {
    /// All replicas with the bundle of a final block lose their disks, one after the other. Execution goes on without
    /// it.
    a_bundle_that_nobody_has_is_void,

    /// A replica crashes between its signature and the certificate. A faulty replica has kept the bundle, and shows it
    /// before and after.
    a_late_copy_does_not_split_those_that_signed,

    /// At most f replicas sign that every bundle is absent, while bundles reach honest replicas late.
    nothing_is_void_within_the_fault_model,

    /// Lost disks count as lost for as long as blocks may rely on their contents.
    a_lost_disk_counts_until_no_block_relies_on_it,

    /// Acknowledged bundles survive a restart, until a block that names them is executed.
    acknowledged_bundles_survive_a_restart,
}

fn settings<P: Play>() -> Config {
    Config {
        dissemination: Dissemination::ReplicasCertified,
        leader: LeaderKind::Fixed,
        view_timeout_ms: VIEW_TIMEOUT.as_millis() as u64,
        fetch_retry_ms: FETCH_RETRY_MS,
        fetch_delay_ms: 1,
        checkpoint_interval: 400,
        window: 1000,
        ..config::<P>()
    }
}

fn carries<M: quorate_consensus::Message>(letter: &Letter<M>, bundle: &Digest) -> bool {
    letter.bundles().iter().any(|carried| carried.digest() == *bundle)
}

/// Cluster of four with a final block that has a bundle which nobody has.
struct Lost<P: Play> {
    world: World<P>,
    bundle: Bundle,
    /// Height of the block.
    height: Height,
}

impl<P: Play> Lost<P> {
    fn new() -> Lost<P> {
        let mut world = World::<P>::started(4, settings::<P>(), 1);
        let command = world.submit_to(&[1], 1);
        assert!(world.run_until_done(VIEW_TIMEOUT, &command), "the first command");
        let bundle = world.bundle(1);
        let digest = bundle.digest();
        world.network.filter = Some(Box::new(move |flight: Flight<'_, P::Message>| {
            flight.to.0 == LATE && carries(flight.letter, &digest)
        }));
        world.resubmit_to(&[1], &bundle);
        let executed = |world: &World<P>| (0..3).all(|replica| world.commit_time(replica, &digest).is_some());
        assert!(world.run_until(SECOND, executed), "the others execute the bundle");
        let block = world.commits(0).iter().map(|commit| &commit.block).find(|block| block.payload.contains(&digest));
        let height = block.expect("it was executed").height;
        let stuck = |world: &World<P>| world.replica(LATE).parts().store.awaited() == Some(digest);
        if !world.run_until(SECOND, stuck) {
            let next = world.submit_to(&[0], 1);
            world.run_for(SECOND / 10);
            assert!(stuck(&world), "R{LATE} waits for the bundle, beside {next:?}");
        }
        // Nobody learns in the meantime that others lack the bundle too.
        world.network.filter = Some(Box::new(move |flight: Flight<'_, P::Message>| {
            carries(flight.letter, &digest) || matches!(flight.letter, Envelope::Absent(_))
        }));
        // Replicas that lost their disks execute everything again.
        world.oracle.forgetful = true;
        let mut lost = Lost { world, bundle, height };
        (0..3).for_each(|replica| lost.lose_disk(replica));
        for replica in 0..4 {
            let store = &lost.world.replica(replica).parts().store;
            assert_eq!(store.committed().next(), height, "R{replica} waits at the block");
            assert!(!store.pool.contains(&digest) && !store.kept().contains(&digest), "R{replica} has lost the bundle");
        }
        lost
    }

    /// Deletes a replica's disk, and waits until the replica votes again.
    fn lose_disk(&mut self, replica: u16) {
        self.world.kill(replica);
        self.world.restart_without_memory(replica);
        for attempt in 0u16.. {
            let returned = |world: &World<P>| {
                let parts = world.replica(replica).parts();
                !parts.safety.is_away() && parts.store.committed().next() >= self.height
            };
            if self.world.run_until(2 * VIEW_TIMEOUT, returned) {
                return;
            }
            assert!(attempt < 60, "R{replica} does not return");
            // A replica without a memory waits for a view change.
            self.world.submit_to(&[LATE], 1);
            self.world.network.isolate(ReplicaId((replica + 1 + attempt % 3) % 4), true);
            self.world.run_for(3 * VIEW_TIMEOUT);
            self.world.network.isolate(ReplicaId((replica + 1 + attempt % 3) % 4), false);
        }
    }

    /// Waits until everybody has executed the block.
    fn goes_on(&mut self, replicas: &[u16]) {
        let height = self.height;
        let executed = |world: &World<P>| replicas.iter().all(|r| world.replica(*r).committed_height() >= height);
        assert!(self.world.run_until(60 * SECOND, executed), "execution waits at {height:?} for ever");
        let command = self.world.submit_to(&[replicas[0]], 1);
        let done = |world: &World<P>| replicas.iter().all(|replica| world.commit_time(*replica, &command).is_some());
        assert!(self.world.run_until(60 * SECOND, done), "a later command is executed");
        self.world.run_for(SECOND);
    }

    fn assert_void_at(&self, replicas: &[u16]) {
        let state = self.world.state_of(replicas[0]);
        for replica in replicas {
            let mark = Mark::Voided { height: self.height, bundle: self.bundle.digest() };
            assert!(self.world.marks(*replica).contains(&mark), "R{replica} executes the block without the bundle");
            assert_eq!(self.world.state_of(*replica), state, "R{replica} has another state");
        }
    }
}

/// Signs that each bundle of each executed block is absent.
fn denies<P: Play>(me: u16) -> Tamper<P::Message> {
    Box::new(move |_, action, out| {
        if let Action::Commit { block, .. } = &action {
            for position in 0..block.payload.len() as u64 {
                let (height, digest) = (block.height, block.digest());
                let subject = Subject { domain: Domain::Absent, view: View(position), height, digest };
                let vote = Vote {
                    subject,
                    attachment: Attachment::None,
                    voter: ReplicaId(me),
                    signature: bytes::Bytes::new(),
                };
                out.push(Action::Send { to: To::Others, message: Envelope::Absent(vote), after: None, sign: true });
            }
        }
        out.push(action);
    })
}

mod bodies {
    use super::*;

    pub fn a_bundle_that_nobody_has_is_void<P: Play>() {
        let mut lost = Lost::<P>::new();
        lost.world.network.heal();
        lost.goes_on(&[0, 1, 2, 3]);
        lost.assert_void_at(&[0, 1, 2, 3]);
        // The client sends its commands again.
        let bundle = lost.bundle.clone();
        lost.world.resubmit_to(&[2], &bundle);
        lost.world.run_for(2 * SECOND);
        let again = |replica| {
            lost.world.commits(replica).iter().filter(|commit| commit.block.payload.contains(&bundle.digest()))
        };
        assert!((0..4).all(|replica| again(replica).count() == 2), "the bundle is ordered again");
        // The execution after a restart gives the same result.
        for replica in 0..4 {
            lost.world.kill(replica);
            lost.world.restart(replica, 0);
        }
        lost.goes_on(&[0, 1, 2, 3]);
        let state = lost.world.state_of(0);
        assert!((1..4).all(|replica| lost.world.state_of(replica) == state), "all execute the same after a restart");
    }

    pub fn a_late_copy_does_not_split_those_that_signed<P: Play>() {
        let mut lost = Lost::<P>::new();
        let (liar, shown) = (0, Envelope::Bundles(vec![lost.bundle.clone()]));
        let absences: Rc<RefCell<Vec<ReplicaId>>> = Rc::default();
        let heard = absences.clone();
        // Everybody signs, and no signature arrives.
        lost.world.network.filter = Some(Box::new(move |flight: Flight<'_, P::Message>| {
            let signs = matches!(flight.letter, Envelope::Absent(_));
            if signs {
                heard.borrow_mut().push(flight.from);
            }
            signs
        }));
        lost.world.run_for(2 * PATIENCE);
        assert!((0..4).all(|replica| absences.borrow().contains(&ReplicaId(replica))), "all sign");
        for replica in [1, 2] {
            lost.world.kill(replica);
            lost.world.restart(replica, 0);
        }
        lost.world.run_for(PATIENCE / 2);
        for replica in 1..4 {
            lost.world.inject_letter(liar, replica, shown.clone());
            lost.world.resubmit_to(&[replica], &lost.bundle.clone());
        }
        lost.world.run_for(PATIENCE / 2);
        let waits = |replica: u16| lost.world.replica(replica).committed_height() < lost.height;
        assert!((1..4).all(waits), "a single copy is executed after the signature");
        lost.world.network.filter = None;
        let honest = [1, 2, 3];
        let first =
            |world: &World<P>| honest.iter().any(|replica| world.replica(*replica).committed_height() >= lost.height);
        assert!(lost.world.run_until(60 * SECOND, first), "the certificate forms");
        for replica in honest {
            lost.world.inject_letter(liar, replica, shown.clone());
        }
        lost.goes_on(&honest);
        lost.assert_void_at(&honest);
    }

    pub fn nothing_is_void_within_the_fault_model<P: Play>() {
        for seed in 0..SEEDS {
            let mut random = Random::new(seed);
            let n = *random.pick(&[4, 4, 7]);
            let quorum = Quorum::of(n).expect("the size is valid");
            let mut world = World::<P>::new(n, settings::<P>(), seed);
            world.network.jitter = random.time_below(Duration::from_millis(3));
            let liars: Vec<u16> = ((n - quorum.faults()) as u16..n as u16).collect();
            liars.iter().for_each(|liar| world.corrupt(*liar, denies::<P>(*liar)));
            world.start();
            let victim = random.below((n - quorum.faults()) as u64) as u16;
            let mut commands = Vec::new();
            for _ in 0..4 {
                let bundle = world.bundle(1);
                let digest = bundle.digest();
                // One honest replica gets the bundle from nobody, for longer than the patience after which it signs.
                world.network.filter = Some(Box::new(move |flight: Flight<'_, P::Message>| {
                    flight.to.0 == victim && carries(flight.letter, &digest)
                }));
                let home = (victim + 1) % (n - quorum.faults()) as u16;
                world.resubmit_to(&[home], &bundle);
                commands.push(digest);
                world.run_for(PATIENCE * 2);
                world.network.heal();
                world.run_for(PATIENCE / 2);
            }
            let open = |world: &World<P>| commands.iter().filter(|command| !world.is_done(command)).count();
            let done = world.run_until(60 * SECOND, |world| open(world) == 0);
            assert!(done, "seed {seed}: {} commands are not executed by all", open(&world));
            for replica in world.honest() {
                let voided = world.marks(replica).iter().any(|mark| matches!(mark, Mark::Voided { .. }));
                assert!(!voided, "seed {seed}: R{replica} takes a bundle for void");
            }
        }
    }

    pub fn a_lost_disk_counts_until_no_block_relies_on_it<P: Play>() {
        let mut lost = Lost::<P>::new();
        lost.world.network.heal();
        lost.goes_on(&[0, 1, 2, 3]);
        let relied = |lost: &Lost<P>, replica| lost.world.replica(replica).lost_kept();
        assert_eq!(relied(&lost, LATE), None, "R{LATE} has its disk");
        let up_to = relied(&lost, 0).expect("R0 has lost bundles");
        assert!(up_to.0 >= lost.height.0 + MAX_RELIANCE_BLOCKS, "{up_to:?} is too low");
        for shortens in [false, true] {
            if shortens {
                lost.world.shorten_journal(0);
            }
            lost.world.kill(0);
            lost.world.restart(0, 0);
            lost.goes_on(&[0, 1, 2, 3]);
            assert_eq!(relied(&lost, 0), Some(up_to), "R0 forgets its loss in a restart");
        }
        let end = lost.world.replica(0).committed_height().next();
        lost.world.kill(0);
        lost.world.edit_records(0, |record| {
            if let Record::LostKept { up_to } = record {
                *up_to = end;
            }
        });
        lost.world.restart(0, 0);
        assert_eq!(relied(&lost, 0), Some(end));
        lost.goes_on(&[0, 1, 2, 3]);
        assert_eq!(relied(&lost, 0), None, "no block to come relies on R0");
        lost.world.shorten_journal(0);
        let remains = lost.world.records(0).any(|record| matches!(record, Record::LostKept { .. }));
        assert!(!remains, "a new journal says nothing of it");
    }

    pub fn acknowledged_bundles_survive_a_restart<P: Play>() {
        let mut world = World::<P>::started(4, settings::<P>(), 1);
        let command = world.submit_to(&[1], 1);
        assert!(world.run_until_done(VIEW_TIMEOUT, &command), "the first command");
        let bundle = world.bundle(1);
        let digest = bundle.digest();
        // The leader never learns that the bundle is certified.
        world.network.filter = Some(Box::new(move |flight: Flight<'_, P::Message>| {
            let concerns = matches!(flight.letter, Envelope::Certified(_) | Envelope::Covers(_) | Envelope::Relay(_));
            flight.to.0 == 0 && (concerns || carries(flight.letter, &digest))
        }));
        world.resubmit_to(&[1], &bundle);
        world.run_for(VIEW_TIMEOUT / 2);
        for replica in 1..4 {
            world.kill(replica);
        }
        for replica in 1..4 {
            world.restart(replica, 0);
            let kept = world.replica(replica).parts().store.kept().contains(&digest);
            assert!(kept, "R{replica} has acknowledged the bundle, and forgets it in a crash");
        }
        for replica in 1..4 {
            world.shorten_journal(replica);
            world.kill(replica);
            world.restart(replica, 0);
            let kept = world.replica(replica).parts().store.kept().contains(&digest);
            assert!(kept, "R{replica} forgets the bundle with its old journal");
        }
        world.network.heal();
        world.resubmit_to(&[2], &bundle);
        assert!(world.run_until_done(60 * VIEW_TIMEOUT, &digest), "the bundle is executed");
        for replica in 0..4 {
            let kept = world.replica(replica).parts().store.kept().contains(&digest);
            assert!(!kept, "R{replica} keeps an executed bundle twice");
        }
    }
}
