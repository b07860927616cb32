//! Clusters whose votes and client bundles have MACs, and the client that divides them: the MAC attack of Clement et
//! al., "Making Byzantine fault tolerant systems tolerate Byzantine faults" (Aardvark), NSDI 2009, section 3.

use crate::support::TestClient;
use quorate_applications::{ApplicationKind, compare_histories};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{AuthProfile, ClientAuthentication, ClientIdentity, SchemeKind};
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::{Bundle, ClientRequest, Height, ReplicaId, ReplicaReply, Status, encode_message};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const MAC_BYTES: usize = 16;
const REPLICAS: usize = 4;
/// Number of bundles sent by the attacker, one for each view that it tries to end.
const ATTACKS: u64 = 3;

fn template(auth_profile: AuthProfile) -> NodeConfig {
    let mut template = NodeConfig::template("test");
    template.application = ApplicationKind::LOG;
    template.auth_profile = auth_profile;
    if auth_profile == AuthProfile::Mac {
        template.client_authentication = ClientAuthentication::Mac;
    }
    template.consensus.protocol = ProtocolKind::PbftMac;
    template.consensus.view_timeout_ms = 200;
    template
}

fn start(template: &NodeConfig) -> EmbeddedCluster {
    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 0)); REPLICAS];
    EmbeddedCluster::start(template, &addresses, |_| {}, || Box::new(NoObserver)).expect("the cluster starts")
}

fn client(cluster: &EmbeddedCluster, template: &NodeConfig, id: u8) -> TestClient {
    let committee = cluster.committee();
    let identity = ClientIdentity::from_seed(&committee.cluster, [id; 32]);
    let identity = match template.client_authentication {
        ClientAuthentication::Mac => {
            identity.with_mac_keys(template.mac_scheme, committee).expect("the members' keys are sound")
        }
        _ => identity,
    };
    let mut client = TestClient::with_identity(cluster, identity);
    client.connect(REPLICAS);
    client
}

/// Returns the bundle with an invalid MAC for each replica that is not chosen, or with an invalid signature instead of
/// MACs.
fn divided(bundle: &Bundle, chosen: impl Fn(u16) -> bool) -> Bundle {
    let mut body = bundle.body().to_vec();
    let macs = body.len() - REPLICAS * MAC_BYTES;
    for replica in (0..REPLICAS as u16).filter(|replica| !chosen(*replica)) {
        body[macs + usize::from(replica) * MAC_BYTES] ^= 1;
    }
    Bundle::from_body(body.into()).expect("the form is unchanged")
}

fn statuses(client: &mut TestClient) -> Vec<Status> {
    (0..REPLICAS as u16).map(|replica| client.status(ReplicaId(replica))).collect()
}

fn agreed(cluster: EmbeddedCluster) -> Height {
    let stopped = cluster.shut_down().into_iter().map(|(_, status)| status.expect("a replica stops without an error"));
    let histories: Vec<_> = stopped.map(|status| (status.replica, status.history)).collect();
    compare_histories(&histories).expect("all replicas executed the same")
}

#[test]
fn commands_are_ordered_by_macs() {
    for auth_profile in [AuthProfile::Mac, AuthProfile::Domain] {
        for mac_scheme in [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC] {
            let template = NodeConfig { mac_scheme, ..template(auth_profile) };
            let cluster = start(&template);
            let mut client = client(&cluster, &template, 7);
            let bundles: Vec<Bundle> = (0..40).map(|_| client.bundle(10, b"payload")).collect();
            client.submit(&bundles, 8, REPLICAS);
            for status in statuses(&mut client) {
                assert_eq!(status.committed_commands, 400, "{auth_profile} {mac_scheme}");
                assert!(status.verifications > 0, "{auth_profile} {mac_scheme}: MACs are verified");
            }
            assert!(agreed(cluster) > Height(0));
        }
    }
}

#[test]
fn a_bundle_without_a_mac_for_a_replica_is_refused_there() {
    let template = template(AuthProfile::Mac);
    let cluster = start(&template);
    let mut client = client(&cluster, &template, 7);
    let good = client.bundle(1, b"payload");
    let signed = ClientIdentity::from_seed(&cluster.committee().cluster, [7; 32]);
    let signed = TestClient::with_identity(&cluster, signed).bundle(1, b"payload");
    for bundle in [divided(&good, |replica| replica != 1), signed] {
        client.send_raw(ReplicaId(1), encode_message(&ClientRequest::Submit(bundle.clone())));
        let why = client.wait(|_, reply| match reply {
            ReplicaReply::Refused { bundle: refused, why, .. } => (*refused == bundle.digest()).then(|| why.clone()),
            _ => None,
        });
        assert!(why.contains("not signed by the client"), "{why}");
    }
    client.submit(&[good], 1, REPLICAS);
}

/// The MAC for one replica is missing. The others agree on the bundle, and that is sufficient proof for this replica.
#[test]
fn a_replica_accepts_what_was_decided_without_its_mac() {
    let template = template(AuthProfile::Mac);
    let cluster = start(&template);
    let mut client = client(&cluster, &template, 7);
    let bundles: Vec<Bundle> = (0..5).map(|_| divided(&client.bundle(2, b"payload"), |replica| replica != 3)).collect();
    for bundle in &bundles {
        client.send_all(&ClientRequest::Submit(bundle.clone()));
    }
    client.status_with(ReplicaId(3), |status| status.committed_commands == 10);
    let height = agreed(cluster);
    assert!(height > Height(0));
}

/// Sends bundles that only the current primary accepts, while an honest client submits commands. Returns the maximum
/// latency of these commands, and the highest view.
fn attack(auth_profile: AuthProfile) -> (Duration, u64) {
    let template = template(auth_profile);
    let cluster = start(&template);
    let mut attacker = client(&cluster, &template, 66);
    let mut honest = client(&cluster, &template, 7);
    let mut longest = Duration::ZERO;
    for _ in 0..ATTACKS {
        let views = statuses(&mut honest).into_iter().map(|status| status.view.0).collect::<Vec<_>>();
        let view = *views.iter().max().expect("there are replicas");
        let primary = ((view - 1) % REPLICAS as u64) as u16;
        let bundle = divided(&attacker.bundle(1, b"divide"), |replica| replica == primary);
        attacker.send_all(&ClientRequest::Submit(bundle));
        // The answer arrives after the bundle was processed.
        attacker.status(ReplicaId(primary));
        for _ in 0..5 {
            let start = Instant::now();
            let command = honest.bundle(1, b"honest");
            honest.submit(&[command], 1, 2);
            longest = longest.max(start.elapsed());
        }
    }
    let last = statuses(&mut honest).into_iter().map(|status| status.view.0).max().expect("there are replicas");
    // Its command is answered by f+1 replicas, which need not include this one.
    let executed =
        honest.status_with(ReplicaId(1), |status| status.committed_commands >= 5 * ATTACKS).committed_commands;
    assert_eq!(executed, 5 * ATTACKS, "{auth_profile}: every honest command, and none of the attacker's");
    assert!(agreed(cluster) > Height(0));
    (longest, last)
}

/// A primary cannot know that others refuse a bundle that it accepts. Each such bundle costs a view; with signatures
/// all replicas refuse it equally.
#[test]
fn one_client_can_end_views_by_macs_and_not_by_signatures() {
    let (waited, views) = attack(AuthProfile::Mac);
    assert!(views > 1, "view {views}: the attack ends views");
    assert!(waited >= Duration::from_millis(100), "an honest command waited {waited:?} for a new view");
    let (_, views) = attack(AuthProfile::Domain);
    assert_eq!(views, 1, "signatures are refused by all replicas alike");
}
