//! The same seed gives the same run.

use crate::common::{commands, spec};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::SchemeKind;
use quorate_simulator::costs::SignatureCosts;
use quorate_simulator::network::Loss;
use quorate_simulator::{CostTable, NetworkSpec, Signatures, SimSpec, run, run_seeds};
use quorate_testkit::schemes::AGGREGATE;
use std::time::Duration;

/// Trace hash of the run below. After an intended change, copy the new one from `left` in the failing test's output.
const GOLDEN: &str = "6d773c8fcf5f75be017e9f275a45b3af";

#[test]
fn equal_seeds_give_equal_runs_and_different_seeds_do_not() {
    for protocol in ProtocolKind::ALL {
        let spec = spec(*protocol);
        let [one, same, other] = [1, 1, 2].map(|seed| run(&spec, seed, &commands));
        assert_eq!(one.violation, None);
        assert_eq!((&one.trace_hash, one.events), (&same.trace_hash, same.events), "{protocol}");
        assert_ne!(one.trace_hash, other.trace_hash, "{protocol}");
        assert!(one.load.expect("the load is over").completed > 1000, "{protocol}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let spec = spec(ProtocolKind::Jolteon);
    let alone: Vec<_> = (0..4).map(|seed| run(&spec, seed, &commands).trace_hash).collect();
    let together = run_seeds(&spec, 0..4, 2, &commands, &|_| {});
    assert_eq!(alone, together.into_iter().map(|report| report.trace_hash).collect::<Vec<_>>());
}

#[test]
fn a_run_has_the_same_hash_on_every_machine() {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.network = NetworkSpec::preset("wan4").expect("a preset");
    spec.network.loss = Loss::Bursts { enter: 0.01, leave: 0.3, good: 0.001, bad: 0.5 };
    spec.load.duration = Duration::from_secs(2);
    let report = run(&spec, 7, &commands);
    assert_eq!(report.violation, None);
    assert!(report.lost_packets > 0 && report.streams.retransmissions > 0);
    assert_eq!(report.trace_hash, GOLDEN, "update the hash if a protocol, the wire or the load changed on purpose");
}

/// The shipped costs, with preemption, under every protocol.
#[test]
fn runs_with_the_shipped_costs_repeat_and_are_sound() {
    for protocol in ProtocolKind::ALL {
        let mut spec = SimSpec { cores: 2, costs: CostTable::shipped(), ..spec(*protocol) };
        let once = run(&spec, 7, &commands);
        assert_eq!(once.violation, None, "{protocol}");
        assert_eq!(once.trace_hash, run(&spec, 7, &commands).trace_hash, "{protocol}");
        spec.chaos = Some(Duration::from_secs(1));
        (spec.load.duration, spec.load.drain) = (Duration::from_secs(3600), Duration::ZERO);
        assert_eq!(run(&spec, 7, &commands).violation, None, "{protocol}");
    }
}

#[test]
fn real_signatures_change_no_decision() {
    compare_real_and_modelled_signatures(SchemeKind::ED25519);
}

#[test]
fn real_signatures_of_an_unregistered_scheme_change_no_decision() {
    compare_real_and_modelled_signatures(AGGREGATE);
}

fn compare_real_and_modelled_signatures(scheme: SchemeKind) {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.scheme = scheme;
    spec.costs.signatures.insert(scheme.name().to_owned(), SignatureCosts::free());
    spec.load.duration = Duration::from_millis(50);
    spec.network = NetworkSpec::default();
    let modelled = run(&spec, 1, &commands);
    spec.signatures = Signatures::Real;
    let real = run(&spec, 1, &commands);
    assert_eq!((modelled.events, modelled.delivered), (real.events, real.delivered));
    assert_ne!(modelled.trace_hash, real.trace_hash, "the bytes of the signatures are part of the trace");
}
