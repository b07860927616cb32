//! Only a client itself can act in its name: no other client, no replica that relays its bundles, and no leader that
//! orders its own. Tested over real sockets, with one Byzantine replica of four.

use crate::attacker::Attacker;
use crate::support::TestClient;
use bytes::Bytes;
use quorate_applications::{ApplicationKind, compare_histories};
use quorate_consensus::config::{BatchPolicy, Dissemination, LeaderKind, ProtocolKind};
use quorate_consensus::protocols::pbft::message::{PbftMessage, PrePrepare};
use quorate_consensus::protocols::views::message::{Proposal, ViewMessage};
use quorate_consensus::{Envelope, Message};
use quorate_crypto::{ClientAuthentication, ClientIdentity, ClientVerdicts};
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig, NodeEvent, Reproduction};
use quorate_types::{
    Attachment, Block, Bundle, BundleBuilder, Certificate, ClientRequest, ClusterId, Digest, Domain, Height, ReplicaId,
    ReplicaReply, ReplicaThreads, View, Vote, encode_message,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn template() -> NodeConfig {
    let mut template = NodeConfig::template("test");
    assert_eq!(template.client_authentication, ClientAuthentication::Ed25519, "the default is the safe setting");
    template.application = ApplicationKind::LOG;
    template.consensus.view_timeout_ms = 300;
    template
}

fn start(template: &NodeConfig) -> EmbeddedCluster {
    let addresses = vec![([127, 0, 0, 1], 0).into(); 4];
    EmbeddedCluster::start(template, &addresses, |_| {}, || Box::new(NoObserver)).expect("the cluster starts")
}

fn identity(number: u8) -> ClientIdentity {
    ClientIdentity::from_seed(&ClusterId::from_name("test"), [number; 32])
}

fn bundle(identity: &ClientIdentity, sequence: u64) -> Bundle {
    let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
    builder.push(identity.origin(), sequence, b"payload");
    identity.finish(builder)
}

/// Returns the bundle with one byte changed, counted from its end.
fn altered(bundle: &Bundle, from_end: usize) -> Bundle {
    let mut body = bundle.body().to_vec();
    let at = body.len() - from_end;
    body[at] ^= 1;
    Bundle::from_body(body.into()).expect("the form is unchanged")
}

/// Last byte of the signature, and last byte of the payload.
const CHANGES: [usize; 2] = [1, 97];

fn refusal(client: &mut TestClient, frame: Bytes) -> (Digest, String) {
    client.send_raw(ReplicaId(1), frame);
    client.wait(|_, reply| match reply {
        ReplicaReply::Refused { bundle, why, .. } => Some((*bundle, why.clone())),
        ReplicaReply::Executed { .. } => panic!("the bundle was executed"),
        _ => None,
    })
}

/// Configurations in which the replica's thread verifies client signatures, other threads do, or one more also drives
/// the network.
fn templates() -> [NodeConfig; 3] {
    let elsewhere = NodeConfig { replica_threads: ReplicaThreads::Count(2), ..template() };
    let apart = NodeConfig { replica_threads: ReplicaThreads::Count(3), ..template() };
    [template(), elsewhere, apart]
}

#[test]
fn bundles_that_their_client_did_not_sign_are_refused_with_one_clear_error() {
    templates().iter().for_each(forgeries_are_refused);
}

fn forgeries_are_refused(template: &NodeConfig) {
    let cluster = start(template);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let good = client.bundle(3, b"payload");
    let bare = bundle(&ClientIdentity::claimed(client.id()), 1);
    let elsewhere = bundle(&ClientIdentity::from_seed(&ClusterId::from_name("another"), [7; 32]), 1);
    let mut cases = vec![
        (bare, "is not signed, but", "`client_authentication = \"ed25519\"` in client.toml"),
        (elsewhere, "not signed by the client", "for this cluster"),
        (bundle(&identity(8), 1), "this link is client", "link's own id"),
    ];
    cases.extend(CHANGES.map(|at| (altered(&good, at), "not signed by the client", "with the key")));
    for (bundle, why, help) in &cases {
        let (digest, text) = refusal(&mut client, encode_message(&ClientRequest::Submit(bundle.clone())));
        assert_eq!(digest, bundle.digest());
        assert!(text.contains(why) && text.contains(help), "{text}");
    }
    // Replayed under another client's id. The version, the request kind, the length of the bundle and its authenticator
    // precede the origin.
    let mut frame = encode_message(&ClientRequest::Submit(good.clone())).to_vec();
    frame[7..23].copy_from_slice(&identity(8).origin().0.to_le_bytes());
    let (digest, text) = refusal(&mut client, frame.into());
    assert!(digest == Digest::ZERO && text.contains("its origin does not belong to the key"), "{text}");
    let status = client.status(ReplicaId(1));
    assert_eq!(status.dropped.get("forged-by-clients"), Some(&3), "{:?}", status.dropped);
    assert_eq!(status.committed_commands, 0);
    client.submit(&[good], 1, 4);
    assert_eq!(client.status(ReplicaId(1)).committed_commands, 3);
}

#[test]
fn one_forged_bundle_does_not_affect_the_others() {
    templates().iter().for_each(forgeries_affect_nothing_else);
}

fn forgeries_affect_nothing_else(template: &NodeConfig) {
    let cluster = start(template);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<Bundle> = (0..30).map(|_| client.bundle(1, b"payload")).collect();
    for (at, bundle) in bundles.iter().enumerate() {
        client.send_all(&ClientRequest::Submit(altered(bundle, CHANGES[at % 2])));
        client.send_all(&ClientRequest::Submit(bundle.clone()));
    }
    // A replica that executes a bundle before it has read the client's frame replies to both.
    let mut executed: BTreeMap<Digest, BTreeSet<ReplicaId>> = BTreeMap::new();
    let mut refused = 0;
    client.wait(|replica, reply| {
        match reply {
            ReplicaReply::Executed { bundle, .. } => drop(executed.entry(*bundle).or_default().insert(replica)),
            ReplicaReply::Refused { .. } => refused += 1,
            _ => {}
        }
        (refused == 4 * 30 && executed.values().map(BTreeSet::len).sum::<usize>() == 4 * 30).then_some(())
    });
    assert!(bundles.iter().all(|bundle| executed[&bundle.digest()].len() == 4), "{executed:?}");
}

/// An impostor that claims another client's id and replays its bundles does not get that client's replies.
#[test]
fn an_impostor_gets_no_replies() {
    templates().into_iter().for_each(impostors_get_no_replies);
}

fn impostors_get_no_replies(mut template: NodeConfig) {
    // Blocks are ordered only when full.
    (template.consensus.batch, template.consensus.batch_policy) = (20.into(), BatchPolicy::Full);
    template.consensus.view_timeout_ms = 600_000;
    let cluster = start(&template);
    let mut victim = TestClient::new(&cluster, 7);
    victim.connect(4);
    let overheard = victim.bundle(10, b"one");
    victim.send_all(&ClientRequest::Submit(overheard.clone()));
    (0..4).map(ReplicaId).for_each(|replica| drop(victim.status(replica)));
    let mut impostor = TestClient::with_identity(&cluster, identity(7));
    impostor.connect(4);
    impostor.send_all(&ClientRequest::Submit(overheard.clone()));
    (0..4).map(ReplicaId).for_each(|replica| drop(impostor.status(replica)));
    let mut other = TestClient::new(&cluster, 8);
    other.connect(4);
    let filling = other.bundle(10, b"two");
    other.submit(&[filling], 1, 4);
    let mut replies = 0;
    victim.wait(|_, reply| {
        assert!(matches!(reply, ReplicaReply::Executed { bundle, .. } if *bundle == overheard.digest()), "{reply:?}");
        replies += 1;
        (replies == 4).then_some(())
    });
    // A replica's earlier messages arrive before its status, so they would be in the inbox by then.
    let mut stolen = Vec::new();
    for replica in (0..4).map(ReplicaId) {
        impostor.send_raw(replica, encode_message(&ClientRequest::Status { id: 99, history: false }));
    }
    let mut statuses = 0;
    impostor.wait(|_, reply| {
        match reply {
            ReplicaReply::Status { id: 99, .. } => statuses += 1,
            other => stolen.push(other.clone()),
        }
        (statuses == 4).then_some(())
    });
    assert!(stolen.is_empty(), "{stolen:?}");
    // The client's latest link counts once it carries a new bundle.
    let mut again = TestClient::with_identity(&cluster, identity(7));
    again.connect(4);
    again.skip(10);
    let fresh = again.bundle(20, b"three");
    again.submit(&[fresh], 1, 4);
}

/// Encoding of the attacker's proposal in a protocol.
trait Forge: Message {
    fn proposal(attacker: &Attacker, bundles: &[Bundle], carried: bool) -> Self;
    fn votes_for(&self, block: Digest) -> bool;
}

fn endorsement(attacker: &Attacker, block: &Block, domain: Domain) -> Vote {
    let mut vote = Vote {
        subject: block.subject(domain),
        attachment: Attachment::None,
        voter: Attacker::ID,
        signature: Bytes::new(),
    };
    attacker.sign(&mut vote);
    vote
}

fn carried_bundles(bundles: &[Bundle], carried: bool) -> Vec<Bundle> {
    if carried { bundles.to_vec() } else { Vec::new() }
}

impl Forge for ViewMessage {
    fn proposal(attacker: &Attacker, bundles: &[Bundle], carried: bool) -> Self {
        let genesis = Certificate::genesis(&attacker.committee.epoch);
        let block = Block::new(View(1), Attacker::ID, genesis, bundles.iter().map(Bundle::digest).collect(), 0);
        let endorsement = endorsement(attacker, &block, Domain::Proposal);
        let bundles = carried_bundles(bundles, carried);
        ViewMessage::Proposal(Arc::new(Proposal { block: Arc::new(block), evidence: None, endorsement, bundles }))
    }

    fn votes_for(&self, block: Digest) -> bool {
        matches!(self, ViewMessage::Vote(vote) if vote.subject.digest == block)
    }
}

impl Forge for PbftMessage {
    fn proposal(attacker: &Attacker, bundles: &[Bundle], carried: bool) -> Self {
        let block = Block::of_slot(View(1), Attacker::ID, Height(1), bundles.iter().map(Bundle::digest).collect(), 0);
        let endorsement = endorsement(attacker, &block, Domain::Prepare);
        let bundles = carried_bundles(bundles, carried);
        PbftMessage::PrePrepare(Box::new(PrePrepare { endorsement, block: Arc::new(block), bundles }))
    }

    fn votes_for(&self, block: Digest) -> bool {
        matches!(self, PbftMessage::Prepare(vote) | PbftMessage::Commit(vote) if vote.subject.digest == block)
    }
}

/// A client that sends its bundles to the leader alone gets replies from every replica that has received a signed
/// bundle from it, even a bundle that the replica had executed before.
#[test]
fn a_replica_answers_a_client_that_repeats_an_executed_bundle_from_then_on() {
    let mut template = template();
    template.consensus.dissemination = Dissemination::Leader;
    let cluster = start(&template);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let (leader, other) = (ReplicaId(0), ReplicaId(2));
    let frame = |bundle: &Bundle| encode_message(&ClientRequest::Submit(bundle.clone()));
    let answers = |from: ReplicaId, bundle: &Bundle| {
        let digest = bundle.digest();
        move |replica: ReplicaId, reply: &ReplicaReply| match reply {
            ReplicaReply::Executed { bundle, .. } if replica == from && *bundle == digest => Some(()),
            _ => None,
        }
    };
    let first = client.bundle(1, b"first");
    client.send_raw(leader, frame(&first));
    client.wait(answers(leader, &first));
    client.status_with(other, |status| status.committed_commands == 1);
    client.send_raw(other, frame(&first));
    client.wait(answers(other, &first));
    let second = client.bundle(1, b"second");
    client.send_raw(leader, frame(&second));
    client.wait(answers(other, &second));
}

/// Returns the digest of the proposed block, for either protocol.
fn proposed_block<M: quorate_consensus::Message>(message: &M) -> Digest {
    message.proposed().expect("the message is a proposal").0.digest()
}

/// The leader proposes a forged bundle next to a genuine one, in the proposal or by digest only, and serves it on
/// request. No replica votes for the block; the genuine commands are executed in a later view, the forged ones never.
fn a_leader_has_nothing_forged_ordered<M: Forge + quorate_consensus::Message>(protocol: ProtocolKind, carried: bool) {
    let mut template = template();
    template.consensus.protocol = protocol;
    template.consensus.dissemination = if carried { Dissemination::Leader } else { Dissemination::Client };
    let (mut attacker, cluster, told) = Attacker::among(&template);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(3);
    let genuine = client.bundle(2, b"genuine");
    let forged = altered(&bundle(&identity(9), 1), 1);
    let proposed = [genuine.clone(), forged.clone()];
    let proposal = M::proposal(&attacker, &proposed, carried);
    let block = proposed_block(&proposal);
    attacker.say(&Envelope::Protocol(proposal));
    let all_told = || {
        let told = told.lock().unwrap();
        let forger = NodeEvent::Forged { from: Attacker::ID };
        Attacker::honest().all(|replica| told.contains(&(replica, forger.clone())))
    };
    let heard: Vec<Envelope<M>> = attacker.serve_until(&proposed, all_told);
    client.submit(&[genuine], 1, 3);
    let mut turns = 0;
    let after: Vec<Envelope<M>> = attacker.serve_until(&proposed, || {
        turns += 1;
        turns > 5
    });
    let votes = |message: &Envelope<M>| matches!(message, Envelope::Protocol(message) if message.votes_for(block));
    assert!(!heard.iter().chain(&after).any(votes), "a replica voted for the forged bundle");
    for replica in Attacker::honest() {
        let status = client.status(replica);
        assert!(status.dropped["forged-by-peers"] >= 1, "{:?}", status.dropped);
        assert_eq!(status.committed_commands, 2, "{protocol}");
        assert!(status.view > View(1), "{protocol}: the attacker's view has not ended");
    }
    let stopped = cluster.shut_down().into_iter().map(|(replica, status)| (replica, status.unwrap().history));
    compare_histories(&stopped.collect::<Vec<_>>()).expect("all replicas executed the same");
}

#[test]
fn a_jolteon_leader_cannot_order_a_forged_bundle_that_it_carries() {
    a_leader_has_nothing_forged_ordered::<ViewMessage>(ProtocolKind::Jolteon, true);
}

#[test]
fn a_jolteon_leader_cannot_order_a_forged_bundle_that_it_names() {
    a_leader_has_nothing_forged_ordered::<ViewMessage>(ProtocolKind::Jolteon, false);
}

#[test]
fn a_pbft_primary_cannot_order_a_forged_bundle_that_it_carries() {
    a_leader_has_nothing_forged_ordered::<PbftMessage>(ProtocolKind::Pbft, true);
}

#[test]
fn a_pbft_primary_cannot_order_a_forged_bundle_that_it_names() {
    a_leader_has_nothing_forged_ordered::<PbftMessage>(ProtocolKind::Pbft, false);
}

/// A backup relays client bundles: genuine ones are ordered, forged ones are dropped.
#[test]
fn only_the_genuine_bundles_that_a_backup_relays_are_ordered() {
    let mut template = template();
    template.consensus.leader = LeaderKind::RoundRobin;
    let (mut attacker, cluster, told) = Attacker::among(&template);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(3);
    let absent = identity(9);
    let bare = bundle(&ClientIdentity::claimed(identity(10).origin()), 1);
    for forged in [altered(&bundle(&absent, 1), 1), altered(&bundle(&absent, 1), 97), bare] {
        attacker.say(&Envelope::<ViewMessage>::Relay(vec![bundle(&absent, 2), forged]));
    }
    attacker.say(&Envelope::<ViewMessage>::Relay(vec![bundle(&absent, 3), bundle(&identity(10), 4)]));
    let _: Vec<Envelope<ViewMessage>> = attacker.serve_until(&[], || {
        Attacker::honest().all(|replica| {
            let status = client.status(replica);
            status.dropped.get("forged-by-peers") == Some(&3) && status.committed_commands == 2
        })
    });
    let times = told.lock().unwrap().iter().filter(|(_, event)| matches!(event, NodeEvent::Forged { .. })).count();
    assert_eq!(times, 3, "each replica reports the forgery once");
    assert!(cluster.ended().is_empty());
}

/// A replica verifies each signature once, even if the bundle arrives several times from its client and also from a
/// peer. Clients disconnect while other threads verify their bundles, and the others are still served.
#[test]
fn clients_that_leave_early_delay_nobody() {
    let cluster = start(&templates()[1]);
    for number in 0..20 {
        let mut hasty = TestClient::new(&cluster, 100 + number);
        hasty.connect(4);
        for _ in 0..100 {
            let bundle = hasty.bundle(1, b"payload");
            hasty.send_all(&ClientRequest::Submit(bundle));
        }
        // It disconnects once one bundle is answered.
        hasty.wait(|_, reply| matches!(reply, ReplicaReply::Executed { .. }).then_some(()));
    }
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<Bundle> = (0..20).map(|_| client.bundle(1, b"payload")).collect();
    client.submit(&bundles, 8, 4);
    let stopped = cluster.shut_down().into_iter();
    let stopped = stopped.map(|(replica, status)| (replica, status.expect("no replica fails").history));
    compare_histories(&stopped.collect::<Vec<_>>()).expect("all replicas executed the same");
}

#[test]
fn a_repeated_bundle_is_verified_once() {
    assert_eq!(verifications_of_five_bundles(ClientVerdicts::Own), [5; 3]);
}

/// The replicas of one process verify it once in total.
#[test]
fn a_bundle_is_verified_once_in_a_process() {
    assert_eq!(verifications_of_five_bundles(ClientVerdicts::Shared).iter().sum::<u64>(), 5);
}

/// Returns the number of verifications of each honest replica.
fn verifications_of_five_bundles(client_verdicts: ClientVerdicts) -> Vec<u64> {
    let mut template = template();
    template.reproduction = Reproduction { client_verdicts, ..Reproduction::default() };
    // The attacker leads and proposes nothing: there are no other signatures to verify in its view.
    template.consensus.view_timeout_ms = 600_000;
    let (mut attacker, cluster, _) = Attacker::among(&template);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(3);
    let bundles: Vec<Bundle> = (0..5).map(|_| client.bundle(1, b"payload")).collect();
    for _ in 0..3 {
        bundles.iter().for_each(|bundle| client.send_all(&ClientRequest::Submit(bundle.clone())));
        attacker.say(&Envelope::<ViewMessage>::Relay([&bundles[..], &bundles].concat()));
    }
    let bare = bundle(&ClientIdentity::claimed(client.id()), 1);
    attacker.say(&Envelope::<ViewMessage>::Relay(vec![bare]));
    let _: Vec<Envelope<ViewMessage>> = attacker.serve_until(&[], || {
        Attacker::honest().all(|replica| client.status(replica).dropped.get("forged-by-peers") == Some(&1))
    });
    Attacker::honest().map(|replica| client.status(replica).verifications).collect()
}
