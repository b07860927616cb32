//! A load split into parts, which begin together and whose reports are merged.

use quorate_client::SessionCounters;
use quorate_client::SessionOptions;
use quorate_client::load::{LoadCore, LoadMode, LoadOptions, LoadReport, LoadStep, Stage, Usage};
use quorate_client::workload::FixedWorkload;
use quorate_crypto::ClientIdentity;
use quorate_types::{
    ClientId, ClientRequest, Digest, Height, Quorum, ReplicaId, ReplicaReply, Results, Time, decode_message,
};
use std::collections::VecDeque;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Time at which the parts begin.
const BEGIN: Time = Time(7_000_000);

fn open(rate: f64) -> LoadOptions {
    LoadOptions {
        clients: 5,
        mode: LoadMode::Open { rate, max_outstanding: 11 },
        bundle: 4,
        warmup: MILLISECOND * 100,
        duration: MILLISECOND * 2000,
        ..LoadOptions::default()
    }
}

/// Runs a part whose bundles are answered after `delay` and committed at one replica after half of it.
fn run(options: LoadOptions, part: u32, delay: Duration) -> LoadReport {
    let workload = Box::new(FixedWorkload::new(0, 1).unwrap());
    let identity = ClientIdentity::claimed(ClientId(u128::from(part + 1) << ClientId::SESSION_BITS));
    let session = SessionOptions::new(Quorum::of(4).unwrap());
    let mut core = LoadCore::new(options, session, workload, identity).unwrap();
    core.record_commits();
    core.join_others();
    let (mut now, mut out, mut due) = (Time(0), Vec::new(), VecDeque::<(Time, Digest, usize)>::new());
    core.step(now, &mut out);
    assert!(core.is_preloaded() && core.stage() == Stage::Preload && out.is_empty(), "it waits for the others");
    assert_eq!(core.next_wake(), None);
    core.begin(BEGIN, MILLISECOND * part);
    now = BEGIN + MILLISECOND;
    while core.stage() != Stage::Done {
        while due.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, bundle, commands) = due.pop_front().unwrap();
            core.on_committed(now, &Digest::ZERO);
            for replica in (0..4).map(ReplicaId) {
                let results = Results::all_empty(commands);
                core.receive(now, replica, ReplicaReply::Executed { bundle, height: Height(1), results });
            }
        }
        core.step(now, &mut out);
        for outgoing in out.drain(..) {
            let ClientRequest::Submit(bundle) = decode_message(outgoing.frame).unwrap() else { panic!("a bundle") };
            core.on_committed(now + delay / 2, &bundle.digest());
            due.push_back((now + delay, bundle.digest(), bundle.len()));
        }
        let next = [due.front().map(|(at, ..)| *at), core.next_wake()].into_iter().flatten().min();
        now = next.unwrap_or(now).max(now);
    }
    core.finish(
        now,
        Usage { cpu: MILLISECOND, busy: Some(MILLISECOND * part), ..Usage::default() },
        SessionCounters::default(),
    )
}

#[test]
fn shares_add_up_to_the_whole() {
    let step = |rate: f64| LoadStep { lasts: MILLISECOND * 500, from: rate, to: 2.0 * rate };
    let whole = LoadOptions { steps: vec![step(300.0)], ..open(600.0) };
    let parts = whole.split(&[3, 1, 1]);
    assert_eq!(parts.iter().map(|part| part.clients).collect::<Vec<_>>(), [3, 1, 1]);
    let modes: Vec<LoadMode> = parts.iter().map(|part| part.mode).collect();
    let mode = |rate, max_outstanding| LoadMode::Open { rate, max_outstanding };
    assert_eq!(modes, [mode(360.0, 7), mode(120.0, 2), mode(120.0, 2)], "the first ones have the remainder");
    assert_eq!(parts.iter().map(|part| part.steps[0].from).collect::<Vec<_>>(), [180.0, 60.0, 60.0]);
    assert!(parts.iter().all(|part| part.steps[0].to == 2.0 * part.steps[0].from && part.validate().is_ok()));
    let few = LoadOptions { mode: mode(1.0, 1), steps: Vec::new(), ..whole.clone() };
    assert!(few.split(&[3, 1, 1]).iter().all(|part| part.max_outstanding() == 1), "each machine may send");
    let closed = LoadOptions { mode: LoadMode::Closed { outstanding: 8 }, steps: Vec::new(), ..whole.clone() };
    assert!(closed.split(&[4, 1]).iter().all(|part| part.mode == closed.mode), "each client keeps as many");
    assert_eq!(whole.split(&[5]), [whole]);
}

#[test]
fn merged_reports_count_every_command_once() {
    let whole = LoadOptions { clients: 3, samples: 50, ..open(300.0) };
    let delays = [2, 4, 30].map(|delay| MILLISECOND * delay);
    let reports: Vec<LoadReport> = whole
        .split(&[1, 1, 1])
        .into_iter()
        .zip(0..)
        .zip(delays)
        .map(|((part, number), delay)| run(part, number, delay))
        .collect();
    assert!(reports.iter().all(|report| report.window == whole.duration && report.warmup == whole.warmup));
    let sum = |of: fn(&LoadReport) -> u64| reports.iter().map(of).sum::<u64>();
    let merged = LoadReport::merged(&reports, &whole, MILLISECOND * 3);
    assert_eq!((merged.completed, merged.window), (sum(|report| report.completed), whole.duration));
    assert_eq!(merged.latency_us.len(), sum(|report| report.latency_us.len()));
    assert!(merged.latency_us.len().abs_diff(600) <= 3, "{} commands were due", merged.latency_us.len());
    assert_eq!(merged.intervals.iter().sum::<u64>(), merged.total_completed);
    assert_eq!(merged.longest_gap, MILLISECOND * 3);
    assert_eq!((merged.usage.cpu, merged.usage.busy), (MILLISECOND * 3, Some(MILLISECOND * 2)));
    // Two thirds of the commands take at most 4 ms; the third machine's take 30 ms. This holds in each second.
    let ms = |us: u64| (us + 500) / 1000;
    let quantile = |at| ms(merged.latency_us.value_at_quantile(at));
    assert_eq!([0.3, 0.5, 0.9].map(quantile), [2, 4, 30]);
    assert_eq!(
        merged.seconds.iter().map(|second| second.map(|(p50, p99)| (ms(p50), ms(p99)))).collect::<Vec<_>>(),
        [Some((4, 30)); 2]
    );
    let commit = merged.commit_us.expect("recorded");
    assert_eq!([0.3, 0.5, 0.9].map(|at| ms(commit.value_at_quantile(at))), [1, 2, 15]);
    assert_eq!(merged.samples.len(), 50);
    let slow = merged.samples.iter().filter(|sample| sample.latency_us > 20_000).count();
    assert!((8..=26).contains(&slow), "{slow} of 50 samples are from the third machine");
    assert_eq!(LoadReport::merged(&reports[..1], &whole, MILLISECOND).longest_gap, reports[0].longest_gap);
}

/// Machines send their reports as JSON.
#[test]
fn reports_survive_json() {
    let whole = LoadOptions { clients: 2, samples: 20, steps: Vec::new(), ..open(300.0) };
    let parts = whole.split(&[1, 1]).into_iter().zip(0..);
    let reports: Vec<LoadReport> = parts.map(|(part, number)| run(part, number, MILLISECOND * 7)).collect();
    let json = serde_json::to_string(&reports).unwrap();
    let read: Vec<LoadReport> = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
    let [before, after] = [&reports, &read].map(|reports| LoadReport::merged(reports, &whole, MILLISECOND));
    assert_eq!(before.latency_us, after.latency_us);
    assert_eq!((before.commit_us, before.schedule_lag_us), (after.commit_us, after.schedule_lag_us));
    assert_eq!((before.seconds, before.samples), (after.seconds, after.samples));
}

/// The parts send one millisecond apart.
#[test]
fn parts_of_an_open_loop_take_turns() {
    let whole = LoadOptions { clients: 2, samples: 100, ..open(100.0) };
    let first = |part: u32| {
        let options = whole.split(&[1, 1])[part as usize].clone();
        run(options, part, MILLISECOND).samples[0].intended
    };
    assert_eq!(first(1) - first(0), MILLISECOND);
}
