//! The configuration file that `quorate testnet` writes for a replica, with an explanation of each key, and the
//! settings reported by a replica.

use crate::config::NodeConfig;
use quorate_types::Settings;
use quorate_types::settings::{Key, explain, keys, select, tree};

const HEAD: &str = "The settings of one replica. docs/CONFIGURATION.md has all keys, also those that are absent here.";
const MEMBERS: &str = "The committee, in the order of the replica ids.";

impl NodeConfig {
    /// Returns the text that [`NodeConfig::read`] reads, with every key written out and explained. Those without effect
    /// are comments.
    pub fn to_toml(&self) -> String {
        let text = toml::to_string(self).expect("every setting has a form in TOML");
        explain(&text, &tree(self), keys::<NodeConfig>(), HEAD, MEMBERS)
    }

    /// Returns the settings that affect measurements of the cluster.
    pub(crate) fn settings(&self) -> Settings {
        let is_reported = |key: &&Key| key.is_reported() && !["clients", "members"].contains(&key.table());
        Settings(select(&tree(self), keys::<NodeConfig>().iter().filter(is_reported)))
    }
}
