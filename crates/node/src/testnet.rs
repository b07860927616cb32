//! New clusters: keys and configurations, in memory or as one directory for each replica.

use crate::config::{CONFIG_FILE, NodeConfig};
use crate::config_file::ConfigFault;
use crate::durability;
use crate::error::NodeError;
pub use crate::limits::PORTS_PER_REPLICA;
use quorate_crypto::{ReplicaKeys, key_file};
use quorate_storage::JournalKind;
use quorate_types::{Address, AddressError, ClusterId, Committee, ReplicaId};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The directory of one replica in that of its testnet.
pub fn replica_directory(testnet: &Path, replica: ReplicaId) -> PathBuf {
    testnet.join(format!("replica-{replica}"))
}

/// Makes new keys for each address, and from `template` the configuration of each replica; peers and clients share the address.
pub fn generate(template: &NodeConfig, addresses: &[SocketAddr]) -> Result<Vec<(NodeConfig, ReplicaKeys)>, NodeError> {
    let addresses: Vec<Address> = addresses.iter().copied().map(Address::from).collect();
    generate_at(template, &addresses)
}

fn generate_at(template: &NodeConfig, addresses: &[Address]) -> Result<Vec<(NodeConfig, ReplicaKeys)>, NodeError> {
    let keys = addresses.iter().map(|_| ReplicaKeys::generate(template.scheme)).collect::<Result<Vec<_>, _>>()?;
    let members = addresses.iter().zip(&keys).map(|(address, keys)| keys.member(address.clone())).collect();
    let first = NodeConfig {
        replica: ReplicaId(0),
        members,
        listen: None,
        client_listen: None,
        admin_listen: None,
        ..template.clone()
    };
    first.validate()?;
    let configs = (0..).map(|replica| NodeConfig { replica: ReplicaId(replica), ..first.clone() });
    Ok(configs.zip(keys).collect())
}

/// Where one replica of a testnet is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// By its peers.
    pub peers: Address,
    /// By clients.
    pub clients: Address,
    /// By operators of its own host.
    pub operators: Address,
}

impl Place {
    fn new(peers: Address, step: u16) -> Option<Place> {
        let port = |steps: u16| peers.port().checked_add(step.checked_mul(steps)?).filter(|port| *port > 0);
        port(0)?;
        let clients = peers.with_port(port(1)?);
        let operators = SocketAddr::from((Ipv4Addr::LOCALHOST, port(2)?)).into();
        Some(Place { peers, clients, operators })
    }

    /// Puts into a replica's configuration where it listens. The address of a host with a name is looked for by others; the host itself
    /// may know itself by another, so it listens on all of its own.
    fn settle(&self, config: &mut NodeConfig) {
        let is_elsewhere = self.peers.socket().is_none() && !self.peers.is_loopback();
        let own = |address: &Address| match is_elsewhere {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())).into(),
            false => address.clone(),
        };
        config.listen = is_elsewhere.then(|| own(&self.peers));
        config.client_listen = Some(own(&self.clients));
        config.admin_listen = Some(self.operators.clone());
    }
}

/// Places of so many replicas on this host. From `base_port` on, the first ports are for peers, as many more for clients, and as many
/// for operators.
///
/// # Errors
/// If the ports reach beyond the last, or begin at 0.
pub fn places_here(replicas: usize, base_port: u16) -> Result<Vec<Place>, NodeError> {
    let hosts = vec![Ipv4Addr::LOCALHOST.to_string(); replicas];
    places_on(&hosts, base_port)
}

/// The place of a replica on each of `hosts`: HOST or HOST:PORT. A replica whose host has a PORT listens there for peers, on the next
/// one for clients and on the one after that for operators. Hosts without one share out the ports from `base_port` on as
/// [`places_here`] does; a host may be named more than once.
///
/// # Errors
/// If a host is no host, the ports reach beyond the last, or two replicas would listen at the same place.
pub fn places_on(hosts: &[String], base_port: u16) -> Result<Vec<Place>, NodeError> {
    let beyond = || NodeError::Ports { base_port, replicas: hosts.len() };
    let mut places: Vec<Place> = Vec::with_capacity(hosts.len());
    for (at, host) in hosts.iter().enumerate() {
        let place = match Address::on(host, base_port) {
            Ok(first) => {
                let same = |hosts: &[String]| hosts.iter().filter(|other| *other == host).count() as u16;
                let peers = base_port.checked_add(same(&hosts[..at])).filter(|port| *port > 0).ok_or_else(beyond)?;
                Place::new(first.with_port(peers), same(hosts)).ok_or_else(beyond)?
            }
            Err(why) => {
                let peers: Address = host.parse().map_err(|error: AddressError| match host.contains(':') {
                    true => NodeError::HostName(error),
                    false => NodeError::HostName(why),
                })?;
                Place::new(peers.clone(), 1).ok_or(NodeError::PortsOf(peers))?
            }
        };
        let taken = |address: &Address| places.iter().any(|other| other.peers == *address || other.clients == *address);
        if let Some(address) = [&place.peers, &place.clients].into_iter().find(|address| taken(address)) {
            return Err(NodeError::PlaceTaken(address.clone()));
        }
        places.push(place);
    }
    Ok(places)
}

/// A testnet that was written.
#[derive(Clone, Debug)]
pub struct Testnet {
    /// The configuration of each replica; the members, their addresses and keys are the same in all of them.
    pub configs: Vec<NodeConfig>,
    /// The directory of each replica.
    pub directories: Vec<PathBuf>,
    /// Where each is reached.
    pub places: Vec<Place>,
}

impl Testnet {
    /// The committee with the addresses for clients: what a client needs to know.
    pub fn client_committee(&self) -> Result<Committee, ConfigFault> {
        let mut committee = self.configs[0].committee()?;
        for (member, place) in committee.members.iter_mut().zip(&self.places) {
            member.address = place.clients.clone();
        }
        Ok(committee)
    }
}

/// Writes a testnet of this host to `directory`: [`write_at`] the [places here](places_here).
pub fn write(template: &NodeConfig, replicas: usize, base_port: u16, directory: &Path) -> Result<Testnet, NodeError> {
    write_at(template, places_here(replicas, base_port)?, directory)
}

/// Writes a testnet to `directory`, which must be empty or not exist: for each place the directory of a replica with its configuration
/// and its private key (mode 0600).
pub fn write_at(template: &NodeConfig, places: Vec<Place>, directory: &Path) -> Result<Testnet, NodeError> {
    let addresses: Vec<Address> = places.iter().map(|place| place.peers.clone()).collect();
    let nodes = generate_at(template, &addresses)?;
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| NodeError::Write { path, source }
    };
    fs::create_dir_all(directory).map_err(fail(directory))?;
    if fs::read_dir(directory).map_err(fail(directory))?.next().is_some() {
        return Err(NodeError::NotEmpty(directory.to_owned()));
    }
    let mut testnet = Testnet { configs: Vec::new(), directories: Vec::new(), places };
    for ((mut config, keys), place) in nodes.into_iter().zip(&testnet.places) {
        place.settle(&mut config);
        config.validate()?;
        let home = replica_directory(directory, config.replica);
        fs::create_dir(&home).map_err(fail(&home))?;
        let path = home.join(CONFIG_FILE);
        fs::write(&path, config.to_toml()).map_err(fail(&path))?;
        key_file::write(&home.join(&config.key_file), &ClusterId::from_name(&config.cluster), config.replica, &keys)?;
        if config.journal.kind == JournalKind::File {
            durability::mark_as_new(&home.join(&config.journal.directory))?;
        }
        testnet.configs.push(config);
        testnet.directories.push(home);
    }
    Ok(testnet)
}
