//! Cost of verification: sums of keys, and threads that verify for a replica.

use crate::common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{BlsVerification, ClientAuthentication, SchemeKind};
use quorate_simulator::costs::SignatureCosts;
use quorate_simulator::ledger::Charged;
use quorate_simulator::work::Work;
use quorate_simulator::{Signatures, SimReport, SimSpec, run};
use quorate_types::meter::Primitive;
use quorate_types::{Quorum, ReplicaStages, Status};
use std::time::Duration;

fn charged(report: &SimReport) -> &Charged {
    assert_eq!(report.violation, None);
    report.charged.as_ref().expect("the measured time is over")
}

fn grown(report: &SimReport, counter: fn(&Status) -> u64) -> u64 {
    report.lives.iter().map(|life| counter(&life.last) - counter(&life.first)).sum()
}

fn completed(report: &SimReport) -> u64 {
    report.load.as_ref().expect("the load is over").completed
}

/// Costs of BLS in which only additions of keys cost anything: one microsecond each.
fn additions_only(way: BlsVerification, signatures: Signatures) -> SimSpec {
    let scheme = way.of(SchemeKind::BLS12_381);
    let mut spec =
        SimSpec { scheme, signatures, quorum: Quorum::of(7).expect("a size"), ..spec(ProtocolKind::Jolteon) };
    let costs = SignatureCosts { key_addition_us: 1.0, ..SignatureCosts::free() };
    spec.costs.signatures.insert(scheme.costs_name().to_owned(), costs);
    spec.load.mode = LoadMode::Open { rate: 500.0, max_outstanding: 100 };
    (spec.load.warmup, spec.load.duration) = (Duration::from_millis(20), Duration::from_millis(60));
    spec
}

#[test]
fn a_certificate_costs_the_additions_of_keys_that_verifying_it_takes() {
    for (way, in_assembly) in
        [(BlsVerification::Each, false), (BlsVerification::Cached, true), (BlsVerification::Aggregate, true)]
    {
        // The replicas compute, verify and count real aggregates.
        let real = run(&additions_only(way, Signatures::Real), 1, &commands);
        let certificates = grown(&real, |status| status.certificates_verified);
        let additions = grown(&real, |status| status.key_additions);
        assert!(certificates > 20, "{way}: {certificates}");
        // Five of seven sign: two keys are subtracted, or four added.
        assert_eq!(additions, certificates * if way == BlsVerification::Aggregate { 4 } else { 2 }, "{way}");
        let cost_us = charged(&real).replicas.crypto_us(Primitive::VerifyAggregate);
        match in_assembly {
            false => assert_eq!(cost_us, additions as f64, "{way}"),
            // The replica that assembles a certificate adds up the keys as well, once per six verifications by others.
            true => {
                let expected = additions as f64 * 7.0 / 6.0;
                assert!((cost_us - expected).abs() <= expected * 0.1, "{way}: {cost_us} us, {additions} additions");
            }
        }
        let modelled = run(&additions_only(way, Signatures::Modelled), 1, &commands);
        assert_eq!(charged(&modelled).replicas, charged(&real).replicas, "{way}");
        assert_eq!(grown(&modelled, |status| status.key_additions), additions, "{way}: a model counts the same");
    }
}

#[test]
fn cryptography_is_charged_by_primitive() {
    let mut spec = spec(ProtocolKind::Jolteon);
    spec.client_authentication = ClientAuthentication::Ed25519;
    let report = run(&spec, 1, &commands);
    let Charged { replicas, clients } = charged(&report);
    let us = |primitive| replicas.crypto_us(primitive);
    assert_eq!(us(Primitive::Sign), replicas.us(Work::Signatures));
    assert_eq!(us(Primitive::Hash), replicas.us(Work::HashedBytes));
    let verified = us(Primitive::VerifySingle) + us(Primitive::VerifyBatch);
    assert!((verified - replicas.us(Work::Verifications)).abs() < 1e-6 * verified, "{verified}");
    assert!(us(Primitive::VerifyBatch) > 0.0);
    assert_eq!((us(Primitive::VerifyAggregate), us(Primitive::Mac)), (0.0, 0.0));
    assert_eq!(clients.crypto_us(Primitive::Sign), clients.us(Work::Signatures));
    assert!(clients.us(Work::Signatures) > 0.0);
}

fn signing_clients(verifiers: u16) -> SimSpec {
    let client_authentication = ClientAuthentication::Ed25519;
    let stages = ReplicaStages { network: false, verifiers };
    let mut spec = SimSpec { client_authentication, stages, ..spec(ProtocolKind::Jolteon) };
    spec.load.bundle = 1;
    spec.load.mode = LoadMode::Open { rate: 20_000.0, max_outstanding: 10_000 };
    spec
}

#[test]
fn other_threads_verify_what_clients_sign() {
    let (alone, helped) = (run(&signing_clients(0), 1, &commands), run(&signing_clients(2), 1, &commands));
    let per_command = |report: &SimReport, ns: u64| ns as f64 / 1e3 / completed(report) as f64;
    let busy = |report| per_command(report, grown(report, |status| status.busy_ns));
    let cpu = |report| per_command(report, grown(report, |status| status.cpu_ns));
    assert!(completed(&helped) > completed(&alone) * 99 / 100, "{} and {}", completed(&helped), completed(&alone));
    assert_eq!(busy(&alone), cpu(&alone), "its own thread does everything");
    assert!(busy(&helped) < 0.7 * busy(&alone), "{} us of {}", busy(&helped), busy(&alone));
    // The same work is done by other threads, whose time counts towards the replica.
    let verifying = |report: &SimReport| {
        let us = charged(report).replicas.us(Work::Verifications);
        us / completed(report) as f64
    };
    assert!(verifying(&helped) > 0.7 * verifying(&alone), "{} us, {} us", verifying(&helped), verifying(&alone));
    let off_the_core = cpu(&helped) - busy(&helped);
    assert!((0.9..1.1).contains(&(off_the_core / verifying(&helped))), "{off_the_core} us, {} us", verifying(&helped));
}

#[test]
fn one_slow_thread_makes_clients_wait_and_loses_nothing() {
    let mut spec = SimSpec { scheme: SchemeKind::NONE, ..signing_clients(1) };
    spec.load.mode = LoadMode::Closed { outstanding: 400 };
    for (_, us) in &mut spec.costs.signatures.get_mut("ed25519").expect("it is there").verify_us {
        *us *= 30.0;
    }
    let report = run(&spec, 1, &commands);
    let load = report.load.as_ref().expect("the load is over");
    charged(&report);
    // The thread is always busy, in batches of 64, and only verifies clients' signatures.
    let (count, us) = spec.costs.signatures["ed25519"].verify_us.last().expect("it is the largest batch");
    let most = load.window.as_secs_f64() * 1e6 * f64::from(*count) / us;
    let done = load.completed as f64 / most;
    assert!((0.8..1.05).contains(&done), "{done} of {most} commands");
    assert_eq!((load.refused, load.unanswered), (0, 0), "all are answered after the measured time");
}

/// Replicas crash and restart while other threads verify for them.
#[test]
fn a_crash_forgets_what_other_threads_verify() {
    for seed in 1..6 {
        let mut spec = signing_clients(2);
        spec.stages.network = seed % 2 == 0;
        spec.load.mode = LoadMode::Closed { outstanding: 20 };
        spec.chaos = Some(Duration::from_millis(1500));
        let report = run(&spec, seed, &commands);
        assert_eq!(report.violation, None, "seed {seed}");
    }
}

#[test]
fn a_network_apart_reads_hashes_and_writes_off_the_core() {
    let alone = signing_clients(2);
    let mut apart = alone.clone();
    apart.stages.network = true;
    let (alone, apart) = (run(&alone, 1, &commands), run(&apart, 1, &commands));
    assert!(completed(&apart) > completed(&alone) * 99 / 100, "{} and {}", completed(&apart), completed(&alone));
    let per_command = |report: &SimReport, ns: u64| ns as f64 / 1e3 / completed(report) as f64;
    let core = |report| per_command(report, grown(report, |status| status.threads.core_ns));
    let network = per_command(&apart, grown(&apart, |status| status.threads.network_ns.unwrap_or(0)));
    assert_eq!(grown(&alone, |status| status.threads.network_ns.unwrap_or(0)), 0);
    // The network thread does work that the core thread did before: reading, hashing, writing.
    let us = |report: &SimReport, work| charged(report).replicas.us(work) / completed(report) as f64;
    let moved: f64 = [Work::Reads, Work::Writes, Work::ReceivedBytes, Work::SentBytes, Work::Hashes, Work::HashedBytes]
        .map(|work| us(&apart, work))
        .iter()
        .sum();
    assert!(network > moved * 0.8, "{network} us, of which {moved} for system calls, bytes and hashes");
    assert!(core(&apart) < core(&alone) - 0.5 * moved, "{} us of {}", core(&apart), core(&alone));
    // All three stages count towards the replica.
    let cpu = per_command(&apart, grown(&apart, |status| status.cpu_ns));
    let verifiers = per_command(&apart, grown(&apart, |status| status.threads.verifiers_ns));
    assert!((cpu - core(&apart) - network - verifiers).abs() < 0.01, "{cpu} us");
}

#[test]
fn a_network_apart_signs_replies_off_the_core() {
    let mut plain = signing_clients(2);
    plain.stages.network = true;
    let mut signed = plain.clone();
    signed.reply_seals = Some(SchemeKind::ED25519);
    let (plain, signed) = (run(&plain, 1, &commands), run(&signed, 1, &commands));
    let us = |report: &SimReport, ns: u64| ns as f64 / 1e3 / completed(report) as f64;
    let core = |report| us(report, grown(report, |status| status.threads.core_ns));
    let network = |report| us(report, grown(report, |status| status.threads.network_ns.unwrap_or(0)));
    let signing = |report: &SimReport| charged(report).replicas.us(Work::Signatures) / completed(report) as f64;
    let seals = signing(&signed) - signing(&plain);
    assert!(seals > 0.0, "replies have signatures");
    let (on_core, on_network) = (core(&signed) - core(&plain), network(&signed) - network(&plain));
    assert!(on_network > seals * 0.8, "{on_network} us of {seals}");
    assert!(on_core < seals * 0.5, "{on_core} us of {seals}");
}
