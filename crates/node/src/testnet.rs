//! New clusters: keys and configurations, in memory or as one directory for each replica.

use crate::config::{CONFIG_FILE, MemberConfig, NodeConfig};
use crate::durability::{self, JournalKind};
use crate::error::NodeError;
use quorate_crypto::{KeyPair, key_file};
use quorate_types::{ClusterId, ReplicaId};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The directory of one replica in that of its testnet.
pub fn replica_directory(testnet: &Path, replica: ReplicaId) -> PathBuf {
    testnet.join(format!("replica-{replica}"))
}

/// Makes a new key for each address, and from `template` the configuration of each replica.
pub fn generate(template: &NodeConfig, addresses: &[SocketAddr]) -> Result<Vec<(NodeConfig, KeyPair)>, NodeError> {
    let keys = addresses.iter().map(|_| KeyPair::generate(template.scheme)).collect::<Result<Vec<_>, _>>()?;
    let members: Vec<MemberConfig> = addresses
        .iter()
        .zip(&keys)
        .map(|(address, key)| MemberConfig { address: *address, public_key: key.public_key() })
        .collect();
    let first = NodeConfig { replica: ReplicaId(0), members, listen: None, ..template.clone() };
    first.validate()?;
    let configs = (0..).map(|replica| NodeConfig { replica: ReplicaId(replica), ..first.clone() });
    Ok(configs.zip(keys).collect())
}

/// A testnet that was written.
#[derive(Clone, Debug)]
pub struct Testnet {
    /// The configuration of each replica; the members, their addresses and keys are the same in all of them.
    pub configs: Vec<NodeConfig>,
    /// The directory of each replica.
    pub directories: Vec<PathBuf>,
}

/// Writes a testnet of this host to `directory`, which must be empty or not exist: for each replica a directory with its
/// configuration and its private key (mode 0600). The replicas listen on consecutive ports from `base_port`.
pub fn write(template: &NodeConfig, replicas: usize, base_port: u16, directory: &Path) -> Result<Testnet, NodeError> {
    let last_port = usize::from(base_port) + replicas.saturating_sub(1);
    if base_port == 0 || last_port > usize::from(u16::MAX) {
        return Err(NodeError::Ports { base_port, replicas });
    }
    let ports = (base_port..).take(replicas);
    let addresses: Vec<SocketAddr> = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect();
    let nodes = generate(template, &addresses)?;
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| NodeError::Write { path, source }
    };
    fs::create_dir_all(directory).map_err(fail(directory))?;
    if fs::read_dir(directory).map_err(fail(directory))?.next().is_some() {
        return Err(NodeError::NotEmpty(directory.to_owned()));
    }
    let mut testnet = Testnet { configs: Vec::with_capacity(replicas), directories: Vec::with_capacity(replicas) };
    for (config, key) in nodes {
        let home = replica_directory(directory, config.replica);
        fs::create_dir(&home).map_err(fail(&home))?;
        let path = home.join(CONFIG_FILE);
        fs::write(&path, config.to_toml()).map_err(fail(&path))?;
        key_file::write(&home.join(&config.key_file), &ClusterId::from_name(&config.cluster), config.replica, &key)?;
        if config.journal.kind == JournalKind::File {
            durability::mark_as_new(&home.join(&config.journal.directory))?;
        }
        testnet.configs.push(config);
        testnet.directories.push(home);
    }
    Ok(testnet)
}
