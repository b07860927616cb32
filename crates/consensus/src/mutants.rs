//! Historical bugs, each put back behind a switch that only a test can throw.
//!
//! A mutant is a wrong rule, a missing check or a missing write, at the place where the right one is. It is thrown on one replica by
//! `Replica::mutate`, a method that exists only with the feature `mutants`; no configuration names one, and without the feature
//! [`Mutation::is`] is a constant. `docs/MUSEUM.md` has the scenario that exposes each, the oracle that notices, and how soon which hunt
//! finds it.

/// A bug, by what it does. The source is where it was found first, or is described best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutant {
    /// A chain of certified blocks commits although views were skipped inside of it. Two-chain: Fast-HotStuff before version 7, found by
    /// Bano et al., "Twins: BFT systems made robust", 2020, appendix F; three-chain: relab/hotstuff issue 249.
    CommitsAcrossViews,
    /// A block is committed although an ancestor could not be fetched: Gogada et al., ApPLIED 2023, section 5.4. Here a block enters
    /// the tree after its parent only, and three assertions hold that; all four had to be taken out.
    CommitsOverMissing,
    /// The view of a certificate is not covered by its signatures: relab/hotstuff issue 289. Here the statement that is signed is one
    /// fixed form with the view in it, made in another crate; what is put back is its effect, on certificates that are genuine but for
    /// their view.
    CertificateViewUnsigned,
    /// The certificate that a timeout message shows is not verified, and goes unseen into every aggregate: relab/hotstuff issue 224.
    TimeoutCertificateUnchecked,
    /// A block that is missing is not asked for: who was away for a while never comes back.
    UnknownBlockIgnored,
    /// A certificate of a block that is not here is taken for impossible: relab/hotstuff issue 285.
    UnknownBlockPanics,
    /// A proposal moves the view to its own, whatever it shows: relab/hotstuff pull request 233. Here a view begins with a certificate
    /// of the one before; its check at admission and the invariant had to be taken out.
    ViewJumpOnProposal,
    /// One replica that asks for a higher view is followed, and not f+1 (Castro and Liskov, OSDI 1999, section 4.5.2).
    ViewJumpOnViewChange,
    /// A vote is not in the journal before it is sent: diem/diem issue 1141 says why it has to be; aptos-labs/aptos-core issue 18298.
    VoteNotDurable,
    /// The same, of the lock that goes with each statement, which diem/diem issue 1141 names too.
    LockNotDurable,
    /// The same, of a timeout.
    TimeoutNotDurable,
    /// The same, of PBFT's PREPARE for a slot: celo-org/celo-blockchain issue 396.
    PreparedNotDurable,
    /// A replica comes back into the view after its highest certificate of votes, and not of timeouts: radixdlt/babylon-node pull
    /// request 243. Here nobody may be in a view below one in which it has spoken; that invariant had to be taken out.
    RecoveryForgetsTimeouts,
    /// A timeout message is sent once: category-labs/monad-bft issue 1670.
    TimeoutSentOnce,
    /// A VIEW-CHANGE is sent once: hyperledger/fabric issue 1917.
    ViewChangeSentOnce,
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
    /// safeNode without its second line, the newer certificate: linera-io/linera-protocol pull request 891.
    NoLivenessBranch,
    /// A proposal without justification is not held against the lock: projnanda/nandatown pull request 191. Here every block carries a
    /// certificate; the one that needs no proof, that of genesis, stands for none.
    OmittedJustification,
    /// Whoever proposes is taken for the leader: hot-stuff/libhotstuff issue 22.
    AnyProposer,
    /// What a commit hands to execution leaves out what this replica remembers as executed, and how long it remembers is its own
    /// business.
    OutputForgets,
    /// The lock is not held against the first proposal after a view change, as if it had to be acquired anew:
    /// 0xPolygon/pbft-consensus pull request 82 restores it.
    LockLostInViewChange,
    /// Jolteon votes for a block on any older certificate, and not on the highest that the timeouts tell of.
    OldParentAccepted,
    /// Chained HotStuff votes only for blocks on the certificate of the view before.
    OldParentRefused,
    /// A chunk of a state that is fetched is believed, whoever sent it, as where the last reply of several is taken for the right one.
    StateTrusted,
    /// An offer of the state that is being fetched begins the transfer anew.
    OfferRestarts,
    /// After a restart heights count from 1 again. Here a height follows from the block before; what is put back is that a replica knows
    /// no block any more, and what it has said and in which views all the same.
    HeightsStartAgain,
    /// A leader is blamed for a bundle that has waited long at a backup, whether or not the leader has it, and what f+1 relay waits behind
    /// all that the leader has: a bug of our own. A client that sends the leader a backlog has one leader after the other replaced.
    BlamedUnheard,
    /// All bundles wait in one queue, whatever link they came over: a bug of our own. Whoever makes keys puts a backlog before everybody.
    OneQueue,
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

impl Mutant {
    /// Those that show under load and not in a scenario: the simulator's `work` oracle finds them (`crates/twins/tests/simulated.rs`).
    pub const UNDER_LOAD: [Mutant; 3] = [Mutant::BlocksUnbounded, Mutant::RelaysUnbounded, Mutant::RelaysUnscreened];

    /// All others. The museum has an exhibit of each.
    pub const ALL: [Mutant; 39] = [
        Mutant::CommitsAcrossViews,
        Mutant::CommitsOverMissing,
        Mutant::CertificateViewUnsigned,
        Mutant::TimeoutCertificateUnchecked,
        Mutant::UnknownBlockIgnored,
        Mutant::UnknownBlockPanics,
        Mutant::ViewJumpOnProposal,
        Mutant::ViewJumpOnViewChange,
        Mutant::VoteNotDurable,
        Mutant::LockNotDurable,
        Mutant::TimeoutNotDurable,
        Mutant::PreparedNotDurable,
        Mutant::RecoveryForgetsTimeouts,
        Mutant::TimeoutSentOnce,
        Mutant::ViewChangeSentOnce,
        Mutant::MatchingCheckpointsOnly,
        Mutant::TwoPhases,
        Mutant::ClockNotRestarted,
        Mutant::VoteReplaced,
        Mutant::ViewEnteredTwice,
        Mutant::ProposesTwice,
        Mutant::FarVotesCounted,
        Mutant::FarTimeoutsCounted,
        Mutant::FarClaimsKept,
        Mutant::EarlyKept,
        Mutant::AnswersUnlimited,
        Mutant::NoLivenessBranch,
        Mutant::OmittedJustification,
        Mutant::AnyProposer,
        Mutant::OutputForgets,
        Mutant::LockLostInViewChange,
        Mutant::OldParentAccepted,
        Mutant::OldParentRefused,
        Mutant::StateTrusted,
        Mutant::OfferRestarts,
        Mutant::HeightsStartAgain,
        Mutant::TimeoutsAlone,
        Mutant::BlamedUnheard,
        Mutant::OneQueue,
    ];
}

/// What is wrong with a replica: nothing, but for a test's sake.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mutation {
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Mutation {
    /// A replica with this bug.
    #[cfg(feature = "mutants")]
    pub fn of(mutant: Mutant) -> Self {
        Mutation { mutant: Some(mutant) }
    }

    /// Whether it is this bug.
    #[cfg(feature = "mutants")]
    pub fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether it is this bug: no.
    #[cfg(not(feature = "mutants"))]
    pub const fn is(self, _mutant: Mutant) -> bool {
        false
    }
}
