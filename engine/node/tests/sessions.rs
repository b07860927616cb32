//! At-most-once execution by sessions, after every other record of an old bundle is lost.

use crate::support::TestClient;
use quorate_applications::{ApplicationKind, KeyValueCommand};
use quorate_crypto::ClientAuthentication;
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::{Bundle, BundleBuilder, ClientRequest, Height, Outcome, ReplicaId, ReplicaReply};
use std::net::SocketAddr;

/// Commands per block, and per bundle of the flood.
const BATCH: usize = 400;

fn value(client: &mut TestClient, key: &[u8]) -> Vec<Vec<u8>> {
    let question = KeyValueCommand::Get { key }.to_vec();
    let ask = |client: &mut TestClient, replica: u16| {
        let request = ClientRequest::Query { id: 1000 + u64::from(replica), question: question.clone().into() };
        client.send_raw(ReplicaId(replica), quorate_types::encode_message(&request));
        client.wait(|from, reply| match reply {
            ReplicaReply::Answer { answer, .. } if from == ReplicaId(replica) => Some(answer.to_vec()),
            _ => None,
        })
    };
    (0..4).map(|replica| ask(client, replica)).collect()
}

#[test]
fn an_old_bundle_stays_void_however_many_sessions_one_client_opens() {
    let mut template = NodeConfig::template("test");
    template.application = ApplicationKind::KEY_VALUE;
    template.client_authentication = ClientAuthentication::Ed25519;
    template.consensus.batch = (BATCH as u32).into();
    template.consensus.checkpoint_interval = 8;
    (template.consensus.retained_blocks, template.consensus.retained_bytes) = (8, 1 << 16);
    template.reply_cache_bytes = 1;
    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 0)); 4];
    let cluster =
        EmbeddedCluster::start(&template, &addresses, |_| {}, || Box::new(NoObserver)).expect("the cluster starts");
    let (mut victim, mut attacker) = (TestClient::new(&cluster, 7), TestClient::new(&cluster, 8));
    victim.connect(4);
    attacker.connect(4);
    let written = [b"100", b"0  "].map(|value| KeyValueCommand::Put { key: b"balance", value }.to_vec());
    let bundles: Vec<Bundle> = written.iter().map(|command| victim.bundle(1, command)).collect();
    victim.submit(&bundles, 1, 4);
    let before = value(&mut victim, b"balance");
    let flood: Vec<Bundle> =
        (0..=u16::MAX).collect::<Vec<u16>>().chunks(BATCH).map(|sessions| attacker.crowd(sessions)).collect();
    attacker.submit(&flood, 16, 4);
    victim.send_all(&ClientRequest::Submit(bundles[0].clone()));
    let (height, outcome) = victim.wait(|_, reply| match reply {
        ReplicaReply::Executed { bundle, height, results } if *bundle == bundles[0].digest() => {
            Some((*height, results.outcomes().next() == Some(Outcome::Duplicate)))
        }
        _ => None,
    });
    assert_eq!((height, outcome), (Height(0), true), "the old bundle was ordered");
    assert_eq!(value(&mut victim, b"balance"), before, "a later write was overwritten");
    let mut later = BundleBuilder::new(victim.id(), Height(5));
    later.push(victim.id(), 9, b"");
    let late = victim.sign(later);
    victim.send_all(&ClientRequest::Submit(late.clone()));
    let expired = victim.wait(|_, reply| match reply {
        ReplicaReply::Executed { bundle, results, .. } if *bundle == late.digest() => {
            Some(results.outcomes().next() == Some(Outcome::Expired))
        }
        _ => None,
    });
    assert!(expired, "the client is not told that the bundle expired");
    let soon = victim.status(ReplicaId(0)).height.0 + 100;
    let mut soon = BundleBuilder::new(victim.id(), Height(soon));
    soon.push(victim.id(), 9, b"");
    let soon = victim.sign(soon);
    victim.send_all(&ClientRequest::Submit(soon.clone()));
    let why = victim.wait(|_, reply| match reply {
        ReplicaReply::Refused { bundle, why, .. } if *bundle == soon.digest() => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("sign bundles to expire 4096 to 1048576 heights ahead"), "{why}");
}
