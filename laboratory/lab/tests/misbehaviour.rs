//! Every misbehaviour in a real cluster: honest replicas agree, and none of them is accused.

use crate::common::Quiet;
use quorate_lab::BenchSpec;
use quorate_lab::bench;
use quorate_lab::result::Agreement;
use quorate_lab::spec::{Interval, Misbehaviour, ProtocolKind};

/// The first leader misbehaves, under each protocol in turn. The speed of the cluster is not checked.
#[test]
fn a_real_cluster_stays_safe_under_every_misbehaviour() {
    for (at, how) in Misbehaviour::ALL.into_iter().enumerate() {
        let protocol = ProtocolKind::ALL[at % ProtocolKind::ALL.len()];
        let spec = {
            let mut spec = BenchSpec {
                clients: 1,
                outstanding: Some(20),
                warmup: Interval::from_millis(100),
                duration: Interval::from_millis(300),
                fault: vec![format!("{how}:0").parse().expect("a fault")],
                ..BenchSpec::default()
            };
            spec.node.consensus.protocol = protocol;
            spec.node.consensus.view_timeout_ms = 100;
            spec
        };
        let result = bench::run(&spec, &mut Quiet).expect("a cluster");
        assert_eq!(result.agreement, Agreement::Agreed, "{how} under {protocol}");
        let about_it = |line: &String| line.starts_with("replica 0 signed two ");
        assert!(result.evidence.iter().all(about_it), "{how} under {protocol}: {:?}", result.evidence);
    }
}

/// Three of four replicas are silent at the start of the measured time. Nothing can complete until they send and answer
/// again.
#[test]
fn replicas_that_were_silent_for_a_while_order_and_answer_again() {
    let spec = {
        let mut spec = BenchSpec {
            clients: 1,
            outstanding: Some(20),
            warmup: Interval::from_millis(100),
            duration: Interval::from_millis(2000),
            fault: vec!["silent:0..3@0s+100ms".parse().expect("a fault")],
            ..BenchSpec::default()
        };
        spec.node.consensus.view_timeout_ms = 100;
        spec
    };
    let result = bench::run(&spec, &mut Quiet).expect("a cluster");
    assert!(result.committed_commands > 0);
    let events: Vec<&str> = result.events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(events, ["silent:0..3@0s+100ms begins", "silent:0..3@0s+100ms ends"]);
}
