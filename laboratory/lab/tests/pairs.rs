//! No two settings may impair each other: a pair of values must reach at least half of the throughput, and at most
//! twice the low-load latency, that each value reaches with the best value of the other setting. A value may be slow on
//! its own, but not because of its partner, unless the pair is refused or has a warning that names it.
//!
//! About 900 simulated runs of 0.1 to 1.2 s of virtual time.

use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{
    BatchPolicy, BenchSpec, ChannelKind, Dissemination, Interval, LeaderKind, ProtocolKind, SchemeKind, TransportKind,
    VotesTo,
};

/// Commands per second at low load: about a hundredth of the capacity with the slowest value.
const LOW_RATE: u64 = 1000;
const LEAST_SHARE_OF_THROUGHPUT: f64 = 0.5;
const MOST_MULTIPLE_OF_LATENCY: f64 = 2.0;
/// Latencies below this are not compared, since a single additional message takes about as long.
const SMALL_LATENCY_MS: f64 = 1.0;
const VIEW_TIMEOUT_MS: u64 = 200;

/// Value of a setting: its name on the command line, and a function that applies it to a spec.
struct Value {
    name: String,
    set: Box<dyn Fn(&mut BenchSpec)>,
    /// Intentional delay of a block. The commands of a run arrive at random times within it, so shorter latencies are
    /// not compared.
    waits_ms: f64,
}

fn value(name: impl ToString, set: impl Fn(&mut BenchSpec) + 'static) -> Value {
    Value { name: name.to_string(), set: Box::new(set), waits_ms: 0.0 }
}

fn leaders() -> Vec<Value> {
    LeaderKind::ALL.iter().map(|kind| value(kind, |spec| spec.node.consensus.leader = *kind)).collect()
}

fn disseminations() -> Vec<Value> {
    Dissemination::ALL.iter().map(|kind| value(kind, |spec| spec.node.consensus.dissemination = *kind)).collect()
}

fn batchings() -> Vec<Value> {
    let by_policy = |policy: &'static BatchPolicy| {
        let waits_ms = match policy {
            BatchPolicy::Eager => 0.0,
            BatchPolicy::Timed => BenchSpec::default().node.consensus.batch_wait_ms as f64,
            BatchPolicy::Full => VIEW_TIMEOUT_MS as f64 / 4.0,
        };
        let set = |spec: &mut BenchSpec| {
            (spec.node.consensus.batch, spec.node.consensus.batch_policy) = (400.into(), *policy)
        };
        Value { waits_ms, ..value(policy, set) }
    };
    std::iter::once(value("auto", |_| {})).chain(BatchPolicy::ALL.iter().map(by_policy)).collect()
}

fn votes() -> Vec<Value> {
    VotesTo::ALL.iter().map(|to| value(to, |spec| spec.node.consensus.votes = *to)).collect()
}

fn schemes() -> Vec<Value> {
    let signs = |kind: &&SchemeKind| kind.profile().unforgeable && kind.profile().has_public_keys_only();
    SchemeKind::ALL.iter().filter(signs).map(|kind| value(kind, |spec| spec.node.scheme = *kind)).collect()
}

fn channels() -> Vec<Value> {
    let carried = |kind: &'static ChannelKind| {
        value(kind, |spec| {
            let packets = *kind == ChannelKind::DTLS;
            spec.node.channel = *kind;
            spec.node.transport = if packets { TransportKind::RUDP } else { TransportKind::TCP };
            if packets {
                // Packet links take up to a second until all of them carry a high load, which is not compared.
                spec.warmup = Interval::from_millis(1000);
            }
        })
    };
    ChannelKind::ALL.iter().map(carried).collect()
}

/// Outcome of a pair of values.
enum Outcome {
    Measured { ops: f64, low_ops: f64, low_ms: f64, warnings: Vec<String> },
    Refused(String),
}

/// Runs a spec under high load, and at low load.
fn measure(spec: &BenchSpec) -> Outcome {
    let high = BenchSpec { outstanding: Some(200), bundle: 20, ..spec.clone() };
    let low = BenchSpec {
        rate: Some(LOW_RATE),
        outstanding: None,
        bundle: 1,
        warmup: spec.warmup.max(Interval::from_millis(100)),
        duration: Interval::from_millis(150),
        ..spec.clone()
    };
    let run = |spec: &BenchSpec| sim::run(spec, &SimOptions::default(), &|_| {});
    match (run(&high), run(&low)) {
        (Ok(high), Ok(low)) => Outcome::Measured {
            ops: high.bench.throughput_ops,
            low_ops: low.bench.throughput_ops,
            low_ms: low.bench.latency_ms.p50.unwrap_or(f64::INFINITY),
            warnings: high.bench.warnings.into_iter().chain(low.bench.warnings).collect(),
        },
        (Err(why), _) | (_, Err(why)) => Outcome::Refused(why.to_string()),
    }
}

fn base(protocol: ProtocolKind) -> BenchSpec {
    {
        let mut spec = BenchSpec {
            clients: 4,
            warmup: Interval::from_millis(40),
            duration: Interval::from_millis(40),
            ..BenchSpec::default()
        };
        spec.node.consensus.protocol = protocol;
        spec.node.consensus.view_timeout_ms = VIEW_TIMEOUT_MS;
        spec.node.accept_weak_scheme = true;
        spec
    }
}

/// Returns the pairs of values that impair each other, and by how much.
fn conflicts(protocol: ProtocolKind, ones: &[Value], others: &[Value]) -> Vec<String> {
    let outcome = |one: &Value, other: &Value| {
        let mut spec = base(protocol);
        (one.set)(&mut spec);
        (other.set)(&mut spec);
        measure(&spec)
    };
    let table: Vec<Vec<Outcome>> =
        ones.iter().map(|one| others.iter().map(|other| outcome(one, other)).collect()).collect();
    let mut wrong = Vec::new();
    for (at, one) in ones.iter().enumerate() {
        for (place, other) in others.iter().enumerate() {
            let (row, column) = (table[at].iter(), table.iter().map(|row| &row[place]));
            let pair = format!("{protocol}, {} with {}", one.name, other.name);
            let neighbours = [best(row), best(column)];
            match &table[at][place] {
                Outcome::Refused(why) if why.contains(&one.name) && why.contains(&other.name) => {}
                Outcome::Refused(why) => wrong.push(format!("{pair}: refused without naming both: {why}")),
                Outcome::Measured { ops, low_ops, low_ms, warnings } => {
                    let names = |warning: &String| warning.contains(&one.name) && warning.contains(&other.name);
                    if warnings.iter().any(names) {
                        continue;
                    }
                    let ops_of_both = neighbours.iter().map(|best| best.0).fold(f64::INFINITY, f64::min);
                    let ms_of_both = neighbours.iter().map(|best| best.1).fold(SMALL_LATENCY_MS, f64::max);
                    let ms_of_both = ms_of_both.max(one.waits_ms).max(other.waits_ms);
                    if *ops < LEAST_SHARE_OF_THROUGHPUT * ops_of_both {
                        wrong.push(format!("{pair}: {ops:.0}/s, where both reach {ops_of_both:.0}/s"));
                    }
                    if *low_ms > MOST_MULTIPLE_OF_LATENCY * ms_of_both {
                        wrong.push(format!("{pair}: {low_ms:.2} ms at low load, where both reach {ms_of_both:.2} ms"));
                    }
                    if *low_ops < LEAST_SHARE_OF_THROUGHPUT * LOW_RATE as f64 {
                        wrong.push(format!("{pair}: {low_ops:.0}/s of {LOW_RATE}/s offered"));
                    }
                }
            }
        }
    }
    wrong
}

/// Returns the highest throughput, and the lowest latency at low load.
fn best<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> (f64, f64) {
    outcomes.fold((0.0, f64::INFINITY), |best, outcome| match outcome {
        Outcome::Measured { ops, low_ms, .. } => (f64::max(best.0, *ops), f64::min(best.1, *low_ms)),
        Outcome::Refused(_) => best,
    })
}

fn expect_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// In every protocol, a rotating leader must have the commands when its view begins.
#[test]
fn every_leader_election_works_with_every_dissemination() {
    let protocols = ProtocolKind::ALL.iter().copied().filter(|kind| !kind.has_slots());
    expect_none(protocols.flat_map(|protocol| conflicts(protocol, &leaders(), &disseminations())).collect());
}

#[test]
fn no_two_settings_get_in_each_others_way() {
    let settings = [leaders(), disseminations(), batchings(), votes(), schemes(), channels()];
    let mut wrong = Vec::new();
    for (at, ones) in settings.iter().enumerate() {
        for others in &settings[at + 1..] {
            wrong.extend(conflicts(ProtocolKind::Jolteon, ones, others));
        }
    }
    expect_none(wrong);
}
