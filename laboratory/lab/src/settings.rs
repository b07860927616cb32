//! Settings of replicas, clients and loads that follow from a specification, real or simulated.

use crate::spec::{BenchSpec, LoadProfile, Pacing};
use quorate_applications::{ApplicationKind, KeyValueCommand};
use quorate_client::ClientConfig;
use quorate_client::load::{DEFAULT_MAX_OUTSTANDING, LoadMode, LoadOptions, USUAL_BURST};
use quorate_client::workload::{KeyValueEncoder, Workload, WorkloadError, workload};
use quorate_node::NodeConfig;
use quorate_types::Committee;
use std::time::Duration;

/// Open loop: maximum number of unanswered commands of each client. Replicas forget numbers that are half of a
/// session's window (`SESSION_WINDOW`) older than the newest.
const MAX_OUTSTANDING_PER_CLIENT: usize = 30_000;

/// Encoder of the YCSB workloads for the key-value application.
pub(crate) struct Encoder;

impl KeyValueEncoder for Encoder {
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        KeyValueCommand::Put { key, value }.encode(out);
    }
    fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        KeyValueCommand::Get { key }.encode(out);
    }
    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        KeyValueCommand::ReadModifyWrite { key, value }.encode(out);
    }
}

/// Returns the settings that a spec gives to every replica.
pub fn node_template(spec: &BenchSpec) -> NodeConfig {
    let mut config = NodeConfig::template("quorate");
    config.faults = spec.faults.map(|faults| faults as usize);
    config.scheme = spec.scheme;
    (config.auth_profile, config.mac_scheme) = (spec.auth_profile, spec.mac_scheme);
    config.accept_weak_scheme = spec.accept_weak_scheme;
    config.client_authentication = spec.client_authentication;
    config.reply_authentication = spec.reply_authentication;
    (config.transport, config.channel) = (spec.transport, spec.channel);
    let settings = spec.wire().settings;
    (config.packets, config.retransmission, config.quic) = (settings.packets, settings.retransmission, settings.quic);
    config.links.retransmission = settings.links.retransmission;
    config.application = if spec.workload.is_key_value() { ApplicationKind::KEY_VALUE } else { ApplicationKind::LOG };
    config.reply = spec.reply;
    config.replica_threads = spec.replica_threads;
    config.consensus = spec.consensus();
    config
}

/// Returns the configuration of a client of such a cluster.
pub fn client_config(
    spec: &BenchSpec,
    committee: &Committee,
    cluster: &str,
    application: ApplicationKind,
) -> ClientConfig {
    let (protocol, faults) = (spec.protocol, committee.quorum.faults());
    let mut config = ClientConfig::new(cluster, protocol, spec.scheme, faults, &committee.members);
    (config.auth_profile, config.mac_scheme) = (spec.auth_profile, spec.mac_scheme);
    config.client_authentication = spec.client_authentication;
    config.reply_authentication = spec.reply_authentication;
    (config.transport, config.channel) = (spec.transport, spec.channel);
    let settings = spec.wire().settings;
    (config.packets, config.retransmission, config.quic) = (settings.packets, settings.retransmission, settings.quic);
    config.application = application;
    config.dissemination = spec.consensus().client_dissemination();
    config
}

/// Creates the commands of a spec, for a cluster of its own.
pub(crate) fn commands(spec: &BenchSpec) -> Result<Box<dyn Workload>, WorkloadError> {
    workload(&spec.workload, spec.payload as usize, spec.records, spec.seed, Some(Box::new(Encoder)))
}

pub(crate) fn load_options(spec: &BenchSpec) -> LoadOptions {
    let mode = match spec.pacing() {
        Pacing::Closed { outstanding } => LoadMode::Closed { outstanding: outstanding as usize },
        Pacing::Open { rate } => {
            let of_clients = spec.clients as usize * MAX_OUTSTANDING_PER_CLIENT;
            let max_outstanding = DEFAULT_MAX_OUTSTANDING.min(spec.max_in_flight()).min(of_clients);
            LoadMode::Open { rate: rate as f64, max_outstanding }
        }
    };
    LoadOptions {
        clients: spec.clients as usize,
        mode,
        bundle: spec.bundle_commands(),
        bundle_wait: Duration::from_millis(spec.bundle_wait_ms),
        burst: USUAL_BURST,
        warmup: spec.warmup.into(),
        duration: spec.duration.into(),
        steps: spec.load_profile.as_ref().map(LoadProfile::steps).unwrap_or_default(),
        samples: spec.samples as usize,
        give_up_after: spec.reproduction.phases_only.then(|| spec.consensus().view_timeout()),
        ..LoadOptions::default()
    }
}
