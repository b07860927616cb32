//! Historical bugs that only a change to the code can reintroduce: each is a `bug!` at the place of the correct rule.
//!
//! This module exists only with the feature `mutants`; without it, `bug!` is always `false`. Bugs that can be injected
//! from outside, by other rules or by changing a replica's inputs and actions, are not here but in the museum of
//! `quorate-adversary`. `docs/MUSEUM.md` lists, for each bug, the scenario that exposes it, the oracle that detects it,
//! and how quickly each search finds it.

use std::cell::Cell;

/// Historical bug, described by its effect. The cited source found it first or describes it best.
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
}

impl Bug {
    /// Bugs that are visible under load and not in a scenario: the simulator's `work` oracle finds them
    /// (`laboratory/adversary/tests/twins/simulated.rs`).
    pub const UNDER_LOAD: [Bug; 2] = [Bug::RelaysUnbounded, Bug::RelaysUnscreened];

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
}

thread_local! {
    /// Bug of the replica whose step is running on this thread. A step is a single call and does not change threads.
    static STEPPING: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Returns whether the replica whose step is running has this bug. Called by `bug!`.
pub(crate) fn is_had(bug: Bug) -> bool {
    STEPPING.get() == Some(bug)
}

/// Guard during whose life the replica whose step is running has a bug, or none.
pub(crate) struct Having(Option<Bug>);

/// Starts a step of a replica with this bug.
pub(crate) fn having(bug: Option<Bug>) -> Having {
    Having(STEPPING.replace(bug))
}

impl Drop for Having {
    fn drop(&mut self) {
        STEPPING.set(self.0);
    }
}
