//! Real processes raise the feature level of their application, with restarts in between, and one returns to a program
//! that does not support it.

use crate::restart::{HANG, Net, REPLICAS};
use crate::support::TestClient;
use bytes::Bytes;
use quorate_applications::levels::ACTIVATION_DELAY_BLOCKS;
use quorate_applications::{ApplicationKind, BlockContext, Executor, Factory};
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_node::initial_state::{self, InitialState};
use quorate_testkit::levelled::{LEVELLED, Levelled};
use quorate_types::level::SYSTEM_SEQUENCE;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, Decoder, EpochId, FeatureLevel, Height, LevelChange, LevelStatus,
    LevelSupport, Outcome, PendingLevel, ReplicaId, ReplicaReply, Wire, encode_message,
};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// File in a replica's directory with the level that its program supports.
const PROGRAM: &str = "program";
const LEVEL: FeatureLevel = FeatureLevel(1);

/// Returns the application, which supports the level in the directory of this process' replica, if it is one.
pub fn application() -> ApplicationKind {
    static FACTORY: Factory = Factory {
        name: LEVELLED,
        make: || {
            let directory = std::env::var_os(crate::restart::REPLICA_DIRECTORY).unwrap_or_default();
            let text = fs::read_to_string(Path::new(&directory).join(PROGRAM)).unwrap_or_default();
            Box::new(Levelled(FeatureLevel(text.parse().unwrap_or(0))))
        },
    };
    ApplicationKind::register(&FACTORY).expect("the name is free")
}

fn install(net: &Net, replica: usize, supported: FeatureLevel) {
    fs::write(net.homes[replica].join(PROGRAM), supported.to_string()).expect("it can be written");
}

/// Restarts a replica with a program that supports a level.
fn replace(net: &mut Net, replica: usize, supported: FeatureLevel) {
    net.stop(replica);
    install(net, replica, supported);
    net.start(replica);
}

/// Returns a client that is connected with the operators' listeners.
fn operator(net: &Net) -> TestClient {
    let mut committee = net.committee().clone();
    for (member, home) in committee.members.iter_mut().zip(&net.homes) {
        let config = NodeConfig::read(&home.join(CONFIG_FILE)).expect("a valid configuration");
        member.address = config.admin_listen.expect("a testnet has operators' listeners");
    }
    TestClient::of(committee, net.identity())
}

/// Asks a replica to sign that it supports the level.
fn support(client: &mut TestClient, replica: usize) -> Result<LevelSupport, String> {
    let replica = ReplicaId(replica as u16);
    client.send_raw(replica, encode_message(&ClientRequest::Support { id: 9, level: LEVEL }));
    client.wait(|from, reply| match reply {
        ReplicaReply::Supports { id: 9, support } if from == replica => Some(Ok(support.clone())),
        ReplicaReply::Unanswered { id: 9, why, .. } if from == replica => Some(Err(why.clone())),
        _ => None,
    })
}

fn order(client: &TestClient, supports: Vec<LevelSupport>) -> Bundle {
    let mut builder = BundleBuilder::new(client.id(), Height(0).latest_expiry());
    builder.push(client.id(), SYSTEM_SEQUENCE, &LevelChange { level: LEVEL, supports }.to_payload());
    client.sign(builder)
}

fn result(client: &mut TestClient, bundle: Bundle) -> Vec<u8> {
    match client.submit(&[bundle], 1, 2)[0].outcomes().next().expect("it has a command") {
        Outcome::Executed(result) => result.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Executes a command, and returns the level that f+1 replicas saw.
fn seen(client: &mut TestClient) -> u16 {
    let bundle = client.bundle(1, b"level?");
    u16::from_le_bytes(result(client, bundle).try_into().expect("two bytes"))
}

fn level_of(client: &mut TestClient, replica: usize, wanted: impl Fn(&LevelStatus) -> bool) -> LevelStatus {
    let level = |status: &quorate_types::Status| status.host.as_ref().expect("a node").level.expect("it has levels");
    level(&client.status_with(ReplicaId(replica as u16), |status| wanted(&level(status))))
}

#[test]
fn a_cluster_raises_its_level_and_an_older_program_stops() {
    let mut net = Net::new("levels", |config| config.application = application());
    (0..REPLICAS).for_each(|replica| install(&net, replica, LEVEL));
    install(&net, 3, FeatureLevel(0));
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    assert_eq!(seen(&mut client), 0);
    let mut operator = operator(&net);
    operator.connect(REPLICAS);
    let why = support(&mut operator, 3).expect_err("its program supports level 0 only");
    assert!(why.contains("supports feature levels up to 0; help: start a version"), "{why}");
    let why = support(&mut client, 0).expect_err("a client is no operator");
    assert!(why.contains("only for its operators"), "{why}");

    replace(&mut net, 3, LEVEL);
    level_of(&mut client, 3, |level| level.supported == LEVEL);
    operator.connect(REPLICAS);
    let supports: Vec<LevelSupport> =
        (0..REPLICAS).map(|replica| support(&mut operator, replica).expect("it supports the level")).collect();
    let mut swapped = supports.clone();
    swapped.swap(1, 2);
    let forged = order(&client, swapped);
    client.send_all(&ClientRequest::Submit(forged.clone()));
    let why = client.wait(|_, reply| match reply {
        ReplicaReply::Refused { bundle, why, again: false } if *bundle == forged.digest() => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("replica 1's signature that it supports feature level 1 is not valid"), "{why}");

    let change = order(&client, supports);
    // Refusals of the other replicas may still arrive, and this client expects none.
    std::thread::sleep(std::time::Duration::from_millis(200));
    client.status(ReplicaId(0));
    let mut result = Decoder::new(result(&mut client, change).into());
    let pending = PendingLevel::decode(&mut result).expect("the level and its height");
    assert_eq!(pending.level, LEVEL);
    assert!(pending.height.0 > ACTIVATION_DELAY_BLOCKS);
    net.kill(1);
    net.start(1);
    let (mut levels, begun) = (vec![seen(&mut client)], Instant::now());
    while levels.last() == Some(&0) {
        assert!(begun.elapsed() < HANG, "the level is not active after {} commands", levels.len());
        levels.push(seen(&mut client));
    }
    assert!(levels.is_sorted() && levels.len() > 10, "{levels:?}");
    for replica in 0..REPLICAS {
        let level = level_of(&mut client, replica, |level| level.active == LEVEL);
        assert_eq!(level, LevelStatus { active: LEVEL, supported: LEVEL, pending: None }, "replica {replica}");
    }

    replace(&mut net, 2, FeatureLevel(0));
    net.wait_until_said(2, "supports levels up to 0; help: start the version of the program that supports level 1", 1);
    net.wait_for_end(2);
    assert_eq!(seen(&mut client), 1);
    install(&net, 2, LEVEL);
    net.start(2);
    assert_eq!(seen(&mut client), 1);
    level_of(&mut client, 2, |level| level.active == LEVEL);
}

/// A new cluster that begins with the state of another one begins at its level.
#[test]
fn an_initial_state_carries_its_level() {
    let (genesis, kind) = (EpochId::of_name("old"), application());
    let initial = |level| InitialState {
        genesis,
        height: Height(7),
        level: FeatureLevel(level),
        application: LEVELLED.to_owned(),
        state: Bytes::new(),
    };
    for (level, magic) in [(0, b"qInit001"), (2, b"qInit002")] {
        let content = initial(level).encode();
        assert_eq!(&content[..8], magic);
        assert_eq!(InitialState::decode(content).expect("it was just encoded"), initial(level));
    }
    let epoch = EpochId::of_name("new");
    let executor = initial_state::executor(kind, Some(initial(0)), &epoch).expect("every program supports level 0");
    assert_eq!(executor.level(), LevelStatus::default());
    let why =
        initial_state::executor(kind, Some(initial(2)), &epoch).err().expect("this program supports level 0 only");
    assert!(why.to_string().contains("executes at feature level 2 since height 0"), "{why}");
    let levelled = Executor::new(Box::new(Levelled(FeatureLevel(2))), &epoch);
    let mut levelled = levelled.beginning_at(FeatureLevel(2));
    let mut replies = Vec::new();
    let client = ClientId(1);
    let mut builder = BundleBuilder::new(client, Height(9));
    builder.push(client, 1, b"level?");
    levelled.execute(BlockContext::untimed(Height(1)), &[builder.finish()], &mut replies);
    assert_eq!(replies[0].results.outcomes().next(), Some(Outcome::Executed(&[2, 0])));
}
