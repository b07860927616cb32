//! Which keys of `config.toml` must be equal on all replicas of a cluster, and which concern one replica alone.
//!
//! Replicas compare the former when they connect ([`quorate_network::channels::plain`]). A new key has to be listed here: a test
//! compares the lists with [`settings::keys`](crate::settings::keys).

use crate::config::NodeConfig;
use quorate_hosting::desk::ClientTerms;
use quorate_types::{Hasher, Parameters, tags};

/// Keys of the committee's size that are shown with a short tag for each member.
const MAX_TAGGED_MEMBERS: usize = 7;

/// A key that must be equal on all replicas.
pub struct ClusterKey {
    pub table: &'static str,
    pub name: &'static str,
    /// Returns the value to compare, as short printable ASCII; `None` if connecting compares it by itself.
    value: Option<fn(&NodeConfig) -> String>,
}

const fn cluster(table: &'static str, name: &'static str, value: fn(&NodeConfig) -> String) -> ClusterKey {
    ClusterKey { table, name, value: Some(value) }
}

/// The keys that must be equal on all replicas.
pub const CLUSTER_KEYS: &[ClusterKey] = &[
    // A hello names the cluster, and a replica with another transport or channel does not get as far as comparing.
    ClusterKey { table: "", name: "cluster", value: None },
    ClusterKey { table: "", name: "transport", value: None },
    ClusterKey { table: "", name: "channel", value: None },
    cluster("", "faults", |config| config.quorum().map_or(0, |quorum| quorum.faults()).to_string()),
    cluster("", "scheme", |config| config.scheme.to_string()),
    cluster("", "auth_profile", |config| config.auth_profile.to_string()),
    cluster("", "mac_scheme", |config| config.mac_scheme.to_string()),
    cluster("", "client_authentication", |config| config.client_authentication.to_string()),
    cluster("", "reply_authentication", |config| config.reply_authentication.to_string()),
    cluster("", "application", |config| config.application.to_string()),
    cluster("", "reply", |config| config.reply.to_string()),
    // `any` and `listed` may differ: each replica applies its own list.
    cluster("clients", "admitted", |config| match config.clients.certifier.is_empty() {
        true => "any or listed".to_owned(),
        false => "certified".to_owned(),
    }),
    cluster("clients", "certifier", |config| match config.clients.certifier.to_lowercase() {
        absent if absent.is_empty() => "absent".to_owned(),
        key => key,
    }),
    cluster("consensus", "protocol", |config| config.consensus.protocol.to_string()),
    cluster("consensus", "leader", |config| config.consensus.leader.to_string()),
    cluster("consensus", "votes", |config| config.consensus.votes.to_string()),
    cluster("consensus", "batch", |config| config.consensus.batch.to_string()),
    cluster("consensus", "batch_bytes", |config| config.consensus.batch_bytes.to_string()),
    cluster("consensus", "dissemination", |config| config.consensus.dissemination.to_string()),
    cluster("consensus", "max_delay_ms", |config| config.consensus.max_delay_ms.to_string()),
    cluster("consensus", "retained_blocks", |config| config.consensus.retained_blocks.to_string()),
    cluster("consensus", "retained_bytes", |config| config.consensus.retained_bytes.to_string()),
    cluster("consensus", "window", |config| config.consensus.window.to_string()),
    cluster("consensus", "checkpoint_interval", |config| config.consensus.checkpoint_interval.to_string()),
    cluster("consensus", "phases_only", |config| config.consensus.phases_only.to_string()),
    cluster("members", "identity_key", |config| keys(config.members.iter().map(|member| &member.identity_key))),
    cluster("members", "voting_key", |config| keys(config.members.iter().map(|member| &member.voting_key))),
];

/// The keys that may differ between replicas, by table. An empty list stands for all keys of a table.
pub const LOCAL_KEYS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "replica",
            "accept_weak_scheme",
            "replica_threads",
            "execution_threads",
            "reply_cache_bytes",
            "key_file",
            "passphrase_file",
            "listen",
            "client_listen",
            "admin_listen",
            "admin_beyond_loopback",
        ],
    ),
    ("clients", &["keys", "max_commands_per_s", "max_answer_bytes_per_s", "max_answer_us_per_s"]),
    (
        "consensus",
        &[
            "batch_latency_ms",
            "batch_policy",
            "batch_wait_ms",
            "vote_wait_us",
            "view_duration",
            "view_timeout_ms",
            "min_view_timeout_ms",
            "pool_bytes",
            "pool_bundles",
            "max_queue_ms",
            "fetch_delay_ms",
            "fetch_retry_ms",
            "answer_bytes_per_second",
            "pipeline",
            "pre_prepare_repeat",
            "repeat",
            "remedy",
        ],
    ),
    ("links", &[]),
    ("tcp", &[]),
    ("packets", &[]),
    ("retransmission", &[]),
    ("quic", &[]),
    ("journal", &[]),
    ("laboratory", &[]),
    ("baselines", &[]),
    ("recording", &[]),
    // A replica may be reached by another name from here than from there; a proof of possession is checked by each.
    ("members", &["address", "possession"]),
];

/// Returns whether a key must be equal on all replicas.
pub fn is_cluster_key(table: &str, name: &str) -> bool {
    CLUSTER_KEYS.iter().any(|key| (key.table, key.name) == (table, name))
}

/// Returns whether a key may differ between replicas.
pub fn is_local_key(table: &str, name: &str) -> bool {
    LOCAL_KEYS.iter().any(|(of, names)| *of == table && (names.is_empty() || names.contains(&name)))
}

impl NodeConfig {
    /// Returns the values that clients compare with their configurations.
    pub(crate) fn client_terms(&self) -> ClientTerms {
        let values = [
            ("client_authentication", self.client_authentication.to_string()),
            ("reply_authentication", self.reply_authentication.to_string()),
            ("mac_scheme", self.mac_scheme.to_string()),
            ("application", self.application.to_string()),
            ("dissemination", self.consensus.client_dissemination().to_string()),
            ("reply", self.reply.to_string()),
        ];
        let max_frame_bytes = self.wire().settings.links.client_frame_bytes as u32;
        ClientTerms { parameters: Parameters::new(values), max_frame_bytes }
    }

    /// Returns the values that must be equal on all replicas.
    pub fn parameters(&self) -> Parameters {
        let name = |key: &ClusterKey| match key.table {
            "" => key.name.to_owned(),
            table => format!("{table}.{}", key.name),
        };
        Parameters::new(CLUSTER_KEYS.iter().filter_map(|key| Some((name(key), key.value?(self)))))
    }
}

/// Returns a digest of the members' keys, and in a small committee a tag for each key, so that the one that differs can
/// be found.
fn keys<'a>(keys: impl Iterator<Item = &'a bytes::Bytes>) -> String {
    let hash = |bytes: &[u8]| {
        let mut hasher = Hasher::new(tags::MEMBER_KEYS);
        hasher.update(bytes);
        hasher.finish()
    };
    let hashes: Vec<String> = keys.map(|key| hash(key).to_hex()).collect();
    let tags: Vec<&str> = hashes.iter().map(|hash| &hash[..4]).collect();
    let digest = &hash(hashes.concat().as_bytes()).to_hex()[..16];
    match tags.len() <= MAX_TAGGED_MEMBERS {
        true => format!("{digest} ({})", tags.join(" ")),
        false => digest.to_owned(),
    }
}
