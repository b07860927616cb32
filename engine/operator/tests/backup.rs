//! Snapshots of clusters: the codec of the file, and real clusters that are saved under load and begin others.

use crate::rolling::{Load, Strays, agree, started};
use crate::{Net, REPLICAS, call, free_ports, program, succeeds};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_client::ClientConfig;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_operator::backup::BackupError;
use quorate_operator::backup::file::{BackedBlock, Backup, Base};
use quorate_operator::backup::verify::{Trusted, verify};
use quorate_types::{
    Block, BundleBuilder, Certificate, ClientId, Digest, Domain, EpochId, Height, ReplicaId, Subject, View,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Replicas of a cluster that begins with a snapshot.
const NEW_REPLICAS: u16 = 7;
/// Snapshots until one contains a state. Each orders 24 commands, and the cluster keeps a state every 32 blocks.
const MAX_SNAPSHOTS: usize = 10;

fn certificate(height: u64, proof: Vec<u8>) -> Certificate {
    let subject =
        Subject { domain: Domain::Checkpoint, view: View(0), height: Height(height), digest: Digest([7; 32]) };
    Certificate { subject, proof: proof.into(), ..Certificate::genesis(&EpochId::of_name("codec")) }
}

fn backed(number: u64, payloads: Vec<Vec<u8>>) -> BackedBlock {
    let bundle = |(at, payload): (usize, &Vec<u8>)| BundleBuilder::single(ClientId(9), at as u64, payload);
    let bundles: Vec<_> = payloads.iter().enumerate().map(bundle).collect();
    let names = bundles.iter().map(|bundle| bundle.digest()).collect();
    BackedBlock { block: Block::new(View(number), ReplicaId(2), certificate(number, vec![]), names, number), bundles }
}

fn bases() -> impl Strategy<Value = Base> {
    let bytes = || vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    prop_oneof![
        Just(Base::Empty),
        bytes().prop_map(Base::Initial),
        (vec(any::<u8>(), 0..100), bytes())
            .prop_map(|(proof, state)| Base::State { certificate: certificate(4, proof).into(), state }),
    ]
}

prop_compose! {
    fn backups()(
        base in bases(),
        genesis in any::<[u8; 32]>(),
        application in "[a-z-]{0,64}",
        payloads in vec(vec(vec(any::<u8>(), 0..50), 0..3), 0..4),
        proof in proptest::option::of(vec(any::<u8>(), 0..100)),
    ) -> Backup {
        let blocks: Vec<BackedBlock> = (0..).zip(payloads).map(|(number, of)| backed(number, of)).collect();
        let head = || Arc::new(backed(8, vec![]).block);
        let frontier = || Frontier::new(vec![(head(), Arc::from([ReplicaId(1), ReplicaId(3)]))]);
        let proof = proof.map(|proof| (certificate(9, proof), frontier()));
        Backup { genesis: EpochId(Digest(genesis)), application, base, blocks, proof }
    }
}

fn is(decoded: &Result<Backup, BackupError>, what: &str) -> bool {
    decoded.as_ref().is_err_and(|error| error.to_string().contains(what))
}

proptest! {
    #[test]
    fn a_file_is_read_as_it_was_written(backup in backups()) {
        let file = backup.encode().expect("it is small");
        prop_assert_eq!(Backup::decode(file).expect("it was written so"), backup);
    }

    #[test]
    fn a_damaged_file_is_refused(backup in backups(), place in any::<prop::sample::Index>(), mask in 1u8..) {
        let mut file = backup.encode().expect("it is small").to_vec();
        let at = place.index(file.len());
        let cut = Backup::decode(file[..at].to_vec().into());
        let (truncated, no_snapshot) = (is(&cut, "is truncated"), is(&cut, "is not a snapshot"));
        prop_assert!(truncated || no_snapshot || is(&cut, "has another format"));
        file[at] ^= mask;
        prop_assert!(Backup::decode(file.clone().into()).is_err());
        file[at] ^= mask;
        file.push(mask);
        prop_assert!(is(&Backup::decode(file.into()), "is damaged"));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let file = [b"qBack001", &bytes[..]].concat();
        prop_assert!(Backup::decode(file.into()).is_err());
    }
}

/// Runs `quorate-node snapshot`, which is to fail, and returns its exit status and its error.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = call(&[&["snapshot"], arguments].concat());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.starts_with("error: "), "{arguments:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    (output.status.code(), text)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a test's path is UTF-8")
}

/// Sets keys so that checkpoints are frequent, and states are kept often if `keeps`.
fn hasten(net: &Net, keeps: bool) {
    for replica in 0..REPLICAS {
        net.configure(replica, "checkpoint_interval", "16");
        if keeps {
            net.configure(replica, "window", "64");
            net.configure(replica, "retained_blocks", "64");
        }
    }
}

fn put_all(net: &Net) {
    for number in 0..10 {
        succeeds(&["client", "--dir", net.dir(), "put", &format!("kept-{number}"), &format!("value {number}")]);
    }
}

/// Checks the keys of [`put_all`].
fn judge(net: &Net) {
    let listing = succeeds(&["client", "--dir", net.dir(), "scan", "--prefix", "kept-"]);
    let expected: String = (0..10).map(|number| format!("kept-{number}\tvalue {number}\n")).collect();
    assert_eq!(listing, expected);
}

fn trusted(net: &Net) -> (ClientConfig, Trusted) {
    let config = ClientConfig::load(&net.path.join("client.toml")).expect("testnet wrote it");
    let trusted = Trusted::of_client(&config).expect("its keys are valid");
    (config, trusted)
}

/// Saves a snapshot of a cluster under load, and returns its file.
fn saved(net: &Net) -> String {
    let file = path(&net.path.join("snapshot")).to_owned();
    let load = Load::start(net);
    load.await_more();
    let told = succeeds(&[
        "snapshot",
        "save",
        "--dir",
        &format!("{}/replica-1", net.dir()),
        "--client",
        net.dir(),
        "--out",
        &file,
    ]);
    assert!(told.contains(": state of kv at height ") && told.contains(" certified by "), "{told}");
    load.await_more();
    load.finish();
    let verified = succeeds(&["snapshot", "verify", &file, "--keys", net.dir()]);
    assert_eq!(verified, told, "anybody sees the same");
    file
}

fn forgeries_are_refused(net: &Net, file: &str) {
    let (config, of_cluster) = trusted(net);
    let content = Bytes::from(fs::read(file).expect("it was written"));
    let backup = Backup::decode(content.clone()).expect("it is sound");
    let whole = verify(&backup, &of_cluster).expect("it is proven");
    let unproven = |change: &dyn Fn(&mut Backup)| {
        let mut forged = backup.clone();
        change(&mut forged);
        assert_ne!(forged, backup);
        let forged = Backup::decode(forged.encode().expect("it is small")).expect("its digest is right");
        match verify(&forged, &of_cluster) {
            Err(BackupError::Unproven(why)) => why,
            other => panic!("{:?}", other.map(|verified| verified.height)),
        }
    };
    let cut = unproven(&|forged| drop(forged.blocks.pop()));
    assert!(cut.contains("its certificate is not of its last block") || cut.contains("nothing certifies"), "{cut}");
    let swapped = unproven(&|forged| forged.blocks.iter_mut().for_each(|of| of.bundles.clear()));
    assert_eq!(swapped, format!("executing it gives another state at height {}", whole.height));
    let gap = unproven(&|forged| drop(forged.blocks.remove(0)));
    assert!(gap.contains(" follows block "), "{gap}");
    let unsigned = unproven(&|forged| forged.proof.as_mut().expect("it has one").0.proof = Bytes::new());
    assert!(unsigned.contains("is invalid"), "{unsigned}");

    let damaged = format!("{file}-damaged");
    let mut bytes = content.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&damaged, &bytes).expect("a file");
    let (status, text) = refused(&["verify", &damaged, "--keys", net.dir()]);
    assert!(status == Some(1) && text.contains("the snapshot is damaged"), "{text}");
    fs::write(&damaged, &content[..middle]).expect("a file");
    let (status, text) = refused(&["verify", &damaged, "--keys", net.dir()]);
    assert!(status == Some(1) && text.contains(&format!("it has {middle} of {} bytes", content.len())), "{text}");
    let (status, text) = refused(&["verify", &format!("{}/client.toml", net.dir()), "--keys", net.dir()]);
    assert!(status == Some(2) && text.contains("this is not a snapshot of a cluster"), "{text}");

    let other = Net::written("other-committee", &[]);
    let (status, text) = refused(&["verify", file, "--keys", other.dir()]);
    let expected = format!("and the trusted keys are of {}", trusted(&other).1.committee.epoch.0);
    assert!(status == Some(2) && text.contains(&expected), "{text}");
    let (_, text) = refused(&["restore", file, "--keys", other.dir(), "--dir", "/nowhere/net", "--name", "new"]);
    assert!(text.contains(&expected), "{text}");
    drop(config);
}

fn old_identities_are_refused(net: &Net, file: &str) {
    let new = format!("{}/new", net.dir());
    let (status, text) = refused(&["restore", file, "--keys", net.dir(), "--dir", &new, "--name", "quorate"]);
    assert!(status == Some(2) && text.contains("--name quorate is the name of the snapshot's own cluster"), "{text}");
    for directory in [net.dir().to_owned(), format!("{}/replica-2", net.dir())] {
        let (status, text) = refused(&["restore", file, "--keys", net.dir(), "--dir", &directory, "--name", "new"]);
        assert!(status == Some(2) && text.contains("is the journal of a replica"), "{text}");
    }
    assert!(!Path::new(&new).exists());
}

/// Restores a snapshot into a cluster of another size and protocol, and starts it.
fn restored(net: &Net, file: &str) -> Net {
    let path = std::env::temp_dir().join(format!("quorate-restored-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut new = Net { path, nodes: Vec::new() };
    let (ports, replicas) = (free_ports().to_string(), NEW_REPLICAS.to_string());
    let shape = ["--replicas", &replicas, "--base-port", &ports, "--protocol", "jolteon", "--name", "restored"];
    let told =
        succeeds(&[&["snapshot", "restore", file, "--keys", net.dir(), "--dir", new.dir()], &shape[..]].concat());
    assert!(told.contains(&format!("quorate-node run --dir {}/replica-6", new.dir())), "{told}");
    // Without its initial state a replica does not begin empty.
    let (file, away) = (new.path.join("replica-6/initial.state"), new.path.join("away"));
    fs::rename(&file, &away).expect("it was written");
    let output = program().args(["run", "--dir"]).arg(new.path.join("replica-6")).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("copy it from another replica"), "{text}");
    fs::write(&file, b"another").expect("a file");
    let output = program().args(["run", "--dir"]).arg(new.path.join("replica-6")).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("is not the initial state of this cluster"), "{text}");
    fs::rename(&away, &file).expect("it is ours");
    new.start(0..NEW_REPLICAS);
    new
}

#[test]
fn a_cluster_begins_with_a_snapshot_of_another_and_goes_on() {
    let mut net = Net::written("backup", &["--protocol", "pbft"]);
    hasten(&net, false);
    let empty = format!("{}/empty", net.dir());
    let save = ["save", "--dir", &format!("{}/replica-0", net.dir()), "--out", &empty];
    started(&mut net);
    let (status, text) = refused(&save);
    assert!(status == Some(1) && text.contains("no checkpoint is certified yet"), "{text}");
    put_all(&net);
    let file = saved(&net);
    forgeries_are_refused(&net, &file);
    old_identities_are_refused(&net, &file);

    let new = restored(&net, &file);
    drop(net);
    judge(&new);
    succeeds(&["client", "--dir", new.dir(), "put", "kept-4", "another"]);
    succeeds(&["client", "--dir", new.dir(), "put", "kept-4", "value 4"]);
    // A replica that restarts executes its journal on the initial state.
    let _strays = Strays(&new);
    succeeds(&["restart", "--dir", new.dir(), "--replica", "5", "--ready-timeout", "2m"]);
    judge(&new);
    agree(&new, NEW_REPLICAS);
    succeeds(&["inspect", "--dir", &format!("{}/replica-5", new.dir()), "--verify"]);

    let again = format!("{}/again", new.dir());
    let home = format!("{}/replica-0", new.dir());
    succeeds(&["snapshot", "save", "--dir", &home, "--client", new.dir(), "--out", &again]);
    succeeds(&["snapshot", "verify", &again, "--keys", new.dir()]);
    let backup = Backup::read(Path::new(&again)).expect("it is sound");
    let (config, _) = trusted(&new);
    let without = Trusted::of_client(&ClientConfig { initial_state: None, ..config }).expect("valid keys");
    assert!(matches!(
        verify(&backup, &without),
        Err(BackupError::OtherInitialState { found: Some(_), expected: None })
    ));
}

#[test]
fn a_snapshot_has_the_last_state_that_a_quorum_certified() {
    let mut net = Net::written("kept-state", &["--protocol", "jolteon"]);
    hasten(&net, true);
    started(&mut net);
    put_all(&net);
    // The first snapshots may come before the first state that is kept, after 32 blocks.
    let mut attempts = (0..MAX_SNAPSHOTS).map(|_| {
        let file = saved(&net);
        let backup = Backup::read(Path::new(&file)).expect("it is sound");
        fs::remove_file(&file).expect("it was written");
        backup
    });
    let backup = attempts.find(|backup| matches!(backup.base, Base::State { .. })).expect("states are kept");
    let (_, of_cluster) = trusted(&net);
    verify(&backup, &of_cluster).expect("it is proven");
    let Base::State { certificate, state } = &backup.base else { unreachable!("it was found so") };
    let mut other = state.to_vec();
    *other.last_mut().expect("it is not empty") ^= 1;
    let base = Base::State { certificate: certificate.clone(), state: other.into() };
    let forged = Backup { base, ..backup.clone() };
    let Err(BackupError::Unproven(why)) = verify(&forged, &of_cluster) else { panic!("it is another state") };
    assert_eq!(why, "the state is not the certified one");
}
