//! Settings of a simulation.

use crate::costs::CostTable;
use crate::network::{ClientsAt, NetworkSpec, Place, place};
use quorate_adversary::copies::CopyRules;
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
    /// Handling of signatures in a simulation.
    #[derive(Default)]
    Signatures, "way to simulate signatures",
    /// Signatures are genuine by construction.
    #[default]
    Modelled = "modelled",
    /// Signatures are created and verified. Their cost still comes from the table.
    Real = "real",
);

/// All settings of a run except the seed.
#[derive(Clone)]
pub struct SimSpec {
    pub consensus: Config,
    /// Copies of messages, for links that lose some of them.
    pub copies: CopyRules,
    pub quorum: Quorum,
    pub scheme: SchemeKind,
    /// Scheme of the MACs on votes; `None` if votes are signed. Also needs an entry in `costs`.
    pub macs: Option<SchemeKind>,
    pub signatures: Signatures,
    pub certificate_cache: CertificateCache,
    /// With ed25519, clients sign their bundles and replicas are charged for the verification, so
    /// [`CostTable::signatures_of`] must also have this scheme. With MACs, the scheme is `macs`.
    pub client_authentication: ClientAuthentication,
    /// Scheme that authenticates replies, either `scheme` or a MAC scheme; `None` if only the channel authenticates
    /// them. The authentication is genuine by construction. Also needs an entry in `costs`.
    pub reply_seals: Option<SchemeKind>,
    pub application: ApplicationKind,
    pub reply: ReplyMode,
    /// Transport and channel. A packet transport is the node's own; `network.transport` models the kernel's TCP.
    pub wire: Wire,
    /// Links and scheduled faults.
    pub network: NetworkSpec,
    /// Needs an entry for `scheme`; check with [`CostTable::signatures_of`].
    pub costs: CostTable,
    /// Whether the replicas' statuses report the stages of their work, which slows the simulator.
    pub probes: bool,
    /// Stages of each replica with threads of their own, each on a core of its own.
    pub stages: ReplicaStages,
    /// Number of cores shared by replicas and clients; 0 gives each its own.
    pub cores: usize,
    /// CPU time per packet that a router takes from the shared cores ahead of all threads, as in an emulated network.
    pub router: Duration,
    pub load: LoadOptions,
    pub clients_at: ClientsAt,
    /// Length of a period of faults drawn from the seed. Afterwards a core of replicas heals and must make progress.
    pub chaos: Option<Duration>,
}

/// Four replicas of the default protocol on the default network, with the shipped costs, without faults.
impl Default for SimSpec {
    fn default() -> SimSpec {
        SimSpec {
            consensus: Config::default(),
            copies: CopyRules::default(),
            quorum: Quorum::of(4).expect("a sound size"),
            scheme: SchemeKind::ED25519,
            macs: None,
            signatures: Signatures::Modelled,
            certificate_cache: CertificateCache::On,
            client_authentication: ClientAuthentication::None,
            reply_seals: None,
            application: ApplicationKind::LOG,
            reply: ReplyMode::Each,
            wire: Wire::default(),
            network: NetworkSpec::default(),
            costs: CostTable::shipped(),
            probes: false,
            stages: ReplicaStages::default(),
            cores: 0,
            router: Duration::ZERO,
            load: LoadOptions::default(),
            clients_at: ClientsAt::Network,
            chaos: None,
        }
    }
}

impl SimSpec {
    /// Places the client machines.
    ///
    /// # Errors
    /// If the network or the load does not allow these places.
    pub fn places(&self) -> Result<Vec<Place>, Fault> {
        place(&self.clients_at, &self.network.delay, self.quorum.replicas(), self.load.clients, "network")
    }
}

/// Factory of the workload of one run.
pub type WorkloadFactory<'a> = &'a (dyn Fn() -> Box<dyn Workload> + Sync);
