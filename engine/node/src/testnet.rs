//! New clusters: keys and configurations, in memory or in one directory per replica.

use crate::config::{CONFIG_FILE, NodeConfig};
use crate::config_file::ConfigFault;
use crate::durability;
use crate::error::NodeError;
pub use crate::limits::PORTS_PER_REPLICA;
use crate::monitoring::MonitoringConfig;
use quorate_crypto::{ReplicaKeys, key_file};
use quorate_storage::{JournalKind, private};
use quorate_types::{Address, AddressError, ClusterId, Committee, ReplicaId};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Returns the directory of one replica in a testnet's directory.
pub fn replica_directory(testnet: &Path, replica: ReplicaId) -> PathBuf {
    testnet.join(format!("replica-{replica}"))
}

/// Generates keys for each address, and each replica's configuration from `template`; peers and clients share the
/// address.
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
        monitoring: MonitoringConfig::default(),
        ..template.clone()
    };
    first.validate()?;
    let configs = (0..).map(|replica| NodeConfig { replica: ReplicaId(replica), ..first.clone() });
    Ok(configs.zip(keys).collect())
}

/// Addresses of one replica of a testnet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub peers: Address,
    pub clients: Address,
    /// Address for operators on the replica's own host.
    pub operators: Address,
    /// Address for monitors and supervisors on the replica's own host.
    pub monitors: Address,
}

impl Place {
    fn new(peers: Address, step: u16) -> Option<Place> {
        let port = |steps: u16| peers.port().checked_add(step.checked_mul(steps)?).filter(|port| *port > 0);
        port(0)?;
        let clients = peers.with_port(port(1)?);
        // Several loopback addresses belong to one host.
        let host = peers.socket().map(|peers| peers.ip()).filter(IpAddr::is_loopback);
        let own = |port| SocketAddr::from((host.unwrap_or(Ipv4Addr::LOCALHOST.into()), port)).into();
        let (operators, monitors) = (own(port(2)?), own(port(3)?));
        Some(Place { peers, clients, operators, monitors })
    }

    /// Sets the listening addresses in a replica's configuration. A host name may resolve differently on the host
    /// itself, so a replica with a host name listens on all of the host's addresses.
    fn settle(&self, config: &mut NodeConfig) {
        let is_elsewhere = self.peers.socket().is_none() && !self.peers.is_loopback();
        let own = |address: &Address| match is_elsewhere {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())).into(),
            false => address.clone(),
        };
        config.listen = is_elsewhere.then(|| own(&self.peers));
        config.client_listen = Some(own(&self.clients));
        config.admin_listen = Some(self.operators.clone());
        config.monitoring.address = Some(self.monitors.clone());
        config.monitoring.beyond_loopback = !self.monitors.is_loopback();
    }
}

/// Returns places for `replicas` replicas on this host. Starting at `base_port`, the first `replicas` ports are for
/// peers, the next for clients, then for operators, and the last for monitors.
///
/// # Errors
/// If the ports exceed 65535, or begin at 0.
pub fn places_here(replicas: usize, base_port: u16) -> Result<Vec<Place>, NodeError> {
    let hosts = vec![Ipv4Addr::LOCALHOST.to_string(); replicas];
    places_on(&hosts, base_port)
}

/// Returns the place of a replica on each of `hosts`: HOST or HOST:PORT. A replica with a PORT uses it for peers, and
/// the next three ports for clients, operators and monitors. Hosts without a PORT share the ports from `base_port` on
/// as in [`places_here`]. A host may be named more than once.
///
/// # Errors
/// If a host is invalid, the ports exceed 65535, or two replicas would listen on the same address.
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
    part_local(&mut places);
    Ok(places)
}

/// Assigns each replica separate ports for operators and monitors if several replicas have numeric addresses: these may
/// belong to one host, on which both connect over its loopback.
fn part_local(places: &mut [Place]) {
    let mut taken = BTreeSet::new();
    let numeric: Vec<usize> = (0..places.len()).filter(|at| places[*at].peers.socket().is_some()).collect();
    for at in numeric.iter().copied() {
        places[at].operators = free_port(places, &places[at].operators, &mut taken);
    }
    for at in numeric {
        places[at].monitors = free_port(places, &places[at].monitors, &mut taken);
    }
}

/// Takes the first port, starting with the wanted one, that no replica uses on the same host.
fn free_port(places: &[Place], wanted: &Address, taken: &mut BTreeSet<(Address, u16)>) -> Address {
    let is_served = |port| places.iter().any(|place| [place.peers.port(), place.clients.port()].contains(&port));
    let (host, mut port) = (wanted.with_port(0), wanted.port());
    while !taken.insert((host.clone(), port)) || (port != wanted.port() && is_served(port)) {
        let Some(next) = port.checked_add(1) else { break };
        port = next;
    }
    wanted.with_port(port)
}

/// A testnet that has been written.
#[derive(Clone, Debug)]
pub struct Testnet {
    /// Configuration of each replica; the members, with their addresses and keys, are the same in all of them.
    pub configs: Vec<NodeConfig>,
    /// Directory of each replica.
    pub directories: Vec<PathBuf>,
    /// Addresses of each replica.
    pub places: Vec<Place>,
}

impl Testnet {
    /// Returns the committee with its addresses for clients.
    pub fn client_committee(&self) -> Result<Committee, ConfigFault> {
        let mut committee = self.configs[0].committee()?;
        for (member, place) in committee.members.iter_mut().zip(&self.places) {
            member.address = place.clients.clone();
        }
        Ok(committee)
    }
}

/// Writes a testnet on this host to `directory`: [`write_at`] with [`places_here`].
pub fn write(template: &NodeConfig, replicas: usize, base_port: u16, directory: &Path) -> Result<Testnet, NodeError> {
    write_at(template, places_here(replicas, base_port)?, directory)
}

/// Writes a testnet to `directory`, which must be empty or not exist: for each place, a replica's directory with its
/// configuration and its private key, accessible only to the owner (modes 0700 and 0600).
pub fn write_at(template: &NodeConfig, places: Vec<Place>, directory: &Path) -> Result<Testnet, NodeError> {
    let addresses: Vec<Address> = places.iter().map(|place| place.peers.clone()).collect();
    let nodes = generate_at(template, &addresses)?;
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| NodeError::Place { path, source }
    };
    private::create_directories(directory).map_err(fail(directory))?;
    if fs::read_dir(directory).map_err(fail(directory))?.next().is_some() {
        return Err(NodeError::NotEmpty(directory.to_owned()));
    }
    let mut testnet = Testnet { configs: Vec::new(), directories: Vec::new(), places };
    for ((mut config, keys), place) in nodes.into_iter().zip(&testnet.places) {
        place.settle(&mut config);
        config.validate()?;
        let home = replica_directory(directory, config.replica);
        private::create_directories(&home).map_err(fail(&home))?;
        let path = home.join(CONFIG_FILE);
        private::write(&path, config.to_toml().as_bytes()).map_err(fail(&path))?;
        key_file::write(&home.join(&config.key_file), &ClusterId::from_name(&config.cluster), config.replica, &keys)?;
        // An absolute directory is on the replica's own host, where its first start marks it.
        if config.journal.kind == JournalKind::File && config.journal.directory.is_relative() {
            durability::mark_as_new(&home.join(&config.journal.directory))?;
        }
        testnet.configs.push(config);
        testnet.directories.push(home);
    }
    Ok(testnet)
}
