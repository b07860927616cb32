//! The one file that names concrete parts: which transport, channel, scheme, journal and application make a replica. The protocols
//! are named in `quorate_consensus::protocols`.

use crate::config::{NodeConfig, TransportKind};
use crate::devices::{Devices, Fittings};
use crate::durability::{self, Memory, Opened};
use crate::error::NodeError;
use crate::gateway::{BundleLimits, Gateway};
use crate::host::{Host, Orders, RunningNode};
use crate::observer::{NodeEvent, Observer};
use crate::recording;
use crate::snapshots::SnapshotFiles;
use crate::states::States;
use quorate_applications::{CheckpointRule, Executor};
use quorate_byzantine::Context;
use quorate_channels::{ChannelConfig, LocalEnd};
use quorate_consensus::Protocol;
use quorate_consensus::protocols::{ForProtocol, MakeReplica, for_protocol};
use quorate_crypto::{BundleVerifier, Crypto, DEFAULT_CACHE_BUNDLES, DEFAULT_CACHE_CERTIFICATES, KeyPair, Keyring};
use quorate_recording::Recorder;
use quorate_storage::Identity;
use quorate_transports::{TcpTransport, Transport};
use quorate_types::Committee;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

/// A replica that is ready to run, and the ways to reach it from other threads.
pub(crate) struct Assembled {
    pub node: Box<dyn RunningNode>,
    pub orders: Orders,
    pub waker: Arc<dyn Fn() + Send + Sync>,
}

/// Puts a replica together and has it listen: on `listener`, or else where its configuration says. `keyring` is the committee's, if
/// another replica of the process has it already. `home` is the directory of the configuration.
pub(crate) fn assemble(
    config: &NodeConfig,
    home: &Path,
    key: KeyPair,
    listener: Option<TcpListener>,
    keyring: Option<Arc<Keyring>>,
    mut observer: Box<dyn Observer>,
) -> Result<Assembled, NodeError> {
    config.validate()?;
    let committee = config.committee()?;
    let keyring = match keyring {
        Some(keyring) => keyring,
        None => Arc::new(Keyring::new(config.scheme, &committee)?),
    };
    let crypto = Crypto::with_keyring(keyring, &committee, config.replica, key, DEFAULT_CACHE_CERTIFICATES)?;
    let (transport, address) = transport(config, &committee, &crypto, listener)?;
    let waker = transport.waker();
    let salt = unguessable();
    let limits = BundleLimits { commands: config.consensus.batch, bytes: config.consensus.batch_bytes };
    let verifier = BundleVerifier::new(config.client_authentication, committee.cluster, DEFAULT_CACHE_BUNDLES);
    observer.observe(config.replica, NodeEvent::Listening(address));
    if let Some(laboratory) = &config.laboratory {
        observer.observe(config.replica, NodeEvent::Misbehaving(laboratory.fault));
    }
    let identity = Identity { cluster: committee.cluster, replica: config.replica };
    let Opened { journal, memory, mark, directory, finding } = durability::open(&config.journal, home, identity)?;
    if let Some(finding) = finding {
        observer.observe(config.replica, NodeEvent::Journal(finding));
    }
    let states = match directory {
        Some(directory) => States::in_files(SnapshotFiles::beside(&directory, identity), config.journal.snapshot_bytes),
        None => States::in_memory(),
    };
    let rule = CheckpointRule::new(
        config.consensus.checkpoint_interval,
        config.consensus.retained_blocks,
        config.consensus.retained_bytes,
    );
    let recorder = recording::begin(config, &committee, salt, &mut *observer)?;
    let fittings = Fittings {
        me: config.replica,
        replicas: committee.len(),
        cluster: committee.cluster,
        transport,
        crypto,
        journal,
        mark,
        states,
        executor: Executor::new(config.application.build(), &committee.cluster).with_checkpoints(rule),
        gateway: Gateway::new(config.replica, config.reply, limits, verifier, config.reply_cache_bytes, salt),
        observer,
    };
    let orders = Orders::default();
    let hosting = Hosting { config, committee: &committee, salt, fittings, memory, recorder, orders: &orders };
    let node = for_protocol(config.consensus.protocol, hosting);
    Ok(Assembled { node, orders, waker })
}

/// Makes the replica of whichever protocol, and its host.
struct Hosting<'a> {
    config: &'a NodeConfig,
    committee: &'a Committee,
    salt: u64,
    fittings: Fittings,
    memory: Memory,
    recorder: Option<Recorder>,
    orders: &'a Orders,
}

impl ForProtocol for Hosting<'_> {
    type Output = Box<dyn RunningNode>;

    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
        let Hosting { config, committee, salt, fittings, memory, recorder, orders } = self;
        let consensus = config.consensus.clone();
        let view_timeout = consensus.view_timeout();
        let replica = make(consensus, committee.quorum, committee.cluster, config.replica, salt);
        let context = Context { me: config.replica, quorum: committee.quorum, view_timeout };
        let behaviour = config.laboratory.as_ref().map(|laboratory| laboratory.misbehaviour().behaviour(context));
        Box::new(Host::new(replica, Devices::new(fittings), memory, behaviour, recorder, orders.clone()))
    }
}

fn transport(
    config: &NodeConfig,
    committee: &Committee,
    crypto: &Crypto,
    listener: Option<TcpListener>,
) -> Result<(Box<dyn Transport>, SocketAddr), NodeError> {
    let channels = ChannelConfig {
        kind: config.channel,
        cluster: committee.cluster,
        me: LocalEnd::Replica(crypto.signer()),
        verifier: crypto.verifier(),
    };
    let listener = match (listener, config.listen) {
        (Some(listener), _) => Some(listener),
        (None, Some(address)) => {
            Some(TcpListener::bind(address).map_err(|source| NodeError::Listen { address, source })?)
        }
        (None, None) => None,
    };
    let TransportKind::Tcp = config.transport;
    let transport = TcpTransport::replica(committee, listener, channels, config.client_tcp())?;
    let address = transport.listens_on().expect("a replica's transport listens");
    Ok((Box::new(transport), address))
}

/// A number that strangers cannot know, from the operating system's randomness.
fn unguessable() -> u64 {
    RandomState::new().build_hasher().finish()
}
