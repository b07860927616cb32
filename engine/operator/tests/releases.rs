//! Files of earlier releases, in `testdata/releases`: today's program reads each, and continues their clusters.
//!
//! `QUORATE_GOLDEN=write cargo test -p quorate-operator --test tests releases` writes the files of today's formats, if
//! the newest there have others. It never replaces files, which are evidence of a release's formats.

use crate::{Net, PORTS, free_ports, succeeds};
use bytes::{Bytes, BytesMut};
use quorate_applications::frozen::{SNAPSHOT_VERSION, SNAPSHOT_VERSION_WITH_LEVELS};
use quorate_client::ClientConfig;
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{self, KEY_FILE_VERSION};
use quorate_crypto::{BundleVerifier, ClientAuthentication, Identities, Identity};
use quorate_network::channels::version::{NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION};
use quorate_network::channels::{
    Channel, ChannelConfig, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, PlainChannel, Sessions, Side, Versions,
};
use quorate_node::NodeConfig;
use quorate_node::snapshots::MAGIC;
use quorate_operator::inspection::EXPORT_FORMAT;
use quorate_storage::JOURNAL_FORMAT;
use quorate_types::settings::{compared, tree};
use quorate_types::{
    Bundle, BundleBuilder, ClientRequest, Height, Parameters, ReplicaId, decode_message, encode_message,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Replicas of the kept cluster: a quorum of four.
const KEPT: u16 = 3;
/// Keys that the cluster wrote.
const KEYS: u64 = 12;
const HANG: Duration = Duration::from_secs(120);
const FORMATS: &str = "formats.json";
const EXPORT: &str = "export.jsonl";
const BUNDLE: &str = "bundle";
/// Bytes that each end of a handshake sent.
const HANDSHAKE: [&str; 2] = ["handshake-initiator", "handshake-responder"];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/releases")
}

/// Returns the kept releases, oldest first.
fn kept() -> Vec<PathBuf> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir(directory()).expect("releases are kept").map(|entry| entry.expect("an entry").path());
    let mut kept: Vec<PathBuf> = entries.filter(|path| number(path).is_some()).collect();
    kept.sort_by_key(number);
    kept
}

/// Formats that today's program writes.
fn formats() -> Value {
    json!({
        "program": env!("CARGO_PKG_VERSION"),
        "wire": [OLDEST_WIRE_VERSION, NEWEST_WIRE_VERSION],
        "journal": JOURNAL_FORMAT,
        "state": SNAPSHOT_VERSION,
        "state_file": std::str::from_utf8(MAGIC).expect("it is text"),
        "export": EXPORT_FORMAT,
        "replica_key": KEY_FILE_VERSION,
        "client_key": key_file::client::CLIENT_KEY_FILE_VERSION,
    })
}

fn formats_of(release: &Path) -> Value {
    let text = fs::read_to_string(release.join(FORMATS)).expect("a release names its formats");
    serde_json::from_str(&text).expect("its formats are JSON")
}

/// Returns the result of reading a release's file, or fails with the remedy.
fn reads<T, E: Display>(release: &Path, what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| {
        panic!(
            "{}: {what} cannot be read: {error}; help: a release reads what the one before it wrote, so keep a reader \
             of the old format; do not write the old files anew (docs/UPGRADING.md)",
            release.display()
        )
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).expect("it can be read")).expect("it can be written");
            // Keys must be their owner's alone.
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("the file is ours");
        }
    }
}

/// Copies a release's cluster to a directory of this test, with other ports.
fn cluster_of(release: &Path, name: &str) -> Net {
    let path = std::env::temp_dir().join(format!("quorate-release-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    copy(&release.join("cluster"), &path);
    let files = (0..KEPT).map(|replica| path.join(format!("replica-{replica}/config.toml")));
    let files: Vec<PathBuf> = files.chain([path.join("client.toml")]).collect();
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).expect("it is text")).collect();
    let ports = texts.iter().flat_map(|text| text.split("127.0.0.1:").skip(1)).map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u16>().expect("a port")
    });
    let (old, new) = (ports.filter(|port| *port > 0).min().expect("it has addresses"), free_ports());
    for (file, text) in files.iter().zip(texts) {
        let moved = (0..PORTS).fold(text, |text, at| {
            text.replace(&format!("127.0.0.1:{}\"", old + at), &format!("127.0.0.1:new {}\"", new + at))
        });
        fs::write(file, moved.replace("127.0.0.1:new ", "127.0.0.1:")).expect("it can be written");
    }
    Net { path, nodes: Vec::new() }
}

/// Settings of a release after this one: one more key that must be equal on all replicas.
#[derive(Serialize, JsonSchema)]
struct Later {
    /// Rule that is as before at 0.
    #[schemars(extend("x-cluster" = true, "x-added" = "0.2.0"))]
    #[serde(default)]
    later_rule: u64,
}

/// Returns the parameters of a replica of the release after this one.
fn of_later_release(config: &NodeConfig, later_rule: u64) -> Parameters {
    let before = config.parameters();
    let before = before.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let tree = tree(&Later { later_rule });
    let later = compared::<Later>(&tree).filter_map(|(key, value)| Some((key.path.clone(), value?.to_string())));
    Parameters::new(before.chain(later.collect::<Vec<_>>()))
}

fn config_of(release: &Path, net: &Net, replica: u16) -> NodeConfig {
    let home = net.path.join(format!("replica-{replica}"));
    reads(release, "config.toml", NodeConfig::read(&home.join("config.toml")))
}

/// Returns the parameters of the kept handshakes.
fn fixed_parameters() -> Parameters {
    Parameters::new([("batch", "auto".to_owned()), ("protocol", "jolteon".to_owned())])
}

/// Two replicas of a release that meet, with these parameters and the nonces of its handshake.
fn ends(release: &Path, net: &Net, versions: Versions, parameters: [Parameters; 2]) -> [PlainChannel; 2] {
    [0, 1].map(|replica| {
        let home = net.path.join(format!("replica-{replica}"));
        let config = config_of(release, net, replica);
        let committee = config.committee().expect("a sound committee");
        let (me, none) = (ReplicaId(replica), Passphrases::default());
        let keys = key_file::read(&home.join("private.key"), config.scheme, &committee.cluster, me, &none);
        let keys = reads(release, "private.key", keys);
        let end = ChannelConfig {
            kind: ChannelKind::PLAIN,
            cluster: committee.cluster,
            epoch: committee.epoch,
            parameters: parameters[usize::from(replica)].clone(),
            versions,
            me: LocalEnd::Replica(Arc::new(Identity::new(&committee, me, keys.identity).expect("a member's key"))),
            verifier: Arc::new(Identities::new(&committee).expect("sound keys")),
            key_update_records: KEY_UPDATE_RECORDS,
            sessions: Sessions::default(),
        };
        let side = if replica == 0 { Side::Initiator { expects: ReplicaId(1) } } else { Side::Responder };
        PlainChannel::new(end, side, [replica as u8 + 1; 32])
    })
}

/// Passes the other end's bytes to an end, and returns the bytes that it sends.
fn answer(end: &mut PlainChannel, heard: &[u8]) -> Result<Vec<u8>, String> {
    let (mut wire, mut plain, mut sent) = (BytesMut::from(heard), BytesMut::new(), Vec::new());
    end.start(&mut sent);
    end.receive(&mut wire, &mut plain, &mut sent).map_err(|error| error.to_string())?;
    match end.agreed() {
        Some(_) => Ok(sent),
        None => Err("the handshake does not end".to_owned()),
    }
}

/// Lets two ends meet, and returns the bytes that each sent, or why one of them refuses the other.
fn meet(ends: &mut [PlainChannel; 2]) -> Result<[Vec<u8>; 2], String> {
    let (mut sent, mut heard) = ([Vec::new(), Vec::new()], [BytesMut::new(), BytesMut::new()]);
    ends[0].start(&mut sent[0]);
    let mut taken = [0, 0];
    while taken != [sent[0].len(), sent[1].len()] {
        for (at, end) in ends.iter_mut().enumerate() {
            heard[at].extend_from_slice(&sent[1 - at][taken[1 - at]..]);
            taken[1 - at] = sent[1 - at].len();
            let received = end.receive(&mut heard[at], &mut BytesMut::new(), &mut sent[at]);
            received.map_err(|why| why.to_string())?;
        }
    }
    Ok(sent)
}

fn bundle(net: &Net) -> Bundle {
    let config = ClientConfig::load(&net.path.join("client.toml")).expect("a client's configuration");
    let cluster = config.committee().expect("a sound committee").cluster;
    let keys = key_file::client::read(&net.path.join("client.key"), &cluster, &Passphrases::default());
    let identity = keys.expect("a client's key").identity().expect("an identity");
    let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
    (1..=3).for_each(|sequence| builder.push(identity.origin(), sequence, format!("command {sequence}").as_bytes()));
    identity.finish(builder)
}

fn put(net: &Net, number: u64) {
    succeeds(&["client", "--dir", net.dir(), "put", &format!("key-{number}"), &format!("value {number}")]);
}

/// Waits until each replica has a state on its disk.
fn wait_for_states(net: &Net) {
    let start = Instant::now();
    let has_state = |replica: u16| {
        let states = net.path.join(format!("replica-{replica}/journal.snapshots"));
        fs::read_dir(states).is_ok_and(|mut entries| entries.next().is_some())
    };
    while !(0..KEPT).all(has_state) {
        assert!(start.elapsed() < HANG, "no states");
        put(net, 1);
    }
}

fn stop(net: &mut Net) {
    for node in &mut net.nodes {
        // SAFETY: signals a child that has not been waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(node.id() as libc::pid_t, libc::SIGTERM) }, 0);
        assert_eq!(node.wait().expect("it ends").code(), Some(0));
    }
    net.nodes.clear();
}

/// Runs a cluster and keeps its files.
fn write(release: &Path) {
    let mut net = Net::written("new-release", &["--admitted-clients", "certified"]);
    for replica in 0..KEPT {
        let path = net.path.join(format!("replica-{replica}/config.toml"));
        let mut config = NodeConfig::read(&path).expect("testnet wrote it");
        // Small files.
        (config.consensus.batch_bytes, config.consensus.checkpoint_interval) = (4 << 10, 8);
        (config.journal.segment_bytes, config.journal.snapshot_bytes) = (68 << 10, 1);
        fs::write(&path, config.to_toml()).expect("it can be written");
    }
    net.start(0..KEPT);
    (1..=KEYS).for_each(|number| put(&net, number));
    wait_for_states(&net);
    stop(&mut net);
    fs::create_dir_all(release).expect("a directory");
    let export = release.join(EXPORT);
    let home = net.path.join("replica-0");
    let [home, export] = [&home, &export].map(|path| path.to_str().expect("UTF-8"));
    succeeds(&["inspect", "--dir", home, "--export", export]);
    for entry in ["replica-0", "replica-1", "replica-2"] {
        let to = release.join("cluster").join(entry);
        copy(&net.path.join(entry), &to);
        fs::remove_file(to.join("log")).expect("a replica has a log");
    }
    for file in ["client.toml", "client.key"] {
        fs::copy(net.path.join(file), release.join("cluster").join(file)).expect("it can be copied");
    }
    fs::write(release.join(BUNDLE), encode_message(&ClientRequest::Submit(bundle(&net)))).expect("it can be written");
    let mut both = ends(release, &net, Versions::ALL, [fixed_parameters(), fixed_parameters()]);
    let sent = meet(&mut both).expect("two equal ends meet");
    for (name, bytes) in HANDSHAKE.iter().zip(sent) {
        fs::write(release.join(name), bytes).expect("it can be written");
    }
    let text = serde_json::to_string_pretty(&formats()).expect("JSON");
    fs::write(release.join(FORMATS), text + "\n").expect("it can be written");
}

/// A format with a new version has files here, beside the files of the old version.
#[test]
fn releases_of_all_formats_are_kept() {
    let kept = kept();
    let newest = kept.last().map(|release| formats_of(release));
    if newest.as_ref() == Some(&formats()) {
        return;
    }
    if std::env::var("QUORATE_GOLDEN").is_ok_and(|value| value == "write") {
        return write(&directory().join((kept.len() + 1).to_string()));
    }
    panic!(
        "no files of today's formats are kept: {:?}, but {}; help: keep a reader of the old formats, then write \
         today's files with QUORATE_GOLDEN=write cargo test -p quorate-operator --test tests releases \
         (docs/UPGRADING.md)",
        newest,
        formats()
    );
}

#[test]
fn the_policy_names_todays_formats() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/UPGRADING.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let file = std::str::from_utf8(MAGIC).expect("it is text");
    for row in [
        format!("| wire | {OLDEST_WIRE_VERSION} to {NEWEST_WIRE_VERSION} |"),
        format!("| journal | {JOURNAL_FORMAT} |"),
        format!("| state (snapshot) | {SNAPSHOT_VERSION} |"),
        format!("| state with feature levels | {SNAPSHOT_VERSION_WITH_LEVELS} |"),
        format!("| file of a state | `{file}` |"),
        format!("| export | {EXPORT_FORMAT} |"),
        format!("| replica's key file | {KEY_FILE_VERSION} |"),
        format!("| client's key file | {} |", key_file::client::CLIENT_KEY_FILE_VERSION),
        format!("\n| {NEWEST_WIRE_VERSION} | "),
    ] {
        assert!(page.contains(&row), "docs/UPGRADING.md does not have: {row}");
    }
}

#[test]
fn journals_states_and_exports_of_earlier_releases_are_sound() {
    for release in kept() {
        let net = cluster_of(&release, "inspect");
        for replica in 0..KEPT {
            let home = net.path.join(format!("replica-{replica}"));
            let output = crate::call(&["inspect", "--dir", home.to_str().expect("UTF-8"), "--verify"]);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            reads(&release, "a replica's directory", if output.status.success() { Ok(()) } else { Err(told) });
        }
        let export = release.join(EXPORT);
        let keys = net.path.join("client.toml");
        let [export, keys] = [&export, &keys].map(|path| path.to_str().expect("UTF-8"));
        let output = crate::call(&["inspect", "--check", export, "--keys", keys]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        reads(&release, "an export", if output.status.success() { Ok(()) } else { Err(told) });
    }
}

#[test]
fn a_cluster_of_an_earlier_release_goes_on() {
    for release in kept() {
        let mut net = cluster_of(&release, "run");
        net.start(0..KEPT);
        put(&net, KEYS + 1);
        for number in 1..=KEYS + 1 {
            let value = succeeds(&["client", "--dir", net.dir(), "get", &format!("key-{number}")]);
            assert_eq!(value.trim(), format!("value {number}"), "{}", release.display());
        }
        stop(&mut net);
    }
}

#[test]
fn bundles_of_earlier_releases_are_genuine() {
    for release in kept() {
        let net = cluster_of(&release, "bundle");
        let frame = Bytes::from(fs::read(release.join(BUNDLE)).expect("it is kept"));
        let request = reads(&release, "a client's request", decode_message::<ClientRequest>(frame.clone()));
        assert_eq!(encode_message(&request), frame, "a request has one encoding");
        let ClientRequest::Submit(found) = request else { panic!("{request:?} is no bundle") };
        let payloads: Vec<&[u8]> = found.commands().map(|command| command.payload).collect();
        assert_eq!(payloads, [&b"command 1"[..], b"command 2", b"command 3"]);
        let config = reads(&release, "client.toml", ClientConfig::load(&net.path.join("client.toml")));
        let cluster = config.committee().expect("a sound committee").cluster;
        let mut verifier = BundleVerifier::new(ClientAuthentication::Ed25519, cluster, 1);
        assert!(verifier.are_genuine([&found]), "{}: its signature is refused", release.display());
    }
}

/// Each end of a recorded handshake meets today's code in place of the other, with the same versions and nonce.
#[test]
fn handshakes_of_earlier_releases_are_completed() {
    for release in kept() {
        let net = cluster_of(&release, "handshake");
        let wire = &formats_of(&release)["wire"];
        let version = |at: usize| wire[at].as_u64().expect("a version") as u8;
        let versions = Versions::new(version(0), version(1)).expect("a range");
        let said = HANDSHAKE.map(|name| fs::read(release.join(name)).expect("it is kept"));
        let parameters = [fixed_parameters(), fixed_parameters()];
        for (at, end) in ends(&release, &net, versions, parameters).iter_mut().enumerate() {
            let sent = reads(&release, "a handshake", answer(end, &said[1 - at]));
            let agreed = end.agreed().expect("it is complete");
            assert_eq!(agreed.version, versions.newest());
            let program = agreed.release.as_ref().map(|release| release.program.as_str());
            assert_eq!(program, formats_of(&release)["program"].as_str());
            // Today's end names today's program.
            if program == Some(env!("CARGO_PKG_VERSION")) {
                assert_eq!(sent, said[at], "{}: {} differs", release.display(), HANDSHAKE[at]);
            }
        }
    }
}

/// A later release that has one more compared key works with a kept one while the key has its default, on either side
/// of a link and at each wire version. Once it is set, both ends name it.
#[test]
fn a_compared_key_of_a_later_release_divides_no_cluster_unless_it_is_set() {
    for release in kept() {
        let net = cluster_of(&release, "keys");
        for versions in [Versions::ALL, Versions::new(OLDEST_WIRE_VERSION, OLDEST_WIRE_VERSION).expect("a range")] {
            for newer in [0, 1] {
                let parameters = |later_rule| {
                    [0, 1].map(|replica| {
                        let config = config_of(&release, &net, replica);
                        if replica == newer { of_later_release(&config, later_rule) } else { config.parameters() }
                    })
                };
                let mut both = ends(&release, &net, versions, parameters(0));
                meet(&mut both).expect("the later release behaves as this one");
                assert!(both.iter().all(|end| end.agreed().is_some()));
                let why = meet(&mut ends(&release, &net, versions, parameters(1))).expect_err("the rules differ");
                assert!(why.contains("`later_rule` is ") && why.contains("unknown"), "{why}");
            }
        }
    }
}
