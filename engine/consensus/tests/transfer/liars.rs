//! Byzantine replicas in state transfers.

use super::*;
use crate::common::keys::forged_certificate;
use crate::common::world::Act;
use quorate_consensus::{Action, Envelope};
use quorate_types::{Domain, Subject, View};

crate::for_all_protocols! {
    /// A peer sends chunks that do not belong to the state.
    a_peer_with_wrong_chunks_is_not_asked_again,
    /// A peer sends something else instead of the manifest.
    a_wrong_manifest_is_refused,
    /// A peer never answers a request.
    a_silent_peer_does_not_stop_a_transfer,
    /// A peer repeatedly says that it no longer has the state.
    a_peer_without_states_does_not_stop_a_transfer,
    /// A peer offers the state of a checkpoint at which no replica keeps one.
    a_state_that_no_replica_keeps_is_abandoned,
    /// A single peer offers a state, and may withhold the blocks.
    a_single_offer_is_not_followed,
    /// Offers without a valid certificate, or for something that is not a checkpoint.
    forged_offers_are_ignored,
    /// Unrequested parts of states and requests for nonexistent parts are ignored.
    unrequested_parts_are_ignored,
}

fn checkpoint(height: u64) -> Subject {
    Subject { domain: Domain::Checkpoint, view: View(0), height: Height(height), digest: Digest([9; 32]) }
}

/// Makes R1 rewrite its messages.
fn with_liar<P: Play>(mut rewrite: impl FnMut(Letter<P::Message>) -> Option<Letter<P::Message>> + 'static) -> World<P> {
    let mut world = with_one_away::<P>(config::<P>());
    world.corrupt(
        1,
        Box::new(move |_, action: Act<P::Message>, out| match action {
            Action::Send { to, message, after, sign } => {
                out.extend(rewrite(message).map(|message| Action::Send { to, message, after, sign }));
            }
            action => out.push(action),
        }),
    );
    world
}

mod bodies {
    use super::*;

    pub fn a_peer_with_wrong_chunks_is_not_asked_again<P: Play>() {
        let mut world = with_liar::<P>(|letter| match letter {
            Envelope::StatePart { height, part, bytes } if part > 0 => {
                let mut bytes = bytes.to_vec();
                bytes[0] ^= 1;
                Some(Envelope::StatePart { height, part, bytes: bytes.into() })
            }
            letter => Some(letter),
        });
        comes_back(&mut world);
        assert_eq!(dropped(&world, AWAY, Drop::NotGenuine), 1, "a peer that lied once is not asked again");
    }

    pub fn a_wrong_manifest_is_refused<P: Play>() {
        let mut world = with_liar::<P>(|letter| match letter {
            Envelope::StatePart { height, part: 0, .. } => {
                Some(Envelope::StatePart { height, part: 0, bytes: vec![1; 100].into() })
            }
            letter => Some(letter),
        });
        // No other peer is available to be asked first.
        world.network.set_cut(ReplicaId(0), ReplicaId(AWAY), false);
        comes_back(&mut world);
    }

    pub fn a_silent_peer_does_not_stop_a_transfer<P: Play>() {
        let mut world = with_liar::<P>(|letter| match letter {
            Envelope::StatePart { .. } => None,
            letter => Some(letter),
        });
        comes_back(&mut world);
    }

    pub fn a_peer_without_states_does_not_stop_a_transfer<P: Play>() {
        let mut world = with_liar::<P>(|letter| match letter {
            Envelope::StatePart { height, part, .. } => {
                Some(Envelope::StatePart { height, part, bytes: Default::default() })
            }
            letter => Some(letter),
        });
        comes_back(&mut world);
        assert_eq!(fetches(&world, AWAY).len(), 1, "a single peer's offer does not restart the transfer");
    }

    pub fn a_state_that_no_replica_keeps_is_abandoned<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        let keys = world.keys;
        world.corrupt(
            1,
            Box::new(move |_, action: Act<P::Message>, out| match action {
                Action::Send { to, message: Envelope::Offer { checkpoint: honest }, after, sign } => {
                    let void = keys.certificate(checkpoint(honest.subject.height.0 + 4), [0, 1, 2]);
                    let message = Envelope::Offer { checkpoint: Box::new(void) };
                    out.push(Action::Send { to, message, after, sign });
                }
                action => out.push(action),
            }),
        );
        comes_back(&mut world);
    }

    pub fn a_single_offer_is_not_followed<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        world.network.set_cut(ReplicaId(1), ReplicaId(AWAY), false);
        world.network.set_cut(ReplicaId(AWAY), ReplicaId(1), false);
        load(&mut world, 5);
        world.run_for(Duration::from_secs(2));
        let offered = world.replica(1).parts().checkpoints.offered().expect("R1 offers a state").clone();
        for _ in 0..5 {
            world.inject_letter(1, AWAY, Envelope::Offer { checkpoint: Box::new(offered.clone()) });
            world.run_for(Duration::from_millis(10));
        }
        assert_eq!(fetches(&world, AWAY), [], "{}: an offer of fewer than f+1 peers is not followed", P::NAME);
        comes_back(&mut world);
    }

    pub fn forged_offers_are_ignored<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        for replica in 0..3 {
            world.network.set_cut(ReplicaId(replica), ReplicaId(AWAY), false);
        }
        let before = [Drop::Malformed, Drop::NotGenuine, Drop::Stale].map(|why| dropped(&world, AWAY, why));
        let few = world.keys.certificate(checkpoint(400), 0..2);
        let between = world.keys.certificate(checkpoint(401), 0..3);
        let vote = Subject { domain: Domain::Vote, ..checkpoint(400) };
        let other = world.keys.certificate(vote, 0..3);
        let later = world.keys.certificate(Subject { view: View(1), ..checkpoint(400) }, 0..3);
        for from in 0..3 {
            for certificate in [&few, &forged_certificate(checkpoint(400), 0..3), &between, &other, &later] {
                world.inject_letter(from, AWAY, Envelope::Offer { checkpoint: Box::new(certificate.clone()) });
            }
            let genesis = world.replica(0).parts().genesis.clone();
            world.inject_letter(from, AWAY, Envelope::Offer { checkpoint: Box::new(genesis) });
        }
        world.run_for(Duration::from_millis(5));
        assert_eq!(dropped(&world, AWAY, Drop::NotGenuine), before[1] + 6);
        assert_eq!(dropped(&world, AWAY, Drop::Malformed), before[0] + 12);
        assert_eq!(fetches(&world, AWAY), []);
        world.network.isolate(ReplicaId(AWAY), true);
        comes_back(&mut world);
    }

    pub fn unrequested_parts_are_ignored<P: Play>() {
        let mut world = with_one_away::<P>(config::<P>());
        let before = dropped(&world, 0, Drop::Unasked);
        let (bytes, height) = (bytes::Bytes::from_static(b"part"), world.states(0)[0]);
        for part in [0, 1, u32::MAX] {
            world.inject_letter(1, 0, Envelope::StatePart { height, part, bytes: bytes.clone() });
            world.inject_letter(1, 0, Envelope::FetchState { height, part });
            world.inject_letter(1, 0, Envelope::FetchState { height: Height(u64::MAX), part });
        }
        // Executed and forgotten bundles must not be treated as pending.
        let late = world.bundle(1);
        world.inject_letter(1, 0, Envelope::Bundles(vec![late.clone(), late.clone()]));
        world.run_for(Duration::from_millis(5));
        assert_eq!(dropped(&world, 0, Drop::Unasked), before + 4);
        assert!(!world.replica(0).is_known(&late.digest()));
        comes_back(&mut world);
    }
}
