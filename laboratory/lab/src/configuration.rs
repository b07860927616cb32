//! Generates `docs/CONFIGURATION.md` and the JSON Schemas beside it: every key of `config.toml` and `client.toml`, from
//! the declarations of the keys.

use quorate_client::ClientConfig;
use quorate_node::NodeConfig;
use quorate_types::settings::{json_schema, keys, to_markdown};

const HEAD: &str = "\
# Configuration

`quorate testnet` writes a `config.toml` for each replica, with these texts before the keys, and one `client.toml` for
all clients. An unknown key is refused, with its line. A key without a default (`–`) is either required, or optional
and unset. The names of times and sizes end with the unit. Replicas read their file when they start.

This page, and the JSON Schemas [config.schema.json](config.schema.json) and
[client.schema.json](client.schema.json), are generated from the declarations of the keys
([ADR 109](adr/109-one-schema-for-settings.md)). To regenerate them, run
`QUORATE_GOLDEN=write cargo test -p quorate-lab --test tests configuration`. An editor with a language server for TOML
completes and checks a file that begins with the line `#:schema PATH/config.schema.json`.

## config.toml
";

/// Returns the files below `docs`, with their names.
pub fn files() -> [(&'static str, String); 3] {
    let [replica, client] = [keys::<NodeConfig>(), keys::<ClientConfig>()].map(to_markdown);
    let page = format!("{HEAD}{replica}\n## client.toml\n{client}");
    let schema = |schema| serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    [
        ("CONFIGURATION.md", page),
        ("config.schema.json", schema(json_schema::<NodeConfig>())),
        ("client.schema.json", schema(json_schema::<ClientConfig>())),
    ]
}
