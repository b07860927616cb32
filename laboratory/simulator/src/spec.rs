//! Settings of a simulation.

use crate::costs::CostTable;
use crate::network::{ClientsAt, NetworkSpec, Place, place};
use quorate_applications::ApplicationKind;
use quorate_client::ReplyMode;
use quorate_client::load::LoadOptions;
use quorate_client::workload::Workload;
use quorate_consensus::Config;
use quorate_crypto::{CertificateCache, ClientAuthentication, SchemeKind};
use quorate_network::transports::Wire;
use quorate_types::{Fault, Quorum, ReplicaStages, choice};
use std::time::Duration;

choice!(
    /// Simulation of signatures.
    #[derive(Default)]
    Signatures, "way to simulate signatures",
    /// Signatures are genuine by construction.
    #[default]
    Modelled = "modelled",
    /// Signatures are made and verified. Their cost still comes from the table.
    Real = "real",
);

/// All settings of a run except the seed.
#[derive(Clone)]
pub struct SimSpec {
    pub consensus: Config,
    pub quorum: Quorum,
    pub scheme: SchemeKind,
    /// Scheme of the codes on votes; `None` if votes are signed. Needs an entry in `costs`, too.
    pub macs: Option<SchemeKind>,
    pub signatures: Signatures,
    pub certificate_cache: CertificateCache,
    /// With ed25519, clients sign their bundles and replicas are charged for verifying them: check
    /// [`CostTable::signatures_of`] for that scheme, too. With codes, these are of the scheme `macs`.
    pub client_authentication: ClientAuthentication,
    /// Scheme of the seals on replies, `scheme` or one of codes; `None` if the channel alone authenticates them. Seals
    /// are genuine by construction. Needs an entry in `costs`, too.
    pub reply_seals: Option<SchemeKind>,
    pub application: ApplicationKind,
    pub reply: ReplyMode,
    /// Transport and channel. A packet transport is the node's own; `network.transport` replaces the kernel's TCP.
    pub wire: Wire,
    /// Links and scheduled faults.
    pub network: NetworkSpec,
    /// Needs an entry for `scheme`: check [`CostTable::signatures_of`].
    pub costs: CostTable,
    /// Whether the replicas' statuses have the stages of their work, which takes the simulator longer.
    pub probes: bool,
    /// Stages of each replica that have threads of their own, each with a core of its own.
    pub stages: ReplicaStages,
    /// Number of cores that replicas and clients share; 0 gives each its own.
    pub cores: usize,
    /// Processor time for each packet that a router, as that of an emulated network, takes from the shared cores before
    /// all threads.
    pub router: Duration,
    pub load: LoadOptions,
    pub clients_at: ClientsAt,
    /// Length of a period of faults drawn from the seed. Afterwards a core of replicas heals and must make progress.
    pub chaos: Option<Duration>,
}

impl SimSpec {
    /// Places the clients' machines.
    ///
    /// # Errors
    /// If the network or the load do not allow these places.
    pub fn places(&self) -> Result<Vec<Place>, Fault> {
        place(&self.clients_at, &self.network.delay, self.quorum.replicas(), self.load.clients, "network")
    }
}

/// Factory of the workload of one run.
pub type WorkloadFactory<'a> = &'a (dyn Fn() -> Box<dyn Workload> + Sync);
