//! What is simulated.

use crate::costs::{CostTable, SignatureCosts};
use crate::network::NetworkSpec;
use quorate_applications::ApplicationKind;
use quorate_client::ReplyMode;
use quorate_client::load::LoadOptions;
use quorate_client::workload::Workload;
use quorate_consensus::Config;
use quorate_crypto::SchemeKind;
use quorate_transports::Wire;
use quorate_types::{Quorum, choice};
use std::time::Duration;

choice!(
    /// How signatures are simulated.
    #[derive(Default)]
    Signatures, "way to simulate signatures",
    /// They cost what the table says and are true by construction.
    #[default]
    Modelled = "modelled",
    /// They are made and verified; their cost is the table's all the same.
    Real = "real",
);

/// Everything that decides a run, but for the seed.
#[derive(Clone)]
pub struct SimSpec {
    /// The consensus core's settings.
    pub consensus: Config,
    /// n and f.
    pub quorum: Quorum,
    /// The scheme.
    pub scheme: SchemeKind,
    /// How it is simulated.
    pub signatures: Signatures,
    /// What executes.
    pub application: ApplicationKind,
    /// Who answers clients.
    pub reply: ReplyMode,
    /// What carries messages. One that runs over packets is the node's own; in place of the kernel's TCP stands what
    /// `network` says.
    pub wire: Wire,
    /// Links and scheduled faults.
    pub network: NetworkSpec,
    /// What work costs.
    pub costs: CostTable,
    /// Threads of each replica that check signatures; 0 has the core do it.
    pub crypto_servers: usize,
    /// Cores that replicas and clients share; 0 gives each of them one of its own.
    pub cores: usize,
    /// How much load.
    pub load: LoadOptions,
    /// Trouble drawn from the seed for so long; then a core is healed and has to make progress.
    pub chaos: Option<Duration>,
}

impl SimSpec {
    /// What signatures cost.
    ///
    /// # Panics
    /// If the table does not say: whoever makes a spec asks [`CostTable::signatures_of`] first.
    pub fn signature_costs(&self) -> SignatureCosts {
        self.costs.signatures_of(self.scheme).expect("the table has the scheme's costs")
    }
}

/// Makes the commands of one run.
pub type WorkloadFactory<'a> = &'a (dyn Fn() -> Box<dyn Workload> + Sync);
