//! The one file that names concrete parts: which transport, channel, scheme, journal, application and protocol make a replica.

use crate::config::{NodeConfig, TransportKind};
use crate::devices::{Devices, Fittings};
use crate::error::NodeError;
use crate::gateway::{BundleLimits, Gateway};
use crate::host::{Host, Orders, RunningNode};
use crate::observer::{NodeEvent, Observer};
use quorate_applications::Executor;
use quorate_channels::{ChannelConfig, LocalEnd};
use quorate_consensus::chained::rules::{ChainedHotStuff, FastHotStuff, Jolteon, SimpleHotStuff};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::{Protocol, Replica, basic, chained, pbft};
use quorate_crypto::{Crypto, DEFAULT_CACHE_CERTIFICATES, KeyPair, Keyring};
use quorate_storage::MemoryJournal;
use quorate_transports::{TcpTransport, Transport};
use quorate_types::Committee;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// A replica that is ready to run, and the ways to reach it from other threads.
pub(crate) struct Assembled {
    pub node: Box<dyn RunningNode>,
    pub orders: Orders,
    pub waker: Arc<dyn Fn() + Send + Sync>,
}

/// Puts a replica together and has it listen: on `listener`, or else where its configuration says. `keyring` is the committee's, if
/// another replica of the process has it already.
pub(crate) fn assemble(
    config: &NodeConfig,
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
    observer.observe(config.replica, NodeEvent::Listening(address));
    if let Some(laboratory) = &config.laboratory {
        observer.observe(config.replica, NodeEvent::Misbehaving(laboratory.fault));
    }
    let fittings = Fittings {
        me: config.replica,
        replicas: committee.len(),
        cluster: committee.cluster,
        transport,
        crypto,
        journal: Box::new(MemoryJournal::default()),
        executor: Executor::new(config.application.build(), &committee.cluster),
        gateway: Gateway::new(config.replica, config.reply, limits, config.reply_cache_bytes, salt),
        observer,
    };
    let orders = Orders::default();
    let (core, quorum, cluster, me) = (config.consensus.clone(), committee.quorum, committee.cluster, config.replica);
    let node = match config.consensus.protocol {
        ProtocolKind::ChainedHotStuff => {
            host(chained::replica::<ChainedHotStuff>(core, quorum, cluster, me, salt), config, fittings, &orders)
        }
        ProtocolKind::SimpleHotStuff => {
            host(chained::replica::<SimpleHotStuff>(core, quorum, cluster, me, salt), config, fittings, &orders)
        }
        ProtocolKind::FastHotStuff => {
            host(chained::replica::<FastHotStuff>(core, quorum, cluster, me, salt), config, fittings, &orders)
        }
        ProtocolKind::Jolteon => {
            host(chained::replica::<Jolteon>(core, quorum, cluster, me, salt), config, fittings, &orders)
        }
        ProtocolKind::BasicHotStuff => host(basic::replica(core, quorum, cluster, me, salt), config, fittings, &orders),
        ProtocolKind::Pbft => host(pbft::replica(core, quorum, cluster, me, salt), config, fittings, &orders),
    };
    Ok(Assembled { node, orders, waker })
}

fn host<P: Protocol + 'static>(
    replica: Replica<P>,
    config: &NodeConfig,
    fittings: Fittings,
    orders: &Orders,
) -> Box<dyn RunningNode> {
    let view_timeout = config.consensus.view_timeout();
    let behaviour = config.laboratory.as_ref().map(|laboratory| laboratory.behaviour(config.replica, view_timeout));
    Box::new(Host::new(replica, Devices::new(fittings), behaviour, orders.clone()))
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
    let transport = TcpTransport::replica(committee, listener, channels, config.tcp.clone())?;
    let address = transport.listens_on().expect("a replica's transport listens");
    Ok((Box::new(transport), address))
}

/// A number that strangers cannot know, from the operating system's randomness.
fn unguessable() -> u64 {
    RandomState::new().build_hasher().finish()
}
