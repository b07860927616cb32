//! Costs of signing and of verifying one signature, a quorum, and client bundles: `cargo bench -p quorate-crypto`.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use quorate_crypto::{BundleVerifier, ClientAuthentication, ClientIdentity, Crypto, KeyPair, ReplicaKeys, SchemeKind};
use quorate_types::{
    Attachment, Bundle, BundleBuilder, ClusterId, Committee, Digest, Domain, Height, ReplicaId, Subject, View, Vote,
};
use std::hint::black_box;

const CACHE: usize = 1024;

fn keys(replica: u16) -> ReplicaKeys {
    let mut seed = [0; 32];
    seed[..2].copy_from_slice(&replica.to_le_bytes());
    ReplicaKeys::from_seed(SchemeKind::ED25519, seed)
}

fn key(replica: u16) -> KeyPair {
    keys(replica).voting
}

/// Returns the crypto device of replica 0, with a cache of `cache` certificates, and a quorum of votes on one block.
/// The committee is the smallest with a quorum of `quorum`.
fn quorum_of(quorum: usize, cache: usize) -> (Crypto, Subject, Vec<Vote>) {
    let members = (1..=256u16)
        .map(|size| (0..size).collect::<Vec<u16>>())
        .find(|members| quorate_types::Quorum::of(members.len()).is_ok_and(|shape| shape.quorum() == quorum))
        .expect("some committee has a quorum of that size");
    let address: quorate_types::Address = "127.0.0.1:1".parse().expect("an address");
    let listed = members.iter().map(|id| keys(*id).member(address.clone())).collect();
    let committee = Committee::new("bench", listed).expect("a committee");
    let subject = Subject { domain: Domain::Vote, view: View(7), height: Height(5), digest: Digest([9; 32]) };
    let votes = (0..quorum as u16)
        .map(|id| {
            let mut vote =
                Vote { subject, attachment: Attachment::None, voter: ReplicaId(id), signature: Default::default() };
            vote.signature = key(id).sign(vote.statement(&committee.epoch).as_bytes());
            vote
        })
        .collect();
    let crypto = Crypto::new(SchemeKind::ED25519, &committee, ReplicaId(0), key(0), cache).expect("a device");
    (crypto, subject, votes)
}

fn single(bench: &mut Criterion) {
    let (mut crypto, _, votes) = quorum_of(3, CACHE);
    let statement = votes[0].statement(crypto.epoch());
    bench.bench_function("sign", |bench| bench.iter(|| crypto.sign(black_box(&statement))));
    bench.bench_function("verify", |bench| bench.iter(|| assert!(crypto.verify_vote(black_box(&votes[1])))));
}

fn quorum(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("quorum");
    for size in [3, 11, 21, 41, 67] {
        let (mut crypto, subject, votes) = quorum_of(size, 0);
        let certificate = crypto.assemble(&subject, votes.clone()).expect("valid votes");
        group.bench_with_input(BenchmarkId::new("verify", size), &size, |bench, _| {
            bench.iter(|| crypto.verify_certificate(black_box(&certificate)).expect("a valid certificate"))
        });
        group.bench_with_input(BenchmarkId::new("assemble", size), &size, |bench, _| {
            bench.iter_batched(
                || votes.clone(),
                |votes| crypto.assemble(&subject, votes).expect("valid votes"),
                BatchSize::SmallInput,
            )
        });
        let (mut crypto, ..) = quorum_of(size, CACHE);
        crypto.verify_certificate(&certificate).expect("a valid certificate");
        group.bench_with_input(BenchmarkId::new("verify cached", size), &size, |bench, _| {
            bench.iter(|| crypto.verify_certificate(black_box(&certificate)).expect("a valid certificate"))
        });
    }
    group.finish();
}

/// Returns `count` bundles of one empty command each, by `clients` clients in rotation.
fn signed_bundles(count: usize, clients: usize) -> Vec<Bundle> {
    let cluster = ClusterId::from_name("bench");
    let identities: Vec<_> = (0..clients).map(|at| ClientIdentity::from_seed(&cluster, [at as u8 + 1; 32])).collect();
    (0..count)
        .map(|at| {
            let identity = &identities[at % clients];
            let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
            builder.push(identity.origin(), at as u64 + 1, b"");
            identity.finish(builder)
        })
        .collect()
}

fn bundles(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("bundles");
    for clients in [1, 100] {
        for count in [1, 2, 3, 4, 8, 16, 64, 256] {
            let bundles = signed_bundles(count, clients);
            let cluster = ClusterId::from_name("bench");
            let mut verifier = BundleVerifier::new(ClientAuthentication::Ed25519, cluster, 0);
            group.bench_function(BenchmarkId::new(format!("{clients} clients"), count), |bench| {
                bench.iter(|| assert!(verifier.forged(black_box(&bundles)).is_empty()))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, single, quorum, bundles);
criterion_main!(benches);
