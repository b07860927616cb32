//! A liar that keeps storage certificates until nobody has the bundles any more, and then shows each certificate to
//! chosen replicas.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::{Play, Viewed};
use crate::common::told_pbft::{Pbft, PbftMac};
use crate::common::world::World;
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::data::batches::{Batch, Cover, Entry};
use quorate_consensus::data::kept::RELIANCE_BLOCKS;
use quorate_consensus::protocols::pbft::message::{Declaration, PbftMessage, bare};
use quorate_consensus::seam::Drop;
use quorate_consensus::store::MAX_UNEXECUTED_BLOCKS;
use quorate_consensus::{Action, Config, Envelope};
use quorate_types::{Attachment, Bundle, Height, ReplicaId, Signers, Subject, Vote};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const VIEW_TIMEOUT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Byzantine replica, which is the first leader.
const LIAR: u16 = 0;
const UNTIL: Height = Height(RELIANCE_BLOCKS);

crate::for_every_protocol! {
    /// Control: a bundle that was certified once and that nobody has any more costs the liar its views.
    one_certificate_shown_late_stops_nobody,
    /// The liar lists a bundle in two batches, and shows each certificate to the replica that did not sign it.
    two_batches_for_one_bundle_stop_nobody,
    /// All replicas acknowledge one batch, which yields two certificates with different signers.
    two_sets_of_signers_of_one_batch_stop_nobody,
    /// The replicas lose the bundle with their disks, one after the other, not through the passage of time.
    two_batches_and_a_rolling_restart_stop_nobody,
    /// An honest leader gets such a bundle from the liar: it is proposed, fetched and executed.
    a_bundle_that_the_leader_alone_has_is_executed,
    /// A replica signs only once that it has a bundle, until the spreader has had time to abandon the batch.
    a_bundle_is_acknowledged_in_one_batch_at_a_time,
}

crate::for_every_protocol! {
    /// The number of final blocks is bounded while a quorum cannot execute because bundles do not reach it. Protocols
    /// with slots have a window instead.
    final_blocks_that_cannot_be_executed_are_bounded,
}

macro_rules! for_pbft {
    ($($name:ident,)+) => {
        mod pbft {
            use super::*;
            $(#[test] fn $name() { bodies_of_all::$name::<Pbft>(); })+
        }
        mod pbft_mac {
            use super::*;
            $(#[test] fn $name() { bodies_of_all::$name::<PbftMac>(); })+
        }
        mod bodies {
            use super::*;
            pub use super::bodies_of_views::*;
            $(pub fn $name<R: Viewed>() { bodies_of_all::$name::<R>(); })+
        }
    };
}

for_pbft! {
    one_certificate_shown_late_stops_nobody,
    two_batches_for_one_bundle_stop_nobody,
    two_sets_of_signers_of_one_batch_stop_nobody,
    two_batches_and_a_rolling_restart_stop_nobody,
    a_bundle_that_the_leader_alone_has_is_executed,
    a_bundle_is_acknowledged_in_one_batch_at_a_time,
}

/// A cluster of four. The liar gets bundles certified and keeps the certificates.
pub struct Hoard<P: Play> {
    pub world: World<P>,
    liar: u16,
    /// Whether the liar's own messages about bundles are lost, because the test sends messages in its name.
    muted: Rc<Cell<bool>>,
    acknowledged: Rc<RefCell<Vec<Vote>>>,
}

impl<P: Play> Hoard<P> {
    pub fn new(liar: u16) -> Hoard<P> {
        let (dissemination, view_timeout_ms) = (Dissemination::ReplicasCertified, VIEW_TIMEOUT.as_millis() as u64);
        let config = Config { dissemination, leader: LeaderKind::Fixed, view_timeout_ms, ..config::<P>() };
        let mut world = World::<P>::started(4, config, 1);
        let command = world.submit_to(&[1], 1);
        assert!(world.run_until_done(VIEW_TIMEOUT, &command), "the first command");
        world.oracle.distrust(ReplicaId(liar));
        let (muted, acknowledged) = (Rc::new(Cell::new(true)), Rc::new(RefCell::new(Vec::new())));
        let hoard = Hoard { world, liar, muted, acknowledged };
        hoard.withhold()
    }

    /// Drops the liar's own messages about bundles, and records the acknowledgements that it receives.
    fn withhold(mut self) -> Self {
        let (muted, acknowledged, liar) = (self.muted.clone(), self.acknowledged.clone(), ReplicaId(self.liar));
        self.world.network.filter = Some(Box::new(move |flight| {
            if let Envelope::Stored(vote) = flight.letter
                && flight.to == liar
            {
                acknowledged.borrow_mut().push(vote.clone());
            }
            muted.get() && flight.from == liar && concerns_bundles(flight.letter)
        }));
        self
    }

    /// Sends a message in the liar's name.
    pub fn say(&mut self, to: u16, letter: Letter<P::Message>) {
        self.muted.set(false);
        self.world.inject_letter(self.liar, to, letter);
        self.muted.set(true);
    }

    /// Returns the honest replicas.
    pub fn others(&self) -> Vec<u16> {
        (0..4).filter(|replica| *replica != self.liar).collect()
    }

    /// Disseminates a bundle, lists it in one batch per set of replicas, and returns the certificates, with the liar as
    /// a signer.
    pub fn certify(&mut self, bundle: &Bundle, signers: &[&[u16]]) -> Vec<Cover> {
        let batches: Vec<Arc<Batch>> = (1u64..)
            .zip(signers)
            .map(|(number, _)| {
                Arc::new(Batch::new(ReplicaId(self.liar), 1_000 + number, UNTIL, vec![Entry::of(bundle)]))
            })
            .collect();
        self.certify_as(bundle, &batches, signers)
    }

    /// Does the same with the given batches, which may all be the same one.
    pub fn certify_as(&mut self, bundle: &Bundle, batches: &[Arc<Batch>], signers: &[&[u16]]) -> Vec<Cover> {
        let signs = |other: &u16| signers.iter().any(|signers| signers.contains(other));
        for other in self.others().into_iter().filter(signs) {
            self.say(other, Envelope::Spread(vec![bundle.clone()]));
        }
        for (batch, signers) in batches.iter().zip(signers) {
            for signer in *signers {
                self.say(*signer, Envelope::Batch(batch.clone()));
            }
            // A replica acknowledges no bundle twice in quick succession.
            self.world.run_for(3 * VIEW_TIMEOUT);
        }
        let acknowledged = self.acknowledged.borrow().clone();
        let cover = |(batch, signers): (&Arc<Batch>, &&[u16])| {
            let own = self.world.keys.vote(ReplicaId(self.liar), batch.subject(), Attachment::None);
            let of = |signer: &u16| {
                let vote = acknowledged.iter().find(|vote| vote.subject == batch.subject() && vote.voter.0 == *signer);
                (ReplicaId(*signer), vote.unwrap_or_else(|| panic!("R{signer} acknowledges")).clone())
            };
            let votes: BTreeMap<ReplicaId, Vote> =
                signers.iter().map(of).chain([(ReplicaId(self.liar), own)]).collect();
            let votes: Vec<Vote> = votes.into_values().collect();
            let certificate = self.world.keys.assemble(batch.subject(), &votes).expect("the votes are genuine");
            Cover { batch: batch.clone(), certificate }
        };
        batches.iter().zip(signers).map(cover).collect()
    }

    /// Waits until the honest replicas have dropped a bundle that no block names.
    pub fn outwait(&mut self, bundle: &Bundle) {
        for second in 0..80 {
            if self.others().iter().all(|replica| !self.world.replica(*replica).is_known(&bundle.digest())) {
                return;
            }
            assert!(second < 75, "the bundle is kept forever");
            let command = self.world.submit_to(&[self.others()[0]], 1);
            assert!(self.world.run_until_done(10 * VIEW_TIMEOUT, &command), "a command of second {second}");
            self.world.run_for(SECOND);
        }
    }

    /// Restarts the honest replicas one after the other, each without the bundles that it has acknowledged.
    pub fn restart_in_turn(&mut self) {
        for replica in self.others() {
            self.world.kill(replica);
            self.world.lose_kept(replica);
            self.world.restart(replica, 0);
            self.world.run_for(SECOND);
        }
    }

    /// Shows each certificate to the replicas that did not sign it, and makes a replica with the bundle propose it.
    pub fn show_and_propose(&mut self, bundle: &Bundle, covers: &[Cover]) {
        for cover in covers {
            let unaware = |replica: &u16| !cover.certificate.signers.contains(ReplicaId(*replica));
            for replica in self.others().into_iter().filter(unaware) {
                self.say(replica, Envelope::Covers(vec![cover.clone()]));
            }
        }
        let liar = self.liar;
        self.world.resubmit_to(&[liar], bundle);
        self.world.run_for(2 * TICK);
        // This replica regards its own bundle as certified.
        let shown = self.others()[0];
        self.world.inject_letter(shown, liar, Envelope::Covers(covers[..1].to_vec()));
        self.world.run_for(50 * TICK);
    }

    /// Checks that honest replicas execute the commands of honest clients.
    pub fn goes_on(&mut self) {
        for replica in self.others() {
            let command = self.world.submit_to(&[replica], 1);
            assert!(self.world.run_until_done(60 * VIEW_TIMEOUT, &command), "a command at R{replica} is executed");
        }
    }
}

/// With MACs, a liar claims that a block was prepared for which one honest replica voted on the strength of a
/// certificate. Nobody else votes for the block, and a view that does not carry it over opens.
#[test]
fn pbft_mac_does_not_depend_on_a_claimed_block_without_its_bundles() {
    let mut hoard = Hoard::<PbftMac>::new(LIAR);
    let bundle = hoard.world.bundle(1);
    let covers = hoard.certify(&bundle, &[&[2, 3]]);
    hoard.restart_in_turn();
    let named = bundle.digest();
    let mut claimed: Option<Subject> = None;
    hoard.world.corrupt(
        LIAR,
        Box::new(move |_, mut action, out| {
            if let Action::Send { message: Envelope::Protocol(message), .. } = &mut action {
                match message {
                    PbftMessage::PrePrepare(given) if given.block.payload.contains(&named) => {
                        claimed = Some(given.endorsement.subject);
                    }
                    PbftMessage::ViewChange(change) => {
                        let missing = |subject: &Subject| !change.prepared.iter().any(|it| it.subject == *subject);
                        change.prepared.extend(claimed.filter(missing).map(bare));
                        change.prepared.sort_by_key(|claim| claim.subject.height);
                        let subjects: Vec<Subject> = change.prepared.iter().map(|claim| claim.subject).collect();
                        change.vote.subject.digest =
                            Declaration::digest(&change.checkpoint.subject, &subjects, &change.voted);
                    }
                    _ => {}
                }
            }
            out.push(action);
        }),
    );
    hoard.show_and_propose(&bundle, &covers);
    let voted = hoard.world.replica(1).parts().store.pool.is_absent(&bundle.digest());
    assert!(voted, "R1 votes without the bundle, on the strength of the certificate");
    hoard.goes_on();
}

fn concerns_bundles<M>(letter: &Letter<M>) -> bool {
    matches!(
        letter,
        Envelope::Spread(_)
            | Envelope::Relay(_)
            | Envelope::Bundles(_)
            | Envelope::Batch(_)
            | Envelope::Certified(_)
            | Envelope::Covers(_)
    )
}

mod bodies_of_all {
    use super::*;

    pub fn one_certificate_shown_late_stops_nobody<P: Play>() {
        let mut hoard = Hoard::<P>::new(LIAR);
        let bundle = hoard.world.bundle(1);
        let covers = hoard.certify(&bundle, &[&[2, 3]]);
        hoard.outwait(&bundle);
        hoard.show_and_propose(&bundle, &covers);
        hoard.goes_on();
    }

    pub fn two_batches_for_one_bundle_stop_nobody<P: Play>() {
        let mut hoard = Hoard::<P>::new(LIAR);
        let bundle = hoard.world.bundle(1);
        let covers = hoard.certify(&bundle, &[&[2, 3], &[1, 2]]);
        hoard.outwait(&bundle);
        hoard.show_and_propose(&bundle, &covers);
        hoard.goes_on();
    }

    pub fn two_sets_of_signers_of_one_batch_stop_nobody<P: Play>() {
        let mut hoard = Hoard::<P>::new(LIAR);
        let bundle = hoard.world.bundle(1);
        let batch = Arc::new(Batch::new(ReplicaId(LIAR), 1_000, UNTIL, vec![Entry::of(&bundle)]));
        let covers = hoard.certify_as(&bundle, &[batch.clone(), batch], &[&[2, 3], &[1, 2]]);
        let signers: Vec<Signers> = covers.iter().map(|cover| cover.certificate.signers).collect();
        assert!(covers[0].batch == covers[1].batch && signers[0] != signers[1]);
        hoard.outwait(&bundle);
        hoard.show_and_propose(&bundle, &covers);
        hoard.goes_on();
    }

    pub fn two_batches_and_a_rolling_restart_stop_nobody<P: Play>() {
        let mut hoard = Hoard::<P>::new(LIAR);
        let bundle = hoard.world.bundle(1);
        let covers = hoard.certify(&bundle, &[&[2, 3], &[1, 2]]);
        hoard.restart_in_turn();
        hoard.show_and_propose(&bundle, &covers);
        hoard.goes_on();
    }

    pub fn a_bundle_that_the_leader_alone_has_is_executed<P: Play>() {
        let mut hoard = Hoard::<P>::new(3);
        let bundle = hoard.world.bundle(1);
        let covers = hoard.certify(&bundle, &[&[0, 1], &[1, 2]]);
        hoard.restart_in_turn();
        for replica in [1, 2] {
            hoard.say(replica, Envelope::Covers(covers.clone()));
        }
        hoard.say(0, Envelope::Covers(covers[1..].to_vec()));
        hoard.say(0, Envelope::Relay(vec![bundle.clone()]));
        assert!(hoard.world.run_until_done(60 * VIEW_TIMEOUT, &bundle.digest()), "the others fetch it");
        hoard.goes_on();
    }

    pub fn a_bundle_is_acknowledged_in_one_batch_at_a_time<P: Play>() {
        let mut hoard = Hoard::<P>::new(3);
        let bundle = hoard.world.bundle(1);
        hoard.say(0, Envelope::Spread(vec![bundle.clone()]));
        let batch =
            |number| Envelope::Batch(Arc::new(Batch::new(ReplicaId(3), number, UNTIL, vec![Entry::of(&bundle)])));
        for number in 1..=100 {
            hoard.say(0, batch(number));
            hoard.world.run_for(TICK);
        }
        assert_eq!(hoard.acknowledged.borrow().len(), 1, "one signature for one bundle");
        assert!(hoard.world.replica(0).dropped().get(&Drop::Repeated) >= Some(&99));
        // An honest spreader lists the bundle again when the first batch is overdue.
        hoard.world.run_for(4 * VIEW_TIMEOUT);
        hoard.say(0, batch(101));
        hoard.world.run_for(10 * TICK);
        assert_eq!(hoard.acknowledged.borrow().len(), 2);
    }
}

mod bodies_of_views {
    use super::*;

    pub fn final_blocks_that_cannot_be_executed_are_bounded<P: Play>() {
        let mut hoard = Hoard::<P>::new(LIAR);
        let bundle = hoard.world.bundle(1);
        // R1 keeps the bundle, R2 loses it, and R3 never gets it.
        let covers = hoard.certify(&bundle, &[&[1, 2]]);
        hoard.world.kill(2);
        hoard.world.lose_kept(2);
        hoard.world.restart(2, 0);
        let acknowledges = hoard.world.network.filter.take();
        let withheld = bundle.digest();
        let mut inner = acknowledges.expect("the liar is muted");
        hoard.world.network.filter = Some(Box::new(move |flight| {
            let carries = |bundles: &[Bundle]| bundles.iter().any(|bundle| bundle.digest() == withheld);
            let shows = match flight.letter {
                Envelope::Spread(bundles) | Envelope::Bundles(bundles) | Envelope::Relay(bundles) => carries(bundles),
                _ => false,
            };
            inner(flight) || shows
        }));
        hoard.show_and_propose(&bundle, &covers);
        let gap = |world: &World<P>, replica: u16| {
            let store = &world.replica(replica).parts().store;
            store.tree.decided().0 - store.committed().0
        };
        let mut highest = 0;
        for _ in 0..6_000 {
            hoard.world.submit_to(&[1], 1);
            hoard.world.run_for(TICK);
            highest = highest.max(gap(&hoard.world, 2)).max(gap(&hoard.world, 3));
        }
        assert!(highest > MAX_UNEXECUTED_BLOCKS, "only {highest} final blocks wait, which tests nothing");
        assert!(highest <= MAX_UNEXECUTED_BLOCKS + 8, "{highest} final blocks wait for a bundle");
        hoard.world.network.heal();
        hoard.goes_on();
    }
}
