//! Status of the replicas of a cluster, as `quorate status` shows it.

use crate::applications::admit_application_of;
use crate::report::Report;
use crate::skew;
use crate::standstill::{self, Looks};
use comfy_table::{Table, presets};
use quorate_client::reach::Reach;
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig, ConfigError, ConnectError, StatusProbe};
use quorate_node::config::CONFIG_FILE;
use quorate_node::config_file::ConfigFileError;
use quorate_node::testnet::replica_directory;
use quorate_node::{ConfigFault, NodeConfig};
use quorate_types::text::escaped;
use quorate_types::{Address, FeatureLevel, Height, LevelSupport, Quorum, ReplicaId, Status};
use serde::Serialize;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Duration of one attempt to read the replicas' statuses.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two readings of a cluster whose replicas are not at the same height.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Reason why the replicas cannot be queried.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The directory belongs neither to a replica nor to a client.
    #[error(
        "{} has neither {CONFIG_FILE} nor {CLIENT_CONFIG_FILE}; help: name the directory of a replica or a testnet",
        .0.display()
    )]
    NoDirectory(PathBuf),
    #[error(transparent)]
    Replica(#[from] ConfigFileError),
    #[error("the configuration is invalid: {0}")]
    Fault(#[from] ConfigFault),
    #[error(transparent)]
    Client(#[from] ConfigError),
    /// The probe cannot be set up.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the network cannot be polled: {0}")]
    Poll(#[from] io::Error),
}

impl StatusError {
    /// Returns whether the named directory is at fault.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            StatusError::NoDirectory(_) | StatusError::Replica(_) | StatusError::Fault(_) | StatusError::Client(_) => {
                true
            }
            StatusError::Connect(error) => matches!(error, ConnectError::Config(_)),
            StatusError::Poll(_) => false,
        }
    }
}

/// Status of one replica.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaStatus {
    pub replica: ReplicaId,
    /// Address of the query.
    pub address: Address,
    /// `None` if it does not answer.
    pub status: Option<Status>,
    /// Blocks behind the highest replica that answered.
    pub lag: Option<u64>,
    /// Problems that need attention, as sentences.
    pub attention: Vec<String>,
}

/// Status of a cluster, or of a single replica.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// Problems of the whole cluster, as sentences. Empty if a single replica was queried.
    pub attention: Vec<String>,
    /// Differences between the replicas' versions, as sentences.
    pub version_skew: Vec<String>,
    pub replicas: Vec<ReplicaStatus>,
}

/// Reader of the replicas' statuses.
pub struct StatusReader {
    probe: StatusProbe,
    /// The replicas, and the addresses to query.
    asked: Vec<(ReplicaId, Address)>,
    quorum: Quorum,
}

impl StatusReader {
    /// Opens the directory of a replica, a testnet or a `client.toml`. Replicas whose directory is on this host are
    /// queried on their operators' listener, all others on their clients' listener.
    ///
    /// # Errors
    /// If the directory or its files are invalid.
    pub fn open(directory: &Path) -> Result<StatusReader, StatusError> {
        [CONFIG_FILE, CLIENT_CONFIG_FILE].iter().for_each(|file| admit_application_of(&directory.join(file)));
        let (config, asked) = if directory.join(CONFIG_FILE).exists() {
            of_replica(&NodeConfig::read(&directory.join(CONFIG_FILE))?)?
        } else if directory.join(CLIENT_CONFIG_FILE).exists() {
            of_cluster(directory)?
        } else {
            return Err(StatusError::NoDirectory(directory.to_owned()));
        };
        let quorum = config.committee()?.quorum;
        Ok(StatusReader { probe: StatusProbe::connect(&config)?, asked, quorum })
    }

    /// Queries until all replicas have answered or the timeout expires. If they are not at the same height, queries
    /// them again a little later, to detect replicas that do not follow.
    ///
    /// # Errors
    /// If the transport fails.
    pub fn read(&mut self, timeout: Duration) -> Result<ClusterStatus, StatusError> {
        let earlier = self.ask(timeout)?;
        let heights = || earlier.iter().flatten().map(|status| (status.height, status.view));
        let differ = heights().min() != heights().max();
        let now = match differ && self.asked.len() > 1 {
            true => {
                std::thread::sleep(BETWEEN_LOOKS);
                self.ask(timeout)?
            }
            false => earlier.clone(),
        };
        let looks = |(replica, _): &(ReplicaId, Address)| {
            let of = |all: &[Option<Status>]| all[replica.index()].clone();
            Looks { replica: *replica, earlier: of(&earlier), now: of(&now) }
        };
        let looks: Vec<Looks> = self.asked.iter().map(looks).collect();
        Ok(self.judge(&looks))
    }

    /// Queries once until all replicas have answered or the timeout expires. Returns their answers by replica id, or
    /// the reasons why there are none.
    ///
    /// # Errors
    /// If the transport fails.
    pub fn answers(&mut self, timeout: Duration) -> Result<Vec<Result<Status, String>>, StatusError> {
        let answers = self.ask(timeout)?;
        let mut why = self.reasons();
        let answers = (0..).map(ReplicaId).zip(answers);
        Ok(answers.map(|(replica, answer)| answer.ok_or_else(|| why(replica))).collect())
    }

    /// Asks all queried replicas to sign that they support a feature level. Returns their signatures, which are not
    /// verified, or the reasons why there are none.
    ///
    /// # Errors
    /// If the transport fails.
    pub fn supports(&mut self, level: FeatureLevel, timeout: Duration) -> Result<Supports, StatusError> {
        let mut answers = self.probe.read_supports(level, timeout)?;
        let asked: Vec<ReplicaId> = self.asked.iter().map(|(replica, _)| *replica).collect();
        let mut why = self.reasons();
        let answer = |replica: ReplicaId| (replica, answers[replica.index()].take().ok_or_else(|| why(replica)));
        Ok(asked.into_iter().map(answer).collect())
    }

    /// Returns a function that returns why a replica did not answer the last question.
    fn reasons(&mut self) -> impl FnMut(ReplicaId) -> String {
        let (unanswered, reach) = (self.probe.unanswered().clone(), self.probe.reach());
        move |replica| {
            let why = unanswered.get(&replica).or_else(|| reach.unreached.get(&replica));
            why.map_or_else(|| "it is connected but silent".to_owned(), Clone::clone)
        }
    }

    /// Returns the answers by replica.
    fn ask(&mut self, timeout: Duration) -> Result<Vec<Option<Status>>, StatusError> {
        let start = Instant::now();
        let mut known: Vec<Option<Status>> = Vec::new();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let answers = self.probe.read(left.min(LOOK))?;
            known.resize(answers.len(), None);
            known.iter_mut().zip(answers).filter(|(_, answer)| answer.is_some()).for_each(|(it, answer)| *it = answer);
            let will_not = self.probe.unanswered();
            let is_missing = |(replica, _): &(ReplicaId, Address)| {
                known[replica.index()].is_none() && !will_not.contains_key(replica)
            };
            if left.is_zero() || !self.asked.iter().any(is_missing) {
                break;
            }
        }
        Ok(known)
    }

    fn judge(&mut self, looks: &[Looks]) -> ClusterStatus {
        let Reach { unreached, of_other_genesis, .. } = self.probe.reach();
        let unanswered = self.probe.unanswered().clone();
        let highest = looks.iter().filter_map(|of| of.now.as_ref()).map(|status| status.height).max();
        let is_cluster = self.asked.len() > 1;
        let mut behind = standstill::of_replicas(looks, self.quorum);
        let about = |((replica, address), looks): (&(ReplicaId, Address), &Looks)| {
            let status = looks.now.clone();
            let lag =
                status.as_ref().zip(highest.filter(|_| is_cluster)).map(|(own, Height(first))| first - own.height.0);
            let mut attention = match &status {
                Some(status) => status.attention.clone(),
                None => {
                    let why = unanswered.get(replica).or_else(|| unreached.get(replica));
                    let why = why.map_or("it is connected but silent", String::as_str);
                    let what = match of_other_genesis.contains(*replica) {
                        true => "runs with another configuration and is not read",
                        false => "does not answer",
                    };
                    vec![format!("{what}: {why}")]
                }
            };
            attention.extend(behind.remove(replica).unwrap_or_default());
            ReplicaStatus { replica: *replica, address: address.clone(), status, lag, attention }
        };
        let replicas = self.asked.iter().zip(looks).map(about).collect();
        let attention = if is_cluster { standstill::of_cluster(looks, self.quorum) } else { Vec::new() };
        let answered: Vec<&Status> = looks.iter().filter_map(|of| of.now.as_ref()).collect();
        ClusterStatus { attention, version_skew: skew::of_versions(&answered), replicas }
    }
}

/// Statements of replicas that they support a feature level, or the reasons why there are none.
pub type Supports = Vec<(ReplicaId, Result<LevelSupport, String>)>;

type Asked = (ClientConfig, Vec<(ReplicaId, Address)>);

/// Queries one replica alone: its configuration does not contain the others' client addresses.
fn of_replica(config: &NodeConfig) -> Result<Asked, StatusError> {
    let own = asked_at(config);
    let nowhere = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let (committee, protocol) = (config.committee()?, config.consensus.protocol);
    let mut client = ClientConfig::new(&config.cluster, protocol, config.scheme, committee.quorum.faults(), &[]);
    (client.auth_profile, client.mac_scheme) = (config.auth_profile, config.mac_scheme);
    client.client_authentication = config.client_authentication;
    (client.transport, client.channel) = (config.transport, config.channel);
    (client.packets, client.retransmission) = (config.packets, config.retransmission);
    client.quic = config.quic.clone();
    client.reply_authentication = config.reply_authentication;
    client.members = committee.members;
    for (at, member) in client.members.iter_mut().enumerate() {
        member.address = if at == config.replica.index() { own.clone() } else { nowhere.clone() };
    }
    Ok((client, vec![(config.replica, own)]))
}

/// Queries all replicas of a `client.toml`.
fn of_cluster(directory: &Path) -> Result<Asked, StatusError> {
    let mut client = ClientConfig::load(&directory.join(CLIENT_CONFIG_FILE))?;
    for (at, member) in client.members.iter_mut().enumerate() {
        let replica = ReplicaId(at as u16);
        let path = replica_directory(directory, replica).join(CONFIG_FILE);
        // The directory of a replica that moved to another host may remain here; query that replica at its own host.
        let Ok(config) = NodeConfig::read(&path) else { continue };
        let is_here = config.members.get(at).is_some_and(|own| own.address.is_loopback());
        if config.replica == replica && is_here {
            member.address = asked_at(&config);
        }
    }
    let asked = (0..).map(ReplicaId).zip(client.members.iter().map(|member| member.address.clone())).collect();
    Ok((client, asked))
}

/// Returns the address at which a replica reports its status.
fn asked_at(config: &NodeConfig) -> Address {
    let own = &config.members[config.replica.index()].address;
    let listeners = [&config.admin_listen, &config.client_listen, &config.listen];
    let found = listeners.into_iter().flatten().next().unwrap_or(own);
    // An unspecified address, such as 0.0.0.0, cannot be dialled.
    let is_any = found.socket().is_some_and(|socket| socket.ip().is_unspecified());
    if is_any { SocketAddr::from((Ipv4Addr::LOCALHOST, found.port())).into() } else { found.clone() }
}

impl ClusterStatus {
    pub fn needs_attention(&self) -> bool {
        !self.attention.is_empty() || self.replicas.iter().any(|replica| !replica.attention.is_empty())
    }
}

impl Report for ClusterStatus {
    /// Returns a table with one row per replica, and the problems that need attention.
    fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "replica", "view", "leader", "height", "lag", "peers", "timeouts", "commands", "disk ms", "up",
        ]);
        for ReplicaStatus { replica, status, lag, .. } in &self.replicas {
            let unknown = || "–".to_owned();
            let value = |of: &dyn Fn(&Status) -> String| status.as_ref().map_or_else(unknown, of);
            table.add_row([
                replica.to_string(),
                value(&|status| status.view.to_string()),
                value(&|status| status.leader.to_string()),
                value(&|status| status.height.to_string()),
                lag.map_or_else(unknown, |lag| lag.to_string()),
                value(&|status| format!("{} of {}", status.connected.len(), status.peers)),
                value(&|status| status.view_timeouts.to_string()),
                value(&|status| status.committed_commands.to_string()),
                value(&|status| writes(status)),
                value(&|status| spell(Duration::from_millis(status.uptime_ms))),
            ]);
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        let answered: Vec<&Status> = self.replicas.iter().filter_map(|of| of.status.as_ref()).collect();
        let levels = skew::of_levels(&answered);
        if !levels.is_empty() {
            text.push_str(&format!("\nfeature level\n  {}\n", levels.join("\n  ")));
        }
        if !self.version_skew.is_empty() {
            text.push_str(&format!("\nversions differ\n  {}\n", self.version_skew.join("\n  ")));
        }
        let of_cluster = self.attention.iter().map(|what| format!("the cluster {}", escaped(what)));
        let of_replicas = self
            .replicas
            .iter()
            .flat_map(|of| of.attention.iter().map(move |what| format!("replica {}: {}", of.replica, escaped(what))));
        let attention: Vec<String> = of_cluster.chain(of_replicas).collect();
        if attention.is_empty() {
            text.push_str("\nnothing needs attention\n");
        } else {
            text.push_str(&format!("\nneeds attention\n  {}\n", attention.join("\n  ")));
        }
        text
    }
}

/// Formats the durations of the journal's writes: the median, the 99th percentile and the maximum, in milliseconds.
fn writes(status: &Status) -> String {
    let ms = |us: u64| us as f64 / 1e3;
    let times = status.journal_writes.filter(|times| times.writes > 0);
    times.map_or_else(|| "–".to_owned(), |of| format!("{:.1}/{:.1}/{:.1}", ms(of.p50_us), ms(of.p99_us), ms(of.max_us)))
}

/// Formats a duration in its two largest units.
pub(crate) fn spell(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
