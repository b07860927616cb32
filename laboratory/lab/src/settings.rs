//! Settings of replicas, clients and loads that follow from a specification, real or simulated.

use crate::spec::{BenchSpec, LoadProfile, Pacing};
use quorate_applications::KeyValueCommand;
use quorate_client::load::{DEFAULT_MAX_OUTSTANDING, LoadMode, LoadOptions, USUAL_BURST};
use quorate_client::workload::{KeyValueEncoder, Workload, WorkloadError, workload};
use std::time::Duration;

/// Open loop: maximum number of outstanding commands per client. Replicas forget sequence numbers older than half of a
/// session's window (`SESSION_WINDOW`).
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

/// Creates the commands of a spec, for a cluster without other users.
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
        give_up_after: spec.fails_slots().then(|| spec.consensus().view_timeout()),
        ..LoadOptions::default()
    }
}
