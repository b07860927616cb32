//! The messages of others that a replica keeps and shows to third parties: verified proofs and valid evidence.

use crate::common::config;
use crate::common::keys::{Keys, forged_certificate};
use crate::common::network::Letter;
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, PbftMessage};
use quorate_types::{Attachment, Certificate, Digest, Domain, Height, ReplicaId, Subject, View, Vote};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn config_without_load() -> Config {
    Config { window: 20, checkpoint_interval: 10, retained_blocks: 64, ..config::<Pbft>() }
}

fn prepare(slot: u64, digest: u8) -> Subject {
    Subject { domain: Domain::Prepare, view: View(1), height: Height(slot), digest: Digest([digest; 32]) }
}

/// Returns the vote of a view change by a replica that has prepared `prepared` in view 1.
fn declaration(keys: &Keys, voter: u16, view: u64, prepared: &[Subject]) -> Declaration {
    let checkpoint = Certificate::genesis(&keys.epoch).subject;
    let digest = Declaration::digest(&checkpoint, prepared, &[]);
    let subject = Subject { domain: Domain::ViewChange, view: View(view), height: Height(0), digest };
    let vote = keys.vote(ReplicaId(voter), subject, Attachment::None);
    Declaration { vote, checkpoint, prepared: prepared.to_vec(), voted: Vec::new() }
}

/// The primary of view 2 opens it with a forged copy of a proof that R3 has verified. R3 shows the genuine proof to
/// replicas that missed the view.
#[test]
fn invalid_copies_of_known_proofs_are_not_passed_on() {
    let mut world = World::<Pbft>::started(4, config_without_load(), 1);
    let (keys, subject) = (world.keys, prepare(1, 9));
    for voter in 0..3 {
        world.inject(voter, 3, PbftMessage::Prepare(keys.vote(ReplicaId(voter), subject, Attachment::None)));
    }
    world.run_for(Duration::from_millis(5));
    assert!(world.replica(3).protocol().log().proof(&subject).is_some(), "R3 has the proof of slot 1");
    let changes: Vec<Declaration> = (0..3).map(|voter| declaration(&keys, voter, 2, &[subject])).collect();
    let digest = NewView::digest(&changes);
    let opens = Subject { domain: Domain::Proposal, view: View(2), height: Height(0), digest };
    let endorsement = keys.vote(ReplicaId(1), opens, Attachment::None);
    let void = forged_certificate(subject, 0..3);
    let checkpoint = Certificate::genesis(&keys.epoch);
    let new_view = NewView { endorsement, changes, checkpoint, prepared: vec![void] };
    world.inject(1, 3, PbftMessage::NewView(Box::new(new_view)));
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.replica(3).view(), View(2), "R3 enters view 2");
    let shown: Arc<Mutex<Vec<Certificate>>> = Arc::default();
    let seen = shown.clone();
    world.network.filter = Some(Box::new(move |flight| {
        if let (3, Letter::Protocol(PbftMessage::NewView(new_view))) = (flight.from.0, flight.letter) {
            seen.lock().unwrap().extend(new_view.prepared.iter().cloned());
        }
        false
    }));
    world.inject(2, 3, PbftMessage::Status { view: View(1), committed: Height(0) });
    world.run_for(Duration::from_millis(5));
    let shown = shown.lock().unwrap();
    assert!(!shown.is_empty(), "R3 shows R2 how the view began");
    assert!(shown.iter().all(|proof| keys.is_certificate_genuine(proof)), "R3 passes on an invalid proof");
}

fn spoilt(vote: Vote) -> Vote {
    Vote { signature: bytes::Bytes::from_static(b"no signature"), ..vote }
}

/// If a vote with an invalid signature arrives first, its voter's other statements are still processed, and two valid
/// votes prove misbehavior.
#[test]
fn an_invalid_signature_hides_no_later_statement() {
    let mut world = World::<Pbft>::started(4, config_without_load(), 1);
    let keys = world.keys;
    world.oracle.distrust(ReplicaId(3));
    let vote = |digest| keys.vote(ReplicaId(3), prepare(1, digest), Attachment::None);
    for vote in [spoilt(vote(7)), vote(8), vote(9)] {
        world.inject(3, 1, PbftMessage::Prepare(vote));
        world.run_for(Duration::from_millis(5));
    }
    assert_eq!(world.replica(1).evidence().len(), 1, "votes 8 and 9 are proof of misbehavior");
}

/// Contradictions without proof do not use up the budget for those with proof: after a while another one is
/// investigated.
#[test]
fn invalid_evidence_does_not_crowd_out_valid_evidence() {
    let mut world = World::<Pbft>::started(4, config_without_load(), 1);
    let keys = world.keys;
    world.oracle.distrust(ReplicaId(3));
    let vote = |slot, digest| keys.vote(ReplicaId(3), prepare(slot, digest), Attachment::None);
    for slot in 1..=18 {
        for vote in [vote(slot, 7), spoilt(vote(slot, 8))] {
            world.inject(3, 1, PbftMessage::Prepare(vote));
        }
    }
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.replica(1).evidence().len(), 0);
    for vote in [vote(19, 7), vote(19, 8)] {
        world.inject(3, 1, PbftMessage::Prepare(vote));
    }
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.replica(1).evidence().len(), 1, "two statements in one slot are proof of misbehavior");
}
