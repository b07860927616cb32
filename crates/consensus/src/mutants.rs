//! Historical bugs that nothing but a changed line can put back: each is a `bug!` at the place where the right rule is.
//!
//! This module exists with the feature `mutants` only; without it `bug!` is `false`, and no replica can be given a bug. Bugs that can be had
//! from outside, by other rules or by changing what a replica hears and does, are not here but in the museum of `quorate-twins`.
//! `docs/MUSEUM.md` has the scenario that exposes each, the oracle that notices, and how soon which hunt finds it.

use std::cell::Cell;

/// A bug, by what it does. The source is where it was found first, or is described best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bug {
    /// A block is committed although an ancestor could not be fetched: Gogada et al., ApPLIED 2023, section 5.4. Here a block enters
    /// the tree after its parent only, and three assertions hold that; all four had to be taken out.
    CommitsOverMissing,
    /// A proposal moves the view to its own, whatever it shows: relab/hotstuff pull request 233. Here a view begins with a certificate
    /// of the one before; its check at admission and the invariant had to be taken out.
    ViewJumpOnProposal,
    /// One replica that asks for a higher view is followed, and not f+1 (Castro and Liskov, OSDI 1999, section 4.5.2).
    ViewJumpOnViewChange,
    /// A replica comes back into the view after its highest certificate of votes, and not of timeouts: radixdlt/babylon-node pull
    /// request 243. Here nobody may be in a view below one in which it has spoken; that invariant had to be taken out.
    RecoveryForgetsTimeouts,
    /// A checkpoint starts a new view only if a quorum of the view changes tells of this same one, S' in place of S: hyperledger/fabric
    /// pull request 1111.
    MatchingCheckpointsOnly,
    /// A prepareQC locks, as in a HotStuff of two phases whose leader does not wait: Yin et al., PODC 2019, section 4.4.
    TwoPhases,
    /// The clock of a view runs on when a request is executed, so that a slow primary is replaced although it serves: the timer of a
    /// request (Castro and Liskov, OSDI 1999, section 4.4) taken for that of the primary.
    ClockNotRestarted,
    /// A second vote of the same voter takes the place of the first, unverified: category-labs/monad-bft issue 2214, ava-labs/Simplex
    /// issue 546. Here the votes of a quorum are checked together and the bad ones struck, so that it does not matter which vote of a
    /// voter is kept; the striking had to be taken out too.
    VoteReplaced,
    /// A certificate of votes for a view that was left by a timeout certificate begins the next view again: category-labs/monad-bft
    /// issue 2245, where it ends in a panic, as it does here, by an assertion.
    ViewEnteredTwice,
    /// The same, without the assertion: the leader proposes again. Here a ballot for a second proposal cannot be had of `safety`; it is
    /// taken from a fresh one.
    ProposesTwice,
    /// Votes are counted however far ahead their view is.
    FarVotesCounted,
    /// Timeouts are counted however far ahead their view is, and without a certificate that shows that it has begun.
    FarTimeoutsCounted,
    /// What others claim to have executed is kept however far ahead: hyperledger-labs/SmartBFT pull request 482, in review.
    FarClaimsKept,
    /// PRE-PREPAREs of a view that is not open are kept however many, of whatever size and though they are the same.
    EarlyKept,
    /// Every question of a peer is answered, however often it asks.
    AnswersUnlimited,
    /// Whoever proposes is taken for the leader: hot-stuff/libhotstuff issue 22.
    AnyProposer,
    /// A chunk of a state that is fetched is believed, whoever sent it, as where the last reply of several is taken for the right one.
    StateTrusted,
    /// An offer of the state that is being fetched begins the transfer anew.
    OfferRestarts,
    /// A leader is blamed for a bundle that has waited long at a backup, whether or not the leader has it, and what f+1 relay waits behind
    /// all that the leader has: a bug of our own. A client that sends the leader a backlog has one leader after the other replaced.
    BlamedUnheard,
    /// A certificate of timeouts begins a view although the certificate of which a signer tells is not shown with it, and may not exist:
    /// a bug of our own. Aptos shows that certificate with the timeouts and compares (`TwoChainTimeoutCertificate`). The invariant had
    /// to be taken out too.
    TimeoutsAlone,
    /// Voters do not hold the commands and bytes of a block against `batch` and `batch_bytes`: a bug of our own.
    BlocksUnbounded,
    /// What one peer relays may take all of the pool: a bug of our own.
    RelaysUnbounded,
    /// Relayed bundles enter the pool although their commands were executed: a bug of our own. The past then takes the room of what is new.
    RelaysUnscreened,
}

impl Bug {
    /// Those that show under load and not in a scenario: the simulator's `work` oracle finds them (`crates/twins/tests/simulated.rs`).
    pub const UNDER_LOAD: [Bug; 3] = [Bug::BlocksUnbounded, Bug::RelaysUnbounded, Bug::RelaysUnscreened];

    /// All others. The museum has an exhibit of each.
    pub const SHOWN: [Bug; 20] = [
        Bug::CommitsOverMissing,
        Bug::ViewJumpOnProposal,
        Bug::ViewJumpOnViewChange,
        Bug::RecoveryForgetsTimeouts,
        Bug::MatchingCheckpointsOnly,
        Bug::TwoPhases,
        Bug::ClockNotRestarted,
        Bug::VoteReplaced,
        Bug::ViewEnteredTwice,
        Bug::ProposesTwice,
        Bug::FarVotesCounted,
        Bug::FarTimeoutsCounted,
        Bug::FarClaimsKept,
        Bug::EarlyKept,
        Bug::AnswersUnlimited,
        Bug::AnyProposer,
        Bug::StateTrusted,
        Bug::OfferRestarts,
        Bug::BlamedUnheard,
        Bug::TimeoutsAlone,
    ];
}

thread_local! {
    /// The bug of the replica that is taking a step on this thread. A step is one call, and a replica knows nothing of threads.
    static STEPPING: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Whether the replica that is taking a step has this bug: what `bug!` asks.
pub(crate) fn is_had(bug: Bug) -> bool {
    STEPPING.get() == Some(bug)
}

/// As long as this lives, the replica that is taking a step has a bug, or none.
pub(crate) struct Having(Option<Bug>);

/// A replica with this bug begins a step.
pub(crate) fn having(bug: Option<Bug>) -> Having {
    Having(STEPPING.replace(bug))
}

impl Drop for Having {
    fn drop(&mut self) {
        STEPPING.set(self.0);
    }
}
