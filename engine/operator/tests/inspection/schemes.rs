//! Journals and exports under every scheme with transferable certificates.

use crate::remains::*;
use quorate_client::ClientConfig;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::recovery::journal::Record;
use quorate_crypto::SchemeKind;
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_operator::inspection::InspectError;
use quorate_operator::inspection::check::{Checked, check};
use serde_json::{Value, json};
use std::fs;

const FEW_COMMANDS: u64 = 25;

/// A name, and a change of a line.
type Change<'a> = (&'a str, Box<dyn Fn(&mut Value) + 'a>);

fn transferable() -> Vec<SchemeKind> {
    let convinces = |scheme: &SchemeKind| scheme.profile().transferable && scheme.profile().unforgeable;
    let schemes: Vec<SchemeKind> = SchemeKind::ALL.iter().copied().filter(convinces).collect();
    for name in ["ed25519", "ecdsa-p256", "secp256k1", "bls12-381", "rsa-2048"] {
        assert!(schemes.iter().any(|scheme| scheme.name() == name), "{name} is missing");
    }
    schemes
}

fn remains(scheme: SchemeKind, protocol: ProtocolKind, name: &str) -> Remains {
    Remains::after(FEW_COMMANDS, 10, protocol, &format!("{name}-{scheme}"), |config| {
        config.scheme = scheme;
        config.accept_weak_scheme = scheme.profile().weakness.is_some();
    })
}

fn checked(remains: &Remains, export: &str, trusted: Option<&ClientConfig>) -> Result<Checked, InspectError> {
    let path = remains.directory.join("checked.jsonl");
    fs::write(&path, export).expect("it can be written");
    check(&path, trusted)
}

/// The cluster's keys as given to a client.
fn trusted(remains: &Remains, scheme: SchemeKind) -> ClientConfig {
    let config = NodeConfig::read(&remains.home(0).join(CONFIG_FILE)).expect("it is there");
    let committee = config.committee().expect("it is valid");
    let (protocol, faults) = (config.consensus.protocol, committee.quorum.faults());
    ClientConfig::new(&config.cluster, protocol, scheme, faults, &committee.members)
}

#[test]
fn an_independent_reader_accepts_the_exports_of_every_scheme() {
    for scheme in transferable() {
        for protocol in [ProtocolKind::Jolteon, ProtocolKind::BasicHotStuff, ProtocolKind::Pbft] {
            let remains = remains(scheme, protocol, "stranger");
            let (result, export) = remains.export(1);
            let verification = result.verification.expect("it was asked for");
            let theirs = crate::stranger::check(&export).unwrap_or_else(|why| panic!("{scheme}, {protocol}: {why}"));
            let keys = trusted(&remains, scheme);
            let ours = checked(&remains, &export, Some(&keys)).unwrap_or_else(|why| panic!("{scheme}: {why}"));
            let found = (ours.committed_height, ours.proven_height, ours.commands, ours.checkpoints, ours.signatures);
            let expected = (theirs.committed, theirs.proven, theirs.commands, theirs.checkpoints, theirs.signatures);
            assert_eq!(found, expected, "{scheme}, {protocol}: this program against the independent reader");
            assert!(ours.keys_compared && ours.scheme == scheme.name(), "{scheme}: {ours:?}");
            assert!(verification.certificates > 0 && ours.checkpoints > 0, "{scheme}, {protocol}: {verification:?}");
            assert!(theirs.proven * 2 > theirs.committed, "{scheme}, {protocol}: {theirs:?}");
            let is_weak = |notes: &[String]| notes.iter().any(|note| note.contains("weak"));
            let weak = scheme.profile().weakness.is_some();
            assert_eq!((is_weak(&ours.notes), is_weak(&verification.notes)), (weak, weak), "{scheme}");
        }
    }
}

#[test]
fn both_readers_refuse_changed_certificates_of_every_scheme() {
    for scheme in transferable() {
        let remains = remains(scheme, ProtocolKind::Jolteon, "changed");
        let (_, export) = remains.export(0);
        crate::stranger::check(&export).expect("the export is sound");
        let (at, checkpoint) = find_line(&export, |line| line["line"] == "checkpoint");
        let is_listed = !scheme.profile().aggregatable;
        let proof = if is_listed { "/certificate/signatures/2" } else { "/certificate/proof" };
        let text = |line: &Value| line.pointer(proof).and_then(Value::as_str).expect("hexadecimal").to_owned();
        let signature = text(&checkpoint);
        let signers: Vec<u64> = serde_json::from_value(checkpoint["certificate"]["signers"].clone()).expect("numbers");
        let absent = (0..REPLICAS as u64).find(|replica| !signers.contains(replica)).expect("a quorum is not all");
        let other = find_line(&export, |line| line["height"] == 3).1["justify"].clone();
        let changes: Vec<Change<'_>> = vec![
            ("flipped", Box::new(|line| flip(line.pointer_mut(proof).expect("a proof")))),
            ("longer", Box::new(|line| *line.pointer_mut(proof).expect("a proof") = json!(signature.clone() + "00"))),
            ("empty", Box::new(|line| *line.pointer_mut(proof).expect("a proof") = json!(""))),
            ("another signer", Box::new(|line| line["certificate"]["signers"] = json!(replaced(&signers, absent)))),
            ("one signer fewer", Box::new(|line| line["certificate"]["signers"] = json!(signers[1..]))),
            ("a signature twice", Box::new(|line| line["certificate"]["signers"][1] = json!(signers[0]))),
            (
                "of another subject",
                Box::new(|line| {
                    for field in ["proof", "signatures"].into_iter().filter(|field| !other[*field].is_null()) {
                        line["certificate"][field] = other[field].clone();
                    }
                }),
            ),
        ];
        for (what, change) in changes {
            let mut line = checkpoint.clone();
            change(&mut line);
            assert_ne!(line, checkpoint, "{scheme}: {what}");
            let text = with_line(&export, at, &line);
            assert!(crate::stranger::check(&text).is_err(), "{scheme}: {what}: passes the independent reader");
            assert!(checked(&remains, &text, None).is_err(), "{scheme}: {what}: passes --check");
        }
    }
}

/// Returns the same signers, with the last one replaced by an absentee.
fn replaced(signers: &[u64], absent: u64) -> Vec<u64> {
    let mut signers: Vec<u64> = signers[1..].iter().copied().chain([absent]).collect();
    signers.sort_unstable();
    signers
}

/// Under BLS, a key without a proof of possession may be derived from others' keys.
#[test]
fn both_readers_refuse_keys_without_their_possession() {
    let remains = remains(SchemeKind::BLS12_381, ProtocolKind::Jolteon, "possession");
    let (_, export) = remains.export(0);
    let (at, cluster) = find_line(&export, |line| line["line"] == "cluster");
    let of_another = cluster["members"][2]["possession"].clone();
    for wrong in [json!(""), of_another] {
        let mut line = cluster.clone();
        line["members"][1]["possession"] = wrong;
        let text = with_line(&export, at, &line);
        assert!(crate::stranger::check(&text).is_err(), "it passes the independent reader");
        assert!(checked(&remains, &text, None).is_err(), "it passes --check");
    }
}

/// Keys of P-256 and secp256k1 have equal lengths, and `none` accepts anything.
#[test]
fn an_export_must_name_the_scheme_of_the_trusted_keys() {
    let remains = remains(SchemeKind::ECDSA_P256, ProtocolKind::Jolteon, "named");
    let (_, export) = remains.export(0);
    let keys = trusted(&remains, SchemeKind::SECP256K1);
    let refusal = checked(&remains, &export, Some(&keys)).expect_err("another scheme").to_string();
    assert!(refusal.contains("ecdsa-p256") && refusal.contains("secp256k1"), "{refusal}");
}

#[test]
fn verification_finds_a_changed_signature_of_every_scheme() {
    for scheme in transferable() {
        let remains = remains(scheme, ProtocolKind::Jolteon, "tampered");
        is_noticed(&remains, 1, "is invalid", |mut records| {
            let certificate = records.iter_mut().rev().find_map(|record| match record {
                Record::Certificate(certificate) if !certificate.proof.is_empty() => Some(certificate),
                _ => None,
            });
            let certificate = certificate.expect("it kept one");
            let mut proof = certificate.proof.to_vec();
            *proof.last_mut().expect("it is not empty") ^= 1;
            certificate.proof = proof.into();
            records
        });
    }
}
