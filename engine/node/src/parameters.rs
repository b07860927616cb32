//! The values that must be equal on all replicas of a cluster, as declared at their configuration keys.
//!
//! Replicas compare them when they connect ([`quorate_network::channels::plain`]).

use crate::config::NodeConfig;
use quorate_hosting::client_terms;
use quorate_hosting::desk::ClientTerms;
use quorate_types::settings::{compared, tree};
use quorate_types::{Hasher, Parameters, tags};
use serde_json::{Value, json};

/// Maximum committee size for which members are shown with a short tag each.
const MAX_TAGGED_MEMBERS: usize = 7;
/// Key of the digest of the initial state.
const INITIAL_STATE: &str = "initial_state";

impl NodeConfig {
    /// Returns the values that clients compare with their configurations.
    pub(crate) fn client_terms(&self) -> ClientTerms {
        let parameters = client_terms(&self.shared(), self.consensus.client_dissemination());
        let max_frame_bytes = self.wire().settings.links.client_frame_bytes as u32;
        ClientTerms { parameters, max_frame_bytes }
    }

    /// Returns the values that must be equal on all replicas. The hello already names the cluster, and a replica with
    /// another transport or channel cannot connect, so these are not included.
    pub fn parameters(&self) -> Parameters {
        let tree = self.resolved();
        Parameters::new(compared::<NodeConfig>(&tree).map(|(key, value)| (key.path.clone(), text(value))))
    }

    /// Returns the configuration with resolved values for comparison: defaults of absent keys, a single value for
    /// policies that may differ, and digests of the members' keys.
    fn resolved(&self) -> Value {
        let mut tree = tree(self);
        tree["faults"] = self.quorum().map_or(0, |quorum| quorum.faults()).into();
        // Each replica applies its own list of clients.
        let admitted = if self.clients.certifier.is_empty() { "any or listed" } else { "certified" };
        tree["clients"]["admitted"] = admitted.into();
        tree["clients"]["certifier"] = self.clients.certifier.to_lowercase().into();
        if let Some(digest) = &self.initial_state {
            tree[INITIAL_STATE] = digest.to_hex()[..16].into();
        }
        tree["members"] = json!({
            "identity_key": digests(self.members.iter().map(|member| &member.identity_key)),
            "voting_key": digests(self.members.iter().map(|member| &member.voting_key)),
        });
        tree
    }
}

/// Returns a value as short printable ASCII.
fn text(value: Option<&Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "absent".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Returns a digest of the members' keys, and in a small committee a tag for each key, so that a differing one can be
/// identified.
fn digests<'a>(keys: impl Iterator<Item = &'a bytes::Bytes>) -> String {
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
