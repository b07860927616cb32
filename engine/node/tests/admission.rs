//! A replica serves the clients admitted by its configuration, within their quotas, and gives others the reason.

use crate::attacker::Attacker;
use crate::support::TestClient;
use quorate_applications::ApplicationKind;
use quorate_consensus::Envelope;
use quorate_consensus::config::LeaderKind;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_crypto::key_file::client::ClientKeys;
use quorate_crypto::{AdmittedClients, KeyPair, SchemeKind};
use quorate_node::{ClientRules, EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::digest::encode_hex;
use quorate_types::{Bundle, ClientRequest, ClusterId, ReplicaId, ReplicaReply, encode_message};
use std::path::Path;
use std::time::Duration;

fn template(clients: ClientRules) -> NodeConfig {
    let mut template = NodeConfig::template("test");
    template.application = ApplicationKind::LOG;
    template.consensus.view_timeout_ms = 300;
    template.clients = clients;
    template
}

fn start(clients: ClientRules) -> EmbeddedCluster {
    let addresses = vec![([127, 0, 0, 1], 0).into(); 4];
    EmbeddedCluster::start(&template(clients), &addresses, |_| {}, || Box::new(NoObserver)).expect("the cluster starts")
}

fn keys() -> ClientKeys {
    ClientKeys::generate(ClusterId::from_name("test")).expect("the system has randomness")
}

fn client(cluster: &EmbeddedCluster, keys: ClientKeys) -> TestClient {
    let mut client = TestClient::with_identity(cluster, keys.identity().expect("the system has randomness"));
    client.connect(4);
    client
}

/// Sends a bundle to replica 1, and returns why it refuses the bundle and whether the client may try again.
fn refusal(client: &mut TestClient, bundle: &Bundle) -> (String, bool) {
    client.send_raw(ReplicaId(1), encode_message(&ClientRequest::Submit(bundle.clone())));
    let digest = bundle.digest();
    client.wait(|_, reply| match reply {
        ReplicaReply::Refused { bundle, why, again } if *bundle == digest => Some((why.clone(), *again)),
        _ => None,
    })
}

fn dropped(client: &mut TestClient, why: &str) -> Option<u64> {
    client.status(ReplicaId(1)).dropped.get(why).copied()
}

#[test]
fn only_listed_clients_are_served() {
    let (friend, stranger) = (keys(), keys());
    let listed = encode_hex(&friend.key.public_key());
    let rules = ClientRules { admitted: AdmittedClients::Listed, keys: vec![listed], ..ClientRules::default() };
    let cluster = start(rules);
    let unlisted = encode_hex(&stranger.key.public_key());
    let (mut friend, mut stranger) = (client(&cluster, friend), client(&cluster, stranger));
    let bundle = stranger.bundle(1, b"payload");
    let (why, again) = refusal(&mut stranger, &bundle);
    assert!(why.contains(&format!("key {unlisted} is not admitted; help:")) && !again, "{why}");
    assert_eq!(dropped(&mut friend, "not-admitted"), Some(1));
    let bundle = friend.bundle(2, b"payload");
    friend.submit(&[bundle], 1, 4);
    assert_eq!(friend.status(ReplicaId(1)).committed_commands, 2);
}

fn certified(certifier: &KeyPair) -> ClientRules {
    let key = encode_hex(&certifier.public_key());
    ClientRules { admitted: AdmittedClients::Certified, certifier: key, ..ClientRules::default() }
}

#[test]
fn only_certified_clients_are_served() {
    let [certifier, other] = [1, 2].map(|seed| KeyPair::from_seed(SchemeKind::ED25519, [seed; 32]));
    let cluster = start(certified(&certifier));
    let (mut good, mut bad, bare) = (keys(), keys(), keys());
    good.certify(&certifier);
    bad.certify(&other);
    for (keys, why) in [(bad, "is not one of this cluster's certifier"), (bare, "the client is not certified, but")] {
        let mut client = client(&cluster, keys);
        let bundle = client.bundle(1, b"payload");
        let (text, again) = refusal(&mut client, &bundle);
        assert!(text.contains(why) && text.contains("`quorate keys certify`") && !again, "{text}");
    }
    let mut client = client(&cluster, good);
    assert_eq!(dropped(&mut client, "not-admitted"), Some(2));
    let bundles: Vec<Bundle> = (0..5).map(|_| client.bundle(2, b"payload")).collect();
    client.submit(&bundles, 1, 4);
    assert_eq!(client.status(ReplicaId(1)).committed_commands, 10);
}

/// A faulty replica cannot have the commands of uncertified clients ordered.
#[test]
fn what_a_peer_relays_must_be_certified_too() {
    let certifier = KeyPair::from_seed(SchemeKind::ED25519, [1; 32]);
    let mut template = template(certified(&certifier));
    template.consensus.leader = LeaderKind::RoundRobin;
    let (mut attacker, cluster, _) = Attacker::among(&template);
    let mut good = keys();
    good.certify(&certifier);
    let mut good = TestClient::with_identity(&cluster, good.identity().expect("the system has randomness"));
    let mut bare = TestClient::with_identity(&cluster, keys().identity().expect("the system has randomness"));
    good.connect(3);
    let relayed = vec![good.bundle(1, b"payload"), bare.bundle(1, b"payload")];
    attacker.say(&Envelope::<ViewMessage>::Relay(relayed));
    attacker.say(&Envelope::<ViewMessage>::Relay(vec![good.bundle(1, b"payload")]));
    let _: Vec<Envelope<ViewMessage>> = attacker.serve_until(&[], || {
        Attacker::honest().all(|replica| {
            let status = good.status(replica);
            status.dropped.get("forged-by-peers") == Some(&1) && status.committed_commands == 1
        })
    });
}

#[test]
fn a_client_over_its_quota_waits_and_others_do_not() {
    let cluster = start(ClientRules { max_commands_per_s: 10, ..ClientRules::default() });
    let (mut heavy, mut light) = (client(&cluster, keys()), client(&cluster, keys()));
    let first = heavy.bundle(40, b"payload");
    heavy.submit(&[first], 1, 4);
    let next = heavy.bundle(1, b"payload");
    let (why, again) = refusal(&mut heavy, &next);
    assert!(why.contains("has used up its quota of 10 commands/s; help:") && again, "{why}");
    assert!(dropped(&mut heavy, "over-quota") >= Some(1));
    let modest = light.bundle(1, b"payload");
    light.submit(&[modest], 1, 4);
    assert!(dropped(&mut light, "forged-by-clients").is_none());
    // 40 commands are paid off after 4 s, and one second of debt is allowed.
    std::thread::sleep(Duration::from_millis(3_500));
    heavy.submit(&[next], 1, 4);
}

#[test]
fn rules_that_cannot_work_are_refused_by_key() {
    let key = encode_hex(&KeyPair::from_seed(SchemeKind::ED25519, [1; 32]).public_key());
    let check = |clients: &str, authentication: &str| {
        let own = format!("cluster = \"test\"\nreplica = 0\nclient_authentication = \"{authentication}\"\n");
        let text = format!("{own}{MEMBER}[clients]\n{clients}\n");
        NodeConfig::from_toml(&text, Path::new("config.toml")).map_err(|error| error.to_string())
    };
    for (clients, why) in [
        ("admitted = \"listed\"".to_owned(), "`clients.keys`: is empty"),
        (format!("keys = [\"{key}\"]"), "`clients.keys`: has no effect with any"),
        (format!("certifier = \"{key}\""), "`clients.certifier`: has no effect with any"),
        ("admitted = \"certified\"".to_owned(), "`clients.certifier`: is \"\", not the public key"),
        ("admitted = \"listed\"\nkeys = [\"00\"]".to_owned(), "`clients.keys`: has no public key in its entry 1"),
        ("max_commands_per_s = 2000000000".to_owned(), "set 0 to 1000000000"),
        ("max_answer_us_per_s = 2000000".to_owned(), "`clients.max_answer_us_per_s`: is 2000000; help: set 0 to"),
        ("max_answer_bytes_per_s = 2000000000000".to_owned(), "set 0 to 1000000000000"),
        ("admitted = \"some\"".to_owned(), "unknown rule of admission `some`: one of any, listed, certified"),
    ] {
        let error = check(&clients, "ed25519").expect_err(&clients);
        assert!(error.contains(why), "{error}");
    }
    let unsigned = check("max_commands_per_s = 5", "none").expect_err("nobody can be told apart");
    assert!(unsigned.contains("`clients.max_commands_per_s`: needs clients that sign"), "{unsigned}");
    assert!(check("", "ed25519").is_ok());
    let listed = check(&format!("admitted = \"listed\"\nkeys = [\"{key}\"]"), "ed25519").expect("it is complete");
    assert_eq!(
        NodeConfig::from_toml(&listed.to_toml(), Path::new("c")).expect("it is read back").clients,
        listed.clients
    );
}

/// A member, as the value of a key, because tables follow it.
const MEMBER: &str = "members = [{ address = \"127.0.0.1:7000\", \
    identity_key = \"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c\", \
    voting_key = \"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025\" }]\n";
