//! Tests hostile clients in scenarios: with any attack and any leader no scenario is unsafe, and honest commands are
//! executed within the bound after the network has healed.

use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::{ForProtocol, MakeReplica, for_protocol};
use quorate_twins::hostile::HostileClient;
use quorate_twins::museum::{Mutant, Rewriting};
use quorate_twins::play::Player;
use quorate_twins::run::{Choice, Source};
use quorate_twins::{Entry, Participants, Property, Scenario, Shape, Space, Verdict};
use quorate_types::Quorum;

fn scenarios(hostile: HostileClient, twins: usize, rounds: usize, scenarios: u64) -> Vec<Scenario> {
    let participants = Participants::new(Quorum::of(4).expect("a committee"), twins).with_hostile(Some(hostile));
    let space =
        Space::new(Shape { participants, partitions: 2, rounds, one_way: false, pruned: true }).expect("a small space");
    let source = Source::Space(&space, Choice::Sample { scenarios, seed: 1 });
    (0..scenarios).map(|number| source.scenario(number)).collect()
}

struct Verdicts<'a>(ProtocolKind, Option<Mutant>, &'a [Scenario]);

impl ForProtocol for Verdicts<'_> {
    type Output = Vec<Verdict>;
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Vec<Verdict> {
        let mut player = Player::new(self.0, make).mutate(self.1);
        self.2.iter().map(|scenario| player.play(scenario)).collect()
    }
}

#[test]
fn the_honest_are_served_beside_each_hostile_client() {
    for protocol in ProtocolKind::ALL.iter().copied() {
        for hostile in HostileClient::ALL.iter().copied() {
            let played = scenarios(hostile, 1, 5, 40);
            for (scenario, verdict) in played.iter().zip(for_protocol(protocol, Verdicts(protocol, None, &played))) {
                let line = Entry::from(scenario.clone()).to_line();
                assert_eq!(verdict, Verdict::Safe, "{protocol} beside {hostile}: {line}");
            }
        }
    }
}

/// The checker detects a violation: with one queue for all clients, the backlog of the flood precedes every honest
/// command.
#[test]
fn one_queue_lets_a_flood_starve_the_honest() {
    let played = scenarios(HostileClient::Flood, 0, 12, 20);
    let verdicts = for_protocol(
        ProtocolKind::Jolteon,
        Verdicts(ProtocolKind::Jolteon, Some(Mutant::Rewriting(Rewriting::OneQueue)), &played),
    );
    let stalled =
        |verdict: &&Verdict| matches!(verdict, Verdict::Stalled(violation) if violation.property == Property::Liveness);
    assert!(verdicts.iter().filter(stalled).count() >= 15, "{verdicts:?}");
}

#[test]
fn a_line_keeps_its_hostile_client() {
    for hostile in HostileClient::ALL.iter().copied() {
        let [scenario] = &scenarios(hostile, 1, 3, 1)[..] else { panic!("one was asked for") };
        let line = Entry::from(scenario.clone()).to_line();
        assert!(line.contains(&format!("\"hostile\":\"{hostile}\"")), "{line}");
        assert_eq!(Entry::from_line(&line).expect("it was just written").scenario, *scenario);
        assert_eq!(hostile.to_string().parse(), Ok(hostile));
    }
}
