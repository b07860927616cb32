//! What a recording of a simulation has beside its inputs.

use super::options::{SimError, SimOptions};
use super::sim_spec_on;
use crate::recording::{MB, clear};
use crate::spec::BenchSpec;
use quorate_recording::{Header, Recorder, Writer};
use quorate_simulator::{CostTable, NetworkSpec, SimSpec, recording_header};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that makes a simulated run again, files included.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedRun {
    /// The seed.
    pub seed: u64,
    /// What bench has too.
    pub spec: BenchSpec,
    /// What is simulated around it.
    pub options: SimOptions,
    /// The network that the options name.
    pub network: NetworkSpec,
    /// The costs that the options name.
    pub costs: CostTable,
}

impl SimulatedRun {
    /// That seed of a spec, with what its files hold now.
    ///
    /// # Errors
    /// If a file cannot be read or is not what it should be.
    pub fn new(spec: &BenchSpec, options: &SimOptions, seed: u64) -> Result<SimulatedRun, SimError> {
        let spec = BenchSpec { json: None, report: None, record: None, ..spec.clone() };
        let (network, costs) = (options.network()?, options.cost_table()?);
        Ok(SimulatedRun { seed, spec, options: options.clone(), network, costs })
    }

    /// What the simulator makes of it.
    ///
    /// # Errors
    /// If the network and the replicas do not fit together.
    pub fn sim_spec(&self) -> Result<SimSpec, SimError> {
        sim_spec_on(&self.spec, &self.options, self.network.clone(), self.costs.clone())
    }

    /// A recorder for it, to where the spec says.
    pub(crate) fn recorder(&self, sim: &SimSpec, path: &Path, limit_mb: u64) -> Result<Recorder, SimError> {
        clear(path).map_err(|source| SimError::Write { path: path.to_owned(), source })?;
        let simulation = serde_json::to_value(self).expect("a run has a form in JSON");
        let header = Header { simulation: Some(simulation), ..recording_header(sim) };
        Ok(Recorder::new(Writer::create(path, &header, limit_mb * MB)?))
    }
}
