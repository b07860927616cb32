//! Keys compared by replicas: those declared to be the same on every replica.

use quorate_node::NodeConfig;
use quorate_node::testnet;
use quorate_types::settings::keys;
use std::net::SocketAddr;

/// A different value for each compared key.
const OTHERS: &[(&str, &str, &str)] = &[
    ("", "faults", "0"),
    ("", "scheme", "\"ecdsa-p256\""),
    ("", "auth_profile", "\"mac\""),
    ("", "mac_scheme", "\"aes-256-cmac\""),
    ("", "client_authentication", "\"none\""),
    ("", "reply_authentication", "\"signature\""),
    ("", "application", "\"log\""),
    ("", "initial_state", "\"0707070707070707070707070707070707070707070707070707070707070707\""),
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
    ("consensus", "max_clock_skew_ms", "501"),
    ("consensus", "retained_blocks", "2000"),
    ("consensus", "retained_bytes", "2000"),
    ("consensus", "window", "2000"),
    ("consensus", "checkpoint_interval", "100"),
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

/// Returns the configuration with a different value for a key. It need not be valid.
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

/// The keys that the first release compares. They never change: replicas of the release compare them with later ones.
const OF_FIRST_RELEASE: &[&str] = &[
    "application",
    "auth_profile",
    "client_authentication",
    "faults",
    "mac_scheme",
    "reply",
    "reply_authentication",
    "scheme",
    "clients.admitted",
    "clients.certifier",
    "consensus.batch",
    "consensus.batch_bytes",
    "consensus.checkpoint_interval",
    "consensus.dissemination",
    "consensus.leader",
    "consensus.max_clock_skew_ms",
    "consensus.max_delay_ms",
    "consensus.protocol",
    "consensus.retained_blocks",
    "consensus.retained_bytes",
    "consensus.votes",
    "consensus.window",
    "members.identity_key",
    "members.voting_key",
];

#[test]
fn a_configuration_with_the_defaults_of_later_keys_compares_those_of_the_first_release() {
    let parameters = configuration().parameters();
    let mut named: Vec<&str> = parameters.iter().map(|(key, _)| key).collect();
    named.sort_by_key(|key| (key.contains('.'), *key));
    assert_eq!(
        named, OF_FIRST_RELEASE,
        "help: a key that was added later has `\"x-added\" = \"VERSION\"` at its field, so that replicas without it \
         still connect (docs/UPGRADING.md)"
    );
}

#[test]
fn a_change_of_each_compared_key_is_named_and_nothing_else_is() {
    let config = configuration();
    let unseen = ["cluster", "transport", "channel"];
    let of_the_cluster = keys::<NodeConfig>().iter().filter(|key| key.is_of_the_cluster());
    for key in of_the_cluster.filter(|key| !unseen.contains(&key.path.as_str())) {
        let other = OTHERS.iter().find(|(table, name, _)| (*table, *name) == (key.table(), key.name()));
        let (table, name, value) = other.unwrap_or_else(|| panic!("no other value for `{}`", key.path));
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
