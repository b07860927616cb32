//! Journals and exports belong to one genesis: a cluster with the same name and keys and another genesis refuses both.

use crate::remains::{COMMANDS, Remains};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::AuthProfile;
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_operator::inspection::check::check;
use quorate_operator::inspection::{InspectArgs, run};
use quorate_operator::report::Report;
use serde_json::{Value, json};
use std::fs;

type Change = fn(&mut NodeConfig);

/// Changes of one part of the genesis each, with a valid configuration of replica 0.
const CHANGES: &[(&str, Change)] = &[
    ("name", |config| config.cluster = "another".to_owned()),
    ("faults", |config| config.faults = Some(0)),
    ("order", |config| config.members.swap(2, 3)),
    ("identity key", |config| config.members[3].identity_key = other_key()),
    ("voting key", |config| config.members[3].voting_key = other_key()),
    ("protocol", |config| config.consensus.protocol = ProtocolKind::Pbft),
    ("profile", |config| config.auth_profile = AuthProfile::Domain),
];

fn other_key() -> bytes::Bytes {
    quorate_crypto::KeyPair::from_seed(quorate_crypto::SchemeKind::ED25519, [77; 32]).public_key()
}

#[test]
fn a_journal_of_another_genesis_is_refused() {
    let remains = Remains::after(5, 10, ProtocolKind::PbftMac, "genesis", |_| {});
    let file = remains.home(0).join(CONFIG_FILE);
    let own = NodeConfig::read(&file).expect("it is there");
    let mut accepted = Vec::new();
    for (part, change) in CHANGES {
        let mut config = own.clone();
        change(&mut config);
        fs::write(&file, config.to_toml()).expect("it can be written");
        let why = match run(&remains.home(0), &InspectArgs { verify: true, ..InspectArgs::default() }) {
            Ok(result) => result.to_table(),
            Err(error) => error.to_string(),
        };
        if !why.contains("belongs to replica 0 and the genesis") {
            accepted.push((part, why));
        }
    }
    fs::write(&file, own.to_toml()).expect("it can be written");
    assert!(remains.inspect(0, true).failure().is_none(), "the journal is sound for its own configuration");
    assert!(accepted.is_empty(), "not refused: {accepted:#?}");
}

type LineChange = fn(&mut Value);

/// Changes of the first line of an export.
const LINES: &[(&str, LineChange)] = &[
    ("name", |line| line["name"] = json!("another")),
    ("faults", |line| line["faults"] = json!(0)),
    ("order", |line| line["members"].as_array_mut().expect("a list").swap(2, 3)),
    ("identity key", |line| line["members"][3]["identity_key"] = line["members"][2]["identity_key"].clone()),
    ("voting key", |line| line["members"][3]["voting_key"] = json!(quorate_types::digest::encode_hex(&other_key()))),
    ("protocol", |line| line["protocol"] = json!("chained-hotstuff")),
    ("scheme", |line| line["scheme"] = json!("none")),
    ("profile", |line| line["auth_profile"] = json!("domain")),
    ("MACs", |line| line["vote_macs"] = json!("hmac-sha256")),
];

/// An export proves the commits of a cluster with this genesis only.
#[test]
fn an_export_says_nothing_about_another_genesis() {
    let remains = Remains::after(COMMANDS, 10, ProtocolKind::Jolteon, "genesis", |_| {});
    let (_, export) = remains.export(0);
    let (first, rest) = export.split_once('\n').expect("there are several lines");
    let path = remains.directory.join("changed.jsonl");
    let mut accepted = Vec::new();
    for (part, change) in LINES {
        let mut line: Value = serde_json::from_str(first).expect("it is JSON");
        change(&mut line);
        let id = crate::stranger::genesis_id(&line).expect("the fields are there");
        for (id, what) in [(line["id"].clone(), "with the old id"), (json!(id), "with its own id")] {
            line["id"] = id;
            let text = format!("{line}\n{rest}");
            fs::write(&path, &text).expect("it can be written");
            let (ours, theirs) = (check(&path, None).is_ok(), crate::stranger::check(&text).is_ok());
            if ours || theirs {
                accepted.push((part, what, ours, theirs));
            }
        }
    }
    fs::write(&path, &export).expect("it can be written");
    assert!(check(&path, None).is_ok() && crate::stranger::check(&export).is_ok());
    assert!(accepted.is_empty(), "accepted for another genesis (part, id, quorate, stranger): {accepted:?}");
}
