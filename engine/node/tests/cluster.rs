//! Whole clusters in this process over real sockets, as seen by a client.

use crate::support::TestClient;
use bytes::Bytes;
use quorate_adversary::byzantine::behaviours::{Silent, Slow};
use quorate_applications::{ApplicationKind, compare_histories};
use quorate_consensus::config::{BatchPolicy, Dissemination, LeaderKind, ProtocolKind};
use quorate_crypto::{ClientIdentity, SchemeKind};
use quorate_network::transports::Remote;
use quorate_node::{
    EmbeddedCluster, Fsync, JournalConfig, Laboratory, NoObserver, NodeConfig, NodeEvent, Observer, ReplyMode,
};
use quorate_testkit::schemes::{AGGREGATE, TAGS};
use quorate_types::codec::WIRE_VERSION;
use quorate_types::meter::Primitive;
use quorate_types::{
    Bundle, ClientRequest, Digest, Height, Outcome, ReplicaId, ReplicaReply, ReplicaThreads, Results, Status,
    encode_message, question_digest,
};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn template() -> NodeConfig {
    let mut template = NodeConfig::template("test");
    template.application = ApplicationKind::LOG;
    template.consensus.batch = 100.into();
    template.consensus.view_timeout_ms = 300;
    template
}

fn start(template: &NodeConfig, replicas: usize) -> EmbeddedCluster {
    EmbeddedCluster::start(template, &free(replicas), |_| {}, || Box::new(NoObserver)).expect("the cluster starts")
}

/// Returns `replicas` addresses of this host, each with a free port.
fn free(replicas: usize) -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 0)); replicas]
}

fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(40), "timed out waiting for the condition");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Stops all replicas and compares their executions; returns their common height.
fn agreed(cluster: EmbeddedCluster, stopped: Vec<Status>) -> Height {
    let running = cluster.shut_down().into_iter().map(|(_, status)| status.expect("a replica stops without an error"));
    let histories: Vec<_> = running.chain(stopped).map(|status| (status.replica, status.history)).collect();
    compare_histories(&histories).expect("all replicas executed the same")
}

/// Waits until all four replicas have executed a block: two equal replies prove nothing about the others.
fn all_execute(client: &mut TestClient) {
    for replica in (0..4).map(ReplicaId) {
        client.status_with(replica, |status| status.height > Height(0));
    }
}

/// Orders commands, stops a replica that the protocol can do without, orders more, and compares.
fn orders_commands(protocol: ProtocolKind, leader: LeaderKind, dissemination: Dissemination) {
    orders_commands_on(ReplicaThreads::Count(1), protocol, leader, dissemination);
}

fn orders_commands_on(
    replica_threads: ReplicaThreads,
    protocol: ProtocolKind,
    leader: LeaderKind,
    dissemination: Dissemination,
) {
    let mut template = NodeConfig { replica_threads, ..template() };
    template.consensus.protocol = protocol;
    template.consensus.leader = leader;
    template.consensus.dissemination = dissemination;
    let mut cluster = start(&template, 4);
    let quorum = cluster.committee().quorum;
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<_> = (0..40).map(|_| client.bundle(10, b"payload")).collect();
    for results in client.submit(&bundles, 8, quorum.weak()) {
        assert_eq!(results, Results::all_empty(10));
    }
    all_execute(&mut client);
    let mut stopped = Vec::new();
    let victim = ReplicaId(3);
    if template.consensus.stalls_with_silent(quorum, &[victim]).is_none() {
        stopped.push(cluster.stop(victim).expect("the replica was running"));
        let bundles: Vec<_> = (0..20).map(|_| client.bundle(10, b"more")).collect();
        client.submit(&bundles, 8, quorum.weak());
        // 60 bundles of 10 commands take at least six blocks of at most 100 commands. Two equal replies prove nothing
        // about a third replica.
        client.status_with(ReplicaId(1), |status| status.height >= Height(6));
    }
    assert!(cluster.ended().is_empty());
    assert!(agreed(cluster, stopped) > Height(0), "{protocol} {leader}");
}

/// Starts a cluster, and executes 200 commands on it.
fn serving(template: &NodeConfig) -> EmbeddedCluster {
    serve(start(template, 4))
}

/// Executes 200 commands on a cluster.
fn serve(cluster: EmbeddedCluster) -> EmbeddedCluster {
    let quorum = cluster.committee().quorum;
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<_> = (0..20).map(|_| client.bundle(10, b"payload")).collect();
    client.submit(&bundles, 8, quorum.weak());
    all_execute(&mut client);
    cluster
}

#[test]
fn a_scheme_outside_the_list_works_with_every_protocol() {
    for protocol in ProtocolKind::ALL {
        let mut template = template();
        template.consensus.protocol = *protocol;
        template.consensus.leader = protocol.leaders()[0];
        template.scheme = AGGREGATE;
        assert!(agreed(serving(&template), Vec::new()) > Height(0), "{protocol}");
    }
}

#[test]
fn other_threads_verify_if_configured() {
    for protocol in ProtocolKind::ALL {
        let mut template = template();
        template.consensus.protocol = *protocol;
        template.consensus.leader = protocol.leaders()[0];
        template.replica_threads = ReplicaThreads::Count(4);
        let statuses = serving(&template).shut_down().into_iter().map(|(_, status)| status.expect("no replica fails"));
        for status in statuses {
            assert!(status.verifications > 0 && status.evidence.is_empty(), "{protocol}: {status:?}");
        }
    }
}

#[test]
fn replicas_with_different_numbers_of_threads_reach_the_same_state() {
    for protocol in ProtocolKind::ALL {
        let mut template = template();
        template.consensus.protocol = *protocol;
        template.consensus.leader = protocol.leaders()[0];
        // Replica 0 works on one thread, replica 3 on four: a core, a network and two verifiers.
        let vary = |config: &mut NodeConfig| config.replica_threads = ReplicaThreads::Count(config.replica.0 + 1);
        let started = EmbeddedCluster::start(&template, &free(4), vary, || Box::new(NoObserver));
        let cluster = serve(started.expect("the cluster starts"));
        let statuses: Vec<Status> =
            cluster.shut_down().into_iter().map(|(_, status)| status.expect("no error")).collect();
        for status in &statuses {
            assert!(status.evidence.is_empty(), "{protocol}: {status:?}");
            assert!(status.bytes_sent > 0 && status.crypto.of(Primitive::Hash).calls > 0, "{protocol}: {status:?}");
        }
        let histories: Vec<_> = statuses.into_iter().map(|status| (status.replica, status.history)).collect();
        let height = compare_histories(&histories).expect("all replicas executed the same");
        assert!(height > Height(0), "{protocol}");
    }
}

#[test]
fn a_network_apart_orders_commands_and_stands_a_crash() {
    for (protocol, dissemination) in [
        (ProtocolKind::Jolteon, Dissemination::Client),
        (ProtocolKind::Pbft, Dissemination::Replicas),
        (ProtocolKind::BasicHotStuff, Dissemination::Leader),
        (ProtocolKind::Jolteon, Dissemination::ReplicasCertified),
    ] {
        orders_commands_on(ReplicaThreads::Count(3), protocol, protocol.leaders()[0], dissemination);
    }
}

#[test]
fn a_scheme_without_transferable_proofs_is_refused_by_name() {
    let mut template = template();
    template.scheme = TAGS;
    let refused = EmbeddedCluster::start(&template, &free(4), |_| {}, || Box::new(NoObserver));
    let text = refused.err().expect("jolteon needs transferable proofs").to_string();
    assert!(text.contains("toy-tags") && text.contains("jolteon") && text.contains("ed25519"), "{text}");
}

macro_rules! orders_commands_and_stands_a_crash {
    ($($name:ident: $protocol:ident,)+) => {
        $(#[test]
        fn $name() {
            for leader in ProtocolKind::$protocol.leaders() {
                orders_commands(ProtocolKind::$protocol, *leader, Dissemination::Client);
            }
        })+
    };
}

quorate_consensus::each_protocol!(orders_commands_and_stands_a_crash);

#[test]
fn leaders_carry_the_commands_if_configured() {
    orders_commands(ProtocolKind::Jolteon, LeaderKind::RoundRobin, Dissemination::Leader);
    orders_commands(ProtocolKind::ChainedHotStuff, LeaderKind::Fixed, Dissemination::Leader);
    orders_commands(ProtocolKind::BasicHotStuff, LeaderKind::RoundRobin, Dissemination::Leader);
}

#[test]
fn replicas_spread_the_commands_if_configured() {
    orders_commands(ProtocolKind::Jolteon, LeaderKind::RoundRobin, Dissemination::Replicas);
    orders_commands(ProtocolKind::Pbft, LeaderKind::Fixed, Dissemination::Replicas);
    execute_what_one_has(Dissemination::Replicas);
}

#[test]
fn replicas_certify_what_they_spread_if_configured() {
    orders_commands(ProtocolKind::Jolteon, LeaderKind::RoundRobin, Dissemination::ReplicasCertified);
    orders_commands(ProtocolKind::BasicHotStuff, LeaderKind::RoundRobin, Dissemination::ReplicasCertified);
    orders_commands(ProtocolKind::Pbft, LeaderKind::Fixed, Dissemination::ReplicasCertified);
    execute_what_one_has(Dissemination::ReplicasCertified);
}

/// Sends bundles to one replica only, and waits until all have executed them.
fn execute_what_one_has(dissemination: Dissemination) {
    let mut template = template();
    template.consensus.dissemination = dissemination;
    let cluster = start(&template, 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    // Replicas answer on links that have carried a signed bundle.
    let introduction = client.bundle(1, b"at all");
    client.submit(&[introduction], 1, 4);
    // Only one replica receives these from the client, and all execute them.
    for home in [2, 0, 3, 1] {
        let bundle = client.bundle(10, b"at one replica");
        client.send_raw(ReplicaId(home), encode_message(&ClientRequest::Submit(bundle.clone())));
        let mut answered = BTreeSet::new();
        client.wait(|replica, reply| {
            let ReplicaReply::Executed { bundle: executed, .. } = reply else { panic!("{replica} answers {reply:?}") };
            let is_late = *executed != bundle.digest();
            (!is_late && answered.insert(replica) && answered.len() == 4).then_some(())
        });
    }
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn a_cluster_of_one_orders_alone() {
    let cluster = start(&template(), 1);
    let mut client = TestClient::new(&cluster, 1);
    client.connect(1);
    let bundles: Vec<_> = (0..30).map(|_| client.bundle(3, b"")).collect();
    assert_eq!(client.submit(&bundles, 30, 1), vec![Results::all_empty(3); 30]);
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn a_silent_replica_executes_the_others_blocks_and_sends_nothing() {
    let silent = ReplicaId(0);
    let mut template = template();
    template.consensus.leader = LeaderKind::Reputation;
    let vary = |config: &mut NodeConfig| {
        config.laboratory = (config.replica == silent).then(|| Laboratory::of(Silent));
    };
    let links = Arc::new(AtomicUsize::new(0));
    let observer = || -> Box<dyn Observer> {
        let links = links.clone();
        Box::new(move |_: ReplicaId, event: NodeEvent| {
            if matches!(event, NodeEvent::Connected(Remote::Replica(_))) {
                links.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let cluster = EmbeddedCluster::start(&template, &free(4), vary, observer).expect("the cluster starts");
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    // A silent replica cannot request messages that it missed before it was connected.
    until(|| links.load(Ordering::SeqCst) >= 4 * 3);
    let bundles: Vec<_> = (0..40).map(|_| client.bundle(10, b"x")).collect();
    // Only three replicas answer.
    client.submit(&bundles, 4, 3);
    assert!(client.inbox.iter().all(|(replica, _)| *replica != silent));
    client.status_with(silent, |status| status.height > Height(0));
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn a_slow_leader_holds_its_proposals_and_its_views_do_not_time_out() {
    let slow = ReplicaId(1);
    let mut template = template();
    template.consensus.leader = LeaderKind::RoundRobin;
    let vary = |config: &mut NodeConfig| {
        let laboratory = Laboratory::of(Slow { percent: 30 });
        config.laboratory = (config.replica == slow).then_some(laboratory);
    };
    let cluster =
        EmbeddedCluster::start(&template, &free(4), vary, || Box::new(NoObserver)).expect("the cluster starts");
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<_> = (0..5).map(|_| client.bundle(10, b"x")).collect();
    client.submit(&bundles, 1, 2);
    let proposed = client.status(slow).view;
    assert!(proposed.0 >= 2, "the slow leader's view never came");
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn a_resent_bundle_gets_the_same_reply_again() {
    let cluster = start(&template(), 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundle = client.bundle(10, b"once");
    client.submit(std::slice::from_ref(&bundle), 1, 4);
    let commands = client.status(ReplicaId(2)).committed_commands;
    let answers = |client: &mut TestClient| {
        client.send_all(&ClientRequest::Submit(bundle.clone()));
        let mut replies: Vec<ReplicaReply> = Vec::new();
        client.wait(|_, reply| {
            replies.push(reply.clone());
            (replies.len() == 4).then_some(())
        });
        replies
    };
    let replies = answers(&mut client);
    assert!(replies.windows(2).all(|pair| pair[0] == pair[1]), "{replies:?}");
    assert!(matches!(&replies[0], ReplicaReply::Executed { bundle: digest, .. } if *digest == bundle.digest()));
    assert_eq!(client.status(ReplicaId(2)).committed_commands, commands, "nothing was executed twice");
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

/// Anybody can replay a bundle, so an executed one must never be ordered again.
#[test]
fn a_bundle_with_an_evicted_reply_is_answered_and_not_ordered_again() {
    let template = NodeConfig { reply_cache_bytes: 1, ..template() };
    let cluster = start(&template, 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<Bundle> = (0..2).map(|_| client.bundle(10, b"once")).collect();
    client.submit(&bundles, 1, 4);
    let before = client.status(ReplicaId(2));
    client.send_all(&ClientRequest::Submit(bundles[0].clone()));
    let mut replies: Vec<ReplicaReply> = Vec::new();
    client.wait(|_, reply| {
        replies.push(reply.clone());
        (replies.len() == 4).then_some(())
    });
    for reply in replies {
        let ReplicaReply::Executed { bundle, height, results } = reply else { panic!("{reply:?}") };
        assert_eq!((bundle, height), (bundles[0].digest(), Height(0)));
        assert_eq!(results.outcomes().collect::<Vec<_>>(), [Outcome::Duplicate; 10]);
    }
    let last = client.bundle(10, b"again");
    client.submit(&[last], 1, 4);
    let after = client.status(ReplicaId(2));
    assert_eq!(after.committed_commands, before.committed_commands + 10);
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn bundles_that_cannot_be_ordered_are_refused_with_help() {
    let mut template = template();
    template.consensus.batch_bytes = 10_000;
    let cluster = start(&template, 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let mut stranger = TestClient::new(&cluster, 8);
    let too_many = client.bundle(101, b"");
    let too_large = client.bundle(1, &[0; 10_000]);
    let anothers = stranger.bundle(1, b"");
    let refusal = |client: &mut TestClient, frame: Bytes| {
        client.send_raw(ReplicaId(1), frame);
        client.wait(|_, reply| match reply {
            ReplicaReply::Refused { bundle, why, .. } => Some((*bundle, why.clone())),
            _ => None,
        })
    };
    for (bundle, why, help) in [
        (too_many, "101 commands, but a block takes 100", "raise `batch`"),
        (too_large, "bytes, but a block takes 10000", "raise `batch_bytes`"),
        (anothers, &format!("go to client {}", stranger.id()), "link's own id"),
    ] {
        let (digest, text) = refusal(&mut client, encode_message(&ClientRequest::Submit(bundle.clone())));
        assert_eq!(digest, bundle.digest());
        assert!(text.contains(why) && text.contains(help), "{text}");
    }
    let (digest, text) = refusal(&mut client, Bytes::from_static(&[WIRE_VERSION, 0x63]));
    assert_eq!(digest, Digest::ZERO);
    assert!(text.contains("no such kind"), "{text}");
    let status = client.status(ReplicaId(1));
    assert_eq!(status.dropped.get("undecodable-from-clients"), Some(&1));
    assert_eq!(status.committed_commands, 0);
    let bundle = client.bundle(100, b"");
    client.submit(&[bundle], 1, 4);
}

#[test]
fn a_full_pool_refuses_temporarily() {
    let mut template = template();
    template.consensus.pool_bytes = 1000;
    template.consensus.batch_policy = BatchPolicy::Full;
    let cluster = start(&template, 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    for _ in 0..3 {
        let bundle = client.bundle(1, &[0; 600]);
        client.send_all(&ClientRequest::Submit(bundle));
    }
    let why = client.wait(|_, reply| match reply {
        ReplicaReply::Refused { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("send the bundle again later"), "{why}");
}

#[test]
fn replicas_without_vote_signatures_still_authenticate() {
    let mut template = template();
    template.scheme = SchemeKind::NONE;
    let cluster = start(&template, 4);
    let mut committee = cluster.committee().clone();
    let first = committee.members[0].identity_key.clone();
    committee.members[0].identity_key = std::mem::replace(&mut committee.members[1].identity_key, first);
    let mut client = TestClient::of(committee, ClientIdentity::from_seed(&cluster.committee().cluster, [7; 32]));
    client.connect(2);
    let bundle = client.bundle(10, b"x");
    client.submit(&[bundle], 1, 2);
    assert_eq!(client.connected(), [ReplicaId(2), ReplicaId(3)], "the others' keys are exchanged");
    // A replica that did not receive this client's bundle has to fetch it.
    let mut observer = TestClient::new(&cluster, 8);
    observer.connect(4);
    for replica in 0..4 {
        observer.status_with(ReplicaId(replica), |status| status.height > Height(0));
    }
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn in_reply_mode_none_there_is_one_bare_acknowledgement() {
    let mut template = template();
    template.reply = ReplyMode::None;
    template.scheme = SchemeKind::NONE;
    let cluster = start(&template, 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundles: Vec<_> = (0..10).map(|_| client.bundle(10, b"x")).collect();
    assert!(client.submit(&bundles, 3, 1).iter().all(Results::is_bare));
    assert!(client.inbox.iter().all(|(replica, _)| *replica == ReplicaId(0)));
    assert!(agreed(cluster, Vec::new()) > Height(0));
}

#[test]
fn a_query_and_a_status_are_answered_without_ordering() {
    let mut template = template();
    template.consensus.view_timeout_ms = 600_000;
    let cluster = start(&template, 4);
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundle = client.bundle(10, b"x");
    client.submit(&[bundle], 1, 4);
    client.send_raw(ReplicaId(2), encode_message(&ClientRequest::Query { id: 5, question: Bytes::new() }));
    let (height, answer) = client.wait(|_, reply| match reply {
        ReplicaReply::Answer { id: 5, question, height, answer } if *question == question_digest(b"") => {
            Some((*height, answer.clone()))
        }
        _ => None,
    });
    assert!(height > Height(0));
    assert_eq!(answer[..8], 10u64.to_le_bytes(), "the log counts ten commands");
    let status = client.status(ReplicaId(2));
    assert_eq!(status.replica, ReplicaId(2));
    assert_eq!(status.committed_commands, 10);
    assert!(status.committed_blocks >= 1 && status.height.0 == status.committed_blocks);
    assert!(status.cpu_ns > 0 && status.peak_rss_kb > 0 && status.busy_ns > 0);
    assert!(status.bytes_sent > 0 && status.messages_sent > 0 && status.verifications > 0);
    assert_eq!(status.view_timeouts, 0);
    assert!(!status.history.is_empty() && status.evidence.is_empty());
}

#[test]
fn an_observer_is_notified_of_the_start_the_peers_and_a_lost_link() {
    let events: Arc<Mutex<Vec<(ReplicaId, NodeEvent)>>> = Arc::default();
    let observer = || -> Box<dyn Observer> {
        let events = events.clone();
        Box::new(move |replica: ReplicaId, event: NodeEvent| events.lock().unwrap().push((replica, event)))
    };
    let mut cluster = EmbeddedCluster::start(&template(), &free(4), |_| {}, observer).expect("the cluster starts");
    let heard = |replica: u16, wanted: &dyn Fn(&NodeEvent) -> bool| {
        let events = events.lock().unwrap();
        events.iter().filter(|(of, event)| *of == ReplicaId(replica) && wanted(event)).count()
    };
    let is_met = |event: &NodeEvent| matches!(event, NodeEvent::Connected(Remote::Replica(_)));
    until(|| (0..4).all(|replica| heard(replica, &is_met) >= 3));
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundle = client.bundle(1, b"x");
    client.submit(&[bundle], 1, 4);
    cluster.stop(ReplicaId(3)).expect("the replica was running");
    let is_lost = |event: &NodeEvent| matches!(event, NodeEvent::Lost { remote: Remote::Replica(ReplicaId(3)), .. });
    until(|| (0..3).all(|replica| heard(replica, &is_lost) >= 1));
    let bundle = client.bundle(1, b"y");
    client.submit(&[bundle], 1, 3);
    drop(cluster);
    for replica in 0..4 {
        assert_eq!(heard(replica, &|event| matches!(event, NodeEvent::Listening(_))), 1);
        assert!(heard(replica, &|event| matches!(event, NodeEvent::Connected(Remote::Client(_)))) >= 1);
        assert_eq!(heard(replica, &|event| matches!(event, NodeEvent::Stopped { .. })), 1);
    }
}

/// Replicas in one process have no directories of their own, so only absolute directories are used.
#[test]
fn journals_are_in_memory_unless_a_directory_is_named() {
    let mut template = template();
    assert_eq!(template.journal, JournalConfig::default());
    drop(start(&template, 4));
    assert!(!template.journal.directory.exists(), "a journal was written to the working directory");
    let scratch = std::env::temp_dir().join(format!("quorate-node-journals-{}", std::process::id()));
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir(&scratch).expect("the temporary directory can be written");
    let directory = |replica: ReplicaId| scratch.join(format!("journal-{replica}"));
    (template.consensus.batch_bytes, template.journal.segment_bytes) = (100_000, 1 << 20);
    template.journal.fsync = Fsync::Never;
    let vary = |config: &mut NodeConfig| config.journal.directory = directory(config.replica);
    let cluster =
        EmbeddedCluster::start(&template, &free(4), vary, || Box::new(NoObserver)).expect("the cluster starts");
    let mut client = TestClient::new(&cluster, 7);
    client.connect(4);
    let bundle = client.bundle(1, b"x");
    client.submit(&[bundle], 1, 4);
    assert!(agreed(cluster, Vec::new()) > Height(0));
    for replica in (0..4).map(ReplicaId) {
        assert!(fs::read_dir(directory(replica)).expect("a journal").next().is_some());
    }
    fs::remove_dir_all(&scratch).expect("the directory belongs to the test");
}
