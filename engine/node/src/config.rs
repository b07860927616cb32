//! One replica's settings, as in `config.toml`, and their validation.

use crate::client_rules::ClientRules;
use crate::config_file::{ConfigFault, ConfigFileError, Place, parse};
use crate::durability::JournalConfig;
use crate::laboratory::Laboratory;
use crate::log_level::LogLevel;
use crate::monitoring::MonitoringConfig;
use crate::recording::RecordingConfig;
use crate::reproduction::Reproduction;
use crate::signer_config::SignerConfig;
use quorate_applications::MAX_EXECUTION_THREADS;
use quorate_consensus::Config as ConsensusConfig;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{KeySource, SecretCommand, located};
use quorate_crypto::{
    Authentication, ClientAuthentication, IDENTITY_SCHEME, ReplyAuthentication, SchemeKind, genesis_differences,
};
use quorate_hosting::{SharedSettings, shared_settings};
use quorate_network::transports::{LinkConfig, LinkProfile, TcpConfig, Wire, WireSettings};
use quorate_types::limits::{MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES};
use quorate_types::settings::{self, CLUSTER, Flag, RUN, With};
use quorate_types::{
    Address, Choice, Committee, Difference, EpochId, Genesis, Member, Quorum, ReplicaId, ReplicaStages, ReplicaThreads,
    ReplicaWork,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file with the [`NodeConfig`] in a replica's directory.
pub const CONFIG_FILE: &str = "config.toml";
/// Example of `key_command`. The attribute takes no list.
const KEY_COMMAND_EXAMPLE: [&str; 5] = ["vault", "kv", "get", "-field=key", "secret/replica-0"];
/// Default of `key_file`.
pub const KEY_FILE: &str = "private.key";
/// Default of `secret_command_timeout_ms`.
pub const DEFAULT_SECRET_COMMAND_TIMEOUT_MS: u64 = 10_000;
/// Maximum of `secret_command_timeout_ms`: ten minutes.
pub const MAX_SECRET_COMMAND_TIMEOUT_MS: u64 = 600_000;
/// Maximum size of a configuration file; one with 256 members has about 50,000 bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Maximum length of a cluster's name.
pub const MAX_CLUSTER_NAME_CHARACTERS: usize = 200;
/// Bytes of a client's frame in addition to the body of its bundle or question.
const CLIENT_FRAME_OVERHEAD_BYTES: usize = 1 << 10;
/// Default of `reply_cache_bytes`.
pub use quorate_hosting::DEFAULT_REPLY_CACHE_BYTES;

shared_settings! {
    /// One replica's settings. Unknown keys are refused; all keys except `cluster`, `replica` and `members` have
    /// defaults.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct NodeConfig {
        /// Id of this replica: its position in `members`, from 0.
        #[schemars(with = "u16")]
        pub replica: ReplicaId,
        /// Whether a scheme may be too weak for a cluster that has to be safe, such as `rsa-1024`.
        #[serde(default)]
        #[schemars(extend("x-flag" = Flag::under(CLUSTER).rare(), "x-with" = With::one("scheme", &["rsa-1024"])))]
        pub accept_weak_scheme: bool,
        /// Threads that the replica works on, or `auto`: its share of the machine's cores among the members at its
        /// address, up to 4, as far as the work gains from it. In PBFT that is all of them, but 1 of 2 if clients do
        /// not sign; in protocols with a chain of blocks 2 if clients sign, otherwise 1. With 1, one thread does
        /// everything in turn, which costs the least CPU. With 2, the second verifies signatures if clients sign, and
        /// otherwise drives the network. With more, one drives the network, and the rest verify.
        #[serde(default)]
        #[schemars(extend("x-flag" = Flag::under(CLUSTER).value("auto|THREADS")))]
        pub replica_threads: ReplicaThreads,
        /// Threads that execute commands: costly commands of a block that do not conflict are prepared at the
        /// same time. Results are the same with any number, which may differ between replicas.
        #[schemars(range(min = 1, max = MAX_EXECUTION_THREADS))]
        #[schemars(extend("x-flag" = Flag::under(RUN).value("THREADS").rare()))]
        #[serde(default = "default_execution_threads")]
        #[schemars(extend("x-real" = true))]
        pub execution_threads: u16,
        /// Whether the cost of each stage of the replica's work is measured, such as decoding and hashing, for every
        /// kind of message. The status has it.
        #[schemars(extend("x-flag" = Flag::under(RUN).rare()))]
        #[serde(default)]
        pub stages: bool,
        /// Maximum bytes of replies cached for clients that retry.
        #[serde(default = "default_reply_cache_bytes")]
        pub reply_cache_bytes: usize,
        /// File of the private keys, relative to the configuration's directory, or `credential:NAME` for a systemd
        /// credential.
        #[serde(default = "default_key_file")]
        pub key_file: PathBuf,
        /// Command that writes the text of a key file to its standard output, in place of `key_file`: the program and
        /// its arguments. No shell runs it; it has the replica's environment and no input.
        #[schemars(example = KEY_COMMAND_EXAMPLE)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key_command: Option<Vec<String>>,
        /// File whose first line is the passphrase of an encrypted key file, relative to the configuration's directory,
        /// or `credential:NAME`. Absent: `passphrase_command`, or else the environment variable `QUORATE_PASSPHRASE`,
        /// or else the terminal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub passphrase_file: Option<PathBuf>,
        /// Command whose first line of output is the passphrase of an encrypted key file, run like `key_command`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub passphrase_command: Option<Vec<String>>,
        /// Maximum duration of `key_command` and of `passphrase_command`, in milliseconds; then the command is killed,
        /// and the replica does not start.
        #[schemars(range(min = 1, max = MAX_SECRET_COMMAND_TIMEOUT_MS))]
        #[schemars(extend("x-with" = With::other("key_command", &["absent"])
            .or(With::other("passphrase_command", &["absent"]))))]
        #[serde(default = "default_secret_command_timeout_ms")]
        pub secret_command_timeout_ms: u64,
        /// Minimum levels to log, by target, as for `--log-level`, which overrides them until SIGHUP. Absent: the flag,
        /// or `info`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub log_level: Option<LogLevel>,
        /// Address to listen on for peers, if it differs from this replica's address in `members`: behind a NAT,
        /// `0.0.0.0:port`.
        #[schemars(with = "Option<String>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub listen: Option<Address>,
        /// Address to listen on for clients. Absent: the same as for peers, so that a firewall cannot tell them apart.
        #[schemars(with = "Option<String>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub client_listen: Option<Address>,
        /// Address to listen on for operators, who ask for the status (`quorate status`) and the support of feature
        /// levels (`quorate level`) without authentication. Absent: none, and only the clients' listener reports the
        /// status.
        #[schemars(with = "Option<String>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub admin_listen: Option<Address>,
        /// Whether other hosts may reach `admin_listen`.
        #[schemars(extend("x-with" = With::other("admin_listen", &["absent"])))]
        #[serde(default)]
        pub admin_beyond_loopback: bool,
        /// The listener for monitors and supervisors; see [`MonitoringConfig`].
        #[serde(default, alias = "admin")]
        pub monitoring: MonitoringConfig,
        /// Another process that signs the votes; see [`SignerConfig`].
        #[serde(default)]
        pub signer: SignerConfig,
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
    }
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

fn default_secret_command_timeout_ms() -> u64 {
    DEFAULT_SECRET_COMMAND_TIMEOUT_MS
}

impl NodeConfig {
    /// Returns the defaults for replica 0 of a cluster without members: the template for
    /// [`generate`](crate::testnet::generate).
    pub fn template(cluster: &str) -> NodeConfig {
        let required = json!({ "cluster": cluster, "replica": 0, "members": [] });
        serde_json::from_value(required).expect("the other keys have defaults")
    }

    /// Returns the settings that clients of a cluster of these members have in common with its replicas.
    pub fn of_clients(&self, committee: &Committee) -> SharedSettings {
        let (faults, members) = (Some(committee.quorum.faults()), committee.members.clone());
        SharedSettings { faults, members, ..self.shared() }
    }

    /// Reads and validates the configuration file of a replica's directory.
    ///
    /// # Errors
    /// [`ConfigFileError`] with the file, the line and the key if known, what is wrong and what to do.
    pub fn read(path: &Path) -> Result<NodeConfig, ConfigFileError> {
        let text = crate::config_file::read_text(path, MAX_CONFIG_BYTES)?;
        NodeConfig::from_toml(&text, path)
    }

    /// Does the same with the text of a file; errors name it `path`. A key that is set and has no effect is an error.
    pub fn from_toml(text: &str, path: &Path) -> Result<NodeConfig, ConfigFileError> {
        let config: NodeConfig = parse(text, path)?;
        let check =
            config.validate().and_then(|()| settings::check_effects(&config).map_err(|fault| fault.at(Place::of)));
        check.map_err(|fault| ConfigFileError::at_key(path, text, fault))?;
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
        for (key, command) in [("key_command", &self.key_command), ("passphrase_command", &self.passphrase_command)] {
            if command.as_ref().is_some_and(|words| words.first().is_none_or(String::is_empty)) {
                let help = "leave it out, or write a list of a program and its arguments";
                return fault(Place::key(key), "names no program".into(), help);
            }
        }
        let both = |key, other: &str| {
            let what = format!("has no effect, because `{other}` is set");
            fault(Place::key(key), what, "leave one of the two out")
        };
        if self.key_command.is_some() && self.key_file != default_key_file() {
            return both("key_file", "key_command");
        }
        if self.passphrase_command.is_some() && self.passphrase_file.is_some() {
            return both("passphrase_file", "passphrase_command");
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
        let listeners = [
            ("client_listen", &self.client_listen),
            ("admin_listen", &self.admin_listen),
            ("monitoring.address", &self.monitoring.address),
        ];
        let mut earlier = vec![("listen", own)];
        for (key, address) in listeners {
            let Some(address) = address else { continue };
            if let Some((other, _)) = earlier.iter().find(|(_, other)| *other == address && address.port() != 0) {
                let what = format!("is {address}, the same as `{other}`");
                let help = "use another port".to_owned();
                return Err(ConfigFault { place: Place::of(key), what, help });
            }
            earlier.push((key, address));
        }
        self.monitoring.address.iter().try_for_each(|address| self.monitoring.check_reach(address))?;
        match self.admin_listen.as_ref().filter(|address| !address.is_loopback() && !self.admin_beyond_loopback) {
            Some(address) => Err(admin_fault(address)),
            None => Ok(()),
        }
    }

    /// Checks that all uses of the voting key are statements that a signer can judge.
    fn validate_signer(&self) -> Result<(), ConfigFault> {
        let Some(socket) = &self.signer.socket else { return Ok(()) };
        let fault = |what: String, help: &str| {
            Err(ConfigFault { place: Place::in_table("signer", "socket"), what, help: help.to_owned() })
        };
        let profile = self.scheme.profile();
        if socket.as_os_str().is_empty() {
            return fault("is empty".into(), "leave it out, or name the socket of a signer");
        }
        if !profile.unforgeable || !profile.has_public_keys_only() {
            let what = format!("is set, but votes in the scheme {} have no signatures", self.scheme);
            return fault(what, "leave it out, or set `scheme` to ed25519 in a new cluster");
        }
        if self.auth_profile.votes_by_mac() {
            let what = format!("is set, but with `auth_profile` {} the identity key protects votes", self.auth_profile);
            return fault(what, "leave it out, or set `auth_profile` to pk in a new cluster");
        }
        if self.reply_authentication == ReplyAuthentication::Signature {
            let what = "is set, but the voting key also signs replies: `reply_authentication` is signature".to_owned();
            return fault(what, "leave it out, or set `reply_authentication` to channel or mac");
        }
        Ok(())
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

    /// Returns the source of the private keys, for a configuration in `home`.
    pub fn key_source(&self, home: &Path) -> KeySource {
        match &self.key_command {
            Some(words) => KeySource::Command(self.secret_command("key_command", words)),
            None => KeySource::File(located(home, &self.key_file)),
        }
    }

    /// Returns the sources of the passphrase of an encrypted key file, for a configuration in `home`.
    pub fn passphrases(&self, home: &Path) -> Passphrases {
        Passphrases {
            file: self.passphrase_file.as_ref().map(|file| located(home, file)),
            command: self.passphrase_command.as_ref().map(|words| self.secret_command("passphrase_command", words)),
        }
    }

    fn secret_command(&self, key: &'static str, words: &[String]) -> SecretCommand {
        SecretCommand { key, words: words.to_vec(), timeout: Duration::from_millis(self.secret_command_timeout_ms) }
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
        self.validate_signer()?;
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
