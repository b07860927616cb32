//! Votes on checkpoints and their certificates.

use super::*;
use quorate_consensus::Envelope;
use quorate_types::{Attachment, Certificate, Domain, Subject, View};

crate::for_all_protocols! {
    /// All replicas reach the same checkpoints and hold the same states, even if they were away in between.
    all_replicas_have_the_same_checkpoints,
    /// Votes on a checkpoint survive view changes.
    checkpoint_votes_survive_view_changes,
    /// All replicas crash before they receive each other's votes, and send their votes again.
    checkpoint_votes_are_repeated_after_a_crash,
    /// Votes that no replica can have cast are not counted.
    void_checkpoint_votes_are_not_counted,
    /// A replica whose state differs from a quorum's must halt.
    a_replica_with_a_different_state_halts,
}

fn stable<P: Play>(world: &World<P>, replica: u16) -> &Certificate {
    world.replica(replica).parts().checkpoints.stable()
}

/// Orders commands until there is a checkpoint for which R1 receives only its own vote and the votes of the replicas
/// from R0 up to, but excluding, `silent`.
fn with_votes_missing<P: Play>(silent: u16) -> World<P> {
    let mut world = World::<P>::new(4, config::<P>(), 1);
    world.network.filter = Some(Box::new(move |flight| {
        flight.to == ReplicaId(1)
            && flight.from != flight.to
            && flight.from >= ReplicaId(silent)
            && matches!(flight.letter, Letter::Checkpoint(_))
    }));
    world.start();
    while stable(&world, 0).subject.height < Height(4) {
        let command = world.submit(1);
        assert!(world.run_until_done(PATIENCE, &command));
    }
    assert_eq!(stable(&world, 1).subject.height, Height(0), "two votes form no certificate");
    world
}

mod bodies {
    use super::*;

    pub fn all_replicas_have_the_same_checkpoints<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        comes_back(&mut world);
        for _ in 0..30 {
            let command = world.submit(1);
            assert!(world.run_until_done(PATIENCE, &command));
        }
        world.run_for(Duration::from_millis(500));
        for replica in 1..4 {
            assert_eq!(stable(&world, replica).subject, stable(&world, 0).subject, "{}", P::NAME);
            assert_eq!(world.states(replica), world.states(0), "{}", P::NAME);
        }
        assert!(committed(&world, 0).0 - stable(&world, 0).subject.height.0 < 8, "the last checkpoints are stable");
    }

    pub fn checkpoint_votes_survive_view_changes<P: Play>() {
        let mut world = with_votes_missing::<P>(2);
        let view = world.replica(1).view();
        // No proposal arrives anywhere, so views keep timing out.
        world.network.filter = Some(Box::new(|flight| match flight.letter {
            Letter::Protocol(message) => quorate_consensus::Message::is_proposal(message),
            Letter::Checkpoint(_) => true,
            _ => false,
        }));
        world.submit(1);
        let later = |world: &World<P>| world.replica(1).view() >= View(view.0 + 4);
        assert!(world.run_until(PATIENCE, later), "{}: {}", P::NAME, standing(&world));
        let subject = stable(&world, 0).subject;
        if stable(&world, 1).subject.height < subject.height {
            world.network.filter = None;
            let vote = world.keys.vote(ReplicaId(2), subject, Attachment::None);
            world.inject_letter(2, 1, Envelope::Checkpoint(vote));
            world.run_for(Duration::from_millis(5));
        }
        assert_eq!(stable(&world, 1).subject, subject, "{}: three votes form a certificate", P::NAME);
    }

    pub fn checkpoint_votes_are_repeated_after_a_crash<P: Play>() {
        let mut world = World::<P>::new(4, config::<P>(), 1);
        world.network.filter = Some(Box::new(|flight| matches!(flight.letter, Letter::Checkpoint(_))));
        world.start();
        while committed(&world, 0) < Height(4) {
            let command = world.submit(1);
            assert!(world.run_until_done(PATIENCE, &command));
        }
        world.run_for(Duration::from_millis(10));
        assert!((0..4).all(|replica| stable(&world, replica).subject.height == Height(0)));
        (0..4).for_each(|replica| world.kill(replica));
        world.drop_all_in_flight();
        world.network.filter = None;
        (0..4).for_each(|replica| world.restart(replica, 0));
        world.run_for(Duration::from_millis(10));
        for replica in 0..4 {
            assert_eq!(stable(&world, replica).subject.height, Height(4), "{}: {}", P::NAME, standing(&world));
        }
    }

    pub fn void_checkpoint_votes_are_not_counted<P: Play>() {
        let mut world = with_votes_missing::<P>(2);
        world.network.filter = None;
        let subject = stable(&world, 0).subject;
        let vote = |voter: u16, subject| world.keys.vote(ReplicaId(voter), subject, Attachment::None);
        let told = Attachment::HighView(View(1));
        let far = Height(4 * 1000);
        let votes = [
            (vote(3, subject), Drop::NotTheSender),
            (vote(2, Subject { height: Height(5), ..subject }), Drop::Malformed),
            (vote(2, Subject { height: Height(0), ..subject }), Drop::Malformed),
            (vote(2, Subject { view: View(1), ..subject }), Drop::Malformed),
            (vote(2, Subject { domain: Domain::Vote, ..subject }), Drop::Malformed),
            (world.keys.vote(ReplicaId(2), subject, told), Drop::Malformed),
            (vote(2, Subject { height: far, ..subject }), Drop::TooFarAhead),
        ];
        for (vote, why) in votes {
            let before = dropped(&world, 1, why);
            world.inject_letter(2, 1, Envelope::Checkpoint(vote));
            world.run_for(Duration::from_millis(2));
            assert_eq!(dropped(&world, 1, why), before + 1);
        }
        assert_eq!(stable(&world, 1).subject.height, Height(0));
        let rounds = world.replica(1).parts().checkpoints.tally.rounds();
        assert!(rounds <= 2, "void votes are not kept: {rounds} rounds");
        let before = dropped(&world, 0, Drop::Late);
        let late = world.keys.vote(ReplicaId(2), subject, Attachment::None);
        world.inject_letter(2, 0, Envelope::Checkpoint(late));
        world.run_for(Duration::from_millis(2));
        assert_eq!(dropped(&world, 0, Drop::Late), before + 1);
    }

    pub fn a_replica_with_a_different_state_halts<P: Play>() {
        let mut world = with_votes_missing::<P>(0);
        world.network.filter = None;
        // A quorum without R1 certifies a different state.
        let subject = Subject { digest: Digest([9; 32]), ..stable(&world, 0).subject };
        for voter in [0, 2, 3] {
            let vote = world.keys.vote(ReplicaId(voter), subject, Attachment::None);
            world.inject_letter(voter, 1, Envelope::Checkpoint(vote));
        }
        let going_on = std::panic::AssertUnwindSafe(|| world.run_for(Duration::from_millis(5)));
        let said = std::panic::catch_unwind(going_on).expect_err("the host stops the replica");
        let said = said.downcast_ref::<String>().expect("the panic has a message");
        assert!(said.contains("R1 halts: Diverged"), "{said}");
    }
}
