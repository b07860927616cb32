//! Replicas that lose their journals, and the answers that they get from the others.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::replica::make;
use quorate_consensus::{Action, Config, Input, Mark, Silence, To};
use quorate_types::{BundleBuilder, ClientId, Domain, EpochId, Height, Quorum, ReplicaId, Time, View};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Creates a cluster in which every view is requested and none is opened, until all replicas have timed out of several
/// views.
fn without_primaries() -> World<Pbft> {
    let config = Config { view_timeout_ms: 20, min_view_timeout_ms: 10, ..config::<Pbft>() };
    let mut world = World::<Pbft>::started(4, config, 1);
    let opens = |letter: &Letter<PbftMessage>| {
        matches!(letter, Letter::Protocol(PbftMessage::NewView(_) | PbftMessage::PrePrepare(_)))
    };
    world.network.filter = Some(Box::new(move |flight| opens(flight.letter)));
    world.submit(1);
    let far = |world: &World<Pbft>| (0..4).all(|replica| world.replica(replica).view() >= View(6));
    assert!(world.run_until(SECOND * 100, far), "replicas ask for one view after the other");
    world
}

fn bound(world: &World<Pbft>, replica: u16) -> Option<View> {
    let mut bounds = world.marks(replica).iter().filter_map(|mark| match mark {
        Mark::Abstains { up_to } => Some(*up_to),
        _ => None,
    });
    bounds.next_back()
}

/// The proof of a replica's progress survives its restart: the replicas that answer were all restarted, and have not
/// heard from each other since.
#[test]
fn a_restarted_replica_still_proves_how_far_others_were() {
    for summed_up in [false, true] {
        let mut world = without_primaries();
        let spoke = world.replica(3).parts().safety.spoke_in();
        for replica in 0..3 {
            if summed_up {
                world.shorten_journal(replica);
            }
            world.kill(replica);
        }
        world.kill(3);
        world.drop_all_in_flight();
        world.network.filter = Some(Box::new(|flight| matches!(flight.letter, Letter::Protocol(_))));
        (0..3).for_each(|replica| world.restart(replica, 0));
        world.restart_without_memory(3);
        assert!(world.run_until(SECOND, |world| bound(world, 3).is_some()), "the other replicas answer");
        let bound = bound(&world, 3).expect("the bound is known");
        assert!(bound >= spoke, "it abstains up to {bound:?} but made a statement in {spoke:?}");
        assert!(bound.0 <= spoke.0 + 3, "{bound:?} is too far above {spoke:?}");
    }
}

/// A replica that has lost its journal asks for a view only if others show that they want it. Nothing would remind it
/// of a request of its own if it lost its journal again.
#[test]
fn a_replica_without_its_journal_asks_for_no_view_on_its_own() {
    let mut world = without_primaries();
    for _ in 0..3 {
        let before = world.replica(3).parts().safety.spoke_in();
        world.kill(3);
        world.drop_all_in_flight();
        world.network.filter = Some(Box::new(|flight| matches!(flight.letter, Letter::Protocol(_))));
        world.restart_without_memory(3);
        world.submit(1);
        world.run_for(SECOND);
        assert!(bound(&world, 3) >= Some(before), "the bound covers its earlier statements");
        assert_eq!(world.replica(3).parts().safety.spoke_in(), View(0), "it does not ask for a view on its own");
        world.network.heal();
        world.run_for(SECOND);
    }
    let command = world.submit(1);
    assert!(world.run_until_done(SECOND * 20, &command), "it follows the others");
}

/// If one replica has lost its journal and another fails, the others need the first one. It announces the first view in
/// which it can vote, the others move there, and it votes again. Until then it reports why it does not vote.
#[test]
fn a_replica_without_its_journal_votes_again_when_it_is_needed() {
    let mut world = World::<Pbft>::started(4, config::<Pbft>(), 1);
    let command = world.submit(1);
    assert!(world.run_until_done(SECOND, &command));
    world.kill(3);
    world.restart_without_memory(3);
    assert_eq!(world.replica(3).silence(), Some(Silence::Asks { missing: 3 }));
    let command = world.submit(1);
    assert!(world.run_until_done(SECOND, &command), "the others order commands without its votes");
    world.run_for(SECOND * 60);
    let silence = world.replica(3).silence().expect("no view has begun in which it may vote");
    assert_eq!(silence, Silence::Abstains { up_to: View(2) });
    assert_eq!(
        silence.to_string(),
        "does not vote: its journal was lost, and it may have voted in views up to 2; \
         it votes again in the first view from 3 on that the others begin"
    );
    world.kill(2);
    let command = world.submit(1);
    assert!(world.run_until_done(SECOND * 20, &command), "three of four replicas make progress");
    assert_eq!(world.replica(3).silence(), None);
}

/// A statement that is not yet durable is not retransmitted either, because a replica that crashes before the statement
/// is durable may make a different one.
#[test]
fn a_repeated_statement_waits_for_its_record_too() {
    let (me, quorum, epoch) =
        (ReplicaId(0), Quorum::of(4).expect("the committee size is valid"), EpochId::of_name("test"));
    let mut primary = make::pbft(config::<Pbft>(), quorum, epoch, me, 1);
    let (now, mut actions) = (Time::from_millis(1), Vec::new());
    primary.step(now, Input::Start, &mut actions);
    let mut bundle = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    bundle.push(ClientId(1), 1, b"command");
    primary.step(now, Input::Submit { bundles: vec![bundle.finish()], sources: Vec::new() }, &mut actions);
    let is_promise = |action: &Action<PbftMessage>| match action {
        Action::Persist { id, record: Record::Promise(promise) } if promise.subject.domain == Domain::Prepare => {
            Some(*id)
        }
        _ => None,
    };
    let record = actions.iter().find_map(is_promise);
    assert!(record.is_some(), "the primary's assignment is journaled");
    actions.clear();
    let asks = PbftMessage::Status { view: View(1), committed: Height(0) };
    primary.step(now, Input::Receive { from: ReplicaId(3), message: Letter::Protocol(asks) }, &mut actions);
    let again = actions.into_iter().find_map(|action| match action {
        Action::Send { message: Letter::Protocol(PbftMessage::PrePrepare(_)), to, after, sign } => {
            Some((to, after, sign))
        }
        _ => None,
    });
    assert_eq!(again, Some((To::One(ReplicaId(3)), record, true)));
}
