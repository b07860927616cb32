//! A host never has to act on a mark, because each required reaction has its own action.

use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::chained::engine::ChainedEngine;
use quorate_consensus::protocols::chained::rules::Jolteon;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::{Drop, RecordId};
use quorate_consensus::{Action, Config, Halt, Input, Mark, Refusal, Replica};
use quorate_types::{Bundle, BundleBuilder, ClientId, Digest, EpochId, Height, Quorum, ReplicaId, Time};

type Jolteons = Replica<ChainedEngine<Jolteon>>;

/// Expiry so far in the future that a bundle is ordered before it.
const LATER: Height = Height(1 << 20);

fn replica(me: u16, config: Config) -> Jolteons {
    let epoch = EpochId::of_name("test");
    let quorum = Quorum::of(4).expect("the committee size is valid");
    Replica::new(ChainedEngine::new(&config, &epoch), config, quorum, epoch, ReplicaId(me), 7)
}

fn bundle(number: u64, expires: Height) -> Bundle {
    let client = ClientId::of_key(&[1; 32]);
    let mut builder = BundleBuilder::new(client, expires);
    builder.push(client, number, b"command");
    builder.finish()
}

/// Returns the refusals among the actions of a submission.
fn refusals(replica: &mut Jolteons, bundles: &[&Bundle]) -> Vec<(Digest, Refusal)> {
    let mut actions = Vec::new();
    let bundles = bundles.iter().map(|bundle| (*bundle).clone()).collect();
    replica.step(Time(1), Input::Submit { bundles, sources: Vec::new() }, &mut actions);
    let refused = actions.iter().filter_map(|action| match action {
        Action::Refuse { bundle, why } => Some((*bundle, *why)),
        _ => None,
    });
    refused.collect()
}

#[test]
fn a_bundle_without_room_is_refused_unless_it_is_pending() {
    let config = Config { protocol: ProtocolKind::Jolteon, pool_bundles: 2, ..Config::default() };
    // Replica 3 does not lead view 1, so its bundles stay pending.
    let mut replica = replica(3, config);
    replica.step(Time(0), Input::Start, &mut Vec::new());
    let [one, two, three, four] = [1, 2, 3, 4].map(|number| bundle(number, LATER));
    let full = |bundle: &Bundle| (bundle.digest(), Refusal::PoolFull);
    assert_eq!(refusals(&mut replica, &[&one]), []);
    assert_eq!(refusals(&mut replica, &[&one, &two, &three, &four]), [full(&three), full(&four)]);
    assert_eq!(refusals(&mut replica, &[&two, &one]), []);
    let late = bundle(5, Height(1));
    assert_eq!(refusals(&mut replica, &[&late]), [(late.digest(), Refusal::Expired)]);
}

#[test]
fn a_replica_with_an_invalid_journal_halts() {
    let mut replica = replica(0, Config::default());
    let record = Record::Commit { height: Height(3), digest: Digest([7; 32]) };
    let mut actions = Vec::new();
    replica.step(Time(0), Input::Recall { id: RecordId(1), record }, &mut actions);
    assert!(matches!(actions[..], [Action::Halt(Halt::Unreadable { id: RecordId(1), .. })]), "{actions:?}");
}

/// The replica reports the leader, and at that moment it equals the leader in the mark.
#[test]
fn the_leader_is_read_from_the_replica() {
    let mut replica = replica(2, Config::default());
    let mut actions = Vec::new();
    replica.step(Time(0), Input::Start, &mut actions);
    let told = actions.iter().find_map(|action| match action {
        Action::Mark(Mark::EnteredView { leader, .. }) => Some(*leader),
        _ => None,
    });
    assert!(replica.leader().is_some());
    assert_eq!(told, Some(replica.leader()));
}

#[test]
fn reasons_for_dropping_are_counted_under_one_name() {
    assert_eq!(Drop::Stale.to_string(), "stale");
    assert_eq!(Drop::NotTheLeader.to_string(), "not-the-leader");
}
