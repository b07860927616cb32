//! Tests that no harm comes from a Byzantine replica that assembles certificates, is closer to all others than they are
//! to each other, and stays active to the end.

use quorate_adversary::twins::Property;
use quorate_adversary::twins::museum::{Hunt, Mutant, Play, Rule};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::mutants::Bug;

/// Number of scenarios per protocol; `QUORATE_AMBUSHES=<count>` plays more.
const SCENARIOS: u64 = 200;

const SOUND: Play = Play { mutant: None, broken: false, record: false };

#[test]
fn a_nearby_byzantine_replica_violates_nothing() {
    let scenarios = std::env::var("QUORATE_AMBUSHES").map_or(SCENARIOS, |count| count.parse().expect("a number"));
    for protocol in ProtocolKind::ALL {
        let mut play = Hunt::Ambush.scenes(*protocol, SOUND);
        for number in 0..scenarios {
            assert_eq!(play(number), None, "{protocol}: scenario {number}");
        }
    }
}

/// The Byzantine replica keeps assembling certificates that no block can satisfy, faster than others assemble theirs,
/// so nothing is ordered any more.
#[test]
fn views_that_begin_by_timeouts_alone_stop_progress() {
    let mutant = Some(Mutant::Hook(Bug::TimeoutsAlone));
    let mut play = Hunt::Ambush.scenes(ProtocolKind::Jolteon, Play { mutant, broken: true, ..SOUND });
    let seen = (0..2000).find_map(&mut play).expect("it is found");
    assert_eq!(seen.property, Property::Liveness, "{}", seen.what);
}

/// The order of statements is violated before a fork occurs.
#[test]
fn a_vote_against_the_timeouts_is_detected_before_a_fork() {
    let mutant = Some(Mutant::Rule(Rule::OldParentAccepted));
    let mut play = Hunt::Twins.scenes(ProtocolKind::Jolteon, Play { mutant, broken: true, ..SOUND });
    let seen = (0..2000).find_map(&mut play).expect("it is found");
    assert_eq!(seen.property, Property::Order, "{}", seen.what);
}
