//! Scenarios of PBFT whose votes have real MACs, which convince only their recipients.

use quorate_adversary::twins::play::Player;
use quorate_adversary::twins::run::{Choice, Shard, Source};
use quorate_adversary::twins::{Entry, Participants, Shape, Space, Verdict};
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_crypto::SchemeKind;
use quorate_types::Quorum;

const SCENARIOS: u64 = 40;

struct Replays<'a>(&'a Source<'a>, Option<SchemeKind>);

impl ForProtocol for Replays<'_> {
    type Output = Vec<(Verdict, String)>;
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
        let mut player = Player::new(ProtocolKind::PbftMac, make).authenticate(self.1);
        self.0.part(Shard::WHOLE).map(|scenario| player.replay(&scenario)).collect()
    }
}

fn replays(source: &Source<'_>, macs: Option<SchemeKind>) -> Vec<(Verdict, String)> {
    for_protocol(ProtocolKind::PbftMac, Replays(source, macs))
}

/// Nothing depends on whether others can verify a vote: MACs lead to the same events as signatures that convince
/// everyone.
#[test]
fn macs_lead_to_the_same_events_as_free_signatures() {
    for (twins, one_way, seed) in [(1, false, 1), (1, true, 2), (0, true, 3)] {
        let participants = Participants::new(Quorum::of(4).expect("the size is sound"), twins);
        let shape = Shape { participants, partitions: 2, rounds: 7, one_way, pruned: true };
        let space = Space::new(shape).expect("it can be counted");
        let source = Source::Space(&space, Choice::Sample { scenarios: SCENARIOS, seed });
        let free = replays(&source, None);
        for macs in [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC] {
            let real = replays(&source, Some(macs));
            for (number, (free, real)) in (0..).zip(free.iter().zip(&real)) {
                let line = Entry::from(source.scenario(number)).to_line();
                assert_eq!(real.0, Verdict::Safe, "{macs}: {line}\n{}", real.1);
                assert_eq!(real.1, free.1, "{macs}: {line}");
            }
        }
    }
}
