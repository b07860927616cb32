//! Attackers without keys against real replicas: whichever frames they send, honest commands are executed, memory stays
//! bounded and no replica stops. The attackers speak the wire format over bare sockets. No check depends on the
//! machine's speed: counters are bounded, and honest commands are compared with the attackers' served requests.

use crate::support::TestClient;
use quorate_crypto::ClientIdentity;
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig};
use quorate_testkit::bare::{self, frame};
use quorate_types::{
    Bundle, BundleBuilder, ClientRequest, ClusterId, EpochId, Height, ReplicaId, ReplicaThreads, Status,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAME: &str = "test";
/// Memory for all clients of a replica in these tests, in bytes.
const CLIENT_MEMORY_BYTES: usize = 8 << 20;
/// Pause between two rounds of an attacker, which shares the processors with the replicas.
const PAUSE: Duration = Duration::from_millis(20);
/// Honest commands that have to be executed during an attack.
const HONEST_COMMANDS: usize = 20;

fn start(vary: impl Fn(&mut NodeConfig)) -> EmbeddedCluster {
    let mut template = NodeConfig::template(NAME);
    // Avoid view changes while the attackers' threads compete with the replicas for processors.
    template.consensus.view_timeout_ms = 10_000;
    template.consensus.batch_bytes = 1 << 20;
    template.links.client_memory_bytes = CLIENT_MEMORY_BYTES;
    let addresses = vec![([127, 0, 0, 1], 0).into(); 4];
    EmbeddedCluster::start(&template, &addresses, vary, || Box::new(NoObserver)).expect("the cluster starts")
}

/// A replica, its address, and the epoch of its cluster.
type Target = (ReplicaId, SocketAddr, EpochId);

fn targets(cluster: &EmbeddedCluster) -> Vec<Target> {
    let committee = cluster.committee();
    let address = |replica| committee.member(replica).expect("a member").address.socket().expect("a number");
    committee.replicas().map(|replica| (replica, address(replica), committee.epoch)).collect()
}

/// Opens a connection and claims an id.
fn dial((replica, address, epoch): Target, client: u128) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    stream.write_all(&bare::hello((ClusterId::from_name(NAME), epoch), client, replica))?;
    Ok(stream)
}

/// Returns a bundle in another client's name, with an invalid signature.
fn forged(number: u64) -> Bundle {
    let identity = ClientIdentity::from_seed(&ClusterId::from_name(NAME), [99; 32]);
    let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
    builder.push(identity.origin(), number + 1, b"steal");
    let mut body = identity.finish(builder).body().to_vec();
    let last = body.len() - 1;
    body[last] ^= 1;
    Bundle::from_body(body.into()).expect("the form is unchanged")
}

fn forgers_id() -> u128 {
    ClientIdentity::from_seed(&ClusterId::from_name(NAME), [99; 32]).origin().0
}

/// Attackers on their own threads, until dropped.
struct Attack {
    stop: Arc<AtomicBool>,
    /// Rounds of all attackers.
    rounds: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    /// Starts a thread per replica that calls `round` repeatedly.
    fn start<S: Send + Default + 'static>(
        targets: &[Target],
        round: impl Fn(Target, &mut S) + Send + Sync + 'static,
    ) -> Attack {
        let (stop, rounds, round) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(round));
        let threads = targets.iter().map(|target| {
            let (target, stop, rounds, round) = (*target, stop.clone(), rounds.clone(), round.clone());
            thread::spawn(move || {
                let mut state = S::default();
                while !stop.load(Ordering::Relaxed) {
                    round(target, &mut state);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(PAUSE);
                }
            })
        });
        let threads = threads.collect();
        let attack = Attack { stop, rounds, threads };
        while attack.rounds.load(Ordering::Relaxed) < 8 {
            thread::sleep(Duration::from_millis(5));
        }
        attack
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Checks that a connected client and a new one are served, and returns the statuses of all replicas.
fn honest_clients_go_on(cluster: &EmbeddedCluster, mut before: TestClient) -> Vec<Status> {
    for number in 0..2 {
        let mut newcomer = TestClient::new(cluster, 20 + number);
        newcomer.connect(3);
        let bundles: Vec<Bundle> = (0..HONEST_COMMANDS / 4).map(|_| newcomer.bundle(1, b"new")).collect();
        newcomer.submit(&bundles, 1, 2);
    }
    let bundles: Vec<Bundle> = (0..HONEST_COMMANDS / 2).map(|_| before.bundle(1, b"old")).collect();
    before.submit(&bundles, 1, 2);
    assert_eq!(cluster.ended(), [], "no replica ends");
    let short = |status: Status| Status { history: Vec::new(), ..status };
    let statuses: Vec<Status> = (0..4).map(|replica| short(before.status(ReplicaId(replica)))).collect();
    for status in &statuses {
        assert!(status.client_memory_peak_bytes <= CLIENT_MEMORY_BYTES as u64, "{status:?}");
    }
    statuses
}

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(60);

fn honest(cluster: &EmbeddedCluster) -> TestClient {
    let mut client = TestClient::new(cluster, 7);
    client.connect(4);
    let bundle = client.bundle(1, b"first");
    client.submit(&[bundle], 1, 4);
    client
}

/// Waits until every replica has counted a drop: honest clients may finish before a replica has read the hostile
/// frames.
fn all_dropped(cluster: &EmbeddedCluster, why: &str) -> Vec<Status> {
    let (mut probe, begun) = (TestClient::new(cluster, 40), Instant::now());
    probe.connect(4);
    let counted = |replica| {
        loop {
            let status = probe.status(ReplicaId(replica));
            if dropped(&status, why) > 0 {
                return status;
            }
            assert!(begun.elapsed() < HANG, "nothing is counted as {why}: {status:?}");
        }
    };
    (0..4).map(counted).collect()
}

fn dropped(status: &Status, why: &str) -> u64 {
    status.dropped.get(why).copied().unwrap_or(0)
}

#[test]
fn a_flood_of_status_requests_delays_no_client_and_ends_with_its_link() {
    let cluster = start(|_| {});
    let mut client = honest(&cluster);
    // Each request is 15 bytes; the sender disconnects at once.
    let flood = frame(&ClientRequest::Status { id: 1, history: true }).repeat(20_000);
    for target in targets(&cluster) {
        let mut stream = dial(target, 1).expect("a place");
        let _ = stream.write_all(&flood);
    }
    let before = client.status(ReplicaId(0)).messages_sent;
    let statuses = honest_clients_go_on(&cluster, client);
    let sent = statuses[0].messages_sent - before;
    assert!(sent < 20_000, "{sent} messages were sent without a served status");
    assert!(
        statuses.iter().all(|status| status.client_memory_peak_bytes > 100_000),
        "the flood did not arrive: {statuses:?}"
    );
}

#[test]
fn a_stream_of_status_requests_is_answered_in_turn() {
    let cluster = start(|_| {});
    let client = honest(&cluster);
    let flood = frame(&ClientRequest::Status { id: 1, history: true }).repeat(500);
    let _attack = Attack::start(&targets(&cluster), move |target, link: &mut Option<TcpStream>| {
        let mut stream = match link.take().map_or_else(|| dial(target, 1), Ok) {
            Ok(stream) => stream,
            Err(_) => return,
        };
        let mut answers = vec![0; 1 << 20];
        if stream.write_all(&flood).is_ok() && stream.read(&mut answers).is_ok() {
            *link = Some(stream);
        }
    });
    honest_clients_go_on(&cluster, client);
}

#[test]
fn squatters_lose_their_places_to_newcomers() {
    let cluster = start(|config| {
        config.links.max_client_links = 24;
        config.links.max_unauthenticated_links = 12;
    });
    let client = honest(&cluster);
    let links = thread::scope(|scope| {
        // Each waits for an answer, so that it occupies a client's place.
        let squatter = |target: Target, id: u128| {
            let mut stream = dial(target, id).ok()?;
            stream.read_exact(&mut [0; 1]).ok().map(|()| stream)
        };
        let squat = move |target: Target| (0..60).filter_map(|id| squatter(target, id)).collect::<Vec<_>>();
        let threads: Vec<_> = targets(&cluster).into_iter().map(|at| scope.spawn(move || squat(at))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no attacker panics")).collect::<Vec<_>>()
    });
    assert!(links.len() > 4 * 24, "only {} squatters had a place", links.len());
    honest_clients_go_on(&cluster, client);
    all_dropped(&cluster, "clients-cut");
}

#[test]
fn queries_with_unread_answers_take_bounded_memory() {
    [1, 3].into_iter().for_each(unread_answers_take_bounded_memory);
}

fn unread_answers_take_bounded_memory(threads: u16) {
    const LINKS: usize = 8;
    /// Number of unread bytes from which a stranger is not served.
    const STRANGER_UNREAD_BYTES: usize = 64 << 10;
    /// Additional bytes before a network with its own thread detects that.
    const PENDING_BYTES: usize = 256 << 10;
    /// Memory for the honest clients of the test.
    const HONEST_BYTES: usize = 1 << 20;
    let cluster = start(|config| {
        config.links.client_stall_ms = 1_000;
        config.replica_threads = ReplicaThreads::Count(threads);
    });
    let mut client = honest(&cluster);
    let value = vec![7; 200_000];
    let command = quorate_applications::KeyValueCommand::Put { key: b"BIG", value: &value }.to_vec();
    let large = client.bundle(1, &command);
    client.submit(&[large], 1, 4);
    let question = quorate_applications::KeyValueCommand::Get { key: b"BIG" }.to_vec();
    // 100 answers of 200 kB per link: 400 MB per replica if all were queued.
    let flood = frame(&ClientRequest::Query { id: 1, question: question.into() }).repeat(100);
    let mut links = Vec::new();
    for target in targets(&cluster) {
        for id in 0..LINKS as u128 {
            let mut stream = dial(target, id).expect("a place");
            let _ = stream.write_all(&flood);
            links.push(stream);
        }
    }
    // Each link is served until it has one long answer unread, in addition to its queries.
    // An answer that begins below the limit of pending bytes may end above it.
    let pending = if threads > 1 { PENDING_BYTES + value.len() } else { 0 };
    let each = STRANGER_UNREAD_BYTES + value.len() + flood.len() + pending;
    for status in honest_clients_go_on(&cluster, client) {
        let peak = status.client_memory_peak_bytes as usize;
        assert!(peak < LINKS * each + HONEST_BYTES, "{peak} bytes are held for {LINKS} links: {status:?}");
    }
}

#[test]
fn incomplete_frames_take_bounded_memory() {
    let cluster = start(|config| config.links.client_frame_timeout_ms = 2_000);
    let client = honest(&cluster);
    let part = vec![7; 500_000];
    let mut links = Vec::new();
    for target in targets(&cluster) {
        for id in 0..40 {
            let Ok(mut stream) = dial(target, id) else { continue };
            let _ = stream.write_all(&(1_u32 << 20).to_le_bytes()).and_then(|()| stream.write_all(&part));
            links.push(stream);
        }
    }
    honest_clients_go_on(&cluster, client);
    all_dropped(&cluster, "clients-cut");
}

#[test]
fn links_with_forged_bundles_lose_their_standing_and_are_cut() {
    [1, 3].into_iter().for_each(forged_bundles_end_a_link);
}

fn forged_bundles_end_a_link(threads: u16) {
    let cluster = start(|config| config.replica_threads = ReplicaThreads::Count(threads));
    let client = honest(&cluster);
    let flood: Vec<u8> = (0..2_000).flat_map(|number| frame(&ClientRequest::Submit(forged(number)))).collect();
    let attack = Attack::start(&targets(&cluster), move |target, _: &mut ()| {
        if let Ok(mut stream) = dial(target, forgers_id()) {
            let _ = stream.write_all(&flood);
            // Until the replica closes the link: a client that disconnects at the first refusal may be gone before
            // that.
            while stream.read(&mut [0; 4_096]).is_ok_and(|count| count > 0) {}
        }
    });
    honest_clients_go_on(&cluster, client);
    let statuses = all_dropped(&cluster, "clients-cut");
    let rounds = attack.rounds.load(Ordering::Relaxed);
    for status in &statuses {
        // A link is closed after 64 forged bundles; its last turn may add more.
        let most = 64 + 256;
        assert!(dropped(status, "forged-by-clients") <= rounds.max(8) * most, "{rounds} links: {status:?}");
    }
}

#[test]
fn a_link_with_undecodable_frames_is_cut() {
    [1, 3].into_iter().for_each(undecodable_frames_end_a_link);
}

fn undecodable_frames_end_a_link(threads: u16) {
    let cluster = start(|config| config.replica_threads = ReplicaThreads::Count(threads));
    let client = honest(&cluster);
    let garbage = [&[5, 0, 0, 0][..], &[255; 5]].concat().repeat(5_000);
    let _attack = Attack::start(&targets(&cluster), move |target, _: &mut ()| {
        if let Ok(mut stream) = dial(target, 1) {
            let _ = stream.write_all(&garbage);
            let _ = stream.read(&mut [0; 4_096]);
        }
    });
    honest_clients_go_on(&cluster, client);
    all_dropped(&cluster, "undecodable-from-clients");
    all_dropped(&cluster, "clients-cut");
}

/// A client that sends its bundles to one backup only delays nobody, and its bundles are still ordered.
#[test]
fn a_client_that_sends_to_one_backup_only_delays_no_one() {
    let cluster = start(|config| config.consensus.view_timeout_ms = 1_000);
    let client = honest(&cluster);
    let backup: Vec<Target> = targets(&cluster).into_iter().filter(|(replica, ..)| *replica == ReplicaId(3)).collect();
    let attack = Attack::start(&backup, |target, keys: &mut u64| {
        // A new key every few bundles, and a new link for every key.
        *keys += 1;
        let mut seed = [77; 32];
        seed[..8].copy_from_slice(&keys.to_le_bytes());
        let identity = ClientIdentity::from_seed(&ClusterId::from_name(NAME), seed);
        let bundles = (0..10).flat_map(|number| {
            let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
            (0..50).for_each(|command| builder.push(identity.origin(), number * 50 + command + 1, &[0; 64]));
            frame(&ClientRequest::Submit(identity.finish(builder)))
        });
        let frames: Vec<u8> = bundles.collect();
        if let Ok(mut stream) = dial(target, identity.origin().0) {
            let _ = stream.write_all(&frames);
            let _ = stream.read(&mut [0; 4_096]);
        }
    });
    honest_clients_go_on(&cluster, client);
    let (mut probe, begun) = (TestClient::new(&cluster, 40), Instant::now());
    probe.connect(4);
    // Bundles sent only to the backup are relayed and ordered too.
    while probe.status(ReplicaId(0)).committed_commands < 2_000 {
        assert!(begun.elapsed() < HANG, "the bundles sent to the backup are never ordered");
    }
    assert!(attack.rounds.load(Ordering::Relaxed) >= 8, "the attack sent almost nothing");
}
