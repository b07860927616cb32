//! Configuration file of clients, `client.toml`.

use crate::comparison::SLOW_KEY;
use crate::session::{DEFAULT_RETRY_MS, SessionOptions};
use quorate_applications::ApplicationKind;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{
    AuthProfile, ClientAuthentication, CryptoError, Identities, Keyring, ReplyAuthentication, SchemeKind,
    genesis_differences,
};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{PacketConfig, QuicConfig, RetransmissionConfig, TransportKind, Wire, WireSettings};
use quorate_types::command::MAX_CLIENT_CODES;
use quorate_types::settings::{check_ranges, explain, keys};
use quorate_types::{
    Choice, Committee, Difference, Dissemination, EpochId, Fault, Genesis, Member, Parameters, Quorum, ReplyMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Timeout for connecting to the cluster, in milliseconds.
pub const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 5_000;
/// Timeout of a request including all retries, in milliseconds.
pub const DEFAULT_REQUEST_TIMEOUT_MS: u64 = 30_000;
/// Maximum of any duration key, in milliseconds: one day.
pub const MAX_DURATION_MS: u64 = 86_400_000;
/// Maximum size of a configuration file, in bytes: several times the size with 256 members of about 2 KiB each.
pub const MAX_CONFIG_BYTES: u64 = 4 << 20;

const HEAD: &str = "Configuration of the clients of one cluster.";
const MEMBERS: &str = "The replicas, in the order of their ids: their addresses, and their public keys for handshakes and \
                       for votes, in hexadecimal.";

/// Name of the file that contains the [`ClientConfig`].
pub const CLIENT_CONFIG_FILE: &str = "client.toml";
/// Name of the first key file written by `quorate testnet`.
pub const CLIENT_KEY_FILE: &str = "client.key";

/// A client's configuration. Unknown keys are refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// The cluster's name. No default.
    pub cluster: String,
    /// The replicas' protocol. Must match the replicas. No default.
    pub protocol: ProtocolKind,
    /// Authentication of the replicas' votes: `pk` (default), `mac` or `domain`. Must match the replicas.
    #[serde(default)]
    pub auth_profile: AuthProfile,
    /// Scheme of the replicas' votes, used to check exports and signed replies. Must match the replicas. Default
    /// `ed25519`.
    #[serde(default = "default_scheme")]
    pub scheme: SchemeKind,
    /// Authentication of commands: `ed25519` (default), where the client signs each bundle with its own key; `mac`,
    /// where each bundle has a MAC for each replica; or `none`. Must match the replicas.
    #[serde(default)]
    pub client_authentication: ClientAuthentication,
    /// Authentication of replies: by the `channel` (default), by a replica's `signature`, or by a MAC (`mac`). Must
    /// match the replicas.
    #[serde(default)]
    pub reply_authentication: ReplyAuthentication,
    /// File of the client's private key, relative to this file's directory, as written by `quorate testnet` and
    /// `quorate keys generate`. Absent: a new key for each run.
    #[schemars(example = CLIENT_KEY_FILE)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// File whose first line is the passphrase of an encrypted `key_file`, relative to this file's directory. Absent:
    /// the environment variable `QUORATE_PASSPHRASE`, or else the terminal.
    #[schemars(example = &"passphrase")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase_file: Option<PathBuf>,
    /// MAC scheme: `hmac-sha256` (default) or `aes-256-cmac`. Must match the replicas.
    #[serde(default = "default_mac_scheme")]
    pub mac_scheme: SchemeKind,
    /// Transport of frames, by default `tcp`. Must match the replicas.
    #[serde(default)]
    pub transport: TransportKind,
    /// Channel that protects the frames, by default `plain`. Must match the replicas.
    #[serde(default)]
    pub channel: ChannelKind,
    /// Settings of the transports over UDP, as in the replicas' configuration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub packets: PacketConfig,
    /// Settings of the transports that retransmit themselves, as in the replicas' configuration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retransmission: RetransmissionConfig,
    /// Settings of the transport `quic`, as in the replicas' configuration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quic: QuicConfig,
    /// Maximum number of lying replicas: a reply counts if one more replica than this gives it. Must match the
    /// replicas. By default floor((n-1)/3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<usize>,
    /// The replicas' application, by default `kv`.
    #[serde(default)]
    pub application: ApplicationKind,
    /// How commands reach the leader: `client` (default: the client sends each bundle to all replicas), `leader`, or
    /// `replicas` or `replicas-certified` (to one replica, which forwards it). Must match the replicas, except that it
    /// is `client` if these have `leader` and rotating leaders.
    #[serde(default)]
    pub dissemination: Dissemination,
    /// Replicas that answer: `each` (default), or `none` except an observer, for measurements only. Must match the
    /// replicas.
    #[serde(default)]
    pub reply: ReplyMode,
    /// Timeout of a bundle's first attempt, in milliseconds, by default 2000. The bundle is then sent again, and the
    /// timeout doubles.
    #[schemars(range(min = 1, max = MAX_DURATION_MS))]
    #[serde(default = "default_retry_ms")]
    pub retry_ms: u64,
    /// Timeout for connecting, in milliseconds, by default 5000.
    #[schemars(range(min = 1, max = MAX_DURATION_MS))]
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// Timeout of a request including all its retries, in milliseconds, by default 30000.
    #[schemars(range(min = 1, max = MAX_DURATION_MS))]
    #[serde(default = "default_request_timeout_ms")]
    pub request_timeout_ms: u64,
    /// The replicas, in the order of their ids. No default.
    pub members: Vec<Member>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_mac_scheme() -> SchemeKind {
    SchemeKind::HMAC_SHA256
}

fn default_scheme() -> SchemeKind {
    SchemeKind::ED25519
}
fn default_retry_ms() -> u64 {
    DEFAULT_RETRY_MS
}
fn default_connect_timeout_ms() -> u64 {
    DEFAULT_CONNECT_TIMEOUT_MS
}
fn default_request_timeout_ms() -> u64 {
    DEFAULT_REQUEST_TIMEOUT_MS
}

/// Error in a configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read {path}: {error}; help: `quorate testnet` writes this file")]
    Read { path: PathBuf, error: std::io::Error },
    /// The file is not a configuration file.
    #[error("{0} is over {MAX_CONFIG_BYTES} bytes or not a regular file, so it is not a client's configuration")]
    NotAConfiguration(PathBuf),
    /// The text is not TOML, or a key is unknown, missing or of the wrong type.
    #[error("{path}: {error}")]
    Syntax { path: PathBuf, error: Box<toml::de::Error> },
    /// A key has an invalid value.
    #[error(transparent)]
    Value(#[from] Fault),
}

impl ClientConfig {
    /// Returns a configuration with defaults for a committee.
    pub fn new(cluster: &str, protocol: ProtocolKind, scheme: SchemeKind, faults: usize, members: &[Member]) -> Self {
        ClientConfig {
            cluster: cluster.to_owned(),
            protocol,
            auth_profile: AuthProfile::default(),
            scheme,
            client_authentication: ClientAuthentication::default(),
            reply_authentication: ReplyAuthentication::default(),
            key_file: None,
            passphrase_file: None,
            mac_scheme: default_mac_scheme(),
            transport: TransportKind::default(),
            channel: ChannelKind::default(),
            packets: PacketConfig::default(),
            retransmission: RetransmissionConfig::default(),
            quic: QuicConfig::default(),
            faults: Some(faults),
            application: ApplicationKind::default(),
            dissemination: Dissemination::default(),
            reply: ReplyMode::default(),
            retry_ms: DEFAULT_RETRY_MS,
            connect_timeout_ms: DEFAULT_CONNECT_TIMEOUT_MS,
            request_timeout_ms: DEFAULT_REQUEST_TIMEOUT_MS,
            members: members.to_vec(),
        }
    }

    /// Reads and validates a file. The key file's path is resolved relative to the file's directory.
    pub fn load(path: &Path) -> Result<ClientConfig, ConfigError> {
        let failed = |error| ConfigError::Read { path: path.to_owned(), error };
        let about = std::fs::metadata(path).map_err(failed)?;
        if !about.is_file() || about.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::NotAConfiguration(path.to_owned()));
        }
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_CONFIG_BYTES).read_to_string(&mut text).map_err(failed)?;
        let mut config = ClientConfig::parse(&text, path)?;
        let home = path.parent().unwrap_or(Path::new(""));
        config.key_file = config.key_file.map(|file| home.join(file));
        config.passphrase_file = config.passphrase_file.map(|file| home.join(file));
        Ok(config)
    }

    /// Parses and validates a file's text. Errors name the file as `path`.
    pub fn parse(text: &str, path: &Path) -> Result<ClientConfig, ConfigError> {
        let config: ClientConfig = toml::from_str(text)
            .map_err(|error| ConfigError::Syntax { path: path.to_owned(), error: Box::new(error) })?;
        config.validate()?;
        Ok(config)
    }

    /// Returns the text of the file, with an explanation of every key.
    pub fn to_toml(&self) -> String {
        let faults = self.faults.or(Some(self.members.len().saturating_sub(1) / 3));
        let text = toml::to_string(&ClientConfig { faults, ..self.clone() }).expect("every setting has a form in TOML");
        explain(&text, keys::<ClientConfig>(), HEAD, MEMBERS)
    }

    /// Checks all values together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_ranges(self).map_err(|fault| fault.at(|path| format!("`{path}`")))?;
        if self.key_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(Fault::new("`key_file`", "is empty", "leave it out, or name a file").into());
        }
        if self.mac_scheme.profile().has_public_keys_only() {
            let what = format!("is {}, which has no codes", self.mac_scheme);
            return Err(Fault::new("`mac_scheme`", what, "choose hmac-sha256 or aes-256-cmac").into());
        }
        if self.client_authentication == ClientAuthentication::Mac && self.members.len() > MAX_CLIENT_CODES {
            let what = format!("is mac, which is for {MAX_CLIENT_CODES} replicas at most");
            return Err(Fault::new("`client_authentication`", what, "use ed25519, here and on the replicas").into());
        }
        self.validate_replies()?;
        let wire = self.wire();
        wire.validate_settings().map_err(|fault| fault.at(|setting| setting.to_string()))?;
        wire.fits().map_err(|fault| fault.at(|key| format!("`{key}`")))?;
        let committee = self.committee()?;
        Identities::new(&committee).map_err(unfit_members)?;
        Keyring::new(self.scheme, &committee).map_err(unfit_members)?;
        for (second, member) in committee.replicas().zip(&self.members) {
            let first = self
                .members
                .iter()
                .position(|other| other.address == member.address)
                .expect("two members have this address");
            if first != second.index() {
                let what = format!("replicas {first} and {second} have the same address {}", member.address);
                return Err(Fault::new("`members`", what, "give each replica an address of its own").into());
            }
        }
        Ok(())
    }

    fn validate_replies(&self) -> Result<(), ConfigError> {
        let fault = |what: String, help| Err(Fault::new("`reply_authentication`", what, help).into());
        match self.reply_authentication {
            ReplyAuthentication::Signature if !self.scheme.profile().unforgeable => fault(
                format!("is signature, but `scheme` is {}, whose signatures prove nothing", self.scheme),
                "set it to channel or mac, here and on the replicas",
            ),
            ReplyAuthentication::Mac if self.client_authentication == ClientAuthentication::None => fault(
                "is mac, but `client_authentication` is none, and codes need a client with a key".to_owned(),
                "set it to channel or signature, here and on the replicas",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the transport and channel to the replicas.
    pub fn wire(&self) -> Wire {
        let (packets, retransmission) = (self.packets, self.retransmission);
        let settings = WireSettings { packets, retransmission, quic: self.quic.clone(), ..WireSettings::default() };
        Wire { transport: self.transport, channel: self.channel, settings }
    }

    /// Returns the committee formed by the members, with the id of the cluster's genesis.
    pub fn committee(&self) -> Result<Committee, ConfigError> {
        Ok(self.genesis()?.committee())
    }

    /// Returns the keys whose values differ in the genesis with this id; empty if they cannot be determined, because
    /// the members' keys, their number or their order differ.
    ///
    /// # Errors
    /// The errors of [`ClientConfig::committee`].
    pub fn genesis_differences(&self, other: &EpochId) -> Result<Vec<Difference>, ConfigError> {
        Ok(genesis_differences(&self.genesis()?, self.mac_scheme, &ProtocolKind::names(), other))
    }

    fn genesis(&self) -> Result<Genesis<'_>, ConfigError> {
        let replicas = self.members.len();
        let quorum = match self.faults {
            // The error computes 3f + 1.
            Some(faults) => Quorum::with_faults(replicas, faults.min(usize::MAX / 4)),
            None => Quorum::of(replicas),
        };
        let quorum = quorum.map_err(|error| {
            Fault::new("`members` and `faults`", error.to_string(), "list all replicas, and lower `faults`")
        })?;
        Ok(Genesis {
            name: &self.cluster,
            quorum,
            members: &self.members,
            protocol: self.protocol.name(),
            scheme: self.scheme.name(),
            profile: self.auth_profile.name(),
            vote_macs: self.auth_profile.votes_by_mac().then(|| self.mac_scheme.name()),
        })
    }

    /// Returns the values, by key, that must match the replicas' in addition to the genesis, for a session with these
    /// options.
    pub(crate) fn terms(&self, session: &SessionOptions) -> Parameters {
        let mut values = vec![
            ("client_authentication", self.client_authentication.to_string()),
            ("reply_authentication", self.reply_authentication.to_string()),
            ("application", self.application.to_string()),
            (SLOW_KEY, session.dissemination.to_string()),
            ("reply", session.reply.to_string()),
        ];
        let uses_codes = self.client_authentication == ClientAuthentication::Mac
            || self.reply_authentication == ReplyAuthentication::Mac;
        if uses_codes {
            values.push(("mac_scheme", self.mac_scheme.to_string()));
        }
        Parameters::new(values)
    }

    /// Returns the options of sessions with this cluster.
    pub fn session(&self) -> Result<SessionOptions, ConfigError> {
        let quorum = self.committee()?.quorum;
        let retry = Duration::from_millis(self.retry_ms);
        let (dissemination, reply) = (self.dissemination, self.reply);
        Ok(SessionOptions { dissemination, reply, retry, ..SessionOptions::new(quorum) })
    }
}

/// Returns the error about members with unusable keys.
fn unfit_members(error: CryptoError) -> Fault {
    Fault::new("`members`", error.to_string(), "copy the keys from the `client.toml` that `quorate testnet` wrote")
}
