//! Every protocol runs with every scheme, simulated with real signatures, and over sockets.

use crate::common::Quiet;
use quorate_lab::result::{Agreement, CryptoSource, Primitives};
use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{
    AuthProfile, BatchSize, BenchSpec, BlsVerification, ClientAuthentication, Interval, ProtocolKind,
    ReplyAuthentication, SchemeKind,
};
use quorate_lab::{BenchResult, bench};
use quorate_operator::report::Report;
use quorate_simulator::Signatures;
use quorate_types::ReplicaThreads;

fn short(protocol: ProtocolKind, scheme: SchemeKind) -> BenchSpec {
    {
        let mut spec = BenchSpec {
            clients: 1,
            outstanding: Some(40),
            warmup: Interval::from_millis(50),
            duration: Interval::from_millis(300),
            ..BenchSpec::default()
        };
        spec.node.consensus.protocol = protocol;
        spec.node.scheme = scheme;
        spec.node.accept_weak_scheme = scheme.profile().weakness.is_some();
        spec
    }
}

fn every_pair() -> impl Iterator<Item = (ProtocolKind, SchemeKind)> {
    let transferable = SchemeKind::ALL.iter().copied().filter(|scheme| scheme.profile().transferable);
    transferable.flat_map(|scheme| ProtocolKind::ALL.iter().map(move |protocol| (*protocol, scheme)))
}

/// The profiles with MACs on votes, each with every MAC scheme.
fn with_macs() -> impl Iterator<Item = BenchSpec> {
    let mac_schemes = [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC];
    [AuthProfile::Mac, AuthProfile::Domain].into_iter().flat_map(move |auth_profile| {
        mac_schemes.into_iter().map(move |mac_scheme| {
            let mut spec = short(ProtocolKind::PbftMac, SchemeKind::ED25519);
            spec.node.auth_profile = auth_profile;
            spec.node.mac_scheme = mac_scheme;
            spec
        })
    })
}

/// The pipeline paper's three profiles; clients sign in all of them.
fn of_the_paper() -> [BenchSpec; 3] {
    let way = |protocol, auth_profile, reply_authentication| {
        let mut spec = BenchSpec { bundle: 1, ..short(protocol, SchemeKind::ED25519) };
        spec.node.auth_profile = auth_profile;
        spec.node.reply_authentication = reply_authentication;
        spec.node.client_authentication = ClientAuthentication::Ed25519;
        spec.node.consensus.batch = BatchSize::Commands(1);
        spec
    };
    [
        way(ProtocolKind::Pbft, AuthProfile::Pk, ReplyAuthentication::Signature),
        way(ProtocolKind::PbftMac, AuthProfile::Mac, ReplyAuthentication::Signature),
        way(ProtocolKind::PbftMac, AuthProfile::Domain, ReplyAuthentication::Mac),
    ]
}

#[test]
fn replies_with_seals_pass_a_simulation_and_a_run_over_sockets() {
    for spec in of_the_paper() {
        let what = format!("{} with replies by {}", spec.node.auth_profile, spec.node.reply_authentication);
        let simulated = sim::run(&spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
        let real = bench::run(&spec, &mut Quiet).unwrap_or_else(|error| panic!("{error}"));
        for result in [&simulated.bench, &real] {
            assert!(result.committed_commands > 0, "{what}: {}", result.to_table());
            assert_eq!(result.agreement, Agreement::Agreed, "{what}");
            assert!(!result.warnings.iter().any(|warning| warning.contains("did not count")), "{:?}", result.warnings);
        }
    }
}

/// An RSA-2048 signature takes 218 us in the cost table. Two of the profiles have one on each reply.
#[test]
fn seals_on_replies_cost_what_the_table_says() {
    let commands = |reply_authentication, scheme| {
        let spec = {
            let mut spec = of_the_paper()[1].clone();
            spec.node.reply_authentication = reply_authentication;
            spec.node.scheme = scheme;
            spec
        };
        let result = sim::run(&spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
        result.bench.committed_commands as f64
    };
    let channel = commands(ReplyAuthentication::Channel, SchemeKind::RSA_2048);
    let (signed, by_macs) = (
        commands(ReplyAuthentication::Signature, SchemeKind::RSA_2048),
        commands(ReplyAuthentication::Mac, SchemeKind::RSA_2048),
    );
    assert!(signed < channel / 2.0, "{signed} commands with signatures, {channel} without");
    assert!((0.9..=1.02).contains(&(by_macs / channel)), "{by_macs} commands with MACs, {channel} without");
    let faster = commands(ReplyAuthentication::Signature, SchemeKind::ED25519);
    assert!(faster > signed * 2.0, "{faster} commands with Ed25519, {signed} with RSA-2048");
}

/// Only certificates of PREPAREs, which are never presented to others, have MACs.
fn passes_with_macs(spec: &BenchSpec, result: &BenchResult) {
    let what = format!("{} with {}", spec.node.auth_profile, spec.node.mac_scheme);
    assert!(result.committed_commands > 0, "{what}: {}", result.to_table());
    assert_eq!(result.agreement, Agreement::Agreed, "{what}");
    assert!(result.verifications_per_block.expect("blocks were committed") > 0.0, "{what}");
}

#[test]
fn votes_by_macs_pass_a_simulation_and_a_run_over_sockets() {
    for spec in with_macs() {
        for signatures in [Signatures::Real, Signatures::Modelled] {
            let options = SimOptions { signatures, ..SimOptions::default() };
            let result = sim::run(&spec, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
            passes_with_macs(&spec, &result.bench);
        }
        let result = bench::run(&spec, &mut Quiet).unwrap_or_else(|error| panic!("{error}"));
        passes_with_macs(&spec, &result);
    }
}

/// Each profile uses exactly the expected primitives, which together take less than the whole CPU time.
#[test]
fn cryptography_is_reported_by_primitive() {
    let [signed, by_macs, _] = of_the_paper();
    let sums = short(ProtocolKind::ALL[0], SchemeKind::BLS12_381);
    // Signing, batches, aggregates, MACs. Timing decides whether several clients' signatures are verified together or
    // singly.
    for (spec, expected) in [
        (&signed, [Some(true), Some(true), Some(false), Some(false)]),
        (&by_macs, [Some(true), None, Some(false), Some(true)]),
        (&sums, [Some(true), Some(false), Some(true), Some(false)]),
    ] {
        let what = format!(
            "{} with {} in the profile {}",
            spec.node.consensus.protocol, spec.node.scheme, spec.node.auth_profile
        );
        let simulated = sim::run(spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}")).bench;
        let helped = {
            let mut spec = spec.clone();
            spec.node.replica_threads = ReplicaThreads::Count(3);
            spec
        };
        let [real, helped] =
            [spec, &helped].map(|spec| bench::run(spec, &mut Quiet).unwrap_or_else(|error| panic!("{error}")));
        for (result, source) in
            [(&simulated, CryptoSource::Charged), (&real, CryptoSource::Sampled), (&helped, CryptoSource::Sampled)]
        {
            let crypto = &result.crypto_us_per_command;
            assert_eq!(crypto.source, source, "{what}");
            let Primitives { sign, verify_single, verify_batch, verify_aggregate, mac, hash } = crypto.replicas;
            // A primitive with fewer than seven calls may have no estimate.
            let us = |time: Option<f64>| time.unwrap_or_default();
            let all = [sign, verify_batch, verify_aggregate, mac].map(us);
            for (time, expected) in all.iter().zip(expected) {
                assert!(expected.is_none_or(|expected| (*time > 0.0) == expected), "{what}: {crypto:?}");
            }
            let sum = all.iter().sum::<f64>() + us(verify_single) + us(hash);
            let cpu = result.cpu_us_per_command.replicas.expect("commands were completed");
            assert!(sum < cpu, "{what}: {sum} us of {cpu}");
            let signs = spec.node.client_authentication == ClientAuthentication::Ed25519;
            assert_eq!(crypto.clients.sign.expect("commands were completed") > 0.0, signs, "{what}: {crypto:?}");
        }
    }
}

#[test]
fn macs_are_refused_where_certificates_are_shown() {
    for protocol in ProtocolKind::ALL.iter().copied().filter(|protocol| *protocol != ProtocolKind::PbftMac) {
        let spec = {
            let mut spec = short(protocol, SchemeKind::ED25519);
            spec.node.auth_profile = AuthProfile::Domain;
            spec
        };
        let error = spec.validate().expect_err("its votes are shown to others").to_string();
        let parts = ["--auth-profile", "convinces only the recipients", protocol.name(), "pbft-mac"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let by_macs_alone = short(ProtocolKind::PbftMac, SchemeKind::HMAC_SHA256);
    let error = by_macs_alone.validate().expect_err("checkpoints are shown to others").to_string();
    let parts = ["--scheme", "hmac-sha256", "convinces only the recipients", "auth_profile"];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    let no_macs = {
        let mut spec = with_macs().next().expect("there are some");
        spec.node.mac_scheme = SchemeKind::ED25519;
        spec
    };
    let error = no_macs.validate().expect_err("signatures are no MACs").to_string();
    assert!(error.contains("--mac-scheme") && error.contains("hmac-sha256, aes-256-cmac"), "{error}");
}

fn passes(spec: &BenchSpec, result: &BenchResult) {
    let what = format!("{} with {}", spec.node.consensus.protocol, spec.node.scheme);
    assert!(result.committed_commands > 0, "{what}: {}", result.to_table());
    assert_eq!(result.agreement, Agreement::Agreed, "{what}");
    let bytes = spec.node.scheme.profile().signature_bytes(4) as u64;
    let signatures = if spec.node.scheme.profile().aggregatable { 1 } else { 3 };
    assert!((bytes * signatures..bytes * signatures + 20).contains(&result.certificate_bytes), "{what}");
    let verifications = result.verifications_per_block.expect("blocks were committed");
    assert!(verifications > 0.0 || !spec.node.scheme.profile().unforgeable, "{what}");
}

#[test]
fn every_pair_passes_a_simulation_with_real_signatures() {
    for (protocol, scheme) in every_pair() {
        let spec = short(protocol, scheme);
        let options = SimOptions { signatures: Signatures::Real, ..SimOptions::default() };
        let result = sim::run(&spec, &options, &|_| {}).unwrap_or_else(|error| panic!("{protocol}, {scheme}: {error}"));
        passes(&spec, &result.bench);
    }
}

#[test]
fn every_pair_passes_a_run_over_sockets() {
    for (protocol, scheme) in every_pair() {
        let spec = short(protocol, scheme);
        let result = bench::run(&spec, &mut Quiet).unwrap_or_else(|error| panic!("{protocol}, {scheme}: {error}"));
        passes(&spec, &result);
    }
}

/// The paper's method costs the leader a pairing per vote.
#[test]
fn verifying_each_vote_of_bls_costs_throughput() {
    let run = |bls_verification| {
        let spec = {
            let mut spec = BenchSpec {
                replicas: 16,
                outstanding: Some(2000),
                ..short(ProtocolKind::ALL[0], SchemeKind::BLS12_381)
            };
            spec.node.reproduction.bls_verification = bls_verification;
            spec
        };
        let result = sim::run(&spec, &SimOptions::default(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
        result.bench.cpu_us_per_command.replicas.expect("commands were completed")
    };
    let [each, cached] = [BlsVerification::Each, BlsVerification::Cached].map(run);
    assert!(each > 1.2 * cached, "{each} and {cached} us");
}

#[test]
fn a_weak_scheme_has_to_be_accepted() {
    let spec = {
        let mut spec = short(ProtocolKind::ALL[0], SchemeKind::RSA_1024);
        spec.node.accept_weak_scheme = false;
        spec
    };
    let error = spec.validate().expect_err("the scheme is weak").to_string();
    assert!(error.contains("rsa-1024 is weak") && error.contains("--accept-weak-scheme"), "{error}");
    let accepted = {
        let mut spec = spec;
        spec.node.accept_weak_scheme = true;
        spec
    };
    assert!(accepted.validate().is_ok());
    assert!(accepted.warnings().iter().any(|warning| warning.contains("rsa-1024")));
}
