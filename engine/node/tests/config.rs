//! Configurations: written ones are read back, and every error names the file, line, key and remedy.

use quorate_adversary::byzantine::behaviours::Slow;
use quorate_crypto::{AdmittedClients, ReplicaKeys, SchemeKind};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{RetransmissionProfile, TransportKind};
use quorate_node::config::{CONFIG_FILE, KEY_FILE};
use quorate_node::observer::Differences;
use quorate_node::reload::differences;
use quorate_node::{JournalKind, Laboratory, NodeConfig, NodeError, testnet};
use quorate_testkit::schemes::AGGREGATE;
use quorate_types::digest::encode_hex;
use quorate_types::{Member, ReplicaId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Temporary directory of one test, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-node-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn four() -> NodeConfig {
    let addresses: Vec<_> = (7000..7004).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
    testnet::generate(&NodeConfig::template("four"), &addresses).unwrap().swap_remove(1).0
}

fn refusal(text: &str) -> String {
    NodeConfig::from_toml(text, Path::new("D/replica-1/config.toml"))
        .expect_err("the configuration is invalid")
        .to_string()
}

/// Returns the text with the line of `key` replaced.
fn with_line(text: &str, key: &str, line: &str) -> (String, usize) {
    let at = text.lines().position(|line| line.starts_with(&format!("{key} "))).expect("the key is written out");
    let lines: Vec<&str> = text.lines().enumerate().map(|(here, old)| if here == at { line } else { old }).collect();
    (lines.join("\n"), at + 1)
}

#[test]
fn a_written_configuration_is_read_back_unchanged() {
    let mut config = four();
    config.laboratory = Some(Laboratory::of(Slow { percent: 80 }));
    config.faults = Some(1);
    config.listen = Some("0.0.0.0:7001".parse().unwrap());
    let text = config.to_toml();
    assert_eq!(NodeConfig::from_toml(&text, Path::new("x")).unwrap(), config, "{text}");
}

#[test]
fn every_written_key_has_a_comment() {
    let text = four().to_toml();
    let lines: Vec<&str> = text.lines().collect();
    let mut keys = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#')) {
        let is_of_a_later_member =
            keys > 10 && ["address", "identity_key", "voting_key"].iter().any(|key| line.starts_with(key));
        keys += 1;
        assert!(lines[at - 1].starts_with("# ") || is_of_a_later_member, "{line} has no comment: {text}");
    }
    assert!(keys > 55 && lines.iter().all(|line| line.len() <= 160), "{text}");
    for absent in ["# client_listen =", "# admin_listen =", "# faults =", "# max_queue_ms ="] {
        assert!(lines.contains(&absent), "{absent} is missing: {text}");
    }
    assert!(!text.contains("# consensus =") && !text.contains("# laboratory ="), "a table is listed as a key");
}

#[test]
fn every_key_except_the_identity_and_the_members_has_a_default() {
    let config = four();
    let members: String = (config.members.iter())
        .map(|member| {
            let [identity, voting] = [&member.identity_key, &member.voting_key].map(|key| encode_hex(key));
            let address = &member.address;
            format!("[[members]]\naddress = \"{address}\"\nidentity_key = \"{identity}\"\nvoting_key = \"{voting}\"\n")
        })
        .collect();
    let text = format!("cluster = \"four\"\nreplica = 1\n{members}");
    assert_eq!(NodeConfig::from_toml(&text, Path::new("x")).unwrap(), config);
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let text = four().to_toml();
    let (text, line) = with_line(&text, "batch_bytes", "batch_bites = 3");
    let error = refusal(&text);
    assert!(
        error.starts_with(&format!("D/replica-1/config.toml line {line}: `batch_bites`: unknown field")),
        "{error}"
    );
    assert!(error.contains("correct the line"), "{error}");
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_its_line() {
    for (key, value) in [
        ("batch", "\"many\""),
        ("scheme", "\"rot13\""),
        ("client_authentication", "\"rsa\""),
        ("application", "\"chess\""),
        ("protocol", "\"paxos\""),
        ("reply", "\"some\""),
        ("address", "\"localhost\""),
        ("address", "\"300.1.1.1:7000\""),
        ("identity_key", "\"xyz\""),
        ("voting_key", "\"xyz\""),
    ] {
        let (text, line) = with_line(&four().to_toml(), key, &format!("{key} = {value}"));
        let error = refusal(&text);
        assert!(error.starts_with(&format!("D/replica-1/config.toml line {line}: `{key}`: ")), "{error}");
    }
}

#[test]
fn an_invalid_setting_is_refused_with_its_line_and_help() {
    let base = four().to_toml();
    for (key, value, place, help) in [
        ("replica", "4", "`replica`: is 4", "add the missing members"),
        ("cluster", "\"\"", "`cluster`: has 0 characters", "between 1 and 200"),
        ("key_file", "\"\"", "`key_file`: is empty", "for the default"),
        ("batch", "0", "`consensus.batch`: is 0", "set 1 to 65536"),
        ("batch_bytes", "10", "`consensus.batch_bytes`: is 10", "set 203 to 33554432"),
        ("replica_threads", "0", "`replica_threads`: ", "from 1 to 64"),
        ("replica_threads", "\"several\"", "`replica_threads`: ", "write `auto`"),
        ("link_queue_bytes", "0", "`links.link_queue_bytes`: is 0", "at least 1"),
        ("min_reconnect_ms", "70000", "`links.min_reconnect_ms`: is 70000, over `max_reconnect_ms`", "exchange them"),
        (
            "address",
            "\"127.0.0.1:7003\"",
            "`members[3].address`: 127.0.0.1:7003 is also another member's address",
            "of its own",
        ),
        ("identity_key", "\"abcd\"", "`members[0].identity_key`: has 2 bytes", "copy it"),
        ("voting_key", "\"abcd\"", "`members[0].voting_key`: has 2 bytes", "copy it"),
    ] {
        let (text, line) = with_line(&base, key, &format!("{key} = {value}"));
        let error = refusal(&text);
        assert!(error.contains(place) && error.contains(help), "{error}");
        let shown = error.strip_prefix("D/replica-1/config.toml line ").expect(&error);
        let shown: usize = shown.split(':').next().unwrap().parse().unwrap();
        match place {
            _ if place.contains("[3]") => assert!(text.lines().nth(shown - 1).unwrap().contains("7003"), "{error}"),
            _ => assert_eq!(shown, line, "{error}"),
        }
    }
}

#[test]
fn the_key_that_replica_threads_replaces_says_so() {
    let (text, line) = with_line(&four().to_toml(), "replica_threads", "crypto_threads = 1");
    let error = refusal(&text);
    assert!(error.contains(&format!("line {line}: `crypto_threads`: unknown field")), "{error}");
    assert!(error.contains("write `replica_threads` instead"), "{error}");
}

#[test]
fn keys_that_the_core_no_longer_has_say_what_to_write() {
    for (key, help) in [
        ("phases_only = true", "write `protocol = \"pbft-phases\"` in [consensus]"),
        ("repeat = 1", "move it to [reproduction.copies]"),
        ("remedy = \"adaptive\"", "move it to [reproduction.copies]"),
    ] {
        let (text, line) = with_line(&four().to_toml(), "window", key);
        let error = refusal(&text);
        assert!(error.contains(&format!("line {line}: ")) && error.contains(help), "{error}");
    }
}

#[test]
fn copies_without_effect_are_refused_with_their_line() {
    let mut config = four();
    config.reproduction.copies.pre_prepare_repeat = 2;
    let text = config.to_toml();
    let line = 1 + text.lines().position(|line| line == "pre_prepare_repeat = 2").expect("what is set is written");
    let error = refusal(&text);
    let place = format!("line {line}: `reproduction.copies.pre_prepare_repeat`: is 2, but jolteon");
    assert!(error.contains(&place) && error.contains("use `pbft`"), "{error}");
}

#[test]
fn a_limited_queue_is_refused_where_clients_send_to_all_replicas() {
    let (text, line) = with_line(&four().to_toml(), "# max_queue_ms", "max_queue_ms = 250");
    let error = refusal(&text);
    let expected = format!("D/replica-1/config.toml line {line}: `consensus.max_queue_ms`: is 250, but has no effect");
    assert!(error.starts_with(&expected) && error.contains("leave it out"), "{error}");
    let (text, _) = with_line(&text, "dissemination", "dissemination = \"replicas\"");
    let config = NodeConfig::from_toml(&text, Path::new("x")).expect("it has an effect now");
    assert_eq!(config.consensus.max_queue().as_millis(), 250);
}

#[test]
fn too_many_faults_for_the_members_are_refused() {
    let mut config = four();
    config.faults = Some(2);
    let error = refusal(&config.to_toml());
    assert!(error.contains("`faults`") && error.contains("at least 7"), "{error}");
    let error = refusal("cluster = \"x\"\nreplica = 0\nmembers = []\n");
    assert!(error.contains("`members`") && error.contains("between 1 and 256"), "{error}");
}

#[test]
fn a_key_that_two_members_share_is_refused() {
    let first = four().members[0].clone();
    type Copy = fn(&mut Member, &Member);
    let copies: [(&str, Copy); 4] = [
        ("identity_key", |member, first| member.identity_key = first.identity_key.clone()),
        ("voting_key", |member, first| member.voting_key = first.voting_key.clone()),
        ("identity_key", |member, first| member.identity_key = first.voting_key.clone()),
        ("voting_key", |member, _| member.voting_key = member.identity_key.clone()),
    ];
    for (key, copy) in copies {
        let mut config = four();
        config.members[0] = first.clone();
        copy(&mut config.members[2], &first);
        let error = refusal(&config.to_toml());
        assert!(error.contains(&format!("`members[2].{key}`: is already listed")), "{error}");
    }
}

#[test]
fn a_configuration_of_an_older_version_is_refused_with_help() {
    let (text, line) = with_line(&four().to_toml(), "identity_key", "public_key = \"abcd\"");
    let error = refusal(&text);
    assert!(
        error.contains(&format!("line {line}")) && error.contains("make a new cluster with `quorate testnet`"),
        "{error}"
    );
}

#[test]
fn a_missing_proof_of_possession_is_refused_at_its_member() {
    let mut config = four();
    config.scheme = AGGREGATE;
    let error = config.validate().unwrap_err().to_string();
    assert!(error.contains("`members[0].possession`: is missing") && error.contains("toy-aggregate"), "{error}");
    for (at, member) in config.members.iter_mut().enumerate() {
        *member = ReplicaKeys::from_seed(AGGREGATE, [at as u8; 32]).member(member.address.clone());
    }
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn a_weak_scheme_has_to_be_accepted() {
    let mut config = four();
    config.scheme = SchemeKind::RSA_1024;
    for (at, member) in config.members.iter_mut().enumerate() {
        *member = ReplicaKeys::from_seed(config.scheme, [at as u8; 32]).member(member.address.clone());
    }
    let error = config.validate().unwrap_err().to_string();
    assert!(error.contains("rsa-1024, which is weak") && error.contains("accept_weak_scheme"), "{error}");
    config.accept_weak_scheme = true;
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn a_missing_file_is_named() {
    let error = NodeConfig::read(Path::new("/nowhere/at/all/config.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/at/all/config.toml: cannot read it"), "{error}");
}

#[test]
fn a_testnet_has_a_directory_for_each_replica_and_only_the_owner_can_read_its_keys() {
    let scratch = Scratch::new("testnet");
    let template = NodeConfig::template("net");
    let net = testnet::write(&template, 4, 7100, &scratch.0).unwrap();
    assert_eq!(net.configs.len(), 4);
    for (at, (config, home)) in net.configs.iter().zip(&net.directories).enumerate() {
        assert_eq!(*home, scratch.0.join(format!("replica-{at}")));
        assert_eq!(NodeConfig::read(&home.join(CONFIG_FILE)).unwrap(), *config);
        assert_eq!(config.replica, ReplicaId(at as u16));
        assert_eq!(config.members[at].address.port(), 7100 + at as u16);
        assert_eq!(config.members, net.configs[0].members);
        let mode = fs::metadata(home.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let again = testnet::write(&template, 4, 7100, &scratch.0).unwrap_err();
    assert!(matches!(again, NodeError::NotEmpty(_)), "{again}");
}

#[test]
fn an_admin_listener_that_other_hosts_can_reach_is_refused() {
    let with = |line: &str| {
        let text = four().to_toml();
        let at = text.find("\n[").expect("tables are written") + 1;
        format!("{}{line}\n{}", &text[..at], &text[at..])
    };
    for address in ["0.0.0.0:7900", "10.0.0.1:7900", "status.example.com:7900"] {
        let error = refusal(&with(&format!("admin_listen = \"{address}\"")));
        assert!(
            error.contains("line ") && error.contains("`admin_listen`: is ") && error.contains("127.0.0.1:7900"),
            "{error}"
        );
        let meant = with(&format!("admin_listen = \"{address}\"\nadmin_beyond_loopback = true"));
        assert!(NodeConfig::from_toml(&meant, Path::new("x")).is_ok(), "{address}: explicitly allowed");
    }
    assert!(NodeConfig::from_toml(&with("admin_listen = \"localhost:7900\""), Path::new("x")).is_ok());
    let error = refusal(&with("client_listen = \"127.0.0.1:7001\""));
    assert!(error.contains("`client_listen`: is 127.0.0.1:7001, the same as `listen`"), "{error}");
}

/// `[admin]` was the name of `[monitoring]`; `testdata/releases/1` has files with it.
#[test]
fn the_former_name_of_a_table_is_read_and_errors_name_its_line() {
    let mut config = four();
    config.monitoring.address = Some("127.0.0.1:7900".parse().unwrap());
    let present = config.to_toml();
    let former = present.replace("\n[monitoring]\n", "\n[admin]\n");
    assert_ne!(present, former, "the table is written");
    assert_eq!(NodeConfig::from_toml(&former, Path::new("x")).unwrap(), config);
    let text = former.replace("127.0.0.1:7900", "10.0.0.1:7900");
    let line = text.lines().position(|line| line.contains("10.0.0.1:7900")).expect("the address was written") + 1;
    let error = refusal(&text);
    assert!(error.contains(&format!("line {line}: `monitoring.address`: is 10.0.0.1:7900")), "{error}");
    let both = format!("{present}\n[admin]\n");
    assert!(refusal(&both).contains("duplicate field `monitoring`"), "{}", refusal(&both));
}

#[test]
fn a_testnet_of_named_hosts_has_usable_listening_addresses() {
    let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let shown = |places: &[testnet::Place]| {
        let shown = |place: &testnet::Place| {
            format!("{} {} {} {}", place.peers, place.clients, place.operators, place.monitors.port())
        };
        places.iter().map(shown).collect::<Vec<_>>()
    };
    let places = testnet::places_on(&hosts(&["a", "b.example.com", "10.0.0.3", "d:9000"]), 7000).unwrap();
    assert_eq!(
        shown(&places),
        [
            "a:7000 a:7001 127.0.0.1:7002 7003",
            "b.example.com:7000 b.example.com:7001 127.0.0.1:7002 7003",
            "10.0.0.3:7000 10.0.0.3:7001 127.0.0.1:7002 7003",
            "d:9000 d:9001 127.0.0.1:9002 9003"
        ]
    );
    let shared = testnet::places_on(&hosts(&["a", "b", "a"]), 7000).unwrap();
    assert_eq!(
        shown(&shared),
        ["a:7000 a:7002 127.0.0.1:7004 7006", "b:7000 b:7001 127.0.0.1:7002 7003", "a:7001 a:7003 127.0.0.1:7005 7007"]
    );
    // Addresses that may belong to one host have separate ports for operators, who connect over its loopback.
    let loopback = testnet::places_on(&hosts(&["127.0.1.1", "127.0.1.2", "::1"]), 7000).unwrap();
    let operators = |places: &[testnet::Place]| places.iter().map(|it| it.operators.to_string()).collect::<Vec<_>>();
    assert_eq!(operators(&loopback), ["127.0.1.1:7002", "127.0.1.2:7002", "[::1]:7002"]);
    let numbers = testnet::places_on(&hosts(&["10.0.0.1", "10.0.0.2", "10.0.0.3:7001", "10.0.0.4"]), 7000).unwrap();
    assert_eq!(operators(&numbers), ["127.0.0.1:7002", "127.0.0.1:7003", "127.0.0.1:7004", "127.0.0.1:7005"]);
    let monitors: Vec<u16> = numbers.iter().map(|place| place.monitors.port()).collect();
    assert_eq!(monitors, [7006, 7007, 7008, 7009]);
    for (names, port, words) in [
        (&["a", "b", "c", "d d"][..], 7000, "`d d` is neither a host name nor an IP address"),
        (&["a", "300.1.1.1:7000"], 7000, "300.1.1.1"),
        (&["a:7000", "a:7001"], 7000, "a:7001 is also the address of another replica"),
        (&["a", "b"], 65_535, "8 ports from 65535 on"),
        (&["a:65534"], 7000, "a:65534: the replica takes this port and the three after it"),
        (&["a:0"], 7000, "ports are from 1"),
    ] {
        let error = testnet::places_on(&hosts(names), port).unwrap_err().to_string();
        assert!(error.contains(words), "{names:?}: {error}");
    }
    let scratch = Scratch::new("hosts");
    let net = testnet::write_at(&NodeConfig::template("net"), places, &scratch.0).unwrap();
    let listens = |at: usize| {
        let config = &net.configs[at];
        [&config.listen, &config.client_listen, &config.admin_listen]
            .map(|address| address.as_ref().map(ToString::to_string).unwrap_or_default())
    };
    assert_eq!(
        listens(0),
        ["0.0.0.0:7000", "0.0.0.0:7001", "127.0.0.1:7002"],
        "a host name may resolve differently on its own host"
    );
    assert_eq!(listens(2), ["", "10.0.0.3:7001", "127.0.0.1:7002"]);
    let members: Vec<String> = net.configs[1].members.iter().map(|member| member.address.to_string()).collect();
    assert_eq!(members, ["a:7000", "b.example.com:7000", "10.0.0.3:7000", "d:9000"]);
    assert_eq!(net.client_committee().unwrap().members[3].address.to_string(), "d:9001");
}

#[test]
fn ports_beyond_65535_are_refused_before_anything_is_written() {
    let scratch = Scratch::new("ports");
    for (replicas, base_port) in [(4, 65_533), (4, 65_525), (4, 0)] {
        let error = testnet::write(&NodeConfig::template("net"), replicas, base_port, &scratch.0).unwrap_err();
        assert!(matches!(error, NodeError::Ports { .. }), "{error}");
    }
    assert!(!scratch.0.exists());
}

#[test]
fn a_missing_key_file_and_another_replicas_key_file_are_refused_by_name() {
    let scratch = Scratch::new("keys");
    let net = testnet::write(&NodeConfig::template("net"), 4, 7200, &scratch.0).unwrap();
    let run = |at: usize| quorate_node::run_directory(&net.directories[at], Box::new(quorate_node::NoObserver));
    fs::copy(net.directories[0].join(KEY_FILE), net.directories[1].join(KEY_FILE)).unwrap();
    let error = run(1).unwrap_err();
    assert!(matches!(error, NodeError::KeyFile(_)), "{error}");
    assert!(error.to_string().contains("belongs to replica 0, not to replica 1"), "{error}");
    fs::remove_file(net.directories[2].join(KEY_FILE)).unwrap();
    let error = run(2).unwrap_err().to_string();
    assert!(error.contains("replica-2/private.key"), "{error}");
}

#[test]
fn threads_of_execution_are_one_to_sixty_four() {
    let text = four().to_toml();
    assert!(text.lines().any(|line| line == "execution_threads = 1"), "{text}");
    for threads in [0, 65] {
        let (text, line) = with_line(&text, "execution_threads", &format!("execution_threads = {threads}"));
        let error = refusal(&text);
        let parts = [format!("line {line}: "), format!("is {threads}"), "set 1 to 64".to_owned()];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn unwise_settings_are_named_with_the_better_choice() {
    let said = |change: &dyn Fn(&mut NodeConfig)| {
        let mut config = four();
        change(&mut config);
        config.validate().expect("it is valid all the same");
        config.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let only = |change: &dyn Fn(&mut NodeConfig)| match &said(change)[..] {
        [one] => one.clone(),
        other => panic!("{other:?}"),
    };
    assert!(said(&|_| {}).is_empty(), "the default on one host is wise");

    let far = |config: &mut NodeConfig| config.members[2].address = "10.0.0.3:7002".parse().unwrap();
    let plain = only(&far);
    assert!(plain.contains("`channel`: is `plain`, and replica 2 is at 10.0.0.3:7002"), "{plain}");
    assert!(plain.ends_with("set `tls`"), "{plain}");
    let over_packets = only(&|config| {
        far(config);
        config.transport = TransportKind::RUDP;
    });
    assert!(over_packets.ends_with("set `dtls`"), "{over_packets}");
    let protects = |config: &mut NodeConfig| {
        far(config);
        config.channel = ChannelKind::TLS;
    };
    assert!(said(&protects).is_empty(), "TLS protects");

    let lossy = only(&|config| config.transport = TransportKind::UDP);
    assert!(lossy.contains("`transport`: is `udp`, which repeats nothing") && lossy.contains("`rudp`"), "{lossy}");
    let copied = |config: &mut NodeConfig| {
        config.transport = TransportKind::UDP;
        config.reproduction.copies.repeat = 1;
    };
    assert!(said(&copied).is_empty(), "copies are another way");

    let slow = only(&|config| {
        config.transport = TransportKind::SCTP;
        config.retransmission.profile = RetransmissionProfile::Default;
        config.consensus.view_timeout_ms = 1_000;
    });
    assert!(slow.contains("after 1000 ms at the earliest, and a view ends after 1000 ms"), "{slow}");
}

#[test]
fn a_key_without_effect_is_refused_with_its_line_and_not_written() {
    let written = |change: &dyn Fn(&mut NodeConfig)| {
        let mut config = four();
        change(&mut config);
        config.to_toml()
    };
    for (key, line, reason, help) in [
        ("journal.fsync", "fsync = \"never\"", "`journal.kind` is memory", "set `journal.kind` to file"),
        (
            "consensus.pipeline",
            "pipeline = 8",
            "`consensus.protocol` is jolteon",
            "set `consensus.protocol` to pbft or",
        ),
        ("admin_beyond_loopback", "admin_beyond_loopback = true", "`admin_listen` is absent", "set `admin_listen`"),
        ("accept_weak_scheme", "accept_weak_scheme = true", "`scheme` is ed25519", "set `scheme` to rsa-1024"),
    ] {
        let (name, table) = (line.split(' ').next().unwrap(), key.split_once('.').map(|(table, _)| table));
        let text = written(&|config| config.journal.kind = JournalKind::Memory);
        assert!(!text.contains(&format!("\n{name} =")), "{name} is written: {text}");
        let text = match table {
            None => format!("{line}\n{text}"),
            Some(table) => text.replace(&format!("[{table}]\n"), &format!("[{table}]\n{line}\n")),
        };
        let at = text.lines().position(|own| own == line).expect("the line was added") + 1;
        let error = refusal(&text);
        let start = format!("D/replica-1/config.toml line {at}: `{key}`: has no effect, because {reason}; help: ");
        assert!(error.starts_with(&start) && error.contains(help), "{error}");
    }
    let quic = written(&|config| config.transport = TransportKind::QUIC);
    assert!(quic.contains("\n[quic]\n") && !quic.contains("[tcp]") && !quic.contains("[retransmission]"), "{quic}");
}

#[test]
fn a_running_replica_takes_over_only_keys_and_quotas_of_clients_under_the_same_rule() {
    let scratch = Scratch::new("reload");
    let running = testnet::write(&NodeConfig::template("net"), 4, 7300, &scratch.0).unwrap().configs.remove(0);
    assert_eq!(differences(&running, &running), Differences::default());
    let mut file = running.clone();
    (file.clients.max_commands_per_s, file.clients.max_answer_us_per_s) = (5, 6);
    file.members[1].address = "127.0.0.1:1".parse().unwrap();
    file.consensus.view_timeout_ms += 1;
    file.monitoring.address = None;
    let found = differences(&running, &file);
    assert_eq!(found.changed, ["clients.max_answer_us_per_s", "clients.max_commands_per_s"]);
    assert_eq!(found.refused, ["consensus.view_timeout_ms", "monitoring.address", "members"]);
    file = running.clone();
    file.clients.admitted = AdmittedClients::Listed;
    file.clients.keys = vec!["00".to_owned()];
    let found = differences(&running, &file);
    assert_eq!((found.changed.len(), found.refused.len()), (0, 2), "keys of another rule are for that rule: {found:?}");
}
