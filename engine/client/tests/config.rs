//! The client's configuration file.

use quorate_applications::ApplicationKind;
use quorate_client::{ClientConfig, ConfigError, Dissemination, ReplyMode};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{ClientAuthentication, ReplicaKeys, SchemeKind};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{QuicConfig, TransportKind};
use quorate_types::Member;
use std::path::Path;

fn members(scheme: SchemeKind) -> Vec<Member> {
    let keys = |at: u16| ReplicaKeys::from_seed(scheme, [at as u8 + 1; 32]);
    (0..4).map(|at| keys(at).member(format!("127.0.0.1:{}", 7000 + at).parse().unwrap())).collect()
}

pub fn config() -> ClientConfig {
    ClientConfig::new("a \"quoted\" name", ProtocolKind::Jolteon, SchemeKind::ED25519, 1, &members(SchemeKind::ED25519))
}

fn parse(text: &str) -> Result<ClientConfig, ConfigError> {
    ClientConfig::parse(text, Path::new("client.toml"))
}

/// The last line is an identity key.
const SHORTEST: &str = "cluster = \"c\"\nprotocol = \"jolteon\"\nscheme = \"none\"\n[[members]]\naddress = \"127.0.0.1:1\"\n\
    identity_key = \"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c\"\n";

#[test]
fn a_written_configuration_is_read_back_unchanged() {
    let mut config = config();
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    config.dissemination = Dissemination::Leader;
    config.reply = ReplyMode::None;
    config.client_authentication = ClientAuthentication::None;
    config.retry_ms = 17;
    config.application = ApplicationKind::LOG;
    config.key_file = Some("my.key".into());
    config.passphrase_file = Some("secret".into());
    config.transport = TransportKind::RUDP;
    config.retransmission.pacing = true;
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    config.retransmission.pacing = false;
    (config.transport, config.channel) = (TransportKind::QUIC, ChannelKind::TLS);
    config.packets.mtu_bytes = 1_400;
    config.quic.idle_timeout_ms = 9_000;
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
    let QuicConfig { idle_timeout_ms, .. } = config.wire().settings.quic;
    assert_eq!(idle_timeout_ms, 9_000, "the file's settings reach the transport");
    for key in [
        "cluster",
        "scheme",
        "client_authentication",
        "key_file",
        "passphrase_file",
        "transport",
        "channel",
        "faults",
        "application",
        "dissemination",
        "reply",
        "retry_ms",
        "connect_timeout_ms",
    ] {
        let text = config.to_toml();
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("{key} = "))).unwrap();
        assert!(lines[at - 1].starts_with("# "), "{key} has no comment");
    }
}

#[test]
fn a_key_without_effect_is_refused_and_not_written() {
    let with_table = |table: &str| SHORTEST.replace("[[members]]", &format!("{table}\n[[members]]"));
    let pacing = parse(&with_table("[retransmission]\npacing = true")).unwrap_err().to_string();
    let expected = "`retransmission.pacing`: has no effect, because `transport` is tcp; help: leave it out, or set \
                    `transport` to rudp";
    assert_eq!(pacing, expected);
    assert!(parse(&with_table("[retransmission]\npacing = false")).is_ok(), "the default is as good as none");
    let macs = parse(&format!("mac_scheme = \"aes-256-cmac\"\n{SHORTEST}")).unwrap_err().to_string();
    assert!(macs.starts_with("`mac_scheme`: has no effect, because `auth_profile` is pk and "), "{macs}");
    let mut idle = config();
    idle.quic.idle_timeout_ms = 9_000;
    assert_eq!(parse(&idle.to_toml()).unwrap(), config());
}

#[test]
fn every_key_except_the_cluster_its_protocol_and_members_has_a_default() {
    let found = parse(SHORTEST).unwrap();
    assert_eq!((found.retry_ms, found.connect_timeout_ms, found.request_timeout_ms), (2_000, 5_000, 30_000));
    assert_eq!(
        (found.dissemination, found.reply, found.application.name()),
        (Dissemination::Client, ReplyMode::Each, "kv")
    );
    assert_eq!(found.client_authentication, ClientAuthentication::Ed25519);
    assert_eq!(found.session().unwrap().needed(), 1);
}

#[test]
fn an_unknown_protocol_is_refused_with_the_known_ones() {
    let error = parse(&SHORTEST.replace("jolteon", "joltoen")).unwrap_err().to_string();
    assert!(error.contains("client.toml") && error.contains("protocol = \"joltoen\""), "{error}");
    assert!(
        error.contains("unknown protocol `joltoen`: one of ") && error.contains("(did you mean `jolteon`?)"),
        "{error}"
    );
    for kind in ProtocolKind::ALL {
        assert!(error.contains(kind.name()), "{kind} is missing: {error}");
        assert_eq!(parse(&SHORTEST.replace("jolteon", kind.name())).unwrap().protocol, *kind);
    }
}

#[test]
fn errors_name_the_key() {
    let message = |text: &str| parse(text).unwrap_err().to_string();
    let unknown = message(&format!("retries = 3\n{SHORTEST}"));
    assert!(unknown.contains("client.toml") && unknown.contains("retries"), "{unknown}");
    let transport = message(&format!("transport = \"tpc\"\n{SHORTEST}"));
    assert!(transport.contains("`tpc`") && transport.contains("tcp"), "{transport}");
    let authentication = message(&format!("client_authentication = \"rsa\"\n{SHORTEST}"));
    assert!(authentication.contains("one of none, ed25519"), "{authentication}");
    assert!(message("cluster = \"c\"\nprotocol = \"jolteon\"").contains("members"));
    assert!(message(&format!("retry_ms = 0\n{SHORTEST}")).contains("`retry_ms`: is 0"));
    assert!(message(&format!("request_timeout_ms = 99999999999\n{SHORTEST}")).contains("request_timeout_ms"));
    assert!(message(&format!("faults = 1\n{SHORTEST}")).contains("at least 4 are needed"));
    assert!(message(&format!("faults = 9223372036854775807\n{SHORTEST}")).starts_with("`members` and `faults`: "));
    let with_table = |table: &str| message(&SHORTEST.replace("[[members]]", &format!("{table}\n[[members]]")));
    assert!(with_table("[quic]\nidle_timeout_ms = 0").starts_with("`quic.idle_timeout_ms`: is 0"));
    assert!(with_table("[packets]\nmtu_bytes = 100").starts_with("`packets.mtu_bytes`: is 100"));
    assert!(with_table("[retransmission]\nrto_max_ms = 0").starts_with("`retransmission.rto_max_ms`: is 0"));
    assert!(with_table("[quic]\nspeed = 1").contains("`speed`"));
    assert!(message(&SHORTEST.replace("none", "ed25519")).contains("voting key of replica 0"));
    assert!(message(&SHORTEST.replace("3d40", "3x40")).contains("not hexadecimal"));
    assert!(message(&SHORTEST.replace("3d40", "")).contains("identity key of replica 0 has 30 bytes"));
    let old = message(&SHORTEST.replace("identity_key", "public_key"));
    assert!(old.contains("`public_key`") && old.contains("`identity_key`") && old.contains("line 6"), "{old}");
    let (_, member) = SHORTEST.split_at(SHORTEST.find("[[").unwrap());
    let same_key = message(&format!("{SHORTEST}{}", member.replace("127.0.0.1:1", "127.0.0.1:2")));
    assert!(same_key.contains("identity key of replica 1 is also the identity key of replica 0"), "{same_key}");
    let two = members(SchemeKind::NONE);
    let mut twice = ClientConfig::new("c", ProtocolKind::Jolteon, SchemeKind::NONE, 0, &two[..2]);
    twice.members[1].address = twice.members[0].address.clone();
    let twice = twice.to_toml();
    assert!(message(&twice).contains("replicas 0 and 1 have the same address"));
    assert!(message("cluster = \"c\"\nprotocol = \"jolteon\"\nmembers = []").starts_with("`members` and `faults`: "));
    assert!(ClientConfig::load(Path::new("/nowhere/client.toml")).unwrap_err().to_string().contains("quorate testnet"));
    assert!(matches!(ClientConfig::load(Path::new("/")), Err(ConfigError::NotAConfiguration(_))));
}
