//! Sample result of a ten-second run in which the leader is killed in the fifth second.
#![allow(dead_code, reason = "each test file uses its own part")]

use hdrhistogram::Histogram;
use quorate_lab::bench::{Progress, Watcher};
use quorate_lab::result::{Agreement, BenchResult, CpuPerCommand, Event, Latency, Machine, Second, log_buckets, per};
use quorate_lab::spec::{BenchSpec, Fault, Interval, LeaderKind};
use quorate_types::ReplicaId;

/// Returns latencies in microseconds: most around 14 ms, and a tail.
pub fn latencies() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000, 3).expect("valid bounds");
    for step in 0..20_000u64 {
        let u = (step as f64 + 0.5) / 20_000.0;
        let body = 14_000.0 * ((u / (1.0 - u)).ln() * 0.14).exp();
        let tail = if step % 400 == 0 { 3.0 + (step % 7) as f64 } else { 1.0 };
        histogram.record_n((body * tail) as u64, 90).expect("within bounds");
    }
    histogram
}

fn spec() -> BenchSpec {
    {
        let mut spec = BenchSpec {
            payload: 512,
            fault: vec![Fault::Crash(ReplicaId(2), Interval::from_millis(4000)), "slow:1".parse().expect("a fault")],
            report: Some("out.html".into()),
            ..BenchSpec::default()
        };
        spec.node.consensus.leader = LeaderKind::Reputation;
        spec.node.consensus.batch = 800.into();
        spec
    }
}

pub fn sample() -> BenchResult {
    let spec = spec();
    let rates = [188_400, 192_200, 190_100, 194_800, 41_300, 163_800, 171_200, 169_900, 172_400, 170_700];
    let latency = latencies();
    let second = |(second, ops): (usize, &u64)| Second {
        second: second as u32,
        ops: *ops,
        p50_ms: Some(2_700_000.0 / *ops as f64),
        p99_ms: Some(if second == 4 { 410.0 } else { 31.0 + (second * 7 % 5) as f64 }),
        ..Second::default()
    };
    let committed_commands = rates.iter().sum();
    let committed_blocks = 2_212;
    BenchResult {
        throughput_ops: committed_commands as f64 / 10.0,
        latency_ms: Latency::of(&latency),
        latency_within_fences_ms: Latency::within_fences(&latency),
        committed_commands,
        executed_commands: committed_commands,
        committed_blocks,
        views: 2_219,
        view_timeouts: 1,
        longest_gap_ms: Some(1043.7),
        cpu_us_per_command: CpuPerCommand { total: Some(7.31), replicas: Some(5.02), clients: Some(2.11) },
        bytes_per_command: Some(2743.0),
        verifications_per_block: per(21_345.0, committed_blocks),
        messages_per_block: per(15_480.0, committed_blocks),
        bytes_per_block: per(9_120_000.0, committed_blocks),
        peak_rss_mb: 212.4,
        agreement: Agreement::Agreed,
        timeline: rates.iter().enumerate().map(second).collect(),
        latency_histogram: log_buckets(&latency),
        events: vec![
            Event { time_s: 0.0, text: "replica 1 is slow".into() },
            Event { time_s: 4.0, text: "replica 2 was killed".into() },
        ],
        warnings: spec.warnings(),
        machine: Machine {
            cpu: "AMD EPYC 9V74 80-Core Processor".into(),
            cores: 2,
            memory_mb: 25_191,
            kernel: "linux 6.18.0".into(),
        },
        ..BenchResult::empty(&spec)
    }
}

/// Ignores the progress of a benchmark.
pub struct Quiet;

impl Watcher for Quiet {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn warn(&mut self, _: &str) {}
}
