//! Signs of standstill that a replica observes: peers whose votes do not arrive, and its own height.

use quorate_node::progress::{Progress, STANDSTILL};
use quorate_types::stages::MessageKind;
use quorate_types::{Height, ReplicaId, Time};
use std::time::Duration;

const OTHERS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];
/// Number of other votes that form a quorum of four with its own.
const NEEDED: usize = 2;

fn seconds(at: u64) -> Time {
    Time::from_millis(at * 1_000)
}

/// Delivers messages of these peers to a replica every second.
fn hear(progress: &mut Progress, peers: &[u16], kind: MessageKind, during: std::ops::Range<u64>) {
    for at in during {
        peers.iter().for_each(|peer| progress.heard(seconds(at), ReplicaId(*peer), kind));
    }
}

#[test]
fn a_collector_names_the_peer_whose_votes_do_not_arrive() {
    for kind in [MessageKind::Vote, MessageKind::Prepare, MessageKind::Commit] {
        let mut progress = Progress::new(4);
        hear(&mut progress, &[1, 2, 3], kind, 0..10);
        assert!(progress.mute(seconds(9), NEEDED, &OTHERS).is_empty());
        hear(&mut progress, &[1, 2], kind, 10..20);
        assert_eq!(progress.mute(seconds(19), NEEDED, &OTHERS), [ReplicaId(3)]);
        assert!(progress.mute(seconds(19), NEEDED, &OTHERS[..2]).is_empty(), "it is not connected");
        hear(&mut progress, &[3], kind, 20..21);
        assert!(progress.mute(seconds(20), NEEDED, &OTHERS).is_empty());
    }
}

#[test]
fn a_peer_that_has_just_connected_has_time_to_vote() {
    let mut progress = Progress::new(4);
    hear(&mut progress, &[1, 2], MessageKind::Vote, 0..20);
    progress.connected(seconds(18), ReplicaId(3));
    assert!(progress.mute(seconds(19), NEEDED, &OTHERS).is_empty());
    hear(&mut progress, &[1, 2], MessageKind::Vote, 20..30);
    assert_eq!(progress.mute(seconds(29), NEEDED, &OTHERS), [ReplicaId(3)]);
}

#[test]
fn a_replica_that_collects_no_votes_blames_nobody() {
    let mut progress = Progress::new(4);
    hear(&mut progress, &[1, 2, 3], MessageKind::Proposal, 0..60);
    assert!(progress.mute(seconds(59), NEEDED, &OTHERS).is_empty(), "proposals are no votes");
    hear(&mut progress, &[1], MessageKind::Vote, 60..120);
    assert!(progress.mute(seconds(119), NEEDED, &OTHERS).is_empty(), "one vote makes no quorum");
    assert!(Progress::new(1).mute(seconds(100), 0, &[]).is_empty(), "a replica without peers");
    // Nothing to vote on.
    hear(&mut progress, &[1, 2], MessageKind::Vote, 120..130);
    assert!(progress.mute(seconds(200), NEEDED, &OTHERS).is_empty());
}

#[test]
fn the_age_of_a_height_starts_again_when_it_grows() {
    let mut progress = Progress::new(4);
    progress.at_height(seconds(3), Height(1));
    progress.at_height(seconds(9), Height(1));
    assert_eq!(progress.height_age(seconds(10)), Duration::from_secs(7));
    assert!(progress.height_age(seconds(10)) > STANDSTILL);
    progress.at_height(seconds(10), Height(2));
    assert_eq!(progress.height_age(seconds(10)), Duration::ZERO);
}
