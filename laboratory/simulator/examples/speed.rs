//! Measures the messages that one core simulates per second of CPU time: `cargo run --release -p quorate-simulator
//! --example speed`.
//!
//! Blocks have one command, the signature scheme is `none`, and links have no loss. Simulated work is free or costs as
//! much as in the shipped table. An argument such as `jolteon-4-none` runs only that case.

use quorate_client::load::{LoadMode, LoadOptions, thread_cpu_time};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::Config;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::SchemeKind;
use quorate_simulator::{CostTable, SimSpec, run};
use quorate_types::Quorum;
use std::time::Duration;

fn commands() -> Box<dyn Workload> {
    workload(&WorkloadKind::Fixed, 0, 1, 1, None).expect("a sound workload")
}

fn main() {
    let only = std::env::args().nth(1);
    for (protocol, replicas, costs, millis) in [
        (ProtocolKind::Jolteon, 4, "none", 8000),
        (ProtocolKind::Jolteon, 4, "shipped", 2000),
        (ProtocolKind::ChainedHotStuff, 4, "none", 8000),
        (ProtocolKind::Pbft, 4, "none", 4000),
        (ProtocolKind::Jolteon, 100, "none", 400),
        (ProtocolKind::Pbft, 100, "none", 40),
    ] {
        if only.as_ref().is_some_and(|only| *only != format!("{protocol}-{replicas}-{costs}")) {
            continue;
        }
        let spec = SimSpec {
            consensus: Config { protocol, ..Config::default() },
            quorum: Quorum::of(replicas).expect("a sound size"),
            scheme: SchemeKind::NONE,
            costs: if costs == "none" { CostTable::free() } else { CostTable::shipped() },
            load: LoadOptions {
                clients: 1,
                mode: LoadMode::Closed { outstanding: 1 },
                bundle: 1,
                warmup: Duration::ZERO,
                duration: Duration::from_millis(millis),
                ..LoadOptions::default()
            },
            ..SimSpec::default()
        };
        let start = thread_cpu_time();
        let report = run(&spec, 1, &commands);
        let seconds = (thread_cpu_time() - start).as_secs_f64();
        assert_eq!(report.violation, None);
        println!(
            "{protocol} n={replicas} costs {costs}: {:.0} messages/s, {:.0} events/s \
             ({} messages, {seconds:.2} s, {:.2} virtual s)",
            report.delivered as f64 / seconds,
            report.events as f64 / seconds,
            report.delivered,
            report.virtual_time.as_secs_f64(),
        );
    }
}
