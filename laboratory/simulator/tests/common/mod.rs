//! A small cluster under a short load.

use quorate_applications::ApplicationKind;
use quorate_client::ReplyMode;
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_client::workload::{Workload, WorkloadKind, workload};
use quorate_consensus::Config;
use quorate_consensus::config::{ProtocolKind, ViewDuration};
use quorate_crypto::{CertificateCache, ClientAuthentication, SchemeKind};
use quorate_network::transports::Wire;
use quorate_simulator::{ClientsAt, CostTable, NetworkSpec, Signatures, SimSpec};
use quorate_types::Quorum;
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
        quorum: Quorum::of(4).expect("a sound size"),
        scheme: SchemeKind::ED25519,
        macs: None,
        signatures: Signatures::Modelled,
        copies: Default::default(),
        certificate_cache: CertificateCache::On,
        client_authentication: ClientAuthentication::None,
        reply_seals: None,
        application: ApplicationKind::LOG,
        reply: ReplyMode::Each,
        wire: Wire::default(),
        network: NetworkSpec::preset("lan").expect("a preset"),
        costs: plain_costs(),
        probes: false,
        stages: quorate_types::ReplicaStages::default(),
        cores: 0,
        router: Duration::ZERO,
        load: LoadOptions {
            clients: 2,
            mode: LoadMode::Closed { outstanding: 100 },
            bundle: 10,
            warmup: Duration::from_millis(100),
            duration: Duration::from_millis(400),
            ..LoadOptions::default()
        },
        clients_at: ClientsAt::Network,
        chaos: None,
    }
}
