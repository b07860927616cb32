//! Bugs that only a change to the code can introduce: each is a `bug!` at the place of the correct rule.
//!
//! This module exists only with the feature `mutants`; without it, `bug!` is always `false`. Bugs that can be injected
//! from outside, by other rules or by changing a replica's inputs and actions, are not here but in the museum of
//! `quorate-adversary`. `docs/MUSEUM.md` lists all of them, with the scenario or the checkers that find each.

use std::cell::Cell;
use std::sync::OnceLock;

/// Environment variable that injects the bug of this name into a whole process, as `mutation/run.sh` does. Read only in
/// builds with the feature.
pub const VARIABLE: &str = "QUORATE_MUTANT";

/// Bug, described by its effect. The cited source found it first or describes it best; bugs without a source are
/// mutants, which an implementer could have written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bug {
    /// A proposal moves the view to its own without proof: relab/hotstuff pull request 233. Here a view begins with a
    /// certificate of the previous view; the check at admission and the invariant had to be removed.
    ViewJumpOnProposal,
    /// A replica follows a single request for a higher view, instead of f+1 (Castro and Liskov, OSDI 1999, section
    /// 4.5.2).
    ViewJumpOnViewChange,
    /// A replica restarts in the view after its highest certificate of votes, ignoring timeouts: radixdlt/babylon-node
    /// pull request 243. Here no replica may be in a view below one in which it has voted; that invariant had to be
    /// removed.
    RecoveryForgetsTimeouts,
    /// The view timer is not restarted when a request is executed, so a slow primary is replaced although it serves
    /// requests: the timer of a request (Castro and Liskov, OSDI 1999, section 4.4) is mistaken for the timer of the
    /// primary.
    ClockNotRestarted,
    /// A certificate of votes for a view that a timeout certificate ended begins the next view again:
    /// category-labs/monad-bft issue 2245, where it panics, as it does here, by an assertion.
    ViewEnteredTwice,
    /// Like [`Bug::ViewEnteredTwice`], but without the assertion: the leader proposes again. Here `safety` issues no
    /// ballot for a second proposal; a fresh `safety` issues it.
    ProposesTwice,
    /// Votes are counted regardless of how far ahead their view is.
    FarVotesCounted,
    /// Timeouts are counted regardless of how far ahead their view is, and without a certificate that proves that it
    /// has begun.
    FarTimeoutsCounted,
    /// Claims of what others have executed are kept regardless of how far ahead they are: hyperledger-labs/SmartBFT
    /// pull request 482, in review.
    FarClaimsKept,
    /// PRE-PREPAREs of a view that has not been opened are kept without limits on number or size, including duplicates.
    EarlyKept,
    /// Every request of a peer is answered, however often it repeats.
    AnswersUnlimited,
    /// Any proposer is accepted as the leader: hot-stuff/libhotstuff issue 22.
    AnyProposer,
    /// An offer of the state being fetched restarts the transfer.
    OfferRestarts,
    /// A leader is replaced because of a bundle that has waited long at a backup, even if the leader does not have it,
    /// and a bundle relayed by f+1 waits behind the leader's whole backlog: a bug of our own. A client can have one
    /// leader after the other replaced by sending each of them a backlog.
    BlamedUnheard,
    /// A certificate of timeouts begins a view although the certificate reported by a signer is not sent with it, and
    /// may not exist: a bug of our own. Aptos shows that certificate with the timeouts and compares
    /// (`TwoChainTimeoutCertificate`). The invariant had to be removed too.
    TimeoutsAlone,
    /// A replica acknowledges storing bundles of which it knows only the digests (ProvableHQ/snarkOS pull request
    /// 4412). Here a replica does not rely on its own acknowledgement of a bundle that it lacks; that check had to be
    /// removed too.
    StoredUnseen,
    /// A voter relies on any storage certificate of a bundle, not on the one named by the block, so a faulty replica
    /// can show each voter a different one: a bug of our own.
    AnyCertificate,
    /// An optimistic block is voted for although its parent is not certified (Doidge et al., DSN 2024: a vote for it
    /// needs the lock on its parent). Here the engine waits for that lock and the rule checks it; both had to be
    /// removed.
    ParentUncertified,
    /// A replica that lost its disk and accepted blocks as prepared forgets them at its next restart: a bug of our own.
    /// A second lost disk then lets a view change lose a decided block.
    TakenClaimsForgotten,
    /// The relays of one peer may fill the whole pool: a bug of our own.
    RelaysUnbounded,
    /// Relayed bundles enter the pool although their commands were executed: a bug of our own. Old bundles then take
    /// the space of new ones.
    RelaysUnscreened,
    /// A link is charged for its bundles that other leaders propose: a bug of our own. A client that sends each leader
    /// different bundles then gets as much from each of them as an honest client from all together.
    ChargedForOthers,
    /// A VIEW-CHANGE omits the slots that its sender has executed.
    ExecutedOmitted,
    /// A replica votes in a view after timing out of it.
    VotesAfterTimeout,
    /// A quorum of seven replicas is four.
    FourOfSeven,
    /// A checkpoint's certificate has f+1 votes.
    CheckpointByFew,
    /// PBFT decides by f+1 COMMITs.
    DecidedByFew,
    /// A proposal in a reserved view waits for no record.
    ReservedUnwritten,
    /// A replica does not join f+1 timeouts of its view.
    TimeoutsNotJoined,
    /// A feature level begins one block before the height that its change names.
    LevelTooEarly,
    /// An encoded session consists of its floor only.
    WindowNotInState,
    /// A primary's block in PBFT replaces the one that its view carried over.
    CarriedReplaced,
    /// The last chunk of a fetched state is not compared with the manifest.
    LastChunkTrusted,
    /// Any manifest is accepted as the one that a quorum certified.
    AnyManifest,
    /// The certificate of an offered checkpoint is not verified.
    OfferUnverified,
    /// PBFT forgets slots that are executed but not stable.
    UnstableForgotten,
    /// View timeouts never grow.
    TimeoutsConstant,
    /// A leader under which nothing commits is not replaced.
    FruitlessKept,
    /// After a restart a replica proposes again in a view that it had reserved.
    ReservationForgotten,
    /// A replica that lost its journal takes a bound on its earlier statements that is two views too low.
    BoundTooLow,
    /// A replica that lost its journal returns after one answer instead of a quorum's.
    OneAnswerEnough,
    /// One replica's claim that a slot was executed counts as a decision.
    ClaimDecides,
    /// f+1 VIEW-CHANGEs open a view.
    ViewOpenedByFew,
    /// A replica of PBFT votes in its view after asking for a higher one.
    VotesAfterViewChange,
    /// A command above the session's floor is executed again.
    ExecutedAgain,
    /// Bundles of an abandoned branch do not return to the pool.
    AbandonedLost,
    /// Votes for different blocks make one quorum.
    VotesMixed,
    /// After failed views the turn stays with the same leader.
    TurnStays,
    /// A request that times out is repeated to the same peer.
    FirstPeerOnly,
    /// Timeouts report the certificate of genesis as the highest one.
    GenesisReported,
    /// An optimistic block is voted for although the lock is not on its parent.
    LockElsewhere,
    /// A replica that voted for an optimistic block votes for another block of its view.
    VotesTwice,
    /// A leader does not propose again although its optimistic proposal cannot stand.
    ProposalStays,
    /// An optimistic block that misstates its parent's view or height enters the tree.
    ParentMisstated,
}

impl Bug {
    /// Bugs that are visible under load and not in a scenario: the simulator's oracles of work and of feature levels
    /// find them (`laboratory/adversary/tests/twins/simulated.rs`).
    pub const UNDER_LOAD: [Bug; 3] = [Bug::RelaysUnbounded, Bug::RelaysUnscreened, Bug::LevelTooEarly];

    /// All other bugs. Each is an exhibit of the museum.
    pub const SHOWN: [Bug; 20] = [
        Bug::ViewJumpOnProposal,
        Bug::ViewJumpOnViewChange,
        Bug::RecoveryForgetsTimeouts,
        Bug::ClockNotRestarted,
        Bug::ViewEnteredTwice,
        Bug::ProposesTwice,
        Bug::FarVotesCounted,
        Bug::FarTimeoutsCounted,
        Bug::FarClaimsKept,
        Bug::EarlyKept,
        Bug::AnswersUnlimited,
        Bug::AnyProposer,
        Bug::OfferRestarts,
        Bug::BlamedUnheard,
        Bug::TimeoutsAlone,
        Bug::StoredUnseen,
        Bug::AnyCertificate,
        Bug::ChargedForOthers,
        Bug::ParentUncertified,
        Bug::TakenClaimsForgotten,
    ];

    /// Mutants without a scenario of their own, in the order of the catalogue.
    pub const MUTANTS: [Bug; 31] = [
        Bug::ExecutedOmitted,
        Bug::VotesAfterTimeout,
        Bug::FourOfSeven,
        Bug::CheckpointByFew,
        Bug::DecidedByFew,
        Bug::ReservedUnwritten,
        Bug::TimeoutsNotJoined,
        Bug::WindowNotInState,
        Bug::CarriedReplaced,
        Bug::LastChunkTrusted,
        Bug::AnyManifest,
        Bug::OfferUnverified,
        Bug::UnstableForgotten,
        Bug::TimeoutsConstant,
        Bug::FruitlessKept,
        Bug::ReservationForgotten,
        Bug::BoundTooLow,
        Bug::OneAnswerEnough,
        Bug::ClaimDecides,
        Bug::ViewOpenedByFew,
        Bug::VotesAfterViewChange,
        Bug::ExecutedAgain,
        Bug::AbandonedLost,
        Bug::VotesMixed,
        Bug::TurnStays,
        Bug::FirstPeerOnly,
        Bug::GenesisReported,
        Bug::LockElsewhere,
        Bug::VotesTwice,
        Bug::ProposalStays,
        Bug::ParentMisstated,
    ];

    /// Returns the bug of this name.
    fn named(name: &str) -> Option<Bug> {
        let all = Self::SHOWN.into_iter().chain(Self::UNDER_LOAD).chain(Self::MUTANTS);
        all.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}

/// Returns the value of [`VARIABLE`], which may also name a bug that is injected from outside.
pub fn chosen() -> Option<&'static str> {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref()
}

/// Returns the bug of the whole process.
fn of_the_process() -> Option<Bug> {
    static CHOSEN: OnceLock<Option<Bug>> = OnceLock::new();
    *CHOSEN.get_or_init(|| Bug::named(chosen()?))
}

thread_local! {
    /// Bug of the replica whose step is running on this thread. A step is a single call and does not change threads.
    static STEPPING: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Returns whether the replica whose step is running, or the whole process, has this bug. Called by `bug!`.
pub fn is_had(bug: Bug) -> bool {
    STEPPING.get() == Some(bug) || of_the_process() == Some(bug)
}

/// Guard during whose life the replica whose step is running has a bug, or none.
#[must_use]
pub struct Having(Option<Bug>);

/// Starts a step of a replica with this bug.
pub fn having(bug: Option<Bug>) -> Having {
    Having(STEPPING.replace(bug))
}

impl Drop for Having {
    fn drop(&mut self) {
        STEPPING.set(self.0);
    }
}
