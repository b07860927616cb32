//! PBFT's three phases over lossy links, compared with the exact success probability.
//!
//! Each point is one long run of consecutive requests from a client whose requests to the primary are never lost. The
//! success probability is equation 1 of Loruenser, Rainer and Wohner, "Towards a performance model for Byzantine fault
//! tolerant (storage) services", with the primary's PRE-PREPARE counted as its PREPARE (ADR 073).

use crate::common::{commands, spec};
use quorate_adversary::byzantine::behaviours::Silent;
use quorate_adversary::copies::{CopyRules, Remedy};
use quorate_client::load::{LoadMode, LoadOptions, ReplyCounts};
use quorate_consensus::Config;
use quorate_consensus::config::{BatchSize, Dissemination, ProtocolKind};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{TransportKind, Wire};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::links::Loss;
use quorate_simulator::models::latency::Percentiles;
use quorate_simulator::models::{Channel, Committee, Counting, Links, Phases, Protocol, Question, Shape};
use quorate_simulator::network::{Delay, Delivery, LinkSpec};
use quorate_simulator::{CostTable, NetworkSpec, SimReport, SimSpec, run};
use quorate_types::Quorum;
use std::time::Duration;

/// One-way delay in milliseconds.
const DELAY_MS: f64 = 10.0;
/// The paper's one-way delays: mean and standard deviation of a normal distribution.
const PAPER_MS: f64 = 40.0;
const PAPER_DEVIATION_MS: f64 = 10.0;
/// Timeout of a request over the paper's links, much longer than a successful request takes.
const PAPER_GIVE_UP: Duration = Duration::from_millis(600);
/// Maximum relative error of the latency model compared with the engine.
const LATENCY_TOLERANCE: f64 = 0.05;
/// Timeout of a request, much longer than a successful one takes.
const GIVE_UP: Duration = Duration::from_millis(200);

/// A point of the grid.
#[derive(Clone, Copy, Debug)]
struct Point {
    replicas: usize,
    faults: usize,
    loss: f64,
    pre_prepare_repeat: usize,
    repeat: usize,
    silent: usize,
}

impl Point {
    fn quorum(&self) -> Quorum {
        Quorum::with_faults(self.replicas, self.faults).expect("a possible committee")
    }

    fn committee(&self) -> Committee {
        let committee = Committee::new(self.replicas, self.faults).and_then(|all| all.with_silent(self.silent));
        committee.expect("a possible committee")
    }

    fn channel(&self) -> Channel {
        let (repeat, pre_prepare_repeat) = (self.repeat as u32, self.pre_prepare_repeat as u32);
        Channel { repeat, pre_prepare_repeat, ..Channel::udp(self.loss) }
    }

    /// Returns the distribution of the number of replies, from 0 to n.
    fn replies(&self, counting: Counting) -> Vec<f64> {
        Phases::new(self.committee(), counting, self.channel().messages()).replies()
    }

    /// Returns the model's time from the request until 2f+1 replies, over the paper's links.
    fn latency(&self) -> Percentiles {
        let delay = quorate_simulator::models::Delay {
            shape: Shape::Normal,
            delay_ms: PAPER_MS,
            jitter_ms: PAPER_DEVIATION_MS,
        };
        let question = Question {
            protocol: Protocol::Pbft,
            committee: self.committee(),
            counting: Counting::Engine,
            links: Links { channel: self.channel(), delay, min_rto_ms: 200.0 },
            client: None,
            with_request: true,
            replies_needed: 2 * self.faults + 1,
            timeout_ms: None,
        };
        question.validate().expect("a sound question");
        Percentiles::of(&question.latency().0.reply)
    }

    fn spec(&self, wire: Option<Wire>, duration: Duration) -> SimSpec {
        let base = spec(ProtocolKind::PbftPhases);
        let mut network = NetworkSpec {
            delay: Delay::Constant { mean_ms: DELAY_MS },
            loss: Loss::Independent { probability: self.loss },
            links: vec![LinkSpec {
                from: quorate_simulator::network::End::Named("clients".into()),
                to: quorate_simulator::network::End::Replica(0),
                delay_ms: None,
                loss: Some(Loss::default()),
            }],
            ..NetworkSpec::default()
        };
        network.transport.kind = Delivery::Datagram;
        // The last replicas are silent, because replica 0 is the primary.
        network.faults = (self.replicas - self.silent..self.replicas)
            .map(|replica| FaultSpec::Misbehave {
                at_ms: 0.0,
                for_ms: None,
                every_ms: None,
                replica: replica as u16,
                fault: Silent.into(),
            })
            .collect();
        SimSpec {
            consensus: Config {
                protocol: ProtocolKind::PbftPhases,
                dissemination: Dissemination::Leader,
                batch: BatchSize::Commands(1),
                view_timeout_ms: GIVE_UP.as_millis() as u64,
                ..base.consensus.clone()
            },
            copies: CopyRules {
                pre_prepare_repeat: self.pre_prepare_repeat,
                repeat: self.repeat,
                ..CopyRules::default()
            },
            quorum: self.quorum(),
            wire: wire.unwrap_or_default(),
            network,
            costs: CostTable::free(),
            probes: false,
            load: LoadOptions {
                clients: 1,
                mode: LoadMode::Closed { outstanding: 1 },
                bundle: 1,
                warmup: Duration::from_secs(5),
                duration,
                give_up_after: Some(GIVE_UP),
                ..LoadOptions::default()
            },
            ..base
        }
    }

    /// Returns the number of requests by number of replies.
    fn measure(&self, wire: Option<Wire>, duration: Duration, seed: u64) -> Vec<u64> {
        replies(sound(&self.spec(wire, duration), seed)).by_replies
    }
}

/// Runs a specification without violations of the protocol.
fn sound(spec: &SimSpec, seed: u64) -> SimReport {
    let report = run(spec, seed, &commands);
    let (network, copies) = (&spec.network, spec.copies);
    let about = || format!("{} replicas, {:?}, {copies:?}", spec.quorum.replicas(), network.loss);
    assert!(report.violation.is_none(), "{}: {:?}\n{}", about(), report.violation, report.transcript.join("\n"));
    report
}

/// Requests of a run with one remedy.
struct Remedied {
    /// Share of the requests that f+1 replicas answered.
    answered: f64,
    /// Messages delivered for each request.
    messages: f64,
}

/// Runs a specification of four replicas without a remedy, and with the adaptive one.
fn with_and_without_remedy(spec: &SimSpec) -> [Remedied; 2] {
    [Remedy::None, Remedy::Adaptive].map(|remedy| {
        let spec = SimSpec { copies: CopyRules { remedy, ..spec.copies }, ..spec.clone() };
        let report = sound(&spec, 1);
        let delivered = report.delivered as f64;
        let by_replies = replies(report).by_replies;
        let (all, answered) = (by_replies.iter().sum::<u64>() as f64, by_replies[2..].iter().sum::<u64>() as f64);
        Remedied { answered: answered / all, messages: delivered / all }
    })
}

fn replies(report: SimReport) -> ReplyCounts {
    report.load.expect("the load is done").replies.expect("requests are given up")
}

/// Returns whether a count lies within the 99 % interval of a binomial distribution: neither tail is below 0.5 %.
fn is_likely(requests: u64, hits: u64, chance: f64) -> bool {
    let chance = chance.clamp(1e-12, 1.0 - 1e-12);
    let (mut below, mut ln_weight) = (0.0, requests as f64 * (1.0 - chance).ln());
    for at in 0..hits {
        below += ln_weight.exp();
        ln_weight += ((requests - at) as f64 / (at + 1) as f64 * chance / (1.0 - chance)).ln();
    }
    let exact = ln_weight.exp();
    (below + exact).min(1.0) >= 0.005 && 1.0 - below >= 0.005
}

/// Requests of a point by number of replies.
type Measured = (Point, Vec<u64>);

fn measure(points: &[Point], wire: Option<&Wire>, duration: Duration) -> Vec<Measured> {
    (1..).zip(points).map(|(seed, point)| (*point, point.measure(wire.cloned(), duration, seed))).collect()
}

/// Returns the points whose number of requests with f+1 replies, or with 2f+1, is outside the model's 99 % interval.
fn unlikely(measured: &[Measured], counting: Counting) -> Vec<String> {
    let check = |(point, by_replies): &Measured| {
        let requests: u64 = by_replies.iter().sum();
        assert!(requests >= 100, "{point:?}: {requests} requests");
        let expected = point.replies(counting);
        let judge = |least: usize| {
            let hits: u64 = by_replies.iter().skip(least).sum();
            let chance: f64 = expected.iter().skip(least).sum();
            let what = format!("{point:?}: {hits} of {requests} have {least} replies, expected {chance:.4}");
            (!is_likely(requests, hits, chance)).then_some(what)
        };
        [judge(point.faults + 1), judge(2 * point.faults + 1)].into_iter().flatten().collect::<Vec<_>>()
    };
    measured.iter().flat_map(check).collect()
}

fn point((replicas, faults): (usize, usize), loss: f64, (pre_prepare_repeat, repeat): (usize, usize)) -> Point {
    Point { replicas, faults, loss, pre_prepare_repeat, repeat, silent: 0 }
}

const COMMITTEES: [(usize, usize); 5] = [(4, 1), (5, 1), (6, 1), (7, 2), (10, 3)];
const LOSSES: [f64; 5] = [0.02, 0.05, 0.1, 0.2, 0.3];
/// Copies of PRE-PREPARE, and of all messages.
const COPIES: [(usize, usize); 4] = [(0, 0), (1, 0), (2, 0), (0, 1)];

/// Of 200 figures, two are outside of their 99 % intervals on average, and more than six in one of 200 trials.
const MAX_OUTSIDE: usize = 6;
/// Duration of the second measurement of points that were outside.
const LONG: Duration = Duration::from_secs(90);

/// Over the node's own UDP and DTLS, with one message per packet.
#[test]
fn the_chance_of_success_over_udp_is_that_of_the_model() {
    let udp = Wire { transport: TransportKind::UDP, channel: ChannelKind::DTLS, ..Wire::default() };
    let lossy = COMMITTEES.iter().flat_map(|committee| LOSSES.iter().map(move |loss| (*committee, *loss)));
    let points = lossy.flat_map(|(committee, loss)| COPIES.iter().map(move |copies| point(committee, loss, *copies)));
    let measured = measure(&points.collect::<Vec<_>>(), Some(&udp), Duration::from_secs(30));
    assert_eq!(measured.len(), 100);
    let is_outside = |one: &&Measured| !unlikely(std::slice::from_ref(*one), Counting::Engine).is_empty();
    let outside: Vec<&Measured> = measured.iter().filter(is_outside).collect();
    assert!(outside.len() <= MAX_OUTSIDE, "outside of the 99 % interval:\n{outside:?}");
    // By chance, hardly any point is outside twice.
    let again = (1000..).zip(outside).map(|(seed, (point, _))| (*point, point.measure(Some(udp.clone()), LONG, seed)));
    let twice = unlikely(&again.collect::<Vec<_>>(), Counting::Engine);
    assert!(twice.is_empty(), "outside of the 99 % interval twice:\n{}", twice.join("\n"));
    let others = unlikely(&measured, Counting::Paper);
    assert!(others.len() >= 5, "too few points tell the two ways of counting apart:\n{}", others.join("\n"));
}

#[test]
fn silent_replicas_and_large_committees_succeed_as_often_as_the_model_says() {
    let silent = |replicas, faults, loss, silent| Point { silent, ..point((replicas, faults), loss, (0, 0)) };
    let points = [
        silent(6, 1, 0.05, 1),
        silent(6, 1, 0.15, 1),
        silent(11, 2, 0.05, 2),
        silent(11, 2, 0.15, 2),
        silent(7, 2, 0.01, 2),
        silent(20, 6, 0.05, 0),
        silent(20, 6, 0.15, 0),
        silent(20, 6, 0.2, 3),
    ];
    let outside = unlikely(&measure(&points, None, Duration::from_secs(60)), Counting::Engine);
    assert!(outside.is_empty(), "outside of the 99 % interval:\n{}", outside.join("\n"));
}

#[test]
fn without_loss_every_replica_replies_to_every_request() {
    let still = point((4, 1), 0.0, (0, 0));
    let mut spec = still.spec(None, Duration::from_secs(20));
    // Messages of one phase overtake messages of another.
    spec.network.jitter.max_ms = DELAY_MS;
    let by_replies = replies(sound(&spec, 1)).by_replies;
    assert!(by_replies[4] > 200 && by_replies[..4] == [0; 4], "{by_replies:?}");
}

/// Loss rises from zero to 10 % and falls again, twice. The remedy takes a few dozen slots to adapt.
#[test]
fn the_adaptive_remedy_holds_the_success_while_loss_rises_and_falls() {
    let all = || (0..4).map(quorate_simulator::network::End::Replica).collect::<Vec<_>>();
    let lose =
        |at_s: f64| FaultSpec::Lose { at_ms: at_s * 1e3, for_ms: 100e3, from: all(), to: all(), probability: 0.1 };
    let mut spec = point((4, 1), 0.0, (0, 0)).spec(None, Duration::from_secs(400));
    spec.network.faults = vec![lose(105.0), lose(305.0)];
    let [
        Remedied { answered: without, messages: messages_without },
        Remedied { answered: with, messages: messages_with },
    ] = with_and_without_remedy(&spec);
    eprintln!("answered {without:.4} without the remedy, {with:.4} with it");
    eprintln!("messages for each request: {messages_without:.1} without the remedy, {messages_with:.1} with it");
    assert!(without < 0.96 && with > 0.98, "answered: {without:.4} without the remedy, {with:.4} with it");
    assert!(messages_with < 1.7 * messages_without, "{messages_with:.1} messages, {messages_without:.1} without");
}

/// Replies are lost as often as votes here. With four replicas, copies of votes alone leave two replies for 92 % of the
/// requests.
#[test]
fn the_adaptive_remedy_copies_replies_where_these_are_lost_too() {
    let spec = point((4, 1), 0.3, (0, 0)).spec(None, Duration::from_secs(400));
    let [without, with] = with_and_without_remedy(&spec).map(|run| run.answered);
    assert!(without < 0.6 && with > 0.97, "answered: {without:.4} without the remedy, {with:.4} with it");
}

#[test]
fn the_adaptive_remedy_costs_nothing_without_loss() {
    let mut spec = point((4, 1), 0.0, (0, 0)).spec(None, Duration::from_secs(20));
    let without = sound(&spec, 1);
    spec.copies.remedy = Remedy::Adaptive;
    let with = sound(&spec, 1);
    assert_eq!((with.delivered, with.trace_hash), (without.delivered, without.trace_hash));
}

/// Mean and percentiles of a request's latency, over the node's own UDP and DTLS. Ten simulated minutes of consecutive
/// requests at each point.
#[test]
fn the_latency_over_udp_is_that_of_the_model() {
    let points = [
        point((4, 1), 0.0, (0, 0)),
        point((4, 1), 0.05, (0, 0)),
        point((4, 1), 0.15, (0, 0)),
        point((4, 1), 0.1, (2, 0)),
        point((4, 1), 0.2, (0, 1)),
        point((6, 1), 0.1, (1, 0)),
        point((7, 2), 0.05, (0, 0)),
        point((10, 3), 0.1, (1, 0)),
        point((10, 3), 0.2, (0, 2)),
        point((20, 6), 0.05, (0, 0)),
        point((20, 6), 0.1, (0, 0)),
    ];
    let udp = Wire { transport: TransportKind::UDP, channel: ChannelKind::DTLS, ..Wire::default() };
    let mut outside = Vec::new();
    for (seed, point) in (1..).zip(points) {
        let mut spec = point.spec(Some(udp.clone()), Duration::from_secs(600));
        let (mean_ms, deviation_ms) = (PAPER_MS, PAPER_DEVIATION_MS);
        spec.network.delay = Delay::Normal { mean_ms, deviation_ms, min_ms: 0.0, max_ms: 100.0 };
        spec.consensus.view_timeout_ms = PAPER_GIVE_UP.as_millis() as u64;
        spec.load.give_up_after = Some(PAPER_GIVE_UP);
        let took = replies(sound(&spec, seed)).success_us;
        assert!(took.len() >= 400, "{point:?}: only {} requests succeeded", took.len());
        let at = |quantile| took.value_at_quantile(quantile) as f64 / 1e3;
        let model = point.latency();
        let figures = [
            ("mean", took.mean() / 1e3, model.mean),
            ("p50", at(0.5), model.p50),
            ("p90", at(0.9), model.p90),
            ("p99", at(0.99), model.p99),
        ];
        for (name, measured, expected) in figures {
            let expected = expected.expect("requests succeed");
            let error = measured / expected - 1.0;
            eprintln!("{point:?}: {name} {measured:.1} ms, model {expected:.1} ms, {:+.1} %", error * 100.0);
            if error.abs() > LATENCY_TOLERANCE {
                outside.push(format!("{point:?}: {name} is {measured:.1} ms, expected {expected:.1}"));
            }
        }
    }
    assert!(outside.is_empty(), "more than 5 % from the model:\n{}", outside.join("\n"));
}
