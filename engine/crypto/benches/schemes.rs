//! Costs of every scheme with transferable proofs, and of MACs: `cargo bench -p quorate-crypto --bench schemes`, with a
//! part of a name to select measurements.
//!
//! `assemble` verifies the votes of a quorum and creates their certificate's proof, `check` verifies that proof.
//! `floor` is the time that the libraries' primitives take for the same work.

mod quorum;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quorate_crypto::SchemeKind;
use quorum::{Quorum, SIZES, members};
use std::hint::black_box;
use std::time::Duration;

/// Lengths of authenticated messages, in bytes.
const MESSAGES_BYTES: [usize; 3] = [64, 512, 4096];
const MAC_KEY: [u8; 32] = [7; 32];
/// One measurement with `bls12-381-each` takes 45 ms at n=80.
const SAMPLES: usize = 10;
const WARM_UP: Duration = Duration::from_millis(100);
const MEASURED: Duration = Duration::from_millis(400);

fn group<'a>(bench: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = bench.benchmark_group(name);
    group.sample_size(SAMPLES).warm_up_time(WARM_UP).measurement_time(MEASURED);
    group
}

fn schemes(bench: &mut Criterion) {
    let transferable = SchemeKind::with_costs().into_iter().filter(|kind| kind.profile().transferable);
    for kind in transferable {
        let keys = members(kind, SIZES[SIZES.len() - 1]);
        let mut group = group(bench, kind.costs_name());
        let smallest = Quorum::new(kind, &keys[..SIZES[0]]);
        group.bench_function("sign", |bench| bench.iter(|| smallest.sign()));
        group.bench_function("verify", |bench| bench.iter(|| smallest.verify()));
        for size in SIZES {
            let quorum = Quorum::new(kind, &keys[..size]);
            let (claims, signers, floor) = (quorum.claims(), quorum.signers(), quorum.floor(kind));
            let proof = quorum.assemble(&claims);
            let name = |what: &str| BenchmarkId::new(what, size);
            group.bench_function(name("assemble"), |bench| bench.iter(|| quorum.assemble(&claims)));
            group.bench_function(name("assemble-floor"), |bench| bench.iter(|| quorum.assemble_by(&floor)));
            group.bench_function(name("check"), |bench| bench.iter(|| quorum.check(&signers, &proof)));
            group.bench_function(name("check-floor"), |bench| bench.iter(|| quorum.check_by(&floor)));
        }
        group.finish();
    }
}

fn macs(bench: &mut Criterion) {
    for kind in SchemeKind::ALL {
        let Some(tag) = kind.scheme().tag() else { continue };
        let mut group = group(bench, kind.name());
        for bytes in MESSAGES_BYTES {
            let message = vec![3; bytes];
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(BenchmarkId::new("mac", bytes), |bench| {
                bench.iter(|| tag(black_box(&MAC_KEY), black_box(&message)))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, schemes, macs);
criterion_main!(benches);
