//! The load generator in virtual time: outstanding commands, latencies, stalled replicas.

use quorate_client::load::{
    LoadCore, LoadMode, LoadOptions, LoadOptionsError, LoadReport, LoadStep, MAX_SAMPLES, Pace, Pause, ReplyCounts,
    Reservoir, Stage, Usage,
};
use quorate_client::workload::{FixedWorkload, KeyValueEncoder, Workload, YcsbWorkload};
use quorate_client::{Destination, Outgoing, SessionCounters, SessionOptions};
use quorate_crypto::{BundleVerifier, ClientAuthentication, ClientIdentity};
use quorate_types::{
    Bundle, ClientId, ClientRequest, ClusterId, Height, Outcome, Quorum, ReplicaId, ReplicaReply, Results, Time,
    decode_message,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const ORIGIN: ClientId = ClientId(9 << 16);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Four replicas that answer each bundle after `delay`, except between `stall.0` and `stall.1`.
struct Cluster {
    delay: Duration,
    stall: (Time, Time),
    answer: fn(&Bundle) -> Results,
    replies: BTreeMap<(Time, u64), (ReplicaId, ReplicaReply)>,
    serial: u64,
    executed: BTreeSet<(ClientId, u64)>,
    bundles: Vec<usize>,
}

fn claimed() -> ClientIdentity {
    ClientIdentity::claimed(ORIGIN)
}

fn all_executed(bundle: &Bundle) -> Results {
    Results::all_empty(bundle.len())
}

impl Cluster {
    fn new(delay: Duration) -> Self {
        Cluster {
            delay,
            stall: (Time(0), Time(0)),
            answer: all_executed,
            replies: BTreeMap::new(),
            serial: 0,
            executed: BTreeSet::new(),
            bundles: Vec::new(),
        }
    }

    fn take(&mut self, now: Time, outgoing: Vec<Outgoing>) {
        for Outgoing { to, frame } in outgoing {
            assert_eq!(to, Destination::All);
            let ClientRequest::Submit(bundle) = decode_message(frame).unwrap() else { panic!("a load only submits") };
            assert_eq!(bundle.origin(), ORIGIN);
            self.bundles.push(bundle.len());
            for command in bundle.commands() {
                assert!(self.executed.insert((command.client, command.sequence)), "a number is used once");
            }
            let mut at = now + self.delay;
            if self.stall.0 <= at && at < self.stall.1 {
                at = self.stall.1;
            }
            for replica in (0..4).map(ReplicaId) {
                let results = (self.answer)(&bundle);
                let reply = ReplicaReply::Executed { bundle: bundle.digest(), height: Height(1), results };
                self.replies.insert((at, self.serial), (replica, reply));
                self.serial += 1;
            }
        }
    }
}

/// Runs a load to its end, and calls `watch` after every step.
fn run(mut core: LoadCore, cluster: &mut Cluster, mut watch: impl FnMut(Time, &LoadCore)) -> LoadReport {
    let mut now = Time(0);
    for _ in 0..2_000_000 {
        while let Some(entry) = cluster.replies.first_entry().filter(|entry| entry.key().0 <= now) {
            let (from, reply) = entry.remove();
            core.receive(now, from, reply);
        }
        let mut outgoing = Vec::new();
        core.step(now, &mut outgoing);
        cluster.take(now, outgoing);
        watch(now, &core);
        if core.stage() == Stage::Done {
            return core.finish(now, Usage::default(), SessionCounters::default());
        }
        let reply = cluster.replies.first_key_value().map(|((at, _), _)| *at);
        now = [reply, core.next_wake()].into_iter().flatten().min().expect("something is due until the end").max(now);
    }
    panic!("the load does not end");
}

fn options(mode: LoadMode, bundle: usize) -> LoadOptions {
    LoadOptions {
        clients: 3,
        mode,
        bundle,
        warmup: MILLISECOND * 100,
        duration: MILLISECOND * 1000,
        drain: MILLISECOND * 500,
        ..LoadOptions::default()
    }
}

fn session() -> SessionOptions {
    SessionOptions { retry: Duration::from_secs(60), ..SessionOptions::new(Quorum::of(4).unwrap()) }
}

fn core(options: LoadOptions) -> LoadCore {
    LoadCore::new(options, session(), Box::new(FixedWorkload::new(0, 1).unwrap()), claimed()).unwrap()
}

/// Checks that the report accounts for every command sent.
fn balanced(report: &LoadReport) {
    assert_eq!(report.total_submitted, report.total_completed + report.total_refused + report.unanswered);
    assert_eq!(report.intervals.iter().sum::<u64>(), report.total_completed);
}

#[test]
fn a_closed_loop_keeps_exactly_its_commands_outstanding() {
    let mut cluster = Cluster::new(MILLISECOND * 2);
    let core = core(options(LoadMode::Closed { outstanding: 50 }, 40));
    let report = run(core, &mut cluster, |_, core| {
        if matches!(core.stage(), Stage::Warmup | Stage::Measure) {
            assert_eq!(core.in_flight(), 150);
        }
    });
    balanced(&report);
    assert_eq!((report.completed, report.unanswered, report.unsent), (150 * 500, 0, 0));
    assert_eq!(report.throughput(), 75_000.0);
    assert_eq!(report.latency_us.max(), report.latency_us.min(), "every command takes two milliseconds");
    assert_eq!(report.latency_us.value_at_quantile(0.5) / 10, 200);
    assert_eq!(report.longest_gap, MILLISECOND * 2);
    assert_eq!(report.intervals[1..=10], [150 * 50; 10]);
    assert_eq!(report.seconds.len() as u64, report.window.as_secs());
    assert!(report.seconds.iter().all(|second| second.is_some_and(|(median, p99)| median <= p99)));
    assert_eq!(cluster.bundles[..4], [40, 40, 40, 30], "replies of one wake-up fill bundles together");
    assert!(report.schedule_lag_us.is_none());
    let clients: BTreeSet<ClientId> = cluster.executed.iter().map(|(client, _)| *client).collect();
    assert_eq!(clients, (0..3).map(|index| ORIGIN.with_session(index)).collect());
    for client in clients {
        let numbers: Vec<u64> =
            cluster.executed.iter().filter(|(of, _)| *of == client).map(|(_, number)| *number).collect();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "each client counts from 1 without a gap");
    }
}

#[test]
fn one_command_outstanding_makes_progress_in_bundles_of_one() {
    let mut cluster = Cluster::new(MILLISECOND);
    let options = LoadOptions { clients: 1, ..options(LoadMode::Closed { outstanding: 1 }, 100) };
    let report = run(core(options), &mut cluster, |_, core| assert!(core.in_flight() <= 1));
    balanced(&report);
    assert_eq!(report.completed, 1000);
    assert!(cluster.bundles.iter().all(|commands| *commands == 1));
}

#[test]
fn an_open_loop_sends_on_time_and_counts_from_the_intended_time() {
    let mut cluster = Cluster::new(MILLISECOND * 3);
    let report =
        run(core(options(LoadMode::Open { rate: 2000.0, max_outstanding: 1000 }, 100)), &mut cluster, |_, _| {});
    balanced(&report);
    assert_eq!((report.completed, report.submitted), (2000, 2000));
    assert_eq!(report.total_submitted, 2200);
    assert_eq!(report.latency_us.len(), 2000);
    assert_eq!(report.latency_us.value_at_quantile(0.5) / 10, 300);
    assert_eq!(report.schedule_lag_us.unwrap().max(), 0);
    assert_eq!(report.unsent, 0);
}

#[test]
fn due_commands_wait_for_others_up_to_the_bundle_wait() {
    // Ten commands per millisecond: in two milliseconds 20 others join a command, unless the bundle is full before.
    for (bundle, expected) in [(100, 21), (8, 8)] {
        let mut cluster = Cluster::new(MILLISECOND);
        let mode = LoadMode::Open { rate: 10_000.0, max_outstanding: 1000 };
        let options = LoadOptions { bundle_wait: MILLISECOND * 2, ..options(mode, bundle) };
        let report = run(core(options), &mut cluster, |_, _| {});
        balanced(&report);
        assert_eq!((report.total_submitted, report.unsent), (11_000, 0), "commands due at the end are sent at once");
        cluster.bundles.pop();
        assert!(cluster.bundles.iter().all(|commands| *commands == expected), "{:?}", cluster.bundles);
        assert!(report.schedule_lag_us.unwrap().max() <= 2_001);
    }
}

/// Returns the times at which an open loop sends in its first 100 ms, and the number of commands each time, with bursts
/// of up to a millisecond.
fn bursts(rate: f64) -> Vec<(Time, u64)> {
    let mode = LoadMode::Open { rate, max_outstanding: 1_000_000 };
    let mut core = core(LoadOptions { burst: MILLISECOND, ..options(mode, 100) });
    let (mut bursts, mut before, mut now) = (Vec::new(), 0, Time(0));
    while now < Time::from_millis(100) {
        core.step(now, &mut Vec::new());
        let sent = core.in_flight() as u64;
        if sent > before {
            bursts.push((now, sent - before));
            before = sent;
        }
        now = core.next_wake().expect("the load goes on").max(now + Duration::from_nanos(1));
    }
    bursts
}

#[test]
fn an_open_loop_sends_in_bursts_whose_spacing_follows_the_rate() {
    // 100 commands are sent together per millisecond; at 4 per microsecond a burst is full after a tenth of a
    // millisecond.
    for (rate, spacing_us, commands) in [(100_000.0, 1_010, 101), (4_000_000.0, 100, 400)] {
        let bursts = bursts(rate);
        assert!(bursts.len() >= 95, "{} bursts", bursts.len());
        for pair in bursts[1..].windows(2) {
            assert_eq!(pair[1].0.since(pair[0].0), Duration::from_micros(spacing_us), "at {rate} per second");
            assert_eq!(pair[1].1, commands, "at {rate} per second");
        }
    }
}

#[test]
fn an_open_loop_without_a_handful_of_commands_in_a_burst_waits_for_none() {
    let bursts = bursts(5_000.0);
    assert!(bursts.iter().all(|(_, commands)| *commands == 1), "{bursts:?}");
    assert!(bursts.windows(2).all(|pair| pair[1].0.since(pair[0].0) == Duration::from_micros(200)), "{bursts:?}");
}

#[test]
fn a_load_sleeps_until_a_command_is_due_and_polls_when_none_is_soon() {
    let start = Time::from_millis(1);
    let pause = |rate: f64| {
        let mut core = core(options(LoadMode::Open { rate, max_outstanding: 1000 }, 100));
        core.step(start, &mut Vec::new());
        core.pause(start)
    };
    assert_eq!(pause(100.0), Pause::Poll(MILLISECOND * 10));
    assert_eq!(pause(5_000.0), Pause::Poll(Duration::from_micros(200)));
    // Replies do not end a sleep, so it is no longer than 100 microseconds.
    assert_eq!(pause(10_000.0), Pause::Sleep(Duration::from_micros(100)));
    assert_eq!(pause(400_000.0), Pause::Sleep(Duration::from_nanos(2_500)));
    let mut closed = core(options(LoadMode::Closed { outstanding: 10 }, 10));
    closed.step(start, &mut Vec::new());
    assert!(
        matches!(closed.pause(start), Pause::Poll(timeout) if timeout >= MILLISECOND * 10),
        "only replies bring work"
    );
}

#[test]
fn a_stall_raises_the_latency_of_every_command_due_in_it() {
    let mut cluster = Cluster::new(MILLISECOND);
    cluster.stall = (Time::from_millis(400), Time::from_millis(800));
    // At most ten commands may be unanswered, so most commands due in the stall cannot be sent.
    let report =
        run(core(options(LoadMode::Open { rate: 1000.0, max_outstanding: 10 }, 100)), &mut cluster, |_, core| {
            assert!(core.in_flight() <= 10);
        });
    balanced(&report);
    assert_eq!(report.latency_us.len(), 1000, "each command due in the window has its latency");
    let slow = report.latency_us.iter_recorded().filter(|value| value.value_iterated_to() > 200_000);
    let slow: u64 = slow.map(|value| value.count_since_last_iteration()).sum();
    assert!(
        (199..=260).contains(&slow),
        "half of the 400 commands due in the stall, and some behind them, wait over 200 ms: {slow}"
    );
    assert!((395..=410).contains(&(report.latency_us.max() / 1000)), "{}", report.latency_us.max());
    let lag = report.schedule_lag_us.unwrap().max() / 1000;
    assert!((385..=400).contains(&lag), "the last delayed command was late by nearly the whole stall: {lag}");
    assert_eq!(report.longest_gap.as_millis(), 401);
    assert_eq!((report.unsent, report.unanswered), (0, 0));
}

#[test]
fn unanswered_and_unsent_commands_count_with_their_age() {
    let mut cluster = Cluster::new(MILLISECOND);
    cluster.stall = (Time::from_millis(600), Time::from_millis(1_000_000));
    let report = run(core(options(LoadMode::Open { rate: 1000.0, max_outstanding: 100 }, 7)), &mut cluster, |_, _| {});
    balanced(&report);
    assert_eq!(report.unanswered, 100);
    assert_eq!(report.total_submitted + report.unsent, 1100, "1000 a second for 1.1 seconds, each sent or counted");
    assert_eq!(report.latency_us.len(), 1000);
    // The first unanswered command was due at about 600 ms, and the load ends at 1600 ms.
    assert!((990..=1002).contains(&(report.latency_us.max() / 1000)), "{}", report.latency_us.max());
    assert!((499..=502).contains(&report.longest_gap.as_millis()), "to the window's end: {:?}", report.longest_gap);
}

#[test]
fn an_absurd_rate_ends_soon_with_everything_counted() {
    let mut cluster = Cluster::new(MILLISECOND * 50);
    let mode = LoadMode::Open { rate: 1e9, max_outstanding: 1000 };
    let report = run(core(options(mode, 1000)), &mut cluster, |_, _| {});
    balanced(&report);
    assert_eq!(report.total_submitted + report.unsent, 1_100_000_000);
    // At the edge of the window one record stands for about a thousand commands.
    assert!(report.latency_us.len().abs_diff(1_000_000_000) < 1_000, "each command due in the window");
}

#[test]
fn duplicates_count_as_completed_and_refusals_do_not() {
    let mut cluster = Cluster::new(MILLISECOND * 10);
    cluster.answer = |bundle| {
        let outcome = |at| match at % 3 {
            0 => Outcome::Executed(b"value"),
            1 => Outcome::Duplicate,
            _ => Outcome::Refused,
        };
        Results::collect((0..bundle.len()).map(outcome))
    };
    let report = run(core(options(LoadMode::Closed { outstanding: 10 }, 30)), &mut cluster, |_, _| {});
    balanced(&report);
    assert_eq!((report.completed, report.duplicates, report.refused), (2000, 1000, 1000));
}

#[test]
fn a_stopped_load_reports_what_it_measured() {
    let mut cluster = Cluster::new(MILLISECOND * 10);
    let mut core = core(options(LoadMode::Closed { outstanding: 10 }, 30));
    let mut now = Time(0);
    while now < Time::from_millis(600) {
        let mut outgoing = Vec::new();
        while let Some(entry) = cluster.replies.first_entry().filter(|entry| entry.key().0 <= now) {
            let (from, reply) = entry.remove();
            core.receive(now, from, reply);
        }
        core.step(now, &mut outgoing);
        cluster.take(now, outgoing);
        now = now + MILLISECOND;
    }
    core.stop(now);
    let report = run(core, &mut cluster, |_, _| {});
    balanced(&report);
    assert!(report.stopped);
    assert_eq!(report.window, MILLISECOND * 500);
    assert_eq!(report.completed, 30 * 50);
}

#[test]
fn a_load_stopped_before_it_is_measured_has_an_empty_window() {
    let mut cluster = Cluster::new(MILLISECOND);
    let mut core = core(options(LoadMode::Open { rate: 1000.0, max_outstanding: 100 }, 10));
    let mut outgoing = Vec::new();
    core.step(Time(0), &mut outgoing);
    cluster.take(Time(0), outgoing);
    core.stop(Time::from_millis(50));
    let report = run(core, &mut cluster, |_, _| {});
    balanced(&report);
    assert_eq!((report.window, report.completed, report.latency_us.len()), (Duration::ZERO, 0, 0));
    assert_eq!(report.total_submitted, 1, "only one command was due at the first step");
    assert_eq!((report.throughput(), report.busy_fraction(), report.latency_ms(0.5)), (0.0, None, None));
}

#[test]
fn a_lost_bundle_is_retried_and_the_load_goes_on() {
    let session = SessionOptions { retry: MILLISECOND * 50, ..session() };
    let mode = LoadMode::Closed { outstanding: 1 };
    let options = LoadOptions { clients: 1, ..options(mode, 1) };
    let mut core = LoadCore::new(options, session, Box::new(FixedWorkload::new(0, 1).unwrap()), claimed()).unwrap();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    core.step(Time(0), &mut first);
    assert_eq!(core.next_wake(), Some(Time::from_millis(50)));
    core.step(Time::from_millis(50), &mut again);
    assert_eq!(first, again);
    assert_eq!(core.bundles().retries, 1);
}

struct Pairs;

impl KeyValueEncoder for Pairs {
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&[key, b"=", value].concat());
    }
    fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(key);
    }
    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.put(key, value, out);
    }
}

#[test]
fn all_records_are_inserted_before_the_load_starts() {
    let mut cluster = Cluster::new(MILLISECOND * 7);
    let workload: Box<dyn Workload> = Box::new(YcsbWorkload::new(1.0, false, 10, 25_000, 1, Box::new(Pairs)).unwrap());
    let options = options(LoadMode::Open { rate: 1000.0, max_outstanding: 100 }, 100);
    let core = LoadCore::new(options, session(), workload, claimed()).unwrap();
    let mut began = None;
    let report = run(core, &mut cluster, |now, core| {
        if core.stage() == Stage::Preload {
            assert!(core.in_flight() <= 10_000);
        } else {
            began.get_or_insert(now);
        }
    });
    balanced(&report);
    assert_eq!((report.preloaded, report.preload_refused), (25_000, 0));
    assert_eq!(began, Some(Time::from_millis(21)), "three rounds of at most 10,000 commands");
    assert_eq!(report.total_submitted, 1100, "the records are not part of the load");
    assert_eq!(report.completed, 1000);
}

#[test]
fn invalid_options_are_refused_by_name() {
    let closed = LoadMode::Closed { outstanding: 1 };
    let key = |options: LoadOptions| match options.validate().unwrap_err() {
        LoadOptionsError::Range { key, .. } | LoadOptionsError::Duration { key, .. } => key,
        LoadOptionsError::Step { .. } => "steps",
        LoadOptionsError::Rate(_) => "rate",
        LoadOptionsError::TooManyOutstanding { .. } => "too many",
        LoadOptionsError::Samples(_) => "samples",
    };
    assert_eq!(key(LoadOptions { clients: 0, ..options(closed, 1) }), "clients");
    assert_eq!(key(LoadOptions { clients: 70_000, ..options(closed, 1) }), "clients");
    assert_eq!(key(options(closed, 0)), "bundle");
    assert_eq!(key(options(closed, 70_000)), "bundle");
    assert_eq!(key(options(LoadMode::Closed { outstanding: 0 }, 1)), "outstanding");
    assert_eq!(key(options(LoadMode::Closed { outstanding: 1 << 24 }, 1)), "too many");
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(key(options(LoadMode::Open { rate, max_outstanding: 1 }, 1)), "rate");
    }
    assert_eq!(key(options(LoadMode::Open { rate: 1.0, max_outstanding: 0 }, 1)), "max_outstanding");
    assert_eq!(key(LoadOptions { duration: Duration::ZERO, ..options(closed, 1) }), "duration");
    assert_eq!(key(LoadOptions { warmup: Duration::MAX, ..options(closed, 1) }), "warmup");
    assert_eq!(key(LoadOptions { samples: MAX_SAMPLES + 1, ..options(closed, 1) }), "samples");
    assert!(LoadOptions::default().validate().is_ok());
}

#[test]
fn few_requests_are_all_samples_with_their_latencies() {
    let mut cluster = Cluster::new(MILLISECOND * 7);
    cluster.stall = (Time::from_millis(600), Time::from_millis(800));
    let options = options(LoadMode::Open { rate: 100.0, max_outstanding: 1000 }, 1);
    let core = LoadCore::new(
        LoadOptions { samples: 1000, ..options },
        session(),
        Box::new(FixedWorkload::new(0, 1).unwrap()),
        claimed(),
    );
    let report = run(core.unwrap(), &mut cluster, |_, _| {});
    let samples: Vec<(u128, u64)> =
        report.samples.iter().map(|sample| (sample.intended.as_millis(), sample.latency_us)).collect();
    assert_eq!(samples.len() as u64, report.latency_us.len());
    let expected = (0..100).map(|number| {
        // The window starts after 100 ms. Commands due 593 ms after the start or later are answered at 800 ms.
        let due = 100 + number * 10;
        let answered = if (600..800).contains(&(due + 7)) { 800 } else { due + 7 };
        (u128::from(due - 100), (answered - due) * 1000)
    });
    assert_eq!(samples, expected.collect::<Vec<_>>());
}

#[test]
fn every_request_is_a_sample_with_the_same_chance() {
    let (requests, limit, bundle) = (100_000u64, 1000, 100);
    let mut reservoir = Reservoir::new(limit);
    for number in (0..requests).step_by(bundle as usize) {
        reservoir.offer(Time(number), number, bundle);
    }
    let samples = reservoir.into_samples(Time(0));
    assert_eq!(samples.len(), limit);
    assert!(samples.is_sorted_by_key(|sample| sample.intended));
    for tenth in 0..10 {
        let own = |latency: u64| latency * 10 / requests == tenth;
        let count = samples.iter().filter(|sample| own(sample.latency_us)).count();
        // The standard deviation of a hypergeometric count is 9.4.
        assert!((60..=140).contains(&count), "{count} of the tenth number {tenth}, expected about 100");
    }
    assert!(Reservoir::new(0).into_samples(Time(0)).is_empty());
}

#[test]
fn sampling_changes_nothing_in_the_load() {
    let reports = [0, 10].map(|samples| {
        let mut cluster = Cluster::new(MILLISECOND * 7);
        let options = LoadOptions { samples, ..options(LoadMode::Closed { outstanding: 50 }, 10) };
        let workload = Box::new(FixedWorkload::new(0, 1).unwrap());
        let report = run(LoadCore::new(options, session(), workload, claimed()).unwrap(), &mut cluster, |_, _| {});
        (report.samples.len(), report.latency_us, report.intervals, cluster.bundles)
    });
    let [(none, latencies, intervals, bundles), (some, ..)] = &reports;
    assert_eq!((*none, *some), (0, 10));
    assert_eq!((latencies, intervals, bundles), (&reports[1].1, &reports[1].2, &reports[1].3));
}

#[test]
fn a_load_with_a_key_signs_every_bundle() {
    let cluster = ClusterId::from_name("signed");
    let identity = ClientIdentity::from_seed(&cluster, [3; 32]);
    let origin = identity.origin();
    let options = LoadOptions { clients: 3, bundle: 2, ..LoadOptions::default() };
    let workload = Box::new(FixedWorkload::new(5, 1).unwrap());
    let mut core = LoadCore::new(options, session(), workload, identity).unwrap();
    let mut outgoing = Vec::new();
    core.step(Time(0), &mut outgoing);
    core.step(Time(0), &mut outgoing);
    let bundles: Vec<Bundle> = (outgoing.into_iter())
        .map(|sent| match decode_message(sent.frame).unwrap() {
            ClientRequest::Submit(bundle) => bundle,
            other => panic!("a load only submits, not {other:?}"),
        })
        .collect();
    assert!(bundles.len() > 100);
    let clients: BTreeSet<ClientId> = bundles.iter().flat_map(Bundle::commands).map(|command| command.client).collect();
    assert_eq!(clients, (0..3).map(|session| origin.with_session(session)).collect());
    let mut verifier = BundleVerifier::new(ClientAuthentication::Ed25519, cluster, 0);
    assert!(verifier.forged(&bundles).is_empty());
}

fn step(ms: u64, from: f64, to: f64) -> LoadStep {
    LoadStep { lasts: Duration::from_millis(ms), from, to }
}

#[test]
fn commands_are_due_when_the_area_below_the_rate_says_so() {
    let steps = [step(300, 1000.0, 5000.0), step(200, 5000.0, 5000.0), step(400, 5000.0, 100.0)];
    let pace = Pace::new(1000.0, MILLISECOND * 100, &steps);
    let rate_at = |second: f64| match second {
        s if s < 0.1 => 1000.0,
        s if s < 0.4 => 1000.0 + 4000.0 * (s - 0.1) / 0.3,
        s if s < 0.6 => 5000.0,
        s if s < 1.0 => 5000.0 - 4900.0 * (s - 0.6) / 0.4,
        _ => 100.0,
    };
    // The integral of the rate up to a command's time is its number.
    let (mut due, mut second, dt) = (0.0, 0.0, 1e-6);
    for number in (0..3100).step_by(7) {
        let at = pace.time_of(number).as_secs_f64();
        while second < at {
            due += rate_at(second) * dt;
            second += dt;
        }
        assert!((due - number as f64).abs() < 0.2, "command {number} at {at} s: {due} were due");
    }
    assert!((0..5000).all(|number| pace.time_of(number) < pace.time_of(number + 1)));
}

#[test]
fn each_step_of_an_open_loop_has_its_own_figures() {
    let mut cluster = Cluster::new(MILLISECOND * 3);
    // The second step begins 600 ms after the start of the load, at which the cluster stalls for 100 ms.
    cluster.stall = (Time(600_000_000), Time(700_000_000));
    let steps = vec![step(500, 1000.0, 1000.0), step(500, 2000.0, 2000.0)];
    let mode = LoadMode::Open { rate: 1000.0, max_outstanding: 1000 };
    let report = run(core(LoadOptions { steps, ..options(mode, 100) }), &mut cluster, |_, _| {});
    balanced(&report);
    let [first, second] = &report.steps[..] else { panic!("{:?}", report.steps) };
    assert_eq!((first.begins, first.ends, second.ends), (Duration::ZERO, MILLISECOND * 500, MILLISECOND * 1000));
    assert_eq!((first.latency_us.len(), second.latency_us.len()), (500, 1000));
    assert_eq!(first.completed + second.completed, report.completed);
    assert!(second.latency_us.max() >= 99_000, "it counts from the intended time");
    assert_eq!(report.submitted, 1500);
}

#[test]
fn a_closed_loop_has_more_commands_outstanding_from_each_step_on() {
    let mut cluster = Cluster::new(MILLISECOND * 2);
    let steps = vec![step(300, 5.0, 5.0), step(300, 10.0, 10.0), step(300, 20.0, 20.0)];
    let options = LoadOptions { steps, ..options(LoadMode::Closed { outstanding: 5 }, 40) };
    let mut seen = BTreeSet::new();
    let report = run(core(options), &mut cluster, |now, core| {
        if matches!(core.stage(), Stage::Warmup | Stage::Measure) {
            seen.insert((now.0.saturating_sub(100_000_000) / 300_000_000, core.in_flight()));
        }
    });
    balanced(&report);
    assert_eq!(seen, BTreeSet::from([(0, 15), (1, 30), (2, 60), (3, 60)]));
    let completed: Vec<u64> = report.steps.iter().map(|step| step.completed).collect();
    // The commands added by a step have their first answers two milliseconds after its start. The last step lasts to
    // the end of the window.
    assert_eq!(completed, [15 * 150, 15 * (150 + 149), 30 * (200 + 199)]);
    let falling = vec![step(100, 5.0, 5.0), step(100, 4.0, 4.0)];
    let falling = LoadOptions { steps: falling, mode: LoadMode::Closed { outstanding: 5 }, ..LoadOptions::default() };
    assert!(matches!(falling.validate(), Err(LoadOptionsError::Step { number: 1, .. })));
}

#[test]
fn a_load_that_gives_up_sends_no_request_again_and_counts_the_replies_to_each() {
    let mut cluster = Cluster::new(MILLISECOND * 2);
    // Between these times no answer arrives in time.
    cluster.stall = (Time::from_millis(500), Time::from_millis(600));
    let mode = LoadMode::Closed { outstanding: 1 };
    let give_up_after = Some(MILLISECOND * 20);
    let core = core(LoadOptions { clients: 1, give_up_after, ..options(mode, 1) });
    let report = run(core, &mut cluster, |_, core| assert!(core.in_flight() <= 1));
    // 98 ms at 20 ms each, and the rest of the second at 2 ms each.
    let ReplyCounts { by_replies, success_us } = report.replies.as_ref().expect("requests are given up");
    let failed = by_replies[0];
    assert!((4..=5).contains(&failed), "{by_replies:?}");
    assert_eq!(by_replies[1..4], [0, 0, 0]);
    assert!((445..=455).contains(&by_replies[4]), "{by_replies:?}");
    assert_eq!(by_replies.iter().sum::<u64>(), report.submitted, "each request of the window is counted");
    assert_eq!(success_us.len(), by_replies[4], "each that succeeded has a time");
    assert!((1990..=2010).contains(&success_us.min()) && success_us.max() <= 2010, "{} us", success_us.max());
    assert_eq!((report.unanswered, report.bundles.retries), (0, 0));
}
