//! How the replicas of a cluster are: what `quorate status` shows.

use comfy_table::{Cell, Table, presets};
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig, ConfigError, ConnectError, StatusProbe};
use quorate_node::config::CONFIG_FILE;
use quorate_node::config_file::ConfigFileError;
use quorate_node::testnet::replica_directory;
use quorate_node::{ConfigFault, NodeConfig};
use quorate_types::{Address, Height, ReplicaId, Status};
use serde::Serialize;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// A replica that is so many blocks behind the first needs attention.
pub const LAG_BLOCKS: u64 = 1_000;
/// How long one look at the replicas lasts; there may be many until all have answered.
const LOOK: Duration = Duration::from_millis(100);

/// Why nothing can be asked.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The directory is none of those that are known.
    #[error("{} has neither {CONFIG_FILE} nor {CLIENT_CONFIG_FILE}; name a replica's directory, or that of a testnet", .0.display())]
    NoDirectory(PathBuf),
    /// The replica's configuration cannot be used.
    #[error(transparent)]
    Replica(#[from] ConfigFileError),
    /// The replica's configuration cannot be used.
    #[error("the configuration cannot work: {0}")]
    Fault(#[from] ConfigFault),
    /// The client's configuration cannot be used.
    #[error(transparent)]
    Client(#[from] ConfigError),
    /// The operating system refuses what is needed to ask.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The network device failed.
    #[error("the network cannot be polled: {0}")]
    Poll(#[from] io::Error),
}

/// What is known of one replica.
#[derive(Debug, Serialize)]
pub struct ReplicaStatus {
    /// Which.
    pub replica: ReplicaId,
    /// Where it was asked.
    pub address: Address,
    /// What it says; none if it does not answer.
    pub status: Option<Status>,
    /// How many blocks it is behind the first that answered.
    pub lag: Option<u64>,
    /// What needs attention, in sentences.
    pub attention: Vec<String>,
}

/// What is known of a cluster, or of the one replica that was asked.
#[derive(Debug, Serialize)]
pub struct ClusterStatus {
    /// The replicas that were asked.
    pub replicas: Vec<ReplicaStatus>,
}

/// Asks replicas again and again.
pub struct StatusReader {
    probe: StatusProbe,
    /// Who is asked, and where.
    asked: Vec<(ReplicaId, Address)>,
}

impl StatusReader {
    /// For the replica whose directory it is, or for all of a testnet, or of a `client.toml`. Replicas with a directory
    /// here are asked at their operators' listener, all others where clients are served.
    ///
    /// # Errors
    /// If the directory is none, or what is in it cannot be used.
    pub fn open(directory: &Path) -> Result<StatusReader, StatusError> {
        let (config, asked) = match directory.join(CONFIG_FILE).exists() {
            true => of_replica(&NodeConfig::read(&directory.join(CONFIG_FILE))?)?,
            false if directory.join(CLIENT_CONFIG_FILE).exists() => of_cluster(directory)?,
            false => return Err(StatusError::NoDirectory(directory.to_owned())),
        };
        Ok(StatusReader { probe: StatusProbe::connect(&config)?, asked })
    }

    /// Asks until all have answered or the time is over.
    ///
    /// # Errors
    /// If the network device fails.
    pub fn read(&mut self, timeout: Duration) -> Result<ClusterStatus, StatusError> {
        let start = Instant::now();
        let mut known: Vec<Option<Status>> = Vec::new();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let answers = self.probe.read(left.min(LOOK))?;
            known.resize(answers.len(), None);
            known.iter_mut().zip(answers).filter(|(_, answer)| answer.is_some()).for_each(|(it, answer)| *it = answer);
            let is_missing = |(replica, _): &(ReplicaId, Address)| known[replica.index()].is_none();
            if left.is_zero() || !self.asked.iter().any(is_missing) {
                break;
            }
        }
        let unreached = self.probe.reach().unreached;
        let heard = self.asked.iter().filter_map(|(replica, _)| known[replica.index()].as_ref());
        let highest = heard.map(|status| status.height).max();
        let is_cluster = self.asked.len() > 1;
        let about = |(replica, address): &(ReplicaId, Address)| {
            let status = known[replica.index()].clone();
            let lag =
                status.as_ref().zip(highest.filter(|_| is_cluster)).map(|(own, Height(first))| first - own.height.0);
            let mut attention = match &status {
                Some(status) => status.attention.clone(),
                None => {
                    let why = unreached.get(replica).map_or("it is connected, and does not answer", String::as_str);
                    vec![format!("does not answer: {why}")]
                }
            };
            if let Some(lag) = lag.filter(|lag| *lag > LAG_BLOCKS) {
                attention.push(format!("is {lag} blocks behind"));
            }
            ReplicaStatus { replica: *replica, address: address.clone(), status, lag, attention }
        };
        Ok(ClusterStatus { replicas: self.asked.iter().map(about).collect() })
    }
}

type Asked = (ClientConfig, Vec<(ReplicaId, Address)>);

/// One replica alone. Where the others serve clients its configuration does not say.
fn of_replica(config: &NodeConfig) -> Result<Asked, StatusError> {
    let own = asked_at(config);
    let nowhere = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let committee = config.committee()?;
    let mut client = ClientConfig::new(&config.cluster, config.scheme, committee.quorum.faults(), &[]);
    client.client_authentication = config.client_authentication;
    client.members = committee.members;
    for (at, member) in client.members.iter_mut().enumerate() {
        member.address = if at == config.replica.index() { own.clone() } else { nowhere.clone() };
    }
    Ok((client, vec![(config.replica, own)]))
}

/// All replicas of a `client.toml`.
fn of_cluster(directory: &Path) -> Result<Asked, StatusError> {
    let mut client = ClientConfig::load(&directory.join(CLIENT_CONFIG_FILE))?;
    for (at, member) in client.members.iter_mut().enumerate() {
        let replica = ReplicaId(at as u16);
        let path = replica_directory(directory, replica).join(CONFIG_FILE);
        // A directory that was copied to another host has stayed here too; its operators' listener is there.
        let Ok(config) = NodeConfig::read(&path) else { continue };
        let is_here = config.members.get(at).is_some_and(|own| own.address.is_loopback());
        if config.replica == replica && is_here {
            member.address = asked_at(&config);
        }
    }
    let asked = (0..).map(ReplicaId).zip(client.members.iter().map(|member| member.address.clone())).collect();
    Ok((client, asked))
}

/// Where a replica tells its status.
fn asked_at(config: &NodeConfig) -> Address {
    let own = &config.members[config.replica.index()].address;
    let listeners = [&config.admin_listen, &config.client_listen, &config.listen];
    let found = listeners.into_iter().flatten().next().unwrap_or(own);
    // One does not dial "all addresses of this host".
    let is_any = found.socket().is_some_and(|socket| socket.ip().is_unspecified());
    if is_any { SocketAddr::from((Ipv4Addr::LOCALHOST, found.port())).into() } else { found.clone() }
}

impl ClusterStatus {
    /// Whether something should be looked at.
    pub fn needs_attention(&self) -> bool {
        self.replicas.iter().any(|replica| !replica.attention.is_empty())
    }

    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a status is plain data");
        text.push('\n');
        text
    }

    /// A row for each replica, and below what needs attention.
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["replica", "view", "leader", "height", "lag", "peers", "timeouts", "commands", "up"]);
        for ReplicaStatus { replica, status, lag, .. } in &self.replicas {
            let unknown = || "–".to_owned();
            let lag = lag.map_or_else(unknown, |lag| lag.to_string());
            let cells = match status {
                None => vec![
                    replica.to_string(),
                    unknown(),
                    unknown(),
                    unknown(),
                    lag,
                    unknown(),
                    unknown(),
                    unknown(),
                    unknown(),
                ],
                Some(status) => vec![
                    replica.to_string(),
                    status.view.to_string(),
                    status.leader.to_string(),
                    status.height.to_string(),
                    lag,
                    format!("{} of {}", status.connected.len(), status.peers),
                    status.view_timeouts.to_string(),
                    status.committed_commands.to_string(),
                    spell(Duration::from_millis(status.uptime_ms)),
                ],
            };
            table.add_row(cells.into_iter().map(Cell::new));
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        let attention: Vec<String> = self
            .replicas
            .iter()
            .flat_map(|of| of.attention.iter().map(move |what| format!("replica {}: {what}", of.replica)))
            .collect();
        match attention.is_empty() {
            true => text.push_str("\nnothing needs attention\n"),
            false => text.push_str(&format!("\nneeds attention\n  {}\n", attention.join("\n  "))),
        }
        text
    }
}

/// A time in its two largest units.
fn spell(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
