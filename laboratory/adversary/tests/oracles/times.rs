//! Detection of blocks whose times are wrong.

use crate::fixture::{certified, genesis};
use quorate_adversary::oracles::{Property, Times};
use quorate_consensus::Config;
use quorate_consensus::config::{ProtocolKind, ViewDuration};
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::voting::safety::Promise;
use quorate_types::{Attachment, Block, Digest, Domain, Height, ReplicaId, View};

const SKEW_MS: u64 = 100;
const TIMEOUT_MS: u64 = 1000;
/// Three view timeouts and the skew.
const BEHIND_MS: u64 = 3100;
const NOW_MS: u64 = 1_000_000;
/// Far more than clocks may be off.
const FAR_MS: u64 = 100_000;

fn times(protocol: ProtocolKind) -> Times {
    let config = Config { protocol, max_clock_skew_ms: SKEW_MS, view_timeout_ms: TIMEOUT_MS, ..Config::default() };
    Times::new(4, 1, &config)
}

fn block(time_ms: u64) -> Block {
    Block::new(View(1), ReplicaId(0), genesis(), vec![Digest([1; 32])], time_ms)
}

/// Lets a replica journal a block and its vote while its clock shows `clock_ms`. Returns whether that is found wrong.
fn votes(times: &mut Times, replica: u16, block: &Block, clock_ms: Option<u64>) -> bool {
    promises(times, replica, block, block.view, Domain::Vote, clock_ms)
}

fn promises(times: &mut Times, replica: u16, block: &Block, view: View, domain: Domain, clock_ms: Option<u64>) -> bool {
    let subject = quorate_types::Subject { view, ..block.subject(domain) };
    let promise = Promise { subject, attachment: Attachment::None, lock: genesis().subject };
    let replica = ReplicaId(replica);
    times.journals(replica, &Record::Block(block.clone().into()), clock_ms).expect("a block is no vote");
    let found = times.journals(replica, &Record::Promise(promise), clock_ms);
    found.is_err_and(|violation| {
        assert_eq!(violation.property, Property::Time);
        true
    })
}

#[test]
fn votes_for_times_far_from_the_voters_clock_are_found() {
    for (time_ms, wrong) in [
        (NOW_MS, false),
        (NOW_MS + SKEW_MS, false),
        (NOW_MS + SKEW_MS + 10, true),
        (NOW_MS - BEHIND_MS, false),
        (NOW_MS - BEHIND_MS - 10, true),
        (0, true),
        (u64::MAX, true),
    ] {
        let found = votes(&mut times(ProtocolKind::Jolteon), 1, &block(time_ms), Some(NOW_MS));
        assert_eq!(found, wrong, "{time_ms}");
    }
}

#[test]
fn only_honest_new_votes_in_the_view_of_the_block_count() {
    let far = block(NOW_MS + FAR_MS);
    let mut times = times(ProtocolKind::Pbft);
    assert!(!votes(&mut times, 1, &far, None), "it reads its journal");
    assert!(!promises(&mut times, 1, &far, View(2), Domain::Prepare, Some(NOW_MS)), "a later view carries it over");
    assert!(!promises(&mut times, 1, &far, View(1), Domain::Commit, Some(NOW_MS)), "a quorum has sent PREPARE");
    times.distrust(ReplicaId(2));
    assert!(!votes(&mut times, 2, &far, Some(NOW_MS)), "a liar may vote for anything");
    assert!(!votes(&mut times, 0, &block(NOW_MS), Some(NOW_MS)));
    assert!(!votes(&mut times, 0, &block(NOW_MS), Some(NOW_MS + FAR_MS)), "a summary repeats a promise");
    assert!(promises(&mut times, 3, &far, View(1), Domain::Prepare, Some(NOW_MS)));
}

/// A replica that hears of a certified block late votes for it without judging its time.
#[test]
fn votes_after_a_quorum_are_not_judged() {
    let found_after = |before: u16, lies: bool| {
        let (mut times, block) = (times(ProtocolKind::Pbft), block(NOW_MS));
        if lies {
            times.distrust(ReplicaId(3));
        }
        assert!((0..before).all(|voter| !votes(&mut times, voter, &block, Some(NOW_MS))));
        votes(&mut times, before, &block, Some(NOW_MS + FAR_MS))
    };
    assert!(found_after(2, false), "two voters are no quorum");
    assert!(!found_after(3, false), "a quorum has voted");
    assert!(found_after(1, true), "one voter and a liar are no quorum");
    assert!(!found_after(2, true), "the liar may be the third voter");
}

#[test]
fn timeouts_lengthen_the_tolerance_until_commands_are_executed() {
    let old = block(NOW_MS - BEHIND_MS - 10);
    let timed_out = |times: &mut Times| {
        let _ = promises(times, 1, &block(NOW_MS), View(9), Domain::Timeout, Some(NOW_MS));
    };
    let mut tolerant = times(ProtocolKind::Jolteon);
    timed_out(&mut tolerant);
    assert!(!votes(&mut tolerant, 1, &old, Some(NOW_MS)));
    assert!(votes(&mut tolerant, 2, &old, Some(NOW_MS)), "another replica has not timed out");
    let fine = block(NOW_MS);
    (0..3).for_each(|replica| assert!(!votes(&mut tolerant, replica, &fine, Some(NOW_MS))));
    tolerant.commits(ReplicaId(1), &fine).expect("three replicas voted for it");
    let older = block(NOW_MS - BEHIND_MS - 11);
    assert!(votes(&mut tolerant, 1, &older, Some(NOW_MS)), "it has executed commands since");
    let fixed = Config { view_duration: ViewDuration::Fixed, max_clock_skew_ms: SKEW_MS, ..Config::default() };
    let mut fixed = Times::new(4, 1, &fixed);
    timed_out(&mut fixed);
    assert!(votes(&mut fixed, 1, &old, Some(NOW_MS)), "timeouts do not grow");
}

#[test]
fn a_commit_that_too_few_honest_replicas_voted_for_is_found() {
    for (protocol, needed) in [(ProtocolKind::Jolteon, 2), (ProtocolKind::BasicHotStuff, 2), (ProtocolKind::PbftMac, 1)]
    {
        for voters in 0..3 {
            let (mut times, block) = (times(protocol), block(NOW_MS));
            times.distrust(ReplicaId(3));
            votes(&mut times, 3, &block, Some(NOW_MS));
            times.journals(ReplicaId(0), &Record::Block(block.clone().into()), Some(NOW_MS)).expect("no vote");
            (0..voters).for_each(|voter| assert!(!votes(&mut times, voter, &block, Some(NOW_MS))));
            assert_eq!(times.commits(ReplicaId(0), &block).is_err(), voters < needed, "{protocol}, {voters}");
        }
    }
    let mut times = times(ProtocolKind::Pbft);
    let null = Block::of_slot(View(2), ReplicaId(1), Height(1), Vec::new(), 0);
    times.journals(ReplicaId(0), &Record::Block(null.clone().into()), Some(NOW_MS)).expect("no vote");
    times.commits(ReplicaId(0), &null).expect("it fills a slot");
    let timed = Block::of_slot(View(2), ReplicaId(1), Height(1), Vec::new(), NOW_MS);
    times.journals(ReplicaId(0), &Record::Block(timed.clone().into()), Some(NOW_MS)).expect("no vote");
    times.commits(ReplicaId(0), &timed).expect_err("it has a time that nobody found right");
}

#[test]
fn executions_at_other_times_are_found() {
    let first = block(1000);
    let second = Block::new(View(2), ReplicaId(0), certified(&first, Domain::Vote), Vec::new(), 900);
    let mut times = times(ProtocolKind::Jolteon);
    let replica = ReplicaId;
    times.executes(replica(0), &first, 1000).expect("its own time");
    times.executes(replica(0), &second, 1000).expect("the time of its predecessor, which is later");
    times.executes(replica(1), &first, 1000).expect("the same");
    times.executes(replica(1), &second, 900).expect_err("back to the time of the block");
    times.executes(replica(2), &first, 1001).expect_err("another time");
    times.adopts(replica(3), second.height, 1000).expect("the same");
    times.adopts(replica(3), second.height, 900).expect_err("another time");
    times.clear();
    times.executes(replica(0), &first, 999).expect_err("the first replica is wrong, too");
}
