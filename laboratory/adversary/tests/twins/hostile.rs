//! Tests hostile clients in scenarios: with any attack and any leader no scenario is unsafe, and after the network
//! heals honest clients get their share of the blocks and their commands are executed within the limit.

use quorate_adversary::twins::hostile::HostileClient;
use quorate_adversary::twins::museum::{Mutant, Rewriting};
use quorate_adversary::twins::play::Player;
use quorate_adversary::twins::run::{Choice, Source};
use quorate_adversary::twins::{Entry, Participants, Property, Scenario, Shape, Space, Verdict};
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::mutants::Bug;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_types::Quorum;

/// Numbers of replicas, twins and rounds.
type Size = (usize, usize, usize);

fn scenarios(hostile: HostileClient, (replicas, twins, rounds): Size, scenarios: u64, seed: u64) -> Vec<Scenario> {
    let participants = Participants::new(Quorum::of(replicas).expect("a committee"), twins).with_hostile(Some(hostile));
    let pruned = replicas <= 4;
    let space =
        Space::new(Shape { participants, partitions: 2, rounds, one_way: false, pruned }).expect("a small space");
    let source = Source::Space(&space, Choice::Sample { scenarios, seed });
    (0..scenarios).map(|number| source.scenario(number)).collect()
}

struct Verdicts<'a> {
    protocol: ProtocolKind,
    mutant: Option<Mutant>,
    played: &'a [Scenario],
    /// Minimum number of healed views.
    healed: u64,
}

impl Verdicts<'_> {
    fn of(protocol: ProtocolKind, played: &[Scenario]) -> Verdicts<'_> {
        Verdicts { protocol, mutant: None, played, healed: 0 }
    }
}

impl ForProtocol for Verdicts<'_> {
    type Output = Vec<Verdict>;
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Vec<Verdict> {
        let mut player = Player::new(self.protocol, make).mutate(self.mutant).heal_for(self.healed);
        self.played.iter().map(|scenario| player.play(scenario)).collect()
    }
}

/// Up to f twins, and each kind of hostile client: honest clients get their share of every sequence of blocks after
/// healing, and their commands are executed within the limit, after short and long scripts.
#[test]
fn the_honest_are_served_beside_each_hostile_client() {
    let sizes = [((4, 1, 5), 20), ((4, 1, 10), 40), ((4, 1, 20), 10), ((7, 2, 10), 4)];
    for protocol in ProtocolKind::ALL.iter().copied() {
        for hostile in HostileClient::ALL.iter().copied() {
            for ((size, count), seed) in sizes.into_iter().zip(1..) {
                let played = scenarios(hostile, size, count, seed);
                for (scenario, verdict) in played.iter().zip(for_protocol(protocol, Verdicts::of(protocol, &played))) {
                    let line = Entry::from(scenario.clone()).to_line();
                    assert_eq!(verdict, Verdict::Safe, "{protocol} beside {hostile}: {line}");
                }
            }
        }
    }
}

/// Every window of blocks after healing counts, however late.
#[test]
fn the_honest_are_served_for_long_after_the_network_has_healed() {
    for protocol in ProtocolKind::ALL.iter().copied().filter(|protocol| !protocol.has_slots()) {
        for hostile in [HostileClient::LeaderOnly, HostileClient::OneBackupOnly] {
            for (size, count, seed) in [((4, 1, 10), 6, 41), ((4, 1, 16), 4, 42), ((7, 2, 10), 1, 43)] {
                let played = scenarios(hostile, size, count, seed);
                let verdicts = for_protocol(protocol, Verdicts { healed: 160, ..Verdicts::of(protocol, &played) });
                for (scenario, verdict) in played.iter().zip(verdicts) {
                    let line = Entry::from(scenario.clone()).to_line();
                    assert_eq!(verdict, Verdict::Safe, "{protocol} beside {hostile}: {line}");
                }
            }
        }
    }
}

/// The checker detects a violation: if a link is charged for other leaders' proposals, a client that sends each leader
/// different bundles has one share per leader.
#[test]
fn links_that_pay_for_other_leaders_blocks_lose_their_share() {
    let bug = Mutant::Hook(Bug::ChargedForOthers);
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::SimpleMoonshot] {
        let played = scenarios(HostileClient::LeaderOnly, (4, 1, 10), 100, 31337);
        let verdicts = for_protocol(protocol, Verdicts { mutant: Some(bug), ..Verdicts::of(protocol, &played) });
        let found = |verdict: &&Verdict| verdict.violation().is_some_and(|found| found.property == Property::Served);
        assert!(verdicts.iter().filter(found).count() > 0, "{protocol}: {verdicts:?}");
        let stalled = |verdict: &&Verdict| matches!(verdict, Verdict::Stalled(_));
        assert!(
            verdicts.iter().all(|verdict| verdict == &Verdict::Safe || stalled(&verdict)),
            "{protocol}: {verdicts:?}"
        );
    }
}

/// The checker detects a violation: with one queue for all clients, the flood's backlog precedes every honest command.
#[test]
fn one_queue_lets_a_flood_starve_the_honest() {
    let played = scenarios(HostileClient::Flood, (4, 0, 12), 20, 1);
    let (protocol, bug) = (ProtocolKind::Jolteon, Mutant::Rewriting(Rewriting::OneQueue));
    let verdicts = for_protocol(protocol, Verdicts { mutant: Some(bug), ..Verdicts::of(protocol, &played) });
    let waits = |property| matches!(property, Property::Liveness | Property::Served);
    let stalled = |verdict: &&Verdict| matches!(verdict, Verdict::Stalled(violation) if waits(violation.property));
    assert!(verdicts.iter().filter(stalled).count() >= 15, "{verdicts:?}");
}

#[test]
fn a_line_keeps_its_hostile_client() {
    for hostile in HostileClient::ALL.iter().copied() {
        let [scenario] = &scenarios(hostile, (4, 1, 3), 1, 1)[..] else { panic!("one was asked for") };
        let line = Entry::from(scenario.clone()).to_line();
        assert!(line.contains(&format!("\"hostile\":\"{hostile}\"")), "{line}");
        assert_eq!(Entry::from_line(&line).expect("it was just written").scenario, *scenario);
        assert_eq!(hostile.to_string().parse(), Ok(hostile));
    }
}
