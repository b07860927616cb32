//! Replicas authenticate every reply that a client counts, with each method of authentication.

use crate::support::TestClient;
use bytes::Bytes;
use quorate_applications::ApplicationKind;
use quorate_crypto::{
    ClientAuthentication, ClientIdentity, Keyring, ReplyAuthentication, ReplyFault, ReplyVerifier, SchemeKind,
    check_signed_replies,
};
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::{
    AuthenticatedReplies, Bundle, ClientRequest, Height, ReplicaId, ReplicaReply, ReplicaThreads, decode_message,
    encode_message,
};
use std::net::SocketAddr;

const REPLICAS: usize = 4;

/// Authentication of replies in one test case.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: ReplyAuthentication,
    scheme: SchemeKind,
    mac_scheme: SchemeKind,
}

const ED25519: Way =
    Way { kind: ReplyAuthentication::Signature, scheme: SchemeKind::ED25519, mac_scheme: SchemeKind::HMAC_SHA256 };
const WAYS: [Way; 4] = [
    ED25519,
    Way { scheme: SchemeKind::BLS12_381, ..ED25519 },
    Way { kind: ReplyAuthentication::Mac, ..ED25519 },
    Way { kind: ReplyAuthentication::Mac, mac_scheme: SchemeKind::AES_256_CMAC, ..ED25519 },
];

fn template(way: Way) -> NodeConfig {
    let mut template = NodeConfig::template("test");
    template.application = ApplicationKind::LOG;
    template.scheme = way.scheme;
    (template.reply_authentication, template.mac_scheme) = (way.kind, way.mac_scheme);
    template
}

fn start(template: &NodeConfig) -> EmbeddedCluster {
    start_with(template, |_| {})
}

fn start_with(template: &NodeConfig, vary: impl Fn(&mut NodeConfig)) -> EmbeddedCluster {
    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 0)); REPLICAS];
    EmbeddedCluster::start(template, &addresses, vary, || Box::new(NoObserver)).expect("the cluster starts")
}

fn identity(cluster: &EmbeddedCluster, id: u8) -> ClientIdentity {
    ClientIdentity::from_seed(&cluster.committee().cluster, [id; 32])
}

fn verifier(cluster: &EmbeddedCluster, way: Way, id: u8) -> ReplyVerifier {
    let made = ReplyVerifier::new(way.kind, &identity(cluster, id), way.scheme, way.mac_scheme, cluster.committee());
    made.expect("the members' keys are sound").expect("replies have authenticators")
}

/// A client that panics at a frame without a valid authenticator.
fn strict(cluster: &EmbeddedCluster, way: Way, id: u8) -> TestClient {
    let mut client = TestClient::with_identity(cluster, identity(cluster, id));
    client.verifier = Some(verifier(cluster, way, id));
    client.connect(REPLICAS);
    client
}

fn introduce(client: &mut TestClient) {
    if let Some(introduction) = client.verifier.as_ref().and_then(ReplyVerifier::introduction) {
        (0..REPLICAS as u16).for_each(|replica| client.send_raw(ReplicaId(replica), introduction.clone()));
    }
}

#[test]
fn everything_that_a_client_counts_is_authenticated() {
    for way in WAYS {
        // Replica 2 has a network thread, which signs, and replica 3 an additional thread that verifies.
        let cluster = start_with(&template(way), |config| {
            config.replica_threads = ReplicaThreads::Count(config.replica.0 + 1);
        });
        let mut client = strict(&cluster, way, 7);
        // Before any bundle: a replica knows a client's key for MACs only from the client's introduction.
        introduce(&mut client);
        client.send_all(&ClientRequest::Height { id: 5 });
        client.wait(|_, reply| matches!(reply, ReplicaReply::Height { id: 5, .. }).then_some(()));
        client.send_all(&ClientRequest::Query { id: 6, question: Bytes::from_static(b"question") });
        client.wait(|_, reply| matches!(reply, ReplicaReply::Answer { id: 6, .. }).then_some(()));
        client.inbox.clear();
        client.frames.clear();
        let mut fresh = strict(&cluster, way, 8);
        let bundles: Vec<Bundle> = (0..40).map(|_| fresh.bundle(10, b"payload")).collect();
        fresh.submit(&bundles, 8, REPLICAS);
        // Kept or forgotten replies and refusals are authenticated too.
        fresh.send_all(&ClientRequest::Submit(bundles[3].clone()));
        let digest = bundles[3].digest();
        fresh
            .wait(|_, reply| matches!(reply, ReplicaReply::Executed { bundle, .. } if *bundle == digest).then_some(()));
        let of_another = TestClient::with_identity(&cluster, identity(&cluster, 9)).bundle(1, b"payload");
        fresh.send_all(&ClientRequest::Submit(of_another.clone()));
        let digest = of_another.digest();
        fresh.wait(|_, reply| matches!(reply, ReplicaReply::Refused { bundle, .. } if *bundle == digest).then_some(()));
        let frames = std::mem::take(&mut fresh.frames);
        let sent = |replica| frames.iter().any(|(from, _)| *from == ReplicaId(replica));
        assert!((0..REPLICAS as u16).all(sent), "{way:?}: {} frames, not of all replicas", frames.len());
        let others = verifier(&cluster, way, 9);
        for (replica, frame) in &frames {
            let forged = others.open(*replica, frame.clone(), |_| true);
            assert!(matches!(forged, Err(ReplyFault::Forged(_))), "{way:?}: good for one client alone");
        }
        assert_eq!(client.status(ReplicaId(0)).committed_commands, 400, "{way:?}: a status needs no MAC");
        cluster.shut_down();
    }
}

#[test]
fn replies_of_a_block_to_one_client_share_a_signature_that_convinces_others() {
    let mut template = template(ED25519);
    template.consensus.batch_bytes = 8 << 20;
    let cluster = start(&template);
    let keyring = Keyring::new(SchemeKind::ED25519, cluster.committee()).expect("the members' keys are sound");
    let mut client = strict(&cluster, ED25519, 7);
    let bundles: Vec<Bundle> = (0..400).map(|_| client.bundle(1, b"payload")).collect();
    client.submit(&bundles, 400, REPLICAS);
    let mut most = 0;
    for (replica, frame) in &client.frames {
        let replies = check_signed_replies(&keyring, *replica, client.id(), frame.clone()).expect("it is signed");
        most = most.max(replies.len());
        assert_eq!(AuthenticatedReplies::decode(frame.clone()).expect("it is authenticated").authenticator.len(), 64);
        let other = ReplicaId((replica.0 + 1) % REPLICAS as u16);
        assert!(check_signed_replies(&keyring, other, client.id(), frame.clone()).is_err());
    }
    assert!(most > 1, "some block has several bundles of the client");
    assert!(client.frames.len() < REPLICAS * bundles.len(), "{} frames", client.frames.len());
    cluster.shut_down();
}

/// A replica cannot create a MAC for a client whose key it does not know, and signals this by replying without one.
#[test]
fn without_a_key_there_is_no_mac() {
    let way = WAYS[2];
    let cluster = start(&template(way));
    let mut client = TestClient::with_identity(&cluster, identity(&cluster, 7));
    client.connect(REPLICAS);
    let wrong = identity(&cluster, 8);
    let of_another = ReplyVerifier::new(way.kind, &wrong, way.scheme, way.mac_scheme, cluster.committee());
    let introduction = of_another.expect("sound keys").expect("there are MACs").introduction().expect("MACs need it");
    for credential in [introduction, encode_message(&ClientRequest::Introduce { credential: Bytes::new() })] {
        client.send_raw(ReplicaId(1), credential);
    }
    client.send_raw(ReplicaId(1), encode_message(&ClientRequest::Height { id: 5 }));
    // The test client decodes plain replies only.
    client.wait(|_, reply| matches!(reply, ReplicaReply::Height { id: 5, .. }).then_some(()));
    cluster.shut_down();
}

#[test]
fn a_client_that_expects_no_authenticators_gets_help() {
    let replies = [encode_message(&ReplicaReply::Height { id: 1, height: Height(2) })];
    let frame =
        AuthenticatedReplies::encode(&mut quorate_types::Encoder::default(), &replies, |_| Bytes::from(vec![0; 16]));
    let error = decode_message::<ReplicaReply>(frame).expect_err("it is authenticated").to_string();
    assert!(error.contains("set `reply_authentication` as on the replicas"), "{error}");
}

#[test]
fn ways_that_cannot_work_are_refused() {
    let faults = |change: &dyn Fn(&mut NodeConfig)| {
        let mut config = template(ED25519);
        change(&mut config);
        let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 0)); REPLICAS];
        let started = EmbeddedCluster::start(&config, &addresses, |_| {}, || Box::new(NoObserver));
        started.err().expect("it is refused").to_string()
    };
    let text = faults(&|config| config.scheme = SchemeKind::NONE);
    assert!(text.contains("reply_authentication") && text.contains("prove nothing"), "{text}");
    let text = faults(&|config| {
        config.reply_authentication = ReplyAuthentication::Mac;
        config.client_authentication = ClientAuthentication::None;
    });
    assert!(text.contains("reply_authentication") && text.contains("clients have no keys"), "{text}");
}
