//! The only file that assembles a replica from transport, channel, scheme, journal and application. The protocols are
//! named in `quorate_consensus::protocols::registry`, the other parts in the registries of their crates.

use crate::client_links::{NodeDesk, ReplyWriter};
use crate::config::{NodeConfig, admin_fault};
use crate::cycles;
use crate::devices::{Devices, Fittings};
use crate::durability::{self, Memory, Opened};
use crate::error::NodeError;
use crate::host::{Host, Orders, Requests, RunningNode};
use crate::initial_state::{self, InitialState, InitialStateError};
use crate::laboratory::{self, ForReplica, Laboratory, Malleable, for_replica};
use crate::monitoring::{About, Directories, MonitoringServer, Pages, StatusReader};
use crate::network::Wakeup;
use crate::observer::{NodeEvent, Observer};
use crate::recording;
use crate::reload::Reloads;
use crate::reply_sender::ReplySender;
use crate::signer::{Principal, RemoteSigner};
use crate::snapshots::SnapshotFiles;
use crate::states::States;
use quorate_applications::{CheckpointRule, Executor, Parallelism};
use quorate_consensus::Protocol;
use quorate_consensus::replica::MakeReplica;
use quorate_crypto::{
    BundleVerifier, ClientAuthentication, ClientVerdicts, Crypto, CryptoError, DEFAULT_CACHE_BUNDLES, Identities,
    Identity as IdentityKey, Keyring, MacKeys, ReplicaKeys, ReplicaMacKeys, ReplyAuthenticator, SchemeKind,
    SharedVerdicts,
};
use quorate_hosting::desk::{BundleLimits, Desk, DeskParts};
use quorate_hosting::recording::{Header, Recorder};
use quorate_hosting::{Answers, ReplyCache};
use quorate_network::channels::Versions;
use quorate_network::gateway::admission::Admission;
use quorate_network::transports::{Endpoint, Endpoints, Transport, Wire};
use quorate_storage::{CpuAccount, Identity, JournalError};
use quorate_types::{Address, ClusterId, Committee, stages};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A replica that is ready to run, with its handles for other threads.
pub(crate) struct Assembled {
    pub node: Box<dyn RunningNode>,
    pub orders: Orders,
    pub waker: Arc<dyn Fn() + Send + Sync>,
    /// The monitoring listener, if one is configured. It ends when this is dropped.
    pub monitoring: Option<MonitoringServer>,
    pub reloads: Reloads,
}

/// Data shared by the replicas of one process: the committee's public keys, and verdicts on client bundles.
pub(crate) struct Shared {
    identities: Arc<Identities>,
    /// `None` if members share secrets: each replica then needs its own keyring.
    keyring: Option<Arc<Keyring>>,
    verdicts: Arc<SharedVerdicts>,
}

impl Shared {
    pub fn new(scheme: SchemeKind, committee: &Committee) -> Result<Shared, CryptoError> {
        let identities = Arc::new(Identities::new(committee)?);
        let verdicts = Arc::new(SharedVerdicts::new(DEFAULT_CACHE_BUNDLES));
        Ok(Shared { identities, keyring: Keyring::shared(scheme, committee)?, verdicts })
    }
}

/// Adds the differing configuration keys to the error about a journal of another genesis, if they can be determined.
fn explain(error: NodeError, config: &NodeConfig) -> NodeError {
    match error {
        NodeError::Journal { replica, source: source @ JournalError::ForeignEpoch { found, .. } } => {
            match config.genesis_differences(&found) {
                Ok(differences) if !differences.is_empty() => {
                    NodeError::OtherGenesis { replica, source: Box::new(source), differences }
                }
                _ => NodeError::Journal { replica, source },
            }
        }
        error => error,
    }
}

/// Network of a replica to assemble.
pub(crate) enum Attachment {
    /// Listens on this endpoint, or else on the address in the configuration.
    Listen(Option<Endpoint>),
    Transport(Box<dyn Transport>),
}

/// Assembles a replica. `shared` contains the parts shared by all replicas of this process. `home` is the directory of
/// the configuration.
pub(crate) fn assemble(
    config: &NodeConfig,
    home: &Path,
    keys: ReplicaKeys,
    attachment: Attachment,
    shared: Option<&Shared>,
    mut observer: Box<dyn Observer>,
) -> Result<Assembled, NodeError> {
    config.validate()?;
    let committee = config.committee()?;
    let LoadedKeys { identity_key, identities, crypto, for_clients } = load_keys(config, &committee, keys, shared)?;
    let initial = initial_state::load(config.initial_state, home)?;
    let identity = Identity { epoch: committee.epoch, replica: config.replica };
    // Charge the journal's threads to this replica too.
    let account = CpuAccount::current().unwrap_or_default();
    let _journal_counts = account.lend();
    // Open the journal before binding ports: its lock identifies a second process of this replica more reliably than a
    // port in use.
    let Opened { journal, memory, mark, directory, finding } =
        durability::open(&config.journal, home, identity).map_err(|error| explain(error, config))?;
    let transport = transport(config, &committee, attachment, identity_key.clone(), identities.clone())?;
    let signer = signer(config, &committee, home)?;
    let wakeup = Wakeup::new(transport.waker());
    let waker = wakeup.waker();
    let salt = unguessable();
    let requests = Requests::default();
    let monitoring = monitoring(config, directory.as_deref(), || requests.status_port.reader(waker.clone()))?;
    switch_on(config);
    let fault = config.laboratory.as_ref().map(Laboratory::fault);
    let listening = transport.listening().map(NodeEvent::Listening);
    let events = [listening, fault.map(NodeEvent::Misbehaving), finding.map(NodeEvent::Journal)];
    events.into_iter().flatten().for_each(|event| observer.observe(config.replica, event));
    let states = states(config, directory.as_deref(), identity);
    let header = Header::new(committee.epoch, committee.quorum, config.consensus.clone());
    let recorder = recording::begin(config.recording.as_ref(), config.replica, &header, salt, &mut *observer)?;
    let fittings = Fittings {
        me: config.replica,
        quorum: committee.quorum,
        authentication: config.authentication(),
        fault,
        directory,
        epoch: committee.epoch,
        transport,
        wakeup,
        crypto,
        signer,
        stages: config.threads(cores()),
        journal,
        mark,
        states,
        identity: identity_key,
        executor: executor(config, &committee, identities, initial)?,
        desk: desk(config, committee.cluster, for_clients.mac_keys, shared, salt)?,
        writer: ReplyWriter::new(ReplySender::new(for_clients.authenticator)),
        observer,
        versions: Versions::up_to(config.links.newest_wire_version),
        settings: config.settings(),
        payload_path: config.reproduction().payload_path,
        min_free_bytes: config.journal.min_free_bytes,
        slot_timeout: config.consensus.protocol.has_slots().then(|| config.consensus.view_timeout()),
    };
    let Requests { orders, reloads, .. } = requests.clone();
    let hosting = Hosting { config, committee: &committee, salt, fittings, memory, recorder, requests };
    let node = for_replica(config.consensus.protocol, hosting);
    Ok(Assembled { node, orders, waker, monitoring, reloads })
}

/// Connects to the process that signs this replica's votes, if one is configured.
fn signer(config: &NodeConfig, committee: &Committee, home: &Path) -> Result<Option<RemoteSigner>, NodeError> {
    let Some(socket) = &config.signer.socket else { return Ok(None) };
    let replica = config.replica;
    let public_key = committee.members[replica.index()].voting_key.clone();
    let timeout = Duration::from_millis(config.signer.timeout_ms);
    let principal = Principal { epoch: committee.epoch, replica, public_key };
    let signer = RemoteSigner::new(home.join(socket), timeout, principal);
    signer.map(Some).map_err(|source| NodeError::RemoteSigner { replica, source })
}

/// Returns the attached transport, or one that listens.
fn transport(
    config: &NodeConfig,
    committee: &Committee,
    attachment: Attachment,
    identity_key: Arc<IdentityKey>,
    identities: Arc<Identities>,
) -> Result<Box<dyn Transport>, NodeError> {
    match attachment {
        Attachment::Transport(transport) => Ok(transport),
        Attachment::Listen(endpoint) => {
            let wire = config.wire();
            let endpoints = endpoints(config, &wire, endpoint)?;
            Ok(wire.replica(committee, config.parameters(), endpoints, identity_key, identities)?)
        }
    }
}

/// Switches on the counters requested by a benchmark, for the whole process.
fn switch_on(config: &NodeConfig) {
    laboratory::count_allocations(&config.reproduction());
    if config.stages {
        stages::switch_on(cycles::clocks());
    }
}

/// Returns the states, which are kept next to the journal if it is in files.
fn states(config: &NodeConfig, directory: Option<&Path>, identity: Identity) -> States {
    match directory {
        Some(directory) => States::in_files(SnapshotFiles::beside(directory, identity), config.journal.snapshot_bytes),
        None => States::in_memory(),
    }
}

fn desk(
    config: &NodeConfig,
    cluster: ClusterId,
    mac_keys: Option<ReplicaMacKeys>,
    shared: Option<&Shared>,
    salt: u64,
) -> Result<NodeDesk, CryptoError> {
    let mut verifier = BundleVerifier::new(config.client_authentication, cluster, DEFAULT_CACHE_BUNDLES);
    let verdicts = config.reproduction().client_verdicts;
    if let Some(shared) = shared.filter(|_| verdicts == ClientVerdicts::Shared) {
        verifier = verifier.sharing(shared.verdicts.clone());
    }
    if let Some(certifier) = config.clients.certifier(cluster) {
        verifier = verifier.certified_by(certifier);
    }
    if let Some(mac_keys) = mac_keys {
        verifier = verifier.with_mac_keys(mac_keys);
    }
    let consensus = &config.consensus;
    Ok(Desk::new(DeskParts {
        answers: Answers::of(config.replica, config.reply),
        limits: BundleLimits { commands: consensus.batch.max_commands(), bytes: consensus.batch_bytes },
        terms: config.client_terms(),
        verifier,
        cache: ReplyCache::new(config.reply_cache_bytes, salt),
        admission: Admission::new(consensus.max_queue(), config.members.len()),
        policy: config.clients.policy(),
        questions: config.clients.questions(cluster, config.replica)?,
    }))
}

/// A replica's own keys and the committee's, ready for use.
struct LoadedKeys {
    identity_key: Arc<IdentityKey>,
    identities: Arc<Identities>,
    crypto: Crypto,
    for_clients: ClientSide,
}

/// Parts needed to authenticate client bundles and the replies to clients.
struct ClientSide {
    /// For clients that authenticate themselves by MACs.
    mac_keys: Option<ReplicaMacKeys>,
    authenticator: Option<ReplyAuthenticator>,
}

fn load_keys(
    config: &NodeConfig,
    committee: &Committee,
    keys: ReplicaKeys,
    shared: Option<&Shared>,
) -> Result<LoadedKeys, CryptoError> {
    let (replies, me) = (config.reply_authentication, config.replica);
    let authenticator = ReplyAuthenticator::new(replies, config.mac_scheme, committee, me, &keys)?;
    let ReplicaKeys { identity, voting } = keys;
    let macs = match config.auth_profile.votes_by_mac() {
        true => Some(MacKeys::new(config.mac_scheme, committee, config.replica, &identity)?),
        false => None,
    };
    let mac_keys = match config.client_authentication {
        ClientAuthentication::Mac => {
            Some(ReplicaMacKeys::new(config.mac_scheme, committee, config.replica, &identity)?)
        }
        _ => None,
    };
    let identity_key = Arc::new(IdentityKey::new(committee, config.replica, identity)?);
    let identities = match shared {
        Some(shared) => shared.identities.clone(),
        None => Arc::new(Identities::new(committee)?),
    };
    let keyring = match shared.and_then(|shared| shared.keyring.clone()) {
        Some(keyring) => keyring,
        None => Arc::new(Keyring::of_member(config.signatures(), committee, config.replica, &voting)?),
    };
    let remembered = config.reproduction().certificate_cache.certificates();
    let crypto = Crypto::with_keyring(keyring, committee, config.replica, voting, remembered)?;
    let crypto = match macs {
        Some(macs) => crypto.with_macs(macs),
        None => crypto,
    };
    Ok(LoadedKeys { identity_key, identities, crypto, for_clients: ClientSide { mac_keys, authenticator } })
}

fn executor(
    config: &NodeConfig,
    committee: &Committee,
    identities: Arc<Identities>,
    initial: Option<InitialState>,
) -> Result<Executor, InitialStateError> {
    let consensus = &config.consensus;
    let rule = CheckpointRule::new(consensus.checkpoint_interval, consensus.retained_blocks, consensus.retained_bytes);
    let account = CpuAccount::current().unwrap_or_default();
    let parallelism = Parallelism {
        // Charge helper threads to this replica too.
        on_helper: Arc::new(move || Box::new(account.enter())),
        ..Parallelism::of(config.execution_threads)
    };
    let executor = initial_state::executor(config.application, initial, &committee.epoch)?;
    let executor = executor.with_levels(committee.len(), identities);
    Ok(executor.with_checkpoints(rule).with_parallelism(parallelism))
}

/// Builds the replica and its host for any protocol.
struct Hosting<'a> {
    config: &'a NodeConfig,
    committee: &'a Committee,
    salt: u64,
    fittings: Fittings,
    memory: Memory,
    recorder: Option<Recorder>,
    requests: Requests,
}

impl ForReplica for Hosting<'_> {
    type Output = Box<dyn RunningNode>;

    fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Self::Output {
        let Hosting { config, committee, salt, fittings, memory, recorder, requests } = self;
        let consensus = config.consensus.clone();
        let replica = make(consensus, committee.quorum, committee.epoch, config.replica, salt);
        let shape = config.scheme.profile().shape(committee.len());
        let (laboratory, switches) = (config.laboratory.as_ref(), config.reproduction());
        let (me, view_timeout) = (config.replica, config.consensus.view_timeout());
        let wrapper = laboratory::wrapper(laboratory, &switches, me, committee.quorum, shape, view_timeout);
        let devices = Devices::new(fittings);
        Box::new(Host::new(replica, devices, memory, wrapper, recorder, requests))
    }
}

/// Starts the monitoring listener, if one is configured.
fn monitoring(
    config: &NodeConfig,
    directory: Option<&Path>,
    status: impl FnOnce() -> StatusReader,
) -> Result<Option<MonitoringServer>, NodeError> {
    let Some(address) = &config.monitoring.address else { return Ok(None) };
    let fail = |source| NodeError::Listen { key: "monitoring.address", address: address.clone(), source };
    let listener = address.resolve().and_then(|places| TcpListener::bind(&places[..])).map_err(fail)?;
    config.monitoring.check_reach(&listener.local_addr().map_err(fail)?.into())?;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let about = About {
        cluster: config.cluster.clone(),
        protocol: config.consensus.protocol.name(),
        scheme: config.scheme.name(),
        transport: config.transport.name(),
        channel: config.channel.name(),
        started: since_1970.as_secs_f64(),
        journal_capacity_bytes: directory.map(|_| config.journal.capacity_bytes),
    };
    let directories = directory.map(|journal| Directories {
        journal: journal.to_owned(),
        snapshots: SnapshotFiles::directory_beside(journal),
    });
    MonitoringServer::start(listener, Pages { about, directories, status: status() }).map(Some).map_err(fail)
}

/// Binds the configured endpoints.
fn endpoints(config: &NodeConfig, wire: &Wire, peers: Option<Endpoint>) -> Result<Endpoints, NodeError> {
    let bind = |key, address: &Address| {
        wire.listen(address).map_err(|source| NodeError::Listen { key, address: address.clone(), source })
    };
    let own = || config.listen.as_ref().unwrap_or(&config.members[config.replica.index()].address);
    let operators = config.admin_listen.as_ref().map(|address| bind("admin_listen", address)).transpose()?;
    let bound = operators.as_ref().and_then(|endpoint| endpoint.address().ok());
    if let Some(bound) = bound.filter(|bound| !bound.ip().is_loopback() && !config.admin_beyond_loopback) {
        return Err(admin_fault(&bound.into()).into());
    }
    Ok(Endpoints {
        peers: Some(peers.map_or_else(|| bind("listen", own()), Ok)?),
        clients: config.client_listen.as_ref().map(|address| bind("client_listen", address)).transpose()?,
        operators,
    })
}

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns a number from the operating system's randomness that remote parties cannot predict.
fn unguessable() -> u64 {
    RandomState::new().build_hasher().finish()
}
