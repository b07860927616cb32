//! The list of exhibits, and of the bugs that cannot be exhibited.

use super::scene::{Ending, Play};
use super::{
    Exhibit, Hunt, Mutant, Rewriting, Rule, bounds, certificates, chains, claims, clients, disks, recovery, sessions,
    spreading, transfer, views,
};
use crate::twins::checker::Property;
use quorate_consensus::config::ProtocolKind::{
    self, BasicHotStuff, ChainedHotStuff, FastHotStuff, Jolteon, Pbft, PbftMac, SimpleMoonshot,
};
use quorate_consensus::mutants::Bug;

/// A bug of the list without an exhibit.
#[derive(Debug)]
pub struct Absent {
    /// Number in the list of bugs.
    pub number: u8,
    pub bug: &'static str,
    /// Reason why it has no exhibit.
    pub why: &'static str,
}

/// Bugs that the engine cannot express, because it lacks the feature in question.
pub const ABSENT: &[Absent] = &[
    Absent {
        number: 17,
        bug: "the read-only optimisation blocks clients that wait for n-f equal replies",
        why: "there is no read-only path; every command is ordered",
    },
    Absent {
        number: 25,
        bug: "BLS without proof of possession",
        why: "a cluster with such a key does not start; `bls::rogue_keys_are_refused` shows the attack and the refusal",
    },
];

/// Description of an exhibit that has no scenario yet.
struct Label {
    number: u8,
    letter: &'static str,
    bug: &'static str,
    source: &'static str,
    mutant: Option<Mutant>,
}

const fn exhibit(number: u8, letter: &'static str, bug: &'static str) -> Label {
    Label { number, letter, bug, source: "", mutant: None }
}

impl Label {
    const fn source(self, source: &'static str) -> Label {
        Label { source, ..self }
    }

    const fn mutant(self, mutant: Mutant) -> Label {
        Label { mutant: Some(mutant), ..self }
    }

    const fn breaks(self, property: Property, protocol: ProtocolKind, scene: fn(&Play) -> Ending) -> Exhibit {
        let Label { number, letter, bug, source, mutant } = self;
        Exhibit { number, letter, bug, source, mutant, protocol, property, scene, hunts: &[] }
    }
}

impl Exhibit {
    const fn found_by(self, hunts: &'static [(Hunt, u64)]) -> Exhibit {
        Exhibit { hunts, ..self }
    }
}

/// Points of a crash sweep: more than the instance's actions between the start of the sweep and its scripted crash.
const CRASHES: u64 = 60;

/// The exhibits, in the order of the list. The budget of a hunt is about four times the number of scenarios that it
/// needed when it was added.
pub const EXHIBITS: &[Exhibit] = &[
    exhibit(1, "", "a two-chain commits although views were skipped in it")
        .source("Fast-HotStuff before version 7; Bano et al., OPODIS 2021")
        .mutant(Mutant::Rule(Rule::CommitsAcrossViews))
        .breaks(Property::Agreement, FastHotStuff, chains::two_chain_with_a_gap)
        .found_by(&[(Hunt::Twins, 100_000)]),
    exhibit(2, "", "a three-chain commits although views were skipped in it")
        .source("relab/hotstuff #249")
        .mutant(Mutant::Rule(Rule::CommitsAcrossViews))
        .breaks(Property::Agreement, ChainedHotStuff, chains::three_chain_with_a_gap)
        .found_by(&[(Hunt::Twins, 20_000)]),
    exhibit(3, "", "a block is committed although an ancestor could not be fetched")
        .source("Gogada et al., ApPLIED 2023, section 5.4")
        .mutant(Mutant::Rewriting(Rewriting::CommitsOverMissing))
        .breaks(Property::Contiguity, Jolteon, chains::missing_ancestor)
        .found_by(&[(Hunt::Twins, 50), (Hunt::Mutation, 50), (Hunt::Random, 50)]),
    exhibit(4, "", "the view of a certificate is not covered by its signatures")
        .source("relab/hotstuff #289")
        .mutant(Mutant::Rewriting(Rewriting::CertificateViewUnsigned))
        .breaks(Property::Views, Jolteon, certificates::replayed_certificate),
    exhibit(5, "", "one bad timeout message poisons every aggregate")
        .source("relab/hotstuff #224")
        .mutant(Mutant::Rewriting(Rewriting::TimeoutCertificateUnchecked))
        .breaks(Property::Liveness, FastHotStuff, certificates::poisoned_timeouts)
        .found_by(&[(Hunt::Mutation, 200), (Hunt::Random, 500)]),
    exhibit(6, "a", "a missing block is not fetched: a replica that was away never catches up")
        .source("relab/hotstuff #285")
        .mutant(Mutant::Rewriting(Rewriting::UnknownBlockIgnored))
        .breaks(Property::Liveness, Jolteon, certificates::away_for_ten_views)
        .found_by(&[(Hunt::Twins, 50), (Hunt::Mutation, 50), (Hunt::Random, 50)]),
    exhibit(6, "b", "a certificate of an unknown block is treated as impossible")
        .source("relab/hotstuff #285")
        .mutant(Mutant::Rewriting(Rewriting::UnknownBlockPanics))
        .breaks(Property::Panic, Jolteon, certificates::away_for_ten_views)
        .found_by(&[(Hunt::Twins, 50), (Hunt::Mutation, 50), (Hunt::Random, 50)]),
    exhibit(7, "a", "a proposal moves the view to its own without a certificate")
        .source("relab/hotstuff #233")
        .mutant(Mutant::Hook(Bug::ViewJumpOnProposal))
        .breaks(Property::Views, ChainedHotStuff, views::proposal_from_afar),
    exhibit(7, "b", "one replica's request for a higher view is followed")
        .source("Castro and Liskov, OSDI 1999, section 4.5.2")
        .mutant(Mutant::Hook(Bug::ViewJumpOnViewChange))
        .breaks(Property::Views, Pbft, views::view_change_from_afar),
    exhibit(8, "a", "a vote is sent before it is in the journal")
        .source("diem/diem #1141; aptos-labs/aptos-core #18298")
        .mutant(Mutant::Rewriting(Rewriting::VoteNotDurable))
        .breaks(Property::OneStatement, Jolteon, |how| recovery::forgotten_vote(how, None))
        .found_by(&[(Hunt::CrashSweep(|how, at| recovery::forgotten_vote(how, Some(at))), CRASHES)]),
    exhibit(8, "b", "the lock that goes with a vote is not in the journal")
        .source("diem/diem #1141")
        .mutant(Mutant::Rewriting(Rewriting::LockNotDurable))
        .breaks(Property::Agreement, BasicHotStuff, |how| recovery::forgotten_lock(how, None))
        .found_by(&[(Hunt::CrashSweep(|how, at| recovery::forgotten_lock(how, Some(at))), CRASHES)]),
    exhibit(8, "c", "a timeout is sent before it is in the journal")
        .source("diem/diem #1141")
        .mutant(Mutant::Rewriting(Rewriting::TimeoutNotDurable))
        .breaks(Property::OneStatement, Jolteon, |how| recovery::forgotten_timeout(how, None))
        .found_by(&[
            (Hunt::CrashSweep(|how, at| recovery::forgotten_timeout(how, Some(at))), CRASHES),
            (Hunt::Random, 3000),
        ]),
    exhibit(8, "d", "PREPARE is sent before it is in the journal")
        .source("celo-org/celo-blockchain #396")
        .mutant(Mutant::Rewriting(Rewriting::PreparedNotDurable))
        .breaks(Property::OneStatement, Pbft, |how| recovery::forgotten_prepare(how, None))
        .found_by(&[
            (Hunt::CrashSweep(|how, at| recovery::forgotten_prepare(how, Some(at))), CRASHES),
            (Hunt::Random, 100),
        ]),
    exhibit(9, "", "recovery takes the view from the certificate of votes and ignores the certificate of timeouts")
        .source("radixdlt/babylon-node #243")
        .mutant(Mutant::Hook(Bug::RecoveryForgetsTimeouts))
        .breaks(Property::Liveness, Jolteon, |how| recovery::forgotten_timeouts(how, None))
        .found_by(&[
            (Hunt::CrashSweep(|how, at| recovery::forgotten_timeouts(how, Some(at))), CRASHES),
            (Hunt::Random, 100),
        ]),
    exhibit(10, "", "a timeout message is sent once")
        .source("category-labs/monad-bft #1670")
        .mutant(Mutant::Rewriting(Rewriting::TimeoutSentOnce))
        .breaks(Property::Liveness, Jolteon, views::lost_timeouts)
        .found_by(&[(Hunt::Random, 100)]),
    exhibit(11, "", "a VIEW-CHANGE is sent once")
        .source("hyperledger/fabric #1917")
        .mutant(Mutant::Rewriting(Rewriting::ViewChangeSentOnce))
        .breaks(Property::Liveness, Pbft, views::only_the_primary_is_linked)
        .found_by(&[(Hunt::Twins, 50), (Hunt::Mutation, 100), (Hunt::Random, 100)]),
    exhibit(12, "", "a new view takes the low watermark only from equal checkpoints, S' instead of S")
        .source("hyperledger/fabric #1111")
        .mutant(Mutant::Rule(Rule::MatchingCheckpointsOnly))
        .breaks(Property::Liveness, Pbft, views::checkpoints_of_different_age)
        .found_by(&[(Hunt::Mutation, 5000), (Hunt::Random, 100)]),
    exhibit(13, "", "two phases and a leader that does not wait: a hidden lock stops progress")
        .source("Yin et al., PODC 2019, section 4.4")
        .mutant(Mutant::Rule(Rule::TwoPhases))
        .breaks(Property::Liveness, BasicHotStuff, views::hidden_lock),
    exhibit(14, "a", "a three-chain with round-robin leaders, one of four silent")
        .source("Gogada et al., ApPLIED 2023, section 5.2.2")
        .breaks(Property::Liveness, ChainedHotStuff, views::one_of_four_silent)
        .found_by(&[(Hunt::Lasso(|how, number| views::silent_set(how, 4, number)), 4)]),
    exhibit(14, "b", "a three-chain with round-robin leaders, two of seven silent and not adjacent")
        .source("Gogada et al., ApPLIED 2023, section 5.2.2")
        .breaks(Property::Liveness, ChainedHotStuff, views::two_of_seven_silent)
        .found_by(&[(Hunt::Lasso(|how, number| views::silent_set(how, 7, number)), 28)]),
    exhibit(15, "", "a client's MACs are good for the primary and wrong for the others")
        .source("Clement et al., NSDI 2009, section 3 (Aardvark)")
        .breaks(Property::Liveness, PbftMac, clients::macs_for_the_leader)
        .found_by(&[(Hunt::Clients, 50)]),
    exhibit(16, "", "a primary that serves just within the timeout is replaced")
        .source("Castro and Liskov, OSDI 1999, section 4.4")
        .mutant(Mutant::Hook(Bug::ClockNotRestarted))
        .breaks(Property::Liveness, Pbft, views::slow_primary),
    exhibit(18, "", "an invalid vote replaces a valid one of the same voter")
        .source("category-labs/monad-bft #2214; ava-labs/Simplex #546")
        .mutant(Mutant::Rewriting(Rewriting::VoteReplaced))
        .breaks(Property::Liveness, Jolteon, certificates::spoilt_votes)
        .found_by(&[(Hunt::Random, 100)]),
    exhibit(19, "a", "a certificate of votes after a certificate of timeouts for the same view causes a panic")
        .source("category-labs/monad-bft #2245")
        .mutant(Mutant::Hook(Bug::ViewEnteredTwice))
        .breaks(Property::Panic, Jolteon, certificates::votes_after_timeouts)
        .found_by(&[(Hunt::Twins, 300), (Hunt::Mutation, 100), (Hunt::Random, 100)]),
    exhibit(
        19,
        "b",
        "a certificate of votes after a certificate of timeouts for the same view makes the leader propose again",
    )
    .source("category-labs/monad-bft #2245")
    .mutant(Mutant::Hook(Bug::ProposesTwice))
    .breaks(Property::OneStatement, Jolteon, certificates::votes_after_timeouts)
    .found_by(&[(Hunt::Random, 1000)]),
    exhibit(20, "a", "votes are counted for views arbitrarily far ahead")
        .source("several; no clear first")
        .mutant(Mutant::Hook(Bug::FarVotesCounted))
        .breaks(Property::Memory, Jolteon, bounds::flood_of_votes),
    exhibit(20, "b", "timeouts are counted for views arbitrarily far ahead")
        .source("several; no clear first")
        .mutant(Mutant::Hook(Bug::FarTimeoutsCounted))
        .breaks(Property::Work, Jolteon, bounds::flood_of_timeouts),
    exhibit(20, "c", "claims of executed slots are kept arbitrarily far ahead")
        .source("hyperledger-labs/SmartBFT #482")
        .mutant(Mutant::Hook(Bug::FarClaimsKept))
        .breaks(Property::Memory, Pbft, bounds::flood_of_claims),
    exhibit(21, "a", "safeNode without its second line, the newer certificate")
        .source("linera-io/linera-protocol #891")
        .mutant(Mutant::Rule(Rule::NoLivenessBranch))
        .breaks(Property::Liveness, ChainedHotStuff, bounds::locked_alone)
        .found_by(&[(Hunt::Twins, 1000)]),
    exhibit(21, "b", "a proposal without justification is not checked against the lock")
        .source("projnanda/nandatown #191")
        .mutant(Mutant::Rule(Rule::OmittedJustification))
        .breaks(Property::Agreement, ChainedHotStuff, bounds::omitted_justification)
        .found_by(&[(Hunt::Twins, 2000)]),
    exhibit(21, "c", "any proposer is accepted as the leader")
        .source("hot-stuff/libhotstuff #22")
        .mutant(Mutant::Hook(Bug::AnyProposer))
        .breaks(Property::Liveness, ChainedHotStuff, views::usurper),
    exhibit(22, "", "a chunk of a fetched state is accepted unverified, from any sender")
        .source("several; no clear first")
        .mutant(Mutant::Rewriting(Rewriting::StateTrusted))
        .breaks(Property::Agreement, Jolteon, transfer::forged_chunk),
    exhibit(23, "", "an offer of the state that is being fetched restarts the transfer")
        .source("several; no clear first")
        .mutant(Mutant::Hook(Bug::OfferRestarts))
        .breaks(Property::Liveness, Jolteon, transfer::repeated_offers),
    exhibit(24, "", "a commit's execution depends on the replica's remaining memory")
        .source("several; no clear first")
        .mutant(Mutant::Rewriting(Rewriting::OutputForgets))
        .breaks(Property::Validity, Jolteon, bounds::command_sent_again)
        .found_by(&[(Hunt::Random, 5000)]),
    exhibit(26, "a", "the first proposal after a view change is not checked against the lock; five replicas")
        .source("0xPolygon/pbft-consensus #82")
        .mutant(Mutant::Rule(Rule::LockLostInViewChange))
        .breaks(Property::Agreement, ChainedHotStuff, chains::lost_lock_of_five),
    exhibit(26, "b", "the first proposal after a view change is not checked against the lock; six replicas")
        .source("0xPolygon/pbft-consensus #82")
        .mutant(Mutant::Rule(Rule::LockLostInViewChange))
        .breaks(Property::Agreement, ChainedHotStuff, chains::lost_lock_of_six),
    exhibit(27, "", "heights restart from 1 after a restart")
        .source("several; no clear first")
        .mutant(Mutant::Rewriting(Rewriting::HeightsStartAgain))
        .breaks(Property::Agreement, Jolteon, transfer::everybody_restarts)
        .found_by(&[(Hunt::Random, 100)]),
    exhibit(28, "a", "Jolteon accepts a block on an older parent than the timeouts name")
        .source("Gelashvili et al., FC 2022, figure 2")
        .mutant(Mutant::Rule(Rule::OldParentAccepted))
        .breaks(Property::Agreement, Jolteon, chains::old_parent_accepted)
        .found_by(&[(Hunt::Twins, 1000)]),
    exhibit(28, "b", "HotStuff refuses a block on an old parent")
        .source("Gogada et al., ApPLIED 2023, section 5.2.2")
        .mutant(Mutant::Rule(Rule::OldParentRefused))
        .breaks(Property::Liveness, ChainedHotStuff, chains::old_parent_refused)
        .found_by(&[(Hunt::Twins, 50), (Hunt::Mutation, 50), (Hunt::Random, 50)]),
    exhibit(29, "", "a certificate of timeouts moves the view without the certificate that they name")
        .source("our own; Aptos shows that certificate with the timeouts")
        .mutant(Mutant::Hook(Bug::TimeoutsAlone))
        .breaks(Property::Liveness, Jolteon, certificates::timeouts_alone)
        .found_by(&[(Hunt::Ambush, 200)]),
    exhibit(30, "", "one owner's sessions evict all others, and an old signed command is executed again")
        .source("our own")
        .breaks(Property::Validity, Jolteon, sessions::old_command_again),
    exhibit(31, "", "an honest leader is blamed for commands that a client sent to all replicas but the leader")
        .source("our own")
        .mutant(Mutant::Hook(Bug::BlamedUnheard))
        .breaks(Property::Liveness, Jolteon, bounds::backlog_at_the_leader),
    exhibit(32, "", "every question of a peer is answered, without a limit")
        .source("our own, found by review")
        .mutant(Mutant::Hook(Bug::AnswersUnlimited))
        .breaks(Property::Work, Pbft, bounds::flood_of_questions),
    exhibit(33, "", "PRE-PREPAREs of later views are kept in any number and size")
        .source("our own, found by review")
        .mutant(Mutant::Hook(Bug::EarlyKept))
        .breaks(Property::Memory, Pbft, bounds::flood_of_early_pre_prepares),
    exhibit(34, "", "a backlog sent under made-up keys precedes all other clients' commands")
        .source("our own, found by review")
        .mutant(Mutant::Rewriting(Rewriting::OneQueue))
        .breaks(Property::Liveness, Jolteon, bounds::flood_of_made_up_keys),
    exhibit(35, "", "a replica acknowledges that it stores bundles of which it knows only the digests")
        .source("ProvableHQ/snarkOS #4412")
        .mutant(Mutant::Hook(Bug::StoredUnseen))
        .breaks(Property::Availability, Jolteon, spreading::bundle_shown_to_nobody),
    exhibit(36, "", "an optimistic block is voted for before its parent is certified")
        .source("Doidge et al., DSN 2024")
        .mutant(Mutant::Hook(Bug::ParentUncertified))
        .breaks(Property::Agreement, SimpleMoonshot, chains::uncertified_parent)
        .found_by(&[(Hunt::Twins, 50)]),
    exhibit(37, "a", "a view change for MACs carries over a block that a claim for a higher view opposes")
        .source("Castro and Liskov, TOCS 2002, section 4.5, condition A1")
        .mutant(Mutant::Rule(Rule::OpposedCarriedOver))
        .breaks(Property::Agreement, PbftMac, claims::opposed_claim),
    exhibit(37, "b", "a view change for MACs carries over a block that a single replica claims")
        .source("Castro and Liskov, TOCS 2002, section 4.5, condition A2")
        .mutant(Mutant::Rule(Rule::ClaimBelieved))
        .breaks(Property::Agreement, PbftMac, claims::invented_claim),
    exhibit(38, "", "a voter relies on any certificate that a bundle is stored, not on the one that the block names")
        .source("our own, found by review")
        .mutant(Mutant::Hook(Bug::AnyCertificate))
        .breaks(Property::Availability, Jolteon, spreading::certificates_that_do_not_add_up),
    exhibit(
        39,
        "",
        "a link pays for bundles that other leaders propose, so that a client that favours leaders has a share of each",
    )
    .source("our own, found by review")
    .mutant(Mutant::Hook(Bug::ChargedForOthers))
    .breaks(Property::Served, Jolteon, clients::other_bundles_for_each_leader)
    .found_by(&[(Hunt::Contest, 50)]),
    exhibit(40, "a", "a replica that lost its disk forgets at its next restart which blocks it took for prepared")
        .source("our own, found by review")
        .mutant(Mutant::Hook(Bug::TakenClaimsForgotten))
        .breaks(Property::Agreement, PbftMac, disks::one_disk_after_the_other),
    exhibit(40, "b", "a claim ends by age and not by evidence")
        .source("our own, found by review; Castro and Liskov, TOCS 2002, section 4.5, constant M")
        .mutant(Mutant::Rule(Rule::ClaimsOutliveEvidence))
        .breaks(Property::Liveness, PbftMac, claims::nothing_backs_a_claim),
];
