//! Which keys replicas compare: each key of `config.toml` is either the cluster's or the replica's own.

use quorate_node::NodeConfig;
use quorate_node::parameters::{CLUSTER_KEYS, is_cluster_key, is_local_key};
use quorate_node::settings;
use quorate_node::testnet;
use std::net::SocketAddr;

#[test]
fn each_key_is_the_clusters_or_the_replicas_own() {
    for key in settings::keys() {
        let scopes = (is_cluster_key(key.table, &key.name), is_local_key(key.table, &key.name));
        assert!(scopes.0 != scopes.1, "`{}.{}` is in both lists or in none", key.table, key.name);
        let says = key.doc.contains("same on");
        assert_eq!(says, scopes.0, "the documentation of `{}.{}` does not say its scope", key.table, key.name);
    }
    let is_known = |(table, name): (&str, &str)| {
        settings::keys().iter().any(|key| (key.table, key.name.as_str()) == (table, name))
    };
    assert!(CLUSTER_KEYS.iter().all(|key| is_known((key.table, key.name))), "a listed key does not exist");
}

/// Another value for each key that is compared.
const OTHERS: &[(&str, &str, &str)] = &[
    ("", "faults", "0"),
    ("", "scheme", "\"ecdsa-p256\""),
    ("", "auth_profile", "\"mac\""),
    ("", "mac_scheme", "\"aes-256-cmac\""),
    ("", "client_authentication", "\"none\""),
    ("", "reply_authentication", "\"signature\""),
    ("", "application", "\"log\""),
    ("", "reply", "\"none\""),
    ("clients", "admitted", "\"certified\"\ncertifier = \"00\""),
    ("clients", "certifier", "\"00\""),
    ("consensus", "protocol", "\"pbft\""),
    ("consensus", "leader", "\"round-robin\""),
    ("consensus", "votes", "\"all\""),
    ("consensus", "batch", "10"),
    ("consensus", "batch_bytes", "1000000"),
    ("consensus", "dissemination", "\"replicas\""),
    ("consensus", "max_delay_ms", "101"),
    ("consensus", "retained_blocks", "2000"),
    ("consensus", "retained_bytes", "2000"),
    ("consensus", "window", "2000"),
    ("consensus", "checkpoint_interval", "100"),
    ("consensus", "phases_only", "true"),
    ("members", "identity_key", ""),
    ("members", "voting_key", ""),
];

fn configurations(replicas: u16) -> Vec<NodeConfig> {
    let addresses: Vec<SocketAddr> = (0..replicas).map(|at| ([127, 0, 0, 1], 9_000 + at).into()).collect();
    let generated = testnet::generate(&NodeConfig::template("test"), &addresses).expect("keys are made");
    generated.into_iter().map(|(config, _)| config).collect()
}

fn configuration() -> NodeConfig {
    configurations(4).remove(0)
}

/// Returns the configuration with another value for a key. It need not be valid.
fn changed(config: &NodeConfig, table: &str, name: &str, value: &str) -> NodeConfig {
    let mut config = config.clone();
    match (table, name) {
        ("members", "identity_key") => config.members[1].identity_key = config.members[2].identity_key.clone(),
        ("members", "voting_key") => config.members[1].voting_key = config.members[2].voting_key.clone(),
        _ => {
            let mut all = toml::Table::try_from(&config).expect("a configuration is TOML");
            let parsed: toml::Table = toml::from_str(&format!("{name} = {value}")).expect("the value is TOML");
            let into = match table {
                "" => &mut all,
                table => all[table].as_table_mut().expect("a table"),
            };
            into.extend(parsed);
            config = all.try_into().expect("the value is of its type");
        }
    }
    config
}

#[test]
fn a_change_of_each_compared_key_is_named_and_nothing_else_is() {
    let config = configuration();
    let unseen = ["cluster", "transport", "channel"];
    for key in CLUSTER_KEYS.iter().filter(|key| !key.table.is_empty() || !unseen.contains(&key.name)) {
        let other = OTHERS.iter().find(|(table, name, _)| (*table, *name) == (key.table, key.name));
        let (table, name, value) = other.unwrap_or_else(|| panic!("no other value for `{}`", key.name));
        let differences = config.parameters().differences(&changed(&config, table, name, value).parameters());
        let named: Vec<&str> = differences.iter().map(|difference| difference.key.as_str()).collect();
        let expected = if table.is_empty() { (*name).to_owned() } else { format!("{table}.{name}") };
        let besides = ["clients.admitted", "clients.certifier"];
        assert!(named.contains(&expected.as_str()), "{expected}: {named:?}");
        assert!(named.len() == 1 || named == besides, "{expected}: {named:?}");
    }
    let other = changed(&config, "consensus", "view_timeout_ms", "77");
    assert_eq!(config.parameters(), other.parameters(), "a replica's own key is compared");
}

#[test]
fn replicas_of_one_testnet_have_equal_parameters_and_room_for_more_keys() {
    let all = configurations(7);
    let parameters: Vec<_> = all.iter().map(NodeConfig::parameters).collect();
    assert!(parameters.windows(2).all(|pair| pair[0] == pair[1]));
    let bytes =
        changed(&all[0], "clients", "certifier", &format!("\"{}\"", "0".repeat(64))).parameters().encode().len();
    assert!(bytes <= 1_000, "{bytes} bytes");
}
