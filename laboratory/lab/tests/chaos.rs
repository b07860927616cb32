//! Laboratory under chaos: violations by replicas are reported, and the laboratory itself never fails.

use quorate_lab::BenchSpec;
use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{Interval, ProtocolKind};
use quorate_operator::report::Report;

/// Seeds per protocol.
const SEEDS: std::ops::Range<u64> = 1..11;

fn spec(protocol: ProtocolKind) -> BenchSpec {
    {
        let mut spec = BenchSpec {
            clients: 2,
            outstanding: Some(50),
            duration: Interval::from_millis(5000),
            ..BenchSpec::default()
        };
        spec.node.consensus.protocol = protocol;
        spec
    }
}

/// Restarted replicas count from zero, so counters must be summed over restarts.
#[test]
fn chaos_under_every_protocol_ends_in_a_result() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        for seed in SEEDS {
            let options = SimOptions { chaos: true, seeds: Some(seed..seed + 1), ..SimOptions::default() };
            let result = sim::run(&spec(protocol), &options, &|_| {}).expect("a sound spec");
            let case = format!("{protocol}, seed {seed}");
            assert_eq!(result.failed().count(), 0, "{case}: {}", result.to_table());
            let bench = &result.bench;
            // Each answered command was executed by a replica. Fails if a counter wraps around or misses a restart.
            let commands_per_block = bench.committed_commands as f64 / bench.committed_blocks.max(1) as f64;
            assert!(bench.committed_blocks < 10_000_000 && commands_per_block < 400.0, "{case}: {}", bench.to_table());
            assert!(bench.views < 1_000_000 && bench.view_timeouts <= bench.views, "{case}: {}", bench.to_table());
        }
    }
}
