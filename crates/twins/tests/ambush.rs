//! A liar that assembles certificates, is nearer to everybody than others, and stays active to the end does no harm.

use quorate_consensus::config::ProtocolKind;
use quorate_consensus::mutants::Bug;
use quorate_twins::Law;
use quorate_twins::museum::scene::Play;
use quorate_twins::museum::{Hunt, Mutant, Rule};

/// Scenarios of each protocol; `QUORATE_AMBUSHES=<count>` plays more.
const SCENARIOS: u64 = 200;

const SOUND: Play = Play { mutant: None, broken: false, record: false };

#[test]
fn a_liar_who_is_nearer_than_others_harms_nobody() {
    let scenarios = std::env::var("QUORATE_AMBUSHES").map_or(SCENARIOS, |count| count.parse().expect("a number"));
    for protocol in ProtocolKind::ALL {
        let mut play = Hunt::Ambush.scenes(*protocol, SOUND);
        for number in 0..scenarios {
            assert_eq!(play(number), None, "{protocol}: scenario {number}");
        }
    }
}

/// The liar keeps assembling certificates that no block can satisfy, faster than others make theirs, so nothing is
/// ordered again.
#[test]
fn views_that_timeouts_alone_begin_are_stopped_for_good() {
    let mutant = Some(Mutant::Hook(Bug::TimeoutsAlone));
    let mut play = Hunt::Ambush.scenes(ProtocolKind::Jolteon, Play { mutant, broken: true, ..SOUND });
    let seen = (0..2000).find_map(&mut play).expect("it is found");
    assert_eq!(seen.law, Law::Liveness, "{}", seen.what);
}

/// The order of statements is violated before two chains are.
#[test]
fn a_vote_against_the_timeouts_is_seen_before_it_does_harm() {
    let mutant = Some(Mutant::Rule(Rule::OldParentAccepted));
    let mut play = Hunt::Twins.scenes(ProtocolKind::Jolteon, Play { mutant, broken: true, ..SOUND });
    let seen = (0..2000).find_map(&mut play).expect("it is found");
    assert_eq!(seen.law, Law::Order, "{}", seen.what);
}
