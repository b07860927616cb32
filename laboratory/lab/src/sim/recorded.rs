//! Header of a recorded simulation.

use super::options::{SimError, SimOptions};
use super::{Files, sim_spec_on};
use crate::recording::{MB, clear};
use crate::spec::BenchSpec;
use quorate_hosting::recording::{Header, Recorder, Writer};
use quorate_simulator::{ClientsAt, CostTable, NetworkSpec, SimSpec, recording_header};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// All inputs of a simulated run, including the contents of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedRun {
    pub seed: u64,
    pub spec: BenchSpec,
    pub options: SimOptions,
    /// Contents of the network file of the options.
    pub network: NetworkSpec,
    /// Contents of the cost table of the options.
    pub costs: CostTable,
    /// Places of the clients' machines, read from the file if one was given.
    #[serde(default)]
    pub places: ClientsAt,
}

impl SimulatedRun {
    /// Creates the run of one seed, with the current contents of its files.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid.
    pub fn new(spec: &BenchSpec, options: &SimOptions, seed: u64) -> Result<SimulatedRun, SimError> {
        let spec = BenchSpec { json: None, report: None, record: None, ..spec.clone() };
        let (network, costs, places) = (options.network()?, options.cost_table()?, options.places()?);
        Ok(SimulatedRun { seed, spec, options: options.clone(), network, costs, places })
    }

    /// Returns the input of the simulator.
    ///
    /// # Errors
    /// If the network does not fit the replicas.
    pub fn sim_spec(&self) -> Result<SimSpec, SimError> {
        let (network, costs, places) = (self.network.clone(), self.costs.clone(), self.places.clone());
        sim_spec_on(&self.spec, &self.options, Files { network, costs, places })
    }

    /// Creates a recorder that writes to `path`.
    pub(crate) fn recorder(&self, sim: &SimSpec, path: &Path, limit_mb: u64) -> Result<Recorder, SimError> {
        clear(path).map_err(|source| SimError::Write { path: path.to_owned(), source })?;
        let simulation = serde_json::to_value(self).expect("a run is plain data");
        let header = Header { simulation: Some(simulation), ..recording_header(sim) };
        Ok(Recorder::new(Writer::create(path, &header, limit_mb * MB)?))
    }
}
