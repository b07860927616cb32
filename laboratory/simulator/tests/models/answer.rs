//! Questions and answers: remedies, invalid input, and the consistency of the results.

use quorate_simulator::models::remedies::Kind;
use quorate_simulator::models::{Channel, ClientLink, Committee, Counting, Delay, Links, Protocol, Question, Shape};

fn question(protocol: Protocol, replicas: usize, faults: usize, channel: Channel) -> Question {
    let committee = Committee::new(replicas, faults).expect("a committee");
    let delay = Delay { shape: Shape::Normal, delay_ms: 40.0, jitter_ms: 10.0 };
    Question {
        protocol,
        committee,
        counting: Counting::Paper,
        links: Links { channel, delay, min_rto_ms: 200.0 },
        client: None,
        with_request: false,
        replies_needed: committee.strong(),
        timeout_ms: None,
    }
}

#[test]
fn every_protocol_has_an_answer_that_agrees_with_itself() {
    for protocol in Protocol::ALL {
        for channel in [Channel::udp(0.0), Channel::udp(0.05), Channel::tcp(0.05, 2, 12)] {
            let answer = question(*protocol, 7, 2, channel).answer();
            assert!((0.0..=1.0).contains(&answer.success_probability), "{answer:?}");
            let latency = answer.latency_ms;
            let [mean, p50, p90, p99] =
                [latency.mean, latency.p50, latency.p90, latency.p99].map(|ms| ms.expect("some"));
            assert!(p50 > 100.0 && p50 < p90 && p90 < p99 && mean > 100.0, "{protocol} {latency:?}");
            assert!(answer.quorum_latency_ms.p50.expect("some") < p50, "replies come after commits");
            assert!(answer.messages.expected <= answer.messages.without_loss + 1e-9, "{:?}", answer.messages);
            assert!(answer.messages.packets >= answer.messages.expected - 1e-9, "{:?}", answer.messages);
            let change = answer.view_change.expect("some commit");
            assert!((0.0..1.0).contains(&change.probability) && change.throughput_per_s > 0.0);
            assert_eq!(Some(change.timeout_ms), answer.best_timeout_ms);
        }
    }
}

/// Latencies without loss, in units of the delay: PBFT takes 4 hops including the reply, Jolteon 6, chained HotStuff
/// and basic HotStuff 8.
#[test]
fn without_jitter_latency_is_the_number_of_hops() {
    let hops =
        [(Protocol::Pbft, 4.0), (Protocol::HotStuff, 8.0), (Protocol::BasicHotStuff, 8.0), (Protocol::Jolteon, 6.0)];
    for (protocol, hops) in hops {
        let mut own = question(protocol, 4, 1, Channel::udp(0.0));
        own.links.delay.jitter_ms = 0.0;
        let answer = own.answer();
        let mean = answer.latency_ms.mean.expect("it comes");
        assert!((mean - hops * 40.0).abs() < 0.5, "{protocol}: {mean}");
        own.client = Some(ClientLink { loss: 0.0, delay: Delay { delay_ms: 5.0, ..own.links.delay } });
        let nearer = own.answer().latency_ms.mean.expect("it comes");
        assert!((mean - nearer - 35.0).abs() < 0.5, "{protocol}: {nearer}");
        let asked = Question { with_request: true, ..own }.answer().latency_ms.mean.expect("it comes");
        assert!((asked - nearer - 5.0).abs() < 0.5, "{protocol}: {asked}");
    }
}

#[test]
fn a_clients_link_loses_replies_only() {
    let mut own = question(Protocol::Pbft, 4, 1, Channel::udp(0.0));
    own.client = Some(ClientLink { loss: 0.5, delay: own.links.delay });
    let answer = own.answer();
    assert_eq!(answer.agreement_probability, Some(1.0));
    // At least 3 of 4 replies arrive: (4 + 1) / 16.
    assert!((answer.success_probability - 5.0 / 16.0).abs() < 1e-12, "{}", answer.success_probability);
}

#[test]
fn each_remedy_is_the_least_that_suffices_and_the_cheapest_is_marked() {
    let own = question(Protocol::Pbft, 4, 1, Channel::udp(0.1));
    let answer = own.answer();
    assert!(answer.remedy_needed && answer.expected_replies < 3.0);
    assert_eq!(answer.remedies.iter().map(|remedy| remedy.remedy).collect::<Vec<_>>(), Kind::ALL);
    for remedy in &answer.remedies {
        assert_eq!(remedy.suffices, remedy.expected_replies >= 3.0, "{remedy:?}");
        assert!(remedy.success_probability > answer.success_probability, "{remedy:?}");
        assert!(remedy.messages >= answer.messages.without_loss, "{remedy:?}");
    }
    let sufficing: Vec<_> = answer.remedies.iter().filter(|remedy| remedy.suffices).collect();
    let cheapest = sufficing.iter().find(|remedy| remedy.cheapest).expect("some remedy suffices");
    assert!(sufficing.iter().all(|remedy| remedy.packets >= cheapest.packets));
    let all = answer.remedies.iter().find(|remedy| remedy.remedy == Kind::RepeatAll).expect("it is tried");
    assert_eq!(Some(all.amount), answer.repetitions_needed);
    let reliable = answer.remedies.last().expect("there are some");
    assert!(reliable.suffices && reliable.latency_ms.p99 > answer.latency_ms.p99, "{reliable:?}");
}

#[test]
fn without_loss_no_remedy_is_needed_and_over_tcp_none_is_left() {
    let calm = question(Protocol::Pbft, 4, 1, Channel::udp(0.0)).answer();
    assert!(!calm.remedy_needed && calm.retransmissions_needed == Some(0) && calm.repetitions_needed == Some(0));
    assert!(question(Protocol::Pbft, 4, 1, Channel::tcp(0.1, 1, 12)).answer().remedies.is_empty());
}

#[test]
fn a_network_that_loses_all_has_an_answer_without_latency() {
    for protocol in Protocol::ALL {
        let answer = question(*protocol, 4, 1, Channel::udp(1.0)).answer();
        assert_eq!((answer.success_probability, answer.latency_ms.mean), (0.0, None));
        assert!(answer.view_change.is_none() && answer.repetitions_needed.is_none());
        assert!(answer.remedies.iter().all(|remedy| !remedy.suffices && !remedy.cheapest));
    }
}

#[test]
fn a_single_replica_agrees_with_itself() {
    for protocol in Protocol::ALL {
        let answer = question(*protocol, 1, 0, Channel::udp(0.25)).answer();
        assert!((answer.success_probability - 0.75).abs() < 1e-12, "{protocol}: {}", answer.success_probability);
    }
}

#[test]
fn nonsense_is_refused() {
    let good = question(Protocol::Pbft, 4, 1, Channel::udp(0.1));
    let place = |own: Question| own.validate().expect_err("nonsense").place;
    assert!(good.validate().is_ok());
    assert_eq!(place(Question { replies_needed: 5, ..good }), "--replies");
    assert_eq!(place(Question { replies_needed: 0, ..good }), "--replies");
    assert_eq!(place(Question { timeout_ms: Some(f64::NAN), ..good }), "--timeout-ms");
    let mut delayed = good;
    delayed.links.delay.delay_ms = -1.0;
    assert_eq!(place(delayed), "--delay-ms");
    delayed.links.delay = Delay { jitter_ms: f64::INFINITY, ..good.links.delay };
    assert_eq!(place(delayed), "--jitter-ms");
    let client = |loss: f64, delay_ms: f64| {
        let link = ClientLink { loss, delay: Delay { delay_ms, ..good.links.delay } };
        place(Question { client: Some(link), ..good })
    };
    assert_eq!(client(2.0, 1.0), "--client-loss");
    assert_eq!(client(0.0, -1.0), "--client-delay-ms");
}
