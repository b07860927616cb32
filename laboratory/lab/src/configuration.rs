//! Generator of `docs/CONFIGURATION.md`: every key of `config.toml` and `client.toml`, from the docs of the fields.

use quorate_client::ClientConfig;
use quorate_client::config::SOURCE as CLIENT;
use quorate_consensus::config::ProtocolKind;
use quorate_node::settings::{Key, default_of, fields, keys, to_markdown};

const HEAD: &str = "\
# Configuration

`quorate testnet` writes a `config.toml` for each replica, with these texts before the keys, and one `client.toml` for
all clients. An unknown key is refused, with its line. A key without a default (`–`) is either required, or optional
and unset. The names of times and sizes end with the unit. Replicas read their file when they start.

This page is generated from the documentation of the fields in the source. To regenerate it, run
`QUORATE_GOLDEN=write cargo test -p quorate-lab --test tests configuration`.

## config.toml
";

pub fn page() -> String {
    let members = fields("members", quorate_types::member::SOURCE, "Member");
    let client = [fields("", CLIENT, "ClientConfig"), members].concat().into_iter();
    let client: Vec<Key> = client.filter(|key| !(key.table.is_empty() && key.name == "members")).collect();
    format!("{HEAD}{}\n## client.toml\n{}", to_markdown(&keys(), default_of), to_markdown(&client, client_default))
}

fn client_default(key: &Key) -> Option<String> {
    const NEEDED: [&str; 2] = ["cluster", "protocol"];
    let config = ClientConfig::new("", ProtocolKind::Jolteon, quorate_crypto::SchemeKind::ED25519, 0, &[]);
    let mut config = toml::Table::try_from(config).expect("every setting has a form in TOML");
    config.remove("faults");
    let is_needed = !key.table.is_empty() || NEEDED.contains(&key.name.as_str());
    config.get(&key.name).filter(|_| !is_needed).map(ToString::to_string)
}
