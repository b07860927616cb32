//! Clients and load generators over real sockets, against replicas without consensus.

use crate::echo::{EchoCluster, Manner};
use quorate_client::load::{LoadError, LoadGenerator, LoadMode, LoadOptions, LoadProgress, LoadReport};
use quorate_client::reach::Reach;
use quorate_client::workload::FixedWorkload;
use quorate_client::{Client, ClientConfig, ClientError, ReplyMode, SessionOptions, StatusProbe, new_identity};
use quorate_crypto::ClientAuthentication;
use quorate_crypto::key_file::client::{self, ClientKeys};
use quorate_types::limits::SEQUENCE_STRIDE;
use quorate_types::{ClusterId, Quorum, ReplicaId};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
/// Maximum number of attempts, a tenth of a second apart, before a test fails.
const LOOKS: usize = 400;

/// Waits until `connected` replicas are connected: a client starts with fewer.
fn reach_of(client: &mut Client, connected: usize) -> Reach {
    let look = |_| {
        client.query(b"anything").unwrap();
        Some(client.reach()).filter(|reach| reach.reached.len() == connected)
    };
    let pause = |_: &usize| std::thread::sleep(SECOND / 10);
    (0..LOOKS).inspect(pause).find_map(look).expect("the replicas are running")
}

#[test]
fn a_client_gets_its_results_from_honest_replicas() {
    let cluster = EchoCluster::start(&[Manner::Honest; 4]);
    let mut client = Client::connect(&cluster.config).unwrap();
    for number in 0..20 {
        let payload = format!("command {number}").into_bytes();
        assert_eq!(client.execute(&payload).unwrap(), payload);
    }
    assert_eq!(client.query(b"question").unwrap(), b"question");
    assert_eq!(reach_of(&mut client, 4).unreached.len(), 0);
}

/// The key file of a client, removed at the end.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(name: &str) -> KeyFile {
        let path = std::env::temp_dir().join(format!("quorate-client-{}-{name}.key", std::process::id()));
        let keys = ClientKeys::generate(ClusterId::from_name("echo")).unwrap();
        client::write(&path, &keys).unwrap();
        KeyFile(path)
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn runs_with_one_key_have_one_owner_and_their_own_sessions_and_numbers() {
    let file = KeyFile::new("runs");
    let mut cluster = EchoCluster::start(&[Manner::Honest; 4]);
    cluster.config.key_file = Some(file.0.clone());
    let [one, two] = [(); 2].map(|()| {
        std::thread::sleep(Duration::from_millis(1));
        new_identity(&cluster.config).unwrap()
    });
    assert_eq!(one.origin().owner(), two.origin().owner());
    assert!(two.sequence_base() > one.sequence_base() && one.sequence_base() > 1 << 40);
    assert_eq!(one.sequence_base() % SEQUENCE_STRIDE, 0);
    let mut running = [(); 2].map(|()| Client::connect(&cluster.config).unwrap());
    for round in 0..3u8 {
        running.iter_mut().for_each(|client| assert_eq!(client.execute(&[round]).unwrap(), [round]));
    }
    cluster.config.client_authentication = ClientAuthentication::None;
    assert_ne!(new_identity(&cluster.config).unwrap().origin().owner(), one.origin().owner(), "the key is not used");
}

#[test]
fn an_unusable_key_file_is_an_error_that_says_what_to_do() {
    let file = KeyFile::new("unusable");
    let mut cluster = EchoCluster::start(&[Manner::Honest; 4]);
    cluster.config.key_file = Some(file.0.clone());
    let refused = |config: &ClientConfig| new_identity(config).unwrap_err().to_string();
    std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = refused(&cluster.config);
    assert!(text.contains("other users can access it (mode 644); help: `chmod 600"), "{text}");
    std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o600)).unwrap();
    cluster.config.cluster = "another".into();
    let text = refused(&cluster.config);
    assert!(text.contains("it belongs to the cluster"), "{text}");
    cluster.config.cluster = "echo".into();
    std::fs::write(&file.0, "quorate private key, version 2\n").unwrap();
    let text = refused(&cluster.config);
    assert!(text.contains("its first line is not \"quorate client key, version 1\""), "{text}");
    std::fs::remove_file(&file.0).unwrap();
    let text = refused(&cluster.config);
    assert!(text.contains("cannot open it") && text.contains(file.0.to_str().unwrap()), "{text}");
}

#[test]
fn a_liar_and_an_absent_replica_change_nothing() {
    let cluster = EchoCluster::start(&[Manner::Lies, Manner::Honest, Manner::Absent, Manner::Honest]);
    let mut client = Client::connect(&cluster.config).unwrap();
    assert_eq!(client.execute(b"truth").unwrap(), b"truth");
    assert_eq!(client.query(b"truth").unwrap(), b"truth");
    let reach = reach_of(&mut client, 3).to_string();
    assert!(reach.contains("3 of 4 replicas are connected; not replica 2: "), "{reach}");
}

#[test]
fn a_refused_command_is_sent_again_and_executed() {
    let cluster = EchoCluster::start(&[Manner::RefusesOnce; 4]);
    let mut client = Client::connect(&cluster.config).unwrap();
    assert_eq!(client.execute(b"patience").unwrap(), b"patience");
}

#[test]
fn a_command_that_f_plus_1_replicas_refuse_permanently_fails_at_once() {
    let cluster = EchoCluster::start(&[Manner::Rejects, Manner::Rejects, Manner::Silent, Manner::Silent]);
    let mut client = Client::connect(&cluster.config).unwrap();
    let error = client.execute(b"command").unwrap_err();
    assert!(matches!(&error, ClientError::Rejected(why) if why == "not here"), "{error}");
    let alone = EchoCluster::start(&[Manner::Rejects, Manner::Honest, Manner::Honest, Manner::Honest]);
    let mut client = Client::connect(&alone.config).unwrap();
    assert_eq!(client.execute(b"command").unwrap(), b"command", "one replica alone rejected a command");
}

#[test]
fn too_few_replicas_are_an_error_that_names_them() {
    let mut cluster = EchoCluster::start(&[Manner::Honest, Manner::Absent, Manner::Absent, Manner::Absent]);
    cluster.config.connect_timeout_ms = 2_500;
    let error = Client::connect(&cluster.config).err().unwrap();
    assert!(matches!(&error, ClientError::Unreachable { needed: 2, .. }));
    let text = error.to_string();
    assert!(text.contains("1 of 4 replicas are connected") && text.contains("replica 3"), "{text}");
}

#[test]
fn a_timeout_names_the_replicas_that_answered() {
    let mut cluster = EchoCluster::start(&[Manner::Honest, Manner::Silent, Manner::Silent, Manner::Lies]);
    cluster.config.request_timeout_ms = 2_500;
    let mut client = Client::connect(&cluster.config).unwrap();
    for answer in [client.execute(b"command"), client.query(b"question")] {
        match answer.unwrap_err() {
            ClientError::Timeout(why) => {
                assert_eq!((why.needed, why.distinct), (2, 2));
                assert!(why.answered.iter().eq([ReplicaId(0), ReplicaId(3)]));
                assert!(why.to_string().contains("(2 different replies from replicas 0, 3; "), "{why}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_timeout_without_any_answer_says_so() {
    let mut cluster = EchoCluster::start(&[Manner::Silent; 4]);
    cluster.config.request_timeout_ms = 300;
    let mut client = Client::connect(&cluster.config).unwrap();
    let error = client.query(b"question").unwrap_err().to_string();
    assert!(error.contains("(no replica answered; "), "{error}");
}

#[test]
fn a_cluster_without_replies_gives_a_clear_error() {
    let mut cluster = EchoCluster::start(&[Manner::Acknowledges; 4]);
    cluster.config.reply = ReplyMode::None;
    let mut client = Client::connect(&cluster.config).unwrap();
    assert!(matches!(client.execute(b"command"), Err(ClientError::NoReplies)));
}

#[test]
fn an_expired_command_is_signed_again_but_a_forgotten_one_is_not() {
    let cluster = EchoCluster::start(&[Manner::ExpiresOnce; 4]);
    let mut client = Client::connect(&cluster.config).unwrap();
    assert_eq!(client.execute(b"one").unwrap(), b"one");
    assert_eq!(client.execute(b"two").unwrap(), b"two");
    let cluster = EchoCluster::start(&[Manner::ForgetsOnce; 4]);
    let mut client = Client::connect(&cluster.config).unwrap();
    let error = client.execute(b"one").unwrap_err();
    assert!(matches!(error, ClientError::OutcomeUnknown), "{error}");
    assert_eq!(client.execute(b"two").unwrap(), b"two");
}

#[test]
fn a_probe_reads_the_replicas_that_it_reaches() {
    let cluster = EchoCluster::start(&[Manner::Honest, Manner::Absent, Manner::Honest, Manner::Honest]);
    let mut probe = StatusProbe::connect(&cluster.config).unwrap();
    // Some replicas may not be connected yet, and one never will be: query until three answer.
    let mut look = |_| Some(probe.read(SECOND / 10).unwrap()).filter(|found| found.iter().flatten().count() == 3);
    let found = (0..LOOKS).find_map(&mut look).expect("three answer");
    let answered: Vec<Option<ReplicaId>> =
        found.iter().map(|status| status.as_ref().map(|status| status.replica)).collect();
    assert_eq!(answered, [Some(ReplicaId(0)), None, Some(ReplicaId(2)), Some(ReplicaId(3))]);
    assert!(probe.reach().unreached.contains_key(&ReplicaId(1)));
}

fn options(mode: LoadMode, bundle: usize) -> LoadOptions {
    LoadOptions {
        mode,
        bundle,
        warmup: SECOND / 10,
        duration: SECOND * 3,
        drain: SECOND * 10,
        ..LoadOptions::default()
    }
}

fn generator(cluster: &EchoCluster, session: SessionOptions, options: LoadOptions, payload: usize) -> LoadGenerator {
    let identity = new_identity(&cluster.config).unwrap();
    let workload = Box::new(FixedWorkload::new(payload, 1).unwrap());
    LoadGenerator::new(cluster.transport(identity.origin()), identity, session, options, workload, SECOND * 10).unwrap()
}

fn balanced(report: &LoadReport) {
    assert_eq!(report.total_submitted, report.total_completed + report.total_refused + report.unanswered);
    assert_eq!((report.unanswered, report.malformed), (0, 0));
    assert!(report.completed > 0 && report.submitted > 0);
    assert!(report.usage.transport.bytes_sent > 0 && report.usage.cpu > Duration::ZERO);
    assert!(report.longest_gap <= report.window);
}

#[test]
fn a_closed_loop_runs_to_its_end_and_accounts_for_every_command() {
    let cluster = EchoCluster::start(&[Manner::Honest, Manner::Honest, Manner::Honest, Manner::Lies]);
    let options = options(LoadMode::Closed { outstanding: 100 }, 20);
    let generator = generator(&cluster, cluster.config.session().unwrap(), options, 16);
    let handle = generator.handle();
    assert_eq!(handle.progress().stage, "connect");
    let report = generator.run().unwrap();
    balanced(&report);
    assert_eq!(report.window, SECOND * 3);
    let last = handle.progress();
    assert_eq!((last.stage, last.connected, last.completed), ("done", 4, report.total_completed));
}

#[test]
fn an_open_loop_without_replies_keeps_its_rate() {
    let mut cluster = EchoCluster::start(&[Manner::Acknowledges, Manner::Silent, Manner::Silent, Manner::Absent]);
    cluster.config.reply = ReplyMode::None;
    let options = options(LoadMode::Open { rate: 2_000.0, max_outstanding: 100_000 }, 100);
    let report = generator(&cluster, cluster.config.session().unwrap(), options, 0).run().unwrap();
    balanced(&report);
    assert_eq!((report.total_submitted, report.unsent), (6200, 0), "2000 a second for 3.1 seconds");
    assert_eq!(report.latency_us.len(), 6000);
}

#[test]
fn a_load_is_stopped_from_another_thread() {
    let cluster = EchoCluster::start(&[Manner::Honest; 4]);
    let options = LoadOptions { duration: SECOND * 3600, ..options(LoadMode::Closed { outstanding: 10 }, 10) };
    let generator = generator(&cluster, cluster.config.session().unwrap(), options, 0);
    let handle = generator.handle();
    let load = std::thread::spawn(move || generator.run().unwrap());
    let wait = |done: &dyn Fn(LoadProgress) -> bool| {
        while !done(handle.progress()) {
            assert!(!load.is_finished(), "the load ended too early");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(&|progress| progress.stage == "measure");
    let before = handle.progress().completed;
    wait(&|progress| progress.completed > before);
    handle.stop();
    let report = load.join().unwrap();
    balanced(&report);
    assert!(report.stopped && report.window < SECOND * 3600);
}

#[test]
fn a_load_on_an_absent_quorum_is_an_error() {
    let cluster = EchoCluster::start(&[Manner::Honest, Manner::Honest, Manner::Absent, Manner::Absent]);
    let identity = new_identity(&cluster.config).unwrap();
    let transport = cluster.transport(identity.origin());
    let session = SessionOptions::new(Quorum::of(4).unwrap());
    let workload = Box::new(FixedWorkload::new(0, 1).unwrap());
    let options = LoadOptions::default();
    let load = LoadGenerator::new(transport, identity, session, options, workload, SECOND / 5).unwrap();
    let error = load.run().unwrap_err();
    assert!(matches!(&error, LoadError::Unreachable { needed: 3, .. }), "{error}");
}

#[test]
fn a_load_that_joins_others_waits_for_the_common_begin() {
    let cluster = EchoCluster::start(&[Manner::Honest; 4]);
    let options = LoadOptions { duration: SECOND, ..options(LoadMode::Closed { outstanding: 10 }, 20) };
    let load = generator(&cluster, cluster.config.session().unwrap(), options, 16).joining_others();
    let handle = load.handle();
    let load = std::thread::spawn(move || load.run());
    let is_ready = |_: &usize| {
        std::thread::sleep(SECOND / 10);
        handle.progress().stage == "ready"
    };
    assert!((0..LOOKS).any(|look| is_ready(&look)), "{:?}", handle.progress());
    let json = serde_json::to_string(&handle.progress()).unwrap();
    assert_eq!(serde_json::from_str::<LoadProgress>(&json).unwrap(), handle.progress());
    std::thread::sleep(SECOND / 2);
    assert_eq!((handle.progress().stage, handle.progress().completed), ("ready", 0));
    let begin = Instant::now() + SECOND / 2;
    handle.begin_at(begin, Duration::ZERO);
    let report = load.join().unwrap().unwrap();
    assert!(begin.elapsed() >= report.warmup + report.window, "it began in time");
    balanced(&report);
}

/// The connect timeout is an hour, against replicas that are absent or never report their height.
#[test]
fn an_abandoned_load_ends_before_its_timeout() {
    for manners in [[Manner::Absent; 4], [Manner::Silent; 4]] {
        let cluster = EchoCluster::start(&manners);
        let identity = new_identity(&cluster.config).unwrap();
        let transport = cluster.transport(identity.origin());
        let session = SessionOptions::new(Quorum::of(4).unwrap());
        let workload = Box::new(FixedWorkload::new(0, 1).unwrap());
        let options = LoadOptions::default();
        let load = LoadGenerator::new(transport, identity, session, options, workload, SECOND * 3600).unwrap();
        let handle = load.handle();
        let load = std::thread::spawn(move || load.run());
        std::thread::sleep(SECOND / 5);
        assert!(!load.is_finished(), "the load does not wait for {manners:?}");
        handle.abandon();
        let error = load.join().unwrap().unwrap_err();
        assert!(matches!(error, LoadError::Abandoned), "{error}");
    }
}
