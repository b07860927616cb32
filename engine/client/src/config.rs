//! Configuration file of clients, `client.toml`.

use crate::session::{DEFAULT_RETRY_MS, SessionOptions};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::key_file::located;
use quorate_crypto::{
    ClientAuthentication, CryptoError, Identities, Keyring, ReplyAuthentication, SchemeKind, genesis_differences,
};
use quorate_hosting::{SharedSettings, client_terms, shared_settings};
use quorate_network::transports::{Wire, WireSettings};
use quorate_types::command::MAX_CLIENT_MACS;
use quorate_types::settings::{check_effects, check_ranges, explain, keys, tree};
use quorate_types::{
    Choice, Committee, Difference, Dissemination, EpochId, Fault, Genesis, Member, Parameters, Quorum,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
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
const MEMBERS: &str = "The replicas, in the order of their ids: their addresses, and their public keys for handshakes \
                       and for votes, in hexadecimal.";

/// Name of the file that contains the [`ClientConfig`].
pub const CLIENT_CONFIG_FILE: &str = "client.toml";
/// Name of the first key file written by `quorate testnet`.
pub const CLIENT_KEY_FILE: &str = "client.key";

shared_settings! {
    /// A client's configuration. Unknown keys are refused.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ClientConfig {
        /// The replicas' protocol.
        pub protocol: ProtocolKind,
        /// File of the client's private key, relative to this file's directory, which `quorate testnet` and
        /// `quorate keys generate` write, or `credential:NAME` for a systemd credential. Absent: a new key for each
        /// run.
        #[schemars(example = CLIENT_KEY_FILE)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key_file: Option<PathBuf>,
        /// File whose first line is the passphrase of an encrypted `key_file`, relative to this file's directory, or
        /// `credential:NAME`. Absent: the environment variable `QUORATE_PASSPHRASE`, or else the terminal.
        #[schemars(example = &"passphrase")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub passphrase_file: Option<PathBuf>,
        /// How commands reach the leader. With `client`, the client sends each bundle to all replicas; with `replicas`
        /// and `replicas-certified` to one, which sends it on. As on the replicas, but `client` where these have
        /// `leader` and leaders that rotate.
        #[serde(default)]
        pub dissemination: Dissemination,
        /// Timeout of a bundle's first attempt, in milliseconds. The bundle is then sent again, and the timeout
        /// doubles.
        #[schemars(range(min = 1, max = MAX_DURATION_MS))]
        #[serde(default = "default_retry_ms")]
        pub retry_ms: u64,
        /// Timeout for connecting, in milliseconds.
        #[schemars(range(min = 1, max = MAX_DURATION_MS))]
        #[serde(default = "default_connect_timeout_ms")]
        pub connect_timeout_ms: u64,
        /// Timeout of a request including all its retries, in milliseconds.
        #[schemars(range(min = 1, max = MAX_DURATION_MS))]
        #[serde(default = "default_request_timeout_ms")]
        pub request_timeout_ms: u64,
    }
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
        let required = json!({ "cluster": cluster, "protocol": protocol, "members": [] });
        let config: ClientConfig = serde_json::from_value(required).expect("the other keys have defaults");
        ClientConfig { scheme, faults: Some(faults), members: members.to_vec(), ..config }
    }

    /// Returns the configuration of clients of replicas with these settings.
    pub fn of(protocol: ProtocolKind, dissemination: Dissemination, shared: SharedSettings) -> ClientConfig {
        let mut config = ClientConfig::new(&shared.cluster, protocol, shared.scheme, 0, &[]);
        config.set_shared(shared);
        ClientConfig { dissemination, ..config }
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
        config.key_file = config.key_file.map(|file| located(home, &file));
        config.passphrase_file = config.passphrase_file.map(|file| located(home, &file));
        Ok(config)
    }

    /// Parses and checks a file's text. A key that is set and has no effect is an error. Errors name the file as
    /// `path`.
    pub fn parse(text: &str, path: &Path) -> Result<ClientConfig, ConfigError> {
        let config: ClientConfig = toml::from_str(text)
            .map_err(|error| ConfigError::Syntax { path: path.to_owned(), error: Box::new(error) })?;
        config.validate()?;
        check_effects(&config).map_err(|fault| fault.at(|path| format!("`{path}`")))?;
        Ok(config)
    }

    /// Returns the text of the file, with an explanation of every key.
    pub fn to_toml(&self) -> String {
        let faults = self.faults.or(Some(self.members.len().saturating_sub(1) / 3));
        let text = toml::to_string(&ClientConfig { faults, ..self.clone() }).expect("every setting has a form in TOML");
        explain(&text, &tree(self), keys::<ClientConfig>(), HEAD, MEMBERS)
    }

    /// Checks all values together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_ranges(self).map_err(|fault| fault.at(|path| format!("`{path}`")))?;
        if self.key_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(Fault::new("`key_file`", "is empty", "leave it out, or name a file").into());
        }
        if self.mac_scheme.profile().has_public_keys_only() {
            let what = format!("is {}, which computes no MACs", self.mac_scheme);
            return Err(Fault::new("`mac_scheme`", what, "choose hmac-sha256 or aes-256-cmac").into());
        }
        if self.client_authentication == ClientAuthentication::Mac && self.members.len() > MAX_CLIENT_MACS {
            let what = format!("is mac, which is for {MAX_CLIENT_MACS} replicas at most");
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
                "is mac, but `client_authentication` is none, and MACs need a client with a key".to_owned(),
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
        client_terms(&SharedSettings { reply: session.reply, ..self.shared() }, session.dissemination)
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
