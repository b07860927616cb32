//! One replica's settings, as in `config.toml`, and their validation.

use crate::client_rules::ClientRules;
use crate::config_file::{ConfigFault, ConfigFileError, Place, parse};
use crate::durability::JournalConfig;
use crate::laboratory::Laboratory;
use crate::recording::RecordingConfig;
use crate::reproduction::Reproduction;
use quorate_applications::{ApplicationKind, MAX_EXECUTION_THREADS};
use quorate_consensus::Config as ConsensusConfig;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{
    AuthProfile, Authentication, ClientAuthentication, IDENTITY_SCHEME, ReplyAuthentication, SchemeKind,
    genesis_differences,
};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{
    LinkConfig, LinkProfile, PacketConfig, QuicConfig, RetransmissionConfig, TcpConfig, TransportKind, Wire,
    WireSettings,
};
use quorate_types::limits::{MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES};
use quorate_types::settings::{self, CLUSTER, Flag, LOAD, RUN};
use quorate_types::{
    Address, Choice, Committee, Difference, EpochId, Genesis, Member, Quorum, ReplicaId, ReplicaStages, ReplicaThreads,
    ReplicaWork, ReplyMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Name of the file with the [`NodeConfig`] in a replica's directory.
pub const CONFIG_FILE: &str = "config.toml";
/// Default of `key_file`.
pub const KEY_FILE: &str = "private.key";
/// Maximum size of a configuration file; one with 256 members has about 50,000 bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Maximum length of a cluster's name.
pub const MAX_CLUSTER_NAME_CHARACTERS: usize = 200;
/// Bytes of a client's frame in addition to the body of its bundle or question.
const CLIENT_FRAME_OVERHEAD_BYTES: usize = 1 << 10;
/// Default of `reply_cache_bytes`.
pub use quorate_hosting::DEFAULT_REPLY_CACHE_BYTES;

/// One replica's settings. Unknown keys are refused; all keys except `cluster`, `replica` and `members` have defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name of the cluster. Replicas' signatures are invalid in every cluster that has another name, another member,
    /// key or order of members, or other `faults`, `protocol` or schemes. Clients' signatures depend on the name alone.
    #[schemars(extend("x-cluster" = "shown"))]
    pub cluster: String,
    /// Id of this replica: its position in `members`, from 0.
    #[schemars(with = "u16")]
    pub replica: ReplicaId,
    /// Number of replicas that may be faulty. Default: the maximum for the number of members, floor((n-1)/3).
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("F")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<usize>,
    /// Signature scheme of the replicas' votes: `ed25519`, `ecdsa-p256`, `secp256k1`, `bls12-381`, `rsa-2048`, or for
    /// measurements the weak `rsa-1024`, or `none`. The same on all replicas. Default `ed25519`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).common()))]
    #[serde(default = "default_scheme")]
    pub scheme: SchemeKind,
    /// What authenticates which messages. `pk`: signatures on votes. `mac` and `domain`: message authentication
    /// codes on votes, and signatures on what is shown to third parties, with the protocol `pbft-mac`. The same on
    /// all replicas. Default `pk`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER)))]
    #[serde(default)]
    pub auth_profile: AuthProfile,
    /// Scheme of the codes: `hmac-sha256` or `aes-256-cmac`. The same on all replicas. Default `hmac-sha256`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).rare()))]
    #[serde(default = "default_mac_scheme")]
    pub mac_scheme: SchemeKind,
    /// Whether a scheme may be too weak for a cluster that has to be safe, such as `rsa-1024`. Default `false`.
    #[serde(default)]
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).rare()))]
    pub accept_weak_scheme: bool,
    /// Threads that the replica works on, from 1 to 64, or `auto`: its share of the machine's cores among the members
    /// at its address, up to 4, as far as the work gains from it. In PBFT that is all of them, but 1 of 2 if clients do
    /// not sign; in protocols with a chain of blocks 2 if clients sign, otherwise 1. With 1, one thread does everything
    /// in turn, which costs the least CPU. With 2, the second verifies signatures if clients sign, and otherwise drives
    /// the network. With more, one drives the network, and the rest verify. Default 1.
    #[serde(default)]
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).value("auto|THREADS")))]
    pub replica_threads: ReplicaThreads,
    /// Authentication of clients' bundles. `ed25519`: the client signs each bundle with its key, and unsigned bundles
    /// are refused. `mac`, with the profile `mac`: each bundle has a code for each replica. `none`, for measurements:
    /// anyone can submit bundles in any client's name. The same on all replicas. Default `ed25519`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER)))]
    #[serde(default)]
    pub client_authentication: ClientAuthentication,
    /// Authentication of replies to clients. `channel`: by the channel alone. `signature`: the replica signs, with its
    /// key of `scheme`, the replies that leave to one client together, and the client can show them to others. `mac`:
    /// the replica adds a code of `mac_scheme` for the client. The same on all replicas and clients. Default `channel`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).rare()))]
    #[serde(default)]
    pub reply_authentication: ReplyAuthentication,
    /// Transport of frames. Default `tcp`.
    #[schemars(extend("x-cluster" = "shown", "x-flag" = Flag::under(CLUSTER).common()))]
    #[serde(default)]
    pub transport: TransportKind,
    /// Channel that protects the frames. Default `plain`.
    #[schemars(extend("x-cluster" = "shown", "x-flag" = Flag::under(CLUSTER).common()))]
    #[serde(default)]
    pub channel: ChannelKind,
    /// Application that executes the commands: `kv` or `log`. Default `kv`.
    #[schemars(extend("x-cluster" = true))]
    #[serde(default)]
    pub application: ApplicationKind,
    /// Threads that execute commands, up to 64: costly commands of a block that do not conflict are prepared at the same
    /// time. Results are the same with any number, which may differ between replicas. Default 1.
    #[schemars(range(min = 1, max = MAX_EXECUTION_THREADS))]
    #[schemars(extend("x-flag" = Flag::under(RUN).value("THREADS").rare()))]
    #[serde(default = "default_execution_threads")]
    #[schemars(extend("x-real" = true))]
    pub execution_threads: u16,
    /// Whether the cost of each stage of the replica's work is measured, such as decoding and hashing, for every kind of
    /// message. The status has it.
    #[schemars(extend("x-flag" = Flag::under(RUN).rare()))]
    #[serde(default)]
    pub stages: bool,
    /// Replies to clients: from `each` replica, or `none` except acknowledgements of replica 0, for measurements.
    /// Default `each`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(LOAD)))]
    #[serde(default)]
    pub reply: ReplyMode,
    /// Maximum bytes of replies cached for clients that retry. Default 16 MiB.
    #[serde(default = "default_reply_cache_bytes")]
    pub reply_cache_bytes: usize,
    /// File of the private keys, relative to the configuration's directory. Default `private.key`.
    #[serde(default = "default_key_file")]
    pub key_file: PathBuf,
    /// File whose first line is the passphrase of an encrypted `key_file`, relative to the configuration's directory.
    /// Absent: the environment variable `QUORATE_PASSPHRASE`, or else the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase_file: Option<PathBuf>,
    /// Address to listen on for peers, if it differs from this replica's address in `members`: behind a NAT,
    /// `0.0.0.0:port`.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<Address>,
    /// Address to listen on for clients. Absent: the same as for peers, so that a firewall cannot tell them apart.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_listen: Option<Address>,
    /// Address to listen on for operators, who ask for the status (`quorate status`) without authentication. Absent:
    /// none, and only the clients' listener reports the status.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_listen: Option<Address>,
    /// Whether other hosts may reach `admin_listen`. Default `false`.
    #[serde(default)]
    pub admin_beyond_loopback: bool,
    /// Which clients are served, and how much; see [`ClientRules`].
    #[serde(default)]
    pub clients: ClientRules,
    /// Settings of the consensus core; see [`quorate_consensus::Config`].
    #[serde(default)]
    pub consensus: ConsensusConfig,
    /// Settings of links for all transports; see [`LinkConfig`].
    #[serde(default)]
    pub links: LinkConfig,
    /// Settings of the TCP transport; see [`TcpConfig`].
    #[serde(default)]
    pub tcp: TcpConfig,
    /// Settings of the transports over UDP; see [`PacketConfig`].
    #[serde(default)]
    pub packets: PacketConfig,
    /// Settings of the transports that retransmit themselves; see [`RetransmissionConfig`].
    #[serde(default)]
    pub retransmission: RetransmissionConfig,
    /// Settings of the QUIC transport; see [`QuicConfig`].
    #[serde(default)]
    pub quic: QuicConfig,
    /// Settings of the journal; see [`JournalConfig`].
    #[serde(default)]
    pub journal: JournalConfig,
    /// Injected misbehaviour, for experiments. Absent in every honest configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laboratory: Option<Laboratory>,
    /// Slower ways of working that reproduce figures of single papers; see [`Reproduction`].
    #[cfg(feature = "laboratory")]
    #[serde(default)]
    pub reproduction: Reproduction,
    /// Recording of this replica's inputs and outputs. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingConfig>,
    /// The committee, in the order of the replica ids.
    pub members: Vec<Member>,
}

fn default_scheme() -> SchemeKind {
    SchemeKind::ED25519
}

fn default_mac_scheme() -> SchemeKind {
    SchemeKind::HMAC_SHA256
}

fn default_execution_threads() -> u16 {
    1
}

fn default_reply_cache_bytes() -> usize {
    DEFAULT_REPLY_CACHE_BYTES
}

fn default_key_file() -> PathBuf {
    KEY_FILE.into()
}

impl NodeConfig {
    /// Defaults for replica 0 of a cluster without members: the template for [`generate`](crate::testnet::generate).
    pub fn template(cluster: &str) -> NodeConfig {
        NodeConfig {
            cluster: cluster.to_owned(),
            replica: ReplicaId(0),
            faults: None,
            scheme: default_scheme(),
            auth_profile: AuthProfile::default(),
            mac_scheme: default_mac_scheme(),
            accept_weak_scheme: false,
            replica_threads: ReplicaThreads::default(),
            client_authentication: ClientAuthentication::default(),
            reply_authentication: ReplyAuthentication::default(),
            transport: TransportKind::default(),
            channel: ChannelKind::default(),
            application: ApplicationKind::default(),
            execution_threads: default_execution_threads(),
            stages: false,
            reply: ReplyMode::default(),
            reply_cache_bytes: DEFAULT_REPLY_CACHE_BYTES,
            key_file: default_key_file(),
            passphrase_file: None,
            listen: None,
            client_listen: None,
            admin_listen: None,
            admin_beyond_loopback: false,
            clients: ClientRules::default(),
            consensus: ConsensusConfig::default(),
            links: LinkConfig::default(),
            tcp: TcpConfig::default(),
            packets: PacketConfig::default(),
            retransmission: RetransmissionConfig::default(),
            quic: QuicConfig::default(),
            journal: JournalConfig::default(),
            laboratory: None,
            #[cfg(feature = "laboratory")]
            reproduction: Reproduction::default(),
            recording: None,
            members: Vec::new(),
        }
    }

    /// Reads and validates the configuration file of a replica's directory.
    ///
    /// # Errors
    /// [`ConfigFileError`] with the file, the line and the key if known, what is wrong and what to do.
    pub fn read(path: &Path) -> Result<NodeConfig, ConfigFileError> {
        let text = crate::config_file::read_text(path, MAX_CONFIG_BYTES)?;
        NodeConfig::from_toml(&text, path)
    }

    /// Does the same with the text of a file; errors name it `path`.
    pub fn from_toml(text: &str, path: &Path) -> Result<NodeConfig, ConfigFileError> {
        let config: NodeConfig = parse(text, path)?;
        config.validate().map_err(|fault| ConfigFileError::at_key(path, text, fault))?;
        Ok(config)
    }

    /// Validates the settings. The error names the key.
    pub fn validate(&self) -> Result<(), ConfigFault> {
        let fault = |place: Place, what: String, help: &str| Err(ConfigFault { place, what, help: help.to_owned() });
        let characters = self.cluster.chars().count();
        if characters == 0 || characters > MAX_CLUSTER_NAME_CHARACTERS {
            let help = format!("use between 1 and {MAX_CLUSTER_NAME_CHARACTERS}");
            return fault(Place::key("cluster"), format!("has {characters} characters"), &help);
        }
        self.quorum()?;
        let count = self.members.len();
        if self.replica.index() >= count {
            let what = format!("is {}, but the members are 0 to {}", self.replica, count - 1);
            return fault(Place::key("replica"), what, "set one of these, or add the missing members");
        }
        if self.key_file.as_os_str().is_empty() {
            return fault(Place::key("key_file"), "is empty".into(), "leave it out for the default");
        }
        settings::check_ranges(self).map_err(|fault| fault.at(Place::of))?;
        self.validate_members()?;
        self.validate_listeners()?;
        self.validate_parts()
    }

    fn validate_members(&self) -> Result<(), ConfigFault> {
        const OWN: &str = "give every replica keys and an address of its own";
        const COPY: &str = "copy it from that replica's key file";
        let fault =
            |at, key, what, help: &str| Err(ConfigFault { place: Place::member(at, key), what, help: help.into() });
        let mut seen = BTreeSet::new();
        for (at, member) in self.members.iter().enumerate() {
            let keys = [
                ("identity_key", &member.identity_key, IDENTITY_SCHEME),
                ("voting_key", &member.voting_key, self.scheme),
            ];
            for (key, value, scheme) in keys {
                let expected = scheme.profile().public_key_bytes;
                if value.len() != expected {
                    let what = format!("has {} bytes, but keys of {scheme} have {expected}", value.len());
                    return fault(at, key, what, COPY);
                }
                if expected > 0 && !seen.insert(value) {
                    return fault(at, key, "is already listed as another key".into(), OWN);
                }
            }
            if self.scheme.profile().needs_possession && member.possession.is_empty() {
                let what = format!("is missing, but the scheme {} requires it", self.scheme);
                return fault(at, "possession", what, "copy it from the configuration that `quorate testnet` wrote");
            }
            if member.address.port() != 0 && self.members[..at].iter().any(|other| other.address == member.address) {
                return fault(at, "address", format!("{} is also another member's address", member.address), OWN);
            }
        }
        Ok(())
    }

    fn validate_listeners(&self) -> Result<(), ConfigFault> {
        let own = self.listen.as_ref().unwrap_or(&self.members[self.replica.index()].address);
        let listeners = [("client_listen", &self.client_listen), ("admin_listen", &self.admin_listen)];
        let mut earlier = vec![("listen", own)];
        for (key, address) in listeners {
            let Some(address) = address else { continue };
            if let Some((other, _)) = earlier.iter().find(|(_, other)| *other == address && address.port() != 0) {
                let what = format!("is {address}, the same as `{other}`");
                let help = "use another port".to_owned();
                return Err(ConfigFault { place: Place::key(key), what, help });
            }
            earlier.push((key, address));
        }
        match self.admin_listen.as_ref().filter(|address| !address.is_loopback() && !self.admin_beyond_loopback) {
            Some(address) => Err(admin_fault(address)),
            None => Ok(()),
        }
    }

    /// Returns the table `[reproduction]`; its defaults in a program without that table.
    pub(crate) fn reproduction(&self) -> Reproduction {
        #[cfg(feature = "laboratory")]
        return self.reproduction;
        #[cfg(not(feature = "laboratory"))]
        Reproduction::default()
    }

    /// Returns whether the laboratory has the replica send copies of its messages.
    pub(crate) fn copies_messages(&self) -> bool {
        #[cfg(feature = "laboratory")]
        return self.reproduction.copies.any();
        #[cfg(not(feature = "laboratory"))]
        false
    }

    /// Returns the scheme with the way of verification that `[reproduction]` sets.
    pub fn signatures(&self) -> SchemeKind {
        self.reproduction().bls_verification.of(self.scheme)
    }

    /// Returns what authenticates messages between replicas.
    pub fn authentication(&self) -> Authentication {
        Authentication {
            profile: self.auth_profile,
            scheme: self.scheme,
            mac_scheme: self.mac_scheme,
            clients: self.client_authentication,
            replies: self.reply_authentication,
            replicas: self.members.len(),
        }
    }

    /// Returns what decides how many threads the replica gains from.
    pub(crate) fn work(&self) -> ReplicaWork {
        ReplicaWork {
            clients_sign: self.client_authentication == ClientAuthentication::Ed25519,
            blocks_overlap: self.consensus.protocol.has_slots(),
        }
    }

    /// Returns the stages of the replica that have threads of their own, on a machine with `cores`.
    pub(crate) fn threads(&self, cores: usize) -> ReplicaStages {
        let host = |member: &Member| member.address.with_port(0);
        let own = host(&self.members[self.replica.index()]);
        let here = self.members.iter().filter(|member| host(member) == own).count();
        let clients_sign = self.client_authentication == ClientAuthentication::Ed25519;
        ReplicaStages::of(self.replica_threads.of(cores, here, self.work()), clients_sign)
    }

    fn validate_parts(&self) -> Result<(), ConfigFault> {
        if let Some(why) = self.scheme.profile().weakness.filter(|_| !self.accept_weak_scheme) {
            return Err(ConfigFault {
                place: Place::key("scheme"),
                what: format!("is {}, which is weak: {why}", self.scheme),
                help: "choose another scheme, or set `accept_weak_scheme = true` for measurements".into(),
            });
        }
        self.consensus.validate().map_err(|fault| fault.at(|key| Place::in_table("consensus", key)))?;
        let protocol = self.consensus.protocol;
        #[cfg(feature = "laboratory")]
        self.reproduction
            .copies
            .validate(protocol)
            .map_err(|fault| fault.at(|key| Place::in_table("reproduction.copies", key)))?;
        self.authentication()
            .check(protocol.name(), protocol.requires(), protocol.requires_of_votes())
            .map_err(|fault| fault.at(Place::key))?;
        self.clients.validate(self.client_authentication)?;
        self.journal.validate(self.consensus.batch_bytes)?;
        let wire = self.wire();
        wire.validate_settings().map_err(|fault| fault.at(|setting| Place::in_table(setting.table, setting.key)))?;
        wire.fits().map_err(|fault| fault.at(Place::key))?;
        let is_unknown = |link: &&LinkProfile| link.ends()[1].index() >= self.members.len();
        if let Some(link) = self.links.retransmission.iter().find(is_unknown) {
            return Err(ConfigFault {
                place: Place::in_table("links", "retransmission"),
                what: format!("names the link {link}, but one of its ends is not a member"),
                help: "members count from 0".into(),
            });
        }
        if let Some(recording) = &self.recording {
            recording.validate()?;
        }
        match &self.laboratory {
            Some(laboratory) => laboratory.validate(self.replica, self.members.len()),
            None => Ok(()),
        }
    }

    /// Returns the transport and channel. Unless the maximum length of a client's frame is set, it is that of the
    /// largest accepted bundle.
    pub fn wire(&self) -> Wire {
        let mut links = self.links.clone();
        if links.client_frame_bytes == 0 {
            let longest = self.consensus.batch_bytes.max(MAX_PAYLOAD_BYTES);
            links.client_frame_bytes = (longest + CLIENT_FRAME_OVERHEAD_BYTES).min(MAX_FRAME_BYTES);
        }
        let (mut packets, retransmission) = (self.packets, self.retransmission);
        // The loss of one message should not take another one with it: copies are no use otherwise, and the model of a
        // protocol without repairs counts single messages.
        packets.frames_apart |= self.copies_messages() || !self.consensus.protocol.facts().repairs_losses;
        let settings = WireSettings { links, tcp: self.tcp.clone(), packets, retransmission, quic: self.quic.clone() };
        Wire { transport: self.transport, channel: self.channel, settings }
    }

    /// Returns the number of replicas and of faults.
    pub fn quorum(&self) -> Result<Quorum, ConfigFault> {
        let quorum = match self.faults {
            Some(faults) => Quorum::with_faults(self.members.len(), faults),
            None => Quorum::of(self.members.len()),
        };
        quorum.map_err(|error| ConfigFault {
            place: Place::key(if self.faults.is_some() && !self.members.is_empty() { "faults" } else { "members" }),
            what: error.to_string(),
            help: "list every replica once under [[members]], and leave `faults` out for the maximum".into(),
        })
    }

    /// Returns the committee of the members, with the id of the cluster's genesis.
    pub fn committee(&self) -> Result<Committee, ConfigFault> {
        Ok(self.genesis()?.committee())
    }

    /// Returns the keys whose values differ in the genesis with this id; empty if it cannot be told, because its name,
    /// its members or their keys differ.
    pub fn genesis_differences(&self, other: &EpochId) -> Result<Vec<Difference>, ConfigFault> {
        Ok(genesis_differences(&self.genesis()?, self.mac_scheme, &ProtocolKind::names(), other))
    }

    fn genesis(&self) -> Result<Genesis<'_>, ConfigFault> {
        Ok(Genesis {
            name: &self.cluster,
            quorum: self.quorum()?,
            members: &self.members,
            protocol: self.consensus.protocol.name(),
            scheme: self.scheme.name(),
            profile: self.auth_profile.name(),
            vote_macs: self.vote_macs().map(SchemeKind::name),
        })
    }

    /// Returns the scheme of the MACs on votes, if they carry any.
    pub fn vote_macs(&self) -> Option<SchemeKind> {
        self.auth_profile.votes_by_mac().then_some(self.mac_scheme)
    }
}

/// Returns the error for an operators' listener that other hosts may reach.
pub(crate) fn admin_fault(address: &Address) -> ConfigFault {
    ConfigFault {
        place: Place::key("admin_listen"),
        what: format!("is {address}, which other hosts may reach, but this listener has no authentication"),
        help: format!(
            "use 127.0.0.1:{}, or set `admin_beyond_loopback = true` if a firewall protects it",
            address.port()
        ),
    }
}
