//! A small cluster under a short load.

use quorate_client::load::{LoadMode, LoadOptions};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::Config;
use quorate_consensus::config::{ProtocolKind, ViewDuration};
use quorate_simulator::{CostTable, NetworkSpec, SimSpec};
use std::time::Duration;

/// Returns a workload of 64-byte commands.
pub fn commands() -> Box<dyn Workload> {
    workload(&WorkloadKind::Fixed, 64, 1, 1, None).expect("a sound workload")
}

/// Cost table without optional entries.
pub const PLAIN: &str = include_str!("plain_costs.toml");

pub fn plain_costs() -> CostTable {
    CostTable::parse(PLAIN, "plain_costs.toml").expect("the table is valid")
}

/// Returns four replicas of a protocol on a local network, for half a second.
pub fn spec(protocol: ProtocolKind) -> SimSpec {
    SimSpec {
        consensus: Config { protocol, view_duration: ViewDuration::Exponential, ..Config::default() },
        network: NetworkSpec::preset("lan").expect("a preset"),
        costs: plain_costs(),
        load: LoadOptions {
            clients: 2,
            mode: LoadMode::Closed { outstanding: 100 },
            bundle: 10,
            warmup: Duration::from_millis(100),
            duration: Duration::from_millis(400),
            ..LoadOptions::default()
        },
        ..SimSpec::default()
    }
}
