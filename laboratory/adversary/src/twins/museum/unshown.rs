//! The bugs of the catalogue without a scenario of their own: the mutants, which measure the checkers. Each is an error
//! that an implementer could make; `mutation/run.sh` counts those that the checkers find.

use super::{Hunt, Mutant, Rewriting, Rule};
use crate::twins::checker::Property;
use quorate_consensus::config::ProtocolKind::{
    self, BasicHotStuff, ChainedHotStuff, FastHotStuff, Jolteon, Pbft, SimpleHotStuff, SimpleMoonshot,
};
use quorate_consensus::mutants::Bug;

/// A mutant of the catalogue.
#[derive(Debug)]
pub struct Unshown {
    /// Number in the list of mutants, which the exhibits' numbers do not continue.
    pub number: u8,
    pub bug: &'static str,
    /// The injected bug. `None` if an exhibit's bug stands for this one.
    pub mutant: Option<Mutant>,
    /// Name of the exhibit with the same bug.
    pub shown_by: Option<&'static str>,
    /// The first checker that finds it, as `mutation/run.sh` calls it. `None` if none does.
    pub found_by: Option<&'static str>,
    /// The property that this checker sees violated. `None` if it misses something else that it expects.
    pub property: Option<Property>,
    /// A hunt that finds the bug, the protocol that it plays, and its budget in scenarios.
    pub hunt: Option<(Hunt, ProtocolKind, u64)>,
}

const fn mutant(number: u8, bug: &'static str, mutant: Mutant) -> Unshown {
    Unshown { number, bug, mutant: Some(mutant), shown_by: None, found_by: None, property: None, hunt: None }
}

const fn rule(number: u8, bug: &'static str, rule: Rule) -> Unshown {
    mutant(number, bug, Mutant::Rule(rule))
}

const fn rewriting(number: u8, bug: &'static str, rewriting: Rewriting) -> Unshown {
    mutant(number, bug, Mutant::Rewriting(rewriting))
}

const fn hook(number: u8, bug: &'static str, hook: Bug) -> Unshown {
    mutant(number, bug, Mutant::Hook(hook))
}

/// Returns an entry for which an exhibit stands.
const fn shown(number: u8, bug: &'static str, exhibit: &'static str) -> Unshown {
    Unshown { number, bug, mutant: None, shown_by: Some(exhibit), found_by: None, property: None, hunt: None }
}

impl Unshown {
    const fn found(self, checker: &'static str) -> Unshown {
        Unshown { found_by: Some(checker), ..self }
    }

    const fn breaks(self, property: Property) -> Unshown {
        Unshown { property: Some(property), ..self }
    }

    const fn hunted(self, hunt: Hunt, protocol: ProtocolKind, budget: u64) -> Unshown {
        Unshown { hunt: Some((hunt, protocol, budget)), ..self }
    }
}

/// The mutants, in the order of their numbers.
pub const UNSHOWN: &[Unshown] = &[
    rule(1, "Jolteon: a block builds on the lowest certificate that the timeouts name", Rule::LowestParentAccepted)
        .found("hunts")
        .breaks(Property::Agreement)
        .hunted(Hunt::Ambush, Jolteon, 2000),
    rule(2, "Fast-HotStuff: the first entry of an aggregate counts as the highest", Rule::FirstOfAggregate)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Ambush, FastHotStuff, 50),
    rule(3, "PBFT carries over the block that was prepared in the lowest view", Rule::LowestViewCarriedOver)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Ambush, Pbft, 200),
    rule(4, "PBFT does not carry over the last prepared slot", Rule::LastSlotForgotten)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Ambush, Pbft, 50),
    hook(5, "a VIEW-CHANGE omits executed slots", Bug::ExecutedOmitted).found("hunts").breaks(Property::Order).hunted(
        Hunt::Ambush,
        Pbft,
        50,
    ),
    hook(6, "votes in a view after timing out of it", Bug::VotesAfterTimeout)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Random, ChainedHotStuff, 50),
    hook(7, "a quorum of seven is four", Bug::FourOfSeven).found("twins").breaks(Property::Backing),
    hook(8, "a checkpoint's certificate has f+1 votes", Bug::CheckpointByFew).found("hunts").breaks(Property::Backing),
    rule(9, "simplified HotStuff locks one block lower", Rule::LocksOneLower)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Ambush, SimpleHotStuff, 500),
    hook(10, "PBFT decides by f+1 COMMITs", Bug::DecidedByFew).found("hunts").breaks(Property::Backing).hunted(
        Hunt::Twins,
        Pbft,
        250,
    ),
    hook(11, "a proposal in a reserved view waits for no record", Bug::ReservedUnwritten)
        .found("sweep")
        .breaks(Property::OneStatement),
    shown(12, "PREPAREs are not recalled after a restart", "8d"),
    rewriting(13, "certificates of timeouts are not verified", Rewriting::TimeoutsUnverified)
        .found("hunts")
        .breaks(Property::Liveness)
        .hunted(Hunt::Ambush, ChainedHotStuff, 50),
    hook(14, "a replica does not join f+1 timeouts", Bug::TimeoutsNotJoined).found("hardship"),
    hook(15, "the state of a session is its floor only", Bug::WindowNotInState)
        .found("chaos")
        .breaks(Property::Agreement),
    hook(16, "PBFT: a primary's block replaces a carried one", Bug::CarriedReplaced),
    rule(17, "basic HotStuff: a commitQC does not lock", Rule::NoLockByCommit),
    hook(18, "the last chunk of a state is not checked", Bug::LastChunkTrusted).found("state"),
    rewriting(19, "the proofs in a VIEW-CHANGE are not verified", Rewriting::ClaimsUnverified)
        .found("hunts")
        .breaks(Property::Liveness)
        .hunted(Hunt::Ambush, Pbft, 50),
    rewriting(20, "the highest certificate is not in the journal with a vote", Rewriting::CertificateNotDurable)
        .found("hunts")
        .breaks(Property::Panic)
        .hunted(Hunt::Random, ChainedHotStuff, 100),
    hook(21, "state transfer: any manifest is accepted as the one that a quorum certified", Bug::AnyManifest)
        .found("state"),
    hook(22, "state transfer: an offered checkpoint is not verified", Bug::OfferUnverified).found("state"),
    hook(23, "PBFT forgets slots that are executed but not stable", Bug::UnstableForgotten)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Ambush, Pbft, 500),
    hook(24, "pacemaker: view timeouts never grow", Bug::TimeoutsConstant).found("hardship").breaks(Property::Liveness),
    hook(25, "pacemaker: a leader under which nothing commits stays", Bug::FruitlessKept).found("conformance"),
    hook(26, "restart: proposes again in a reserved view", Bug::ReservationForgotten)
        .found("chaos")
        .breaks(Property::OneStatement),
    hook(27, "lost journal: the bound on earlier statements is two views too low", Bug::BoundTooLow)
        .found("hardship")
        .breaks(Property::OneStatement),
    hook(28, "lost journal: one answer is enough", Bug::OneAnswerEnough)
        .found("hardship")
        .breaks(Property::OneStatement),
    hook(29, "PBFT: one replica's claim counts as a decision", Bug::ClaimDecides)
        .found("conformance")
        .breaks(Property::Backing),
    hook(30, "PBFT: f+1 VIEW-CHANGEs open a view", Bug::ViewOpenedByFew).found("hunts").breaks(Property::Panic).hunted(
        Hunt::Ambush,
        Pbft,
        50,
    ),
    hook(31, "PBFT: votes continue after a VIEW-CHANGE", Bug::VotesAfterViewChange)
        .found("hunts")
        .breaks(Property::Panic)
        .hunted(Hunt::Ambush, Pbft, 50),
    hook(32, "sessions: a number above the floor is executed again", Bug::ExecutedAgain)
        .found("hostile")
        .breaks(Property::Validity),
    hook(33, "pool: bundles of an abandoned branch do not return to the pool", Bug::AbandonedLost)
        .found("hardship")
        .breaks(Property::Liveness),
    hook(34, "tally: votes for different blocks make one quorum", Bug::VotesMixed)
        .found("hunts")
        .breaks(Property::Backing)
        .hunted(Hunt::Ambush, SimpleMoonshot, 50),
    shown(35, "tally: votes found to be forged stay", "18"),
    hook(36, "reputation: the turn does not move on after a failed view", Bug::TurnStays).found("conformance"),
    hook(37, "fetching: only the first peer is ever asked", Bug::FirstPeerOnly).found("conformance"),
    hook(38, "timeouts name genesis as the highest certificate", Bug::GenesisReported)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Ambush, ChainedHotStuff, 50),
    shown(39, "restart: votes again in a view after timing out of it", "8c"),
    rule(40, "basic HotStuff: a precommitQC does not lock", Rule::NoLockByPrecommit)
        .found("hunts")
        .breaks(Property::Order)
        .hunted(Hunt::Random, BasicHotStuff, 2000),
    hook(41, "an optimistic block is voted for although the lock is not on its parent", Bug::LockElsewhere)
        .found("hunts")
        .breaks(Property::Backing)
        .hunted(Hunt::Ambush, SimpleMoonshot, 800),
    shown(42, "an optimistic block is voted for although its parent is not certified", "36"),
    hook(43, "a replica votes for an optimistic block and again for another one in its view", Bug::VotesTwice)
        .found("hunts")
        .breaks(Property::OneStatement)
        .hunted(Hunt::Twins, SimpleMoonshot, 600),
    hook(44, "a leader does not propose again although its optimistic proposal cannot stand", Bug::ProposalStays),
    hook(45, "an optimistic block that misstates its parent's view or height enters the tree", Bug::ParentMisstated),
];
