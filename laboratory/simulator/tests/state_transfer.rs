//! Replicas that were down for longer than blocks are retained catch up by fetching a checkpoint's state.

use crate::common::commands;
use crate::transfers::{AWAY, judged, last_adopted, records, short_memory, time, with_records};
use quorate_adversary::byzantine::Fault;
use quorate_adversary::byzantine::behaviours::{ForgeState, InventAnswers, RepeatOffers, StallState};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::recovery::checkpoints::MAX_STATES_KEPT;
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::network::{Delivery, End};
use quorate_simulator::{Leaves, SimReport, SimSpec, run};
use quorate_types::{Quorum, Time};
use std::time::Duration;

/// Start and end of a replica's absence, in milliseconds.
const GONE: (f64, f64) = (100.0, 500.0);
/// A time well after the replica has caught up, in milliseconds.
const LATER_MS: f64 = 700.0;
/// Window in which the cluster must keep a minimum share of its throughput while a replica fetches a state, in
/// milliseconds.
const WINDOW_MS: f64 = 20.0;
const MIN_PART: f64 = 0.8;
/// Latest chunk at which a peer starts to lie: each of three peers serves about a third of a state's chunks.
const LATEST_CHANCE: u32 = 5;

fn crashed(replica: u16) -> FaultSpec {
    FaultSpec::Restart { at_ms: GONE.0, for_ms: GONE.1 - GONE.0, replica, journal: Leaves::Flushed }
}

fn cut_off(replica: u16, others: &[u16]) -> FaultSpec {
    let to = others.iter().map(|other| End::Replica(*other)).collect();
    FaultSpec::Cut { at_ms: GONE.0, for_ms: GONE.1 - GONE.0, from: vec![End::Replica(replica)], to, one_way: false }
}

/// Returns the commands per millisecond that the cluster executed in an interval.
fn rate(report: &SimReport, from: Time, to: Time) -> f64 {
    let samples = &report.chronicle.samples;
    let at = |time: Time| samples.iter().rfind(|sample| sample.at <= time).unwrap_or(&samples[0]);
    let done = |time| at(time).commands.iter().max().copied().unwrap_or(0);
    (done(to) - done(from)) as f64 / (at(to).at.since(at(from).at).as_secs_f64() * 1000.0)
}

/// Checks that the cluster keeps its throughput while a replica catches up.
fn assert_undisturbed(report: &SimReport, until: Time, case: &str) {
    let before = rate(report, time(GONE.0 / 2.0), time(GONE.0));
    let mut from = GONE.1;
    while time(from) < until {
        let during = rate(report, time(from), time(from + WINDOW_MS));
        assert!(during >= MIN_PART * before, "{case}: {during} commands per ms at {from} ms, {before} before");
        from += WINDOW_MS;
    }
}

/// A replica is down and catches up. Then another one crashes for good, so nothing is ordered without the first.
fn comes_back(protocol: ProtocolKind, fault: FaultSpec) {
    let mut spec = short_memory(protocol);
    let case = format!("{protocol}, {fault:?}");
    // A stream would deliver all messages after the cut.
    if matches!(fault, FaultSpec::Cut { .. }) {
        spec.network.transport.kind = Delivery::Datagram;
    }
    spec.network.faults = vec![fault, FaultSpec::Crash { at_ms: LATER_MS, replica: 1 }];
    let report = run(&spec, 1, &commands);
    let fetched = judged(&report, &[AWAY], &case);
    let (_, adopted) = last_adopted(fetched, AWAY).unwrap_or_else(|| panic!("{case}: no state: {fetched:?}"));
    assert!(adopted < time(LATER_MS), "{case}: it took until {adopted:?}");
    assert_undisturbed(&report, adopted, &case);
    let then = report.chronicle.samples.iter().rfind(|sample| sample.at <= time(LATER_MS)).expect("it was sampled");
    let end = report.end[usize::from(AWAY)].as_ref().expect("it lives").height.0;
    assert!(end > then.heights[usize::from(AWAY)] + 20, "{case}: nothing is ordered with its votes");
}

/// A store whose state has several chunks, and a replica that is down from the start.
fn store(protocol: ProtocolKind) -> SimSpec {
    let mut spec = with_records(short_memory(protocol));
    let away = FaultSpec::Restart { at_ms: 1.0, for_ms: GONE.1, replica: AWAY, journal: Leaves::Written };
    spec.network.faults = vec![away];
    spec
}

/// One of the three peers with the state forges it, stalls, repeats its offer, or offers a nonexistent state.
fn comes_back_among_liars(protocol: ProtocolKind) {
    let faults: [Fault; 4] = [ForgeState.into(), StallState.into(), RepeatOffers.into(), InventAnswers.into()];
    for (fault, liar) in faults.into_iter().zip([0, 1, 2, 1]) {
        let mut spec = store(protocol);
        spec.network.faults.push(FaultSpec::misbehave(0.0, liar, fault));
        let case = format!("{protocol}, {fault} of replica {liar}");
        let report = run(&spec, 1, &records);
        let fetched = judged(&report, &[AWAY], &case);
        let (fetched, _) = last_adopted(fetched, AWAY).unwrap_or_else(|| panic!("{case}: no state: {fetched:?}"));
        assert!(fetched.chunks > 3, "{case}: {fetched:?}");
        let forged = report.end[usize::from(AWAY)].as_ref().and_then(|status| status.dropped.get("not-genuine"));
        let forges = [ForgeState.into(), InventAnswers.into()].contains(&fault);
        assert!(!forges || forged.is_some(), "{case}: nothing forged was dropped");
    }
}

/// One of the three peers is honest for its first chunks. Its first lie is detected, regardless of the chunk.
#[test]
fn a_peer_that_lies_after_honest_chunks_is_detected() {
    for (liar, chance) in (0..3).flat_map(|liar| (1..=LATEST_CHANCE).map(move |chance| (liar, chance))) {
        let mut spec = store(ProtocolKind::Jolteon);
        let fault = Fault::from(ForgeState).from_opportunity(chance).expect("it has opportunities");
        spec.network.faults.push(FaultSpec::misbehave(0.0, liar, fault));
        let case = format!("{fault} of replica {liar}");
        let report = run(&spec, 1, &records);
        let fetched = judged(&report, &[AWAY], &case);
        last_adopted(fetched, AWAY).unwrap_or_else(|| panic!("{case}: no state: {fetched:?}"));
    }
}

/// The replica crashes during the transfer, and resumes it without fetching any chunk twice.
fn resumes_the_transfer(protocol: ProtocolKind) {
    let mut spec = store(protocol);
    // Peers keep the same state until the transfer is complete.
    (spec.consensus.retained_blocks, spec.consensus.retained_bytes) = (240, 2 << 20);
    let calm = run(&spec, 1, &records);
    let (undisturbed, adopted) = last_adopted(judged(&calm, &[AWAY], "calm"), AWAY).expect("a state was fetched");
    let midst = (undisturbed.begun.0 + adopted.0) as f64 / 2.0 / 1e6;
    spec.network.faults.push(FaultSpec::Restart { at_ms: midst, for_ms: 2.0, replica: AWAY, journal: Leaves::Written });
    let report = run(&spec, 1, &records);
    let case = format!("{protocol}, a crash at {midst} ms");
    let fetched = judged(&report, &[AWAY], &case);
    let [first, second] = fetched else { panic!("{case}: {fetched:?}") };
    assert_eq!(
        (first.height, first.chunks, first.adopted),
        (second.height, second.chunks, None),
        "{case}: {fetched:?}"
    );
    assert!(first.received > 0 && first.received < first.chunks, "{case}: {fetched:?}");
    assert_eq!((second.held, second.held + second.received), (first.received, second.chunks), "{case}: {fetched:?}");
    assert!(second.adopted.is_some(), "{case}: {fetched:?}");
}

/// f replicas are down at the same time.
fn two_come_back(protocol: ProtocolKind) {
    let mut spec = short_memory(protocol);
    spec.quorum = Quorum::of(7).expect("a sound size");
    spec.network.faults = vec![crashed(5), crashed(6)];
    let report = run(&spec, 1, &commands);
    let case = format!("{protocol}, two of seven");
    let fetched = judged(&report, &[5, 6], &case);
    let adopted = [5, 6].map(|replica| last_adopted(fetched, replica).map(|(_, adopted)| adopted));
    let last = adopted.into_iter().max().flatten().filter(|_| adopted.iter().all(Option::is_some));
    let last = last.unwrap_or_else(|| panic!("{case}: {fetched:?}"));
    assert_undisturbed(&report, last, &case);
}

/// A replica's memory use does not grow with the length of the run.
fn memory_does_not_grow(protocol: ProtocolKind) {
    let lives = |duration| {
        let mut spec = with_records(short_memory(protocol));
        spec.load.mode = LoadMode::Closed { outstanding: 40 };
        spec.load.duration = Duration::from_millis(duration);
        let report = run(&spec, 1, &records);
        let judged = judged(&report, &[], "all are present");
        assert_eq!(judged, [], "{protocol}: no replica needs a state");
        report
    };
    let (short, long) = (lives(300), lives(1200));
    let blocks = |report: &SimReport| report.end[0].as_ref().expect("it lives").height.0;
    assert!(blocks(&long) > blocks(&short) * 2, "{protocol}: {} blocks", blocks(&long));
    for (replica, (short, long)) in short.chronicle.max_held.iter().zip(&long.chronicle.max_held).enumerate() {
        let case = format!("{protocol}, replica {replica}: {short:?} became {long:?}");
        assert!(long.whole_blocks <= short.whole_blocks + 20 && long.blocks <= short.blocks + 20, "{case}");
        assert!(long.rounds <= short.rounds + 10, "{case}");
        assert!(long.states <= MAX_STATES_KEPT + 2, "{case}");
        let largest = short.state_bytes / short.states;
        assert!(long.state_bytes <= (largest + largest / 10) * long.states, "{case}");
    }
}

/// Prints and checks the speed at which a replica catches up, by blocks and by a state, relative to the commits of the
/// others.
fn catches_up_faster_than_others_commit(protocol: ProtocolKind) {
    let speed = |spec: &SimSpec| {
        let report = run(spec, 1, &commands);
        let fetched = judged(&report, &[AWAY], &format!("{protocol}, catching up")).len();
        let samples: Vec<_> = report.chronicle.samples.iter().filter(|sample| sample.at >= time(GONE.1)).collect();
        let away = |at: usize| samples[at].heights[usize::from(AWAY)];
        let first = |at: usize| samples[at].heights[0];
        let level = (0..samples.len()).find(|at| away(*at) + 10 >= first(*at)).expect("the replica caught up");
        ((away(level) - away(0)) as f64 / (first(level) - first(0)).max(1) as f64, fetched)
    };
    let mut spec = short_memory(protocol);
    spec.network.faults = vec![crashed(AWAY)];
    let (by_state, fetched) = speed(&spec);
    (spec.consensus.retained_blocks, spec.consensus.retained_bytes) = (1 << 20, 1 << 30);
    let (by_blocks, none_fetched) = speed(&spec);
    println!("{protocol}: catches up {by_blocks:.1} times as fast as others commit, {by_state:.1} with a state");
    assert!(fetched > 0 && none_fetched == 0, "{protocol}: it caught up the wrong way");
    assert!(by_blocks > 1.5 && by_state > 1.5, "{protocol}: {by_blocks} and {by_state}");
}

macro_rules! for_every_protocol {
    ($($name:ident: $kind:ident,)+) => {
        $(mod $name {
            use super::*;
            const PROTOCOL: ProtocolKind = ProtocolKind::$kind;
            #[test] fn a_crashed_replica_comes_back() { comes_back(PROTOCOL, crashed(AWAY)); }
            #[test] fn a_replica_that_was_cut_off_comes_back() { comes_back(PROTOCOL, cut_off(AWAY, &[0, 1, 2])); }
            #[test] fn a_replica_comes_back_among_liars() { comes_back_among_liars(PROTOCOL); }
            #[test] fn a_crash_loses_no_chunk() { resumes_the_transfer(PROTOCOL); }
            #[test] fn two_of_seven_come_back() { two_come_back(PROTOCOL); }
            #[test] fn memory_is_bounded() { memory_does_not_grow(PROTOCOL); }
            #[test] fn a_replica_catches_up_fast() { catches_up_faster_than_others_commit(PROTOCOL); }
        })+
    };
}

quorate_consensus::each_protocol!(for_every_protocol);
