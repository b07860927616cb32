//! Recordings are replayed exactly, and differences are found at their step.

use crate::common::{NO_LIMIT, Scratch, config, entries, header, live, quorum, record, rewrite};
use bytes::Bytes;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_consensus::seam::Job;
use quorate_consensus::{Input, Timer};
use quorate_hosting::recording::{
    Comparison, Disagreement, End, Ending, Entry, Reader, Recorder, Replayed, Step, Tape, Writer, replay, step,
};
use quorate_types::{Encoder, ReplicaId, Time, Wire};
use std::path::Path;

const ROUNDS: u64 = 6;

fn replay_all(path: &Path) -> Replayed {
    replay(&mut Reader::open(path).expect("a recording"), None, None, None).expect("a valid recording")
}

fn steps(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| matches!(entry, Entry::Step(_))).count() as u64
}

fn encode(input: &Input<ViewMessage>) -> Bytes {
    let mut out = Encoder::default();
    input.encode(&mut out);
    out.finish()
}

#[test]
fn every_protocol_is_replayed_exactly() {
    for protocol in ProtocolKind::ALL {
        let scratch = Scratch::new();
        let path = scratch.path("life.recording");
        record(*protocol, ROUNDS, &path, NO_LIMIT);
        let mut lines = Vec::new();
        let mut tell = |line: &str| lines.push(line.to_owned());
        let mut reader = Reader::open(&path).expect("a recording");
        let replayed = replay(&mut reader, None, Some(&mut tell), None).expect("a valid recording");
        assert_eq!(replayed.difference, None, "{protocol}");
        assert_eq!(replayed.steps, steps(&entries(&path)), "{protocol}");
        assert!(replayed.blocks >= ROUNDS && replayed.commands == ROUNDS, "{protocol}: {replayed:?}");
        assert_eq!(replayed.replicas.len(), quorum().replicas());
        assert_eq!(replayed.ending, Some(Ending::Told(End::Done { trace: Some("a name".into()) })));
        for words in ["R0 begins", "takes the start", "takes from clients: 1 commands", "commits h1"] {
            assert!(lines.iter().any(|line| line.contains(words)), "{protocol}: {words}");
        }
    }
}

#[test]
fn a_replay_stops_at_the_given_step() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Jolteon, ROUNDS, &path, NO_LIMIT);
    let replayed =
        replay(&mut Reader::open(&path).expect("a recording"), Some(7), None, None).expect("a valid recording");
    assert_eq!((replayed.steps, replayed.ending), (7, None));
}

#[test]
fn the_first_step_whose_actions_differ_is_shown() {
    for protocol in ProtocolKind::ALL {
        let scratch = Scratch::new();
        let path = scratch.path("life.recording");
        record(*protocol, ROUNDS, &path, NO_LIMIT);
        let sound = entries(&path);
        let acts =
            |entry: &Entry| matches!(entry, Entry::Step(Step { actions: Some(actions), .. }) if actions.len() > 1);
        let places: Vec<usize> = (0..sound.len()).filter(|at| acts(&sound[*at])).collect();
        for at in places.iter().copied().step_by(places.len() / 5) {
            let mut altered = sound.clone();
            let number = steps(&altered[..=at]);
            let Entry::Step(Step { replica, actions: Some(actions), .. }) = &mut altered[at] else { unreachable!() };
            actions.remove(1);
            let replica = *replica;
            let path = scratch.path(&format!("altered-{at}.recording"));
            rewrite(&path, *protocol, altered, true);
            let replayed = replay_all(&path);
            let difference = replayed.difference.expect("an action is missing");
            assert_eq!((difference.step, difference.replica), (number, replica), "{protocol}");
            assert_eq!(difference.what, Disagreement::Action(1), "{protocol}");
            assert_eq!(difference.recorded.len() + 1, difference.replayed.len());
            assert_eq!(replayed.steps, number, "nothing is replayed after the difference");
            assert_eq!(replayed.ending, None);
        }
    }
}

#[test]
fn a_different_input_causes_different_actions() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Jolteon, ROUNDS, &path, NO_LIMIT);
    let mut altered = entries(&path);
    let yes = encode(&Input::Verdict { job: Job(1), genuine: true });
    let at = altered.iter().position(|entry| matches!(entry, Entry::Step(step) if step.input == yes));
    let at = at.expect("a certificate is checked");
    let Entry::Step(step) = &mut altered[at] else { unreachable!() };
    step.input = encode(&Input::Verdict { job: Job(1), genuine: false });
    let number = steps(&altered[..=at]);
    let path = scratch.path("altered.recording");
    rewrite(&path, ProtocolKind::Jolteon, altered, true);
    let difference = replay_all(&path).difference.expect("a forged message is dropped");
    assert_eq!(difference.step, number);
    assert_eq!(difference.input, "the answer to question 1: not genuine");
    assert!(difference.replayed[0].contains("NotGenuine"), "{:?}", difference.replayed);
}

/// Records a replica that panics because of a bug in its host: an answer to a request that the replica has not made.
fn record_a_panic(path: &Path) {
    let header = header(ProtocolKind::Jolteon);
    let mut recorder = Recorder::new(Writer::create(path, &header, NO_LIMIT).expect("the directory can be written"));
    let me = ReplicaId(2);
    recorder.begin(me, 3);
    let make = quorate_consensus::replica::make::chained::<quorate_consensus::protocols::chained::rules::Jolteon>;
    let mut replica = make(config(ProtocolKind::Jolteon), quorum(), header.epoch, me, 3);
    step(Some(&mut recorder), &mut replica, Time(1), Input::Start, &mut Vec::new());
    let unasked = Input::Verdict { job: Job(77), genuine: true };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        step(Some(&mut recorder), &mut replica, Time(2), unasked, &mut Vec::new());
    }));
    assert!(panic.is_err(), "an unexpected answer panics");
}

#[test]
fn a_panic_is_the_last_step_and_is_reproduced() {
    let scratch = Scratch::new();
    let path = scratch.path("panic.recording");
    record_a_panic(&path);
    let replayed = replay_all(&path);
    assert_eq!((replayed.steps, &replayed.difference), (2, &None));
    assert!(replayed.panic.expect("the replay panics").contains("which is not pending"));
    assert_eq!(replayed.ending, Some(Ending::BrokenOff { torn_bytes: 0 }));
    // If only the replay panics, the panic is the difference; if only the recorded replica did, its absence is.
    for (at, actions, what) in [(2, Some(Vec::new()), "panic"), (1, None, "no panic")] {
        let mut altered = entries(&path);
        let Entry::Step(step) = &mut altered[at] else { unreachable!() };
        step.actions = actions;
        let path = scratch.path(&format!("altered-{at}.recording"));
        rewrite(&path, ProtocolKind::Jolteon, altered, false);
        let difference = replay_all(&path).difference.expect(what);
        match difference.what {
            Disagreement::Panic(said) => assert!(what == "panic" && said.contains("not pending"), "{said}"),
            other => assert_eq!((what, other), ("no panic", Disagreement::NoPanic)),
        }
    }
}

#[test]
fn a_recording_ends_at_its_limit() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    const LIMIT: u64 = 100_000;
    record(ProtocolKind::Pbft, 100, &path, LIMIT);
    let bytes = std::fs::metadata(&path).expect("the recording was written").len();
    assert!((LIMIT..2 * LIMIT).contains(&bytes), "{bytes}");
    let replayed = replay_all(&path);
    assert_eq!(replayed.difference, None);
    assert_eq!(replayed.ending, Some(Ending::Told(End::Limit { bytes: LIMIT })));
    let mut writer =
        Writer::create(&scratch.path("tiny"), &header(ProtocolKind::Pbft), 1).expect("the directory can be written");
    assert!(writer.is_full(), "the header alone reaches the limit");
    writer.flush().expect("the directory can be written");
}

#[test]
fn an_earlier_recording_is_kept() {
    let scratch = Scratch::new();
    let create = || {
        Writer::create(&scratch.path("one"), &header(ProtocolKind::Pbft), NO_LIMIT)
            .expect("the directory can be written")
    };
    let paths = [create(), create(), create()].map(|writer| writer.path().to_owned());
    assert_eq!(paths, [scratch.path("one"), scratch.path("one.1"), scratch.path("one.2")]);
}

#[test]
fn a_restarted_replica_starts_afresh() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Jolteon, ROUNDS, &path, NO_LIMIT);
    let life = entries(&path);
    let path = scratch.path("twice.recording");
    rewrite(&path, ProtocolKind::Jolteon, [life.clone(), life].concat(), true);
    let replayed = replay_all(&path);
    assert_eq!((replayed.difference, replayed.restarts), (None, quorum().replicas() as u64));
}

#[test]
fn a_run_is_compared_with_its_recording() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Pbft, ROUNDS, &path, NO_LIMIT);
    let compare = |rounds, trace| {
        let comparison = Comparison::new(Reader::open(&path).expect("a recording"));
        let rerun = live(ProtocolKind::Pbft, rounds, comparison).finish(Some(trace)).expect("a valid recording");
        rerun.expect("a comparison has a result")
    };
    let same = compare(ROUNDS, "a name");
    assert_eq!((same.deviation, same.recorded_trace.as_deref()), (None, Some("a name")));
    let all = steps(&entries(&path));
    assert_eq!(same.steps, all);
    let longer = compare(ROUNDS + 1, "a name").deviation.expect("one round too many");
    assert_eq!((longer.after_steps, longer.recorded.as_str()), (all, "the run is over"));
    assert!(longer.happened.contains("takes from clients"), "{}", longer.happened);
    let shorter = compare(ROUNDS - 1, "a name").deviation.expect("a round is missing");
    assert!(shorter.after_steps < all && shorter.happened == "the run is over");
    let renamed = compare(ROUNDS, "another name").deviation.expect("another trace");
    assert!(renamed.recorded.contains("a name") && renamed.happened.contains("another name"));
}

#[test]
fn a_run_may_be_longer_than_a_recording_that_was_cut_short() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Jolteon, ROUNDS, &path, NO_LIMIT);
    let mut life = entries(&path);
    life.truncate(life.len() / 2);
    let path = scratch.path("half.recording");
    rewrite(&path, ProtocolKind::Jolteon, life.clone(), false);
    let comparison = Comparison::new(Reader::open(&path).expect("a recording"));
    let rerun = live(ProtocolKind::Jolteon, ROUNDS, comparison).finish(Some("a name")).expect("a valid recording");
    let rerun = rerun.expect("a comparison has a result");
    assert_eq!((rerun.deviation, rerun.steps, rerun.recorded_trace), (None, steps(&life), None));
}

#[test]
fn a_step_before_the_start_and_an_invalid_input_are_refused() {
    let scratch = Scratch::new();
    let stray = |replica, input: Bytes| Entry::Step(Step { replica, now: Time(1), input, actions: Some(Vec::new()) });
    let refused = |name: &str, entry| {
        let path = scratch.path(name);
        rewrite(&path, ProtocolKind::Jolteon, vec![entry], true);
        replay(&mut Reader::open(&path).expect("a recording"), None, None, None)
            .expect_err("the recording is inconsistent")
            .to_string()
    };
    let input = encode(&Input::Timeout(Timer::View));
    let early = refused("early", stray(ReplicaId(1), input.clone()));
    assert!(early.contains("step 1") && early.contains("replica 1, which has not started"), "{early}");
    let stranger = refused("stranger", stray(ReplicaId(9), input));
    assert!(stranger.contains("names replica 9 of 4"), "{stranger}");
    let noise = refused("noise", stray(ReplicaId(1), Bytes::from_static(b"\xff")));
    assert!(noise.contains("step 1") && noise.contains("no such kind"), "{noise}");
}
