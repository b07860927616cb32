//! The feature level at which an application executes a block, and its changes by ordered commands.
//!
//! A [`LevelChange`] that all replicas have signed takes effect [`ACTIVATION_DELAY_BLOCKS`] later. Any other one is
//! refused and changes nothing, like every command with its sequence number before there were levels. So a replica
//! whose program does not know levels, and which therefore signs nothing, executes the same as one that does.

use crate::panics::ApplicationPanic;
use quorate_types::bug;
use quorate_types::identity::Verifier;
use quorate_types::level::statement;
use quorate_types::{
    DecodeError, Decoder, Encoder, EpochId, FeatureLevel, Height, LevelChange, LevelStatus, LevelSupport, PendingLevel,
    ReplicaId, Wire,
};
use std::sync::Arc;
use thiserror::Error;

/// Number of blocks from the one with a change of the level to the first one at the new level. In the meantime statuses
/// show the height.
pub const ACTIVATION_DELAY_BLOCKS: u64 = 64;
/// Maximum number of blocks for which a replica's statement that it supports a level is valid: 65 seconds at 1000
/// blocks per second. Operators collect the statements of all replicas and order the command in this time.
pub const SUPPORT_LIFETIME_BLOCKS: u64 = 1 << 16;
/// Maximum number of changes in a block whose signatures are verified; further ones are refused. Each takes up to n
/// verifications.
pub const MAX_CHANGES_PER_BLOCK: usize = 4;

/// Level of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reached {
    active: FeatureLevel,
    /// First height of the active level; 0 if execution began with it.
    since: Height,
    pending: Option<PendingLevel>,
}

quorate_types::wire! {
    struct Reached { active, since, pending } check Reached::check
}

impl Reached {
    fn check(&self, input: &Decoder) -> Result<(), DecodeError> {
        let rises = self.pending.is_none_or(|pending| pending.level > self.active && pending.height > self.since);
        match rises && *self != Reached::default() {
            true => Ok(()),
            false => Err(input.invalid("feature levels", "not in canonical form")),
        }
    }

    /// Returns the level of the block at a height, and its first height.
    fn at(&self, height: Height) -> (FeatureLevel, Height) {
        match self.pending {
            Some(pending) if pending.height <= height => (pending.level, pending.height),
            _ => (self.active, self.since),
        }
    }
}

/// The program does not support the level of a block, so it must not execute it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the cluster executes at feature level {level} since height {since}, and this program's application {application} \
     supports levels up to {supported}; help: start the version of the program that supports level {level}, as the \
     other replicas run; keep the journal and the snapshots"
)]
pub struct UnsupportedLevel {
    pub application: &'static str,
    pub level: FeatureLevel,
    /// First height of the level.
    pub since: Height,
    pub supported: FeatureLevel,
}

/// Reason why a block is not executed.
#[derive(Debug, Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Panicked(#[from] Box<ApplicationPanic>),
    #[error(transparent)]
    UnsupportedLevel(#[from] UnsupportedLevel),
}

/// Reason why a change of the level has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LevelFault {
    #[error("the change of the feature level is malformed: {0}")]
    Malformed(#[from] DecodeError),
    #[error("the feature level is {reached} already, and never falls to {level}")]
    NotHigher { level: FeatureLevel, reached: FeatureLevel },
    #[error("feature level {0} must be active first; help: repeat the change then")]
    Pending(PendingLevel),
    #[error("the change of the feature level carries {found} signatures, and all {needed} replicas have to sign it")]
    Incomplete { found: usize, needed: usize },
    #[error(
        "replica {replica}'s signature that it supports feature level {level} is not valid in this cluster; help: \
         collect the signatures again"
    )]
    Forged { replica: ReplicaId, level: FeatureLevel },
    #[error(
        "replica {replica}'s signature that it supports feature level {level} is valid up to height {until}, and it is \
         {height} now; help: collect the signatures again"
    )]
    Expired { replica: ReplicaId, level: FeatureLevel, until: Height, height: Height },
    #[error("the block has changed the feature level as often as a block may; help: send the command again")]
    TooMany,
}

/// Members whose signatures change the level.
#[derive(Clone)]
struct Members {
    epoch: EpochId,
    replicas: usize,
    identities: Arc<dyn Verifier>,
}

/// The level of the state, and the highest supported one.
pub struct Levels {
    /// `None`: no command changes the level.
    members: Option<Members>,
    supported: FeatureLevel,
    reached: Reached,
    /// Changes of this block whose signatures were verified.
    verified: usize,
}

impl Levels {
    pub(crate) fn new(supported: FeatureLevel) -> Levels {
        Levels { members: None, supported, reached: Reached::default(), verified: 0 }
    }

    /// Lets commands change the level.
    pub(crate) fn changed_by(&mut self, epoch: EpochId, replicas: usize, identities: Arc<dyn Verifier>) {
        self.members = Some(Members { epoch, replicas, identities });
    }

    /// Begins at a level instead of 0.
    pub(crate) fn begin_at(&mut self, level: FeatureLevel) {
        self.reached = Reached { active: level, ..Reached::default() };
    }

    pub(crate) fn reached(&self) -> Reached {
        self.reached
    }

    pub(crate) fn restore(&mut self, reached: Reached) {
        self.reached = reached;
    }

    /// Fails if the program does not support the level of the block at a height.
    pub(crate) fn check(
        &self,
        application: &'static str,
        reached: &Reached,
        height: Height,
    ) -> Result<(), UnsupportedLevel> {
        let ((level, since), supported) = (reached.at(height), self.supported);
        match level <= supported {
            true => Ok(()),
            false => Err(UnsupportedLevel { application, level, since, supported }),
        }
    }

    /// Moves to the block at a height, and returns its level.
    pub(crate) fn advance(&mut self, height: Height) -> FeatureLevel {
        let height = if bug!(LevelTooEarly) { height.next() } else { height };
        let (active, since) = self.reached.at(height);
        let pending = self.reached.pending.filter(|pending| pending.height > height);
        self.reached = Reached { active, since, pending };
        self.verified = 0;
        active
    }

    /// Returns the level of the block after `height`, the highest supported one, and the pending one.
    pub fn status(&self, height: Height) -> LevelStatus {
        let (active, _) = self.reached.at(height.next());
        let pending = self.reached.pending.filter(|pending| pending.height > height.next());
        LevelStatus { active, supported: self.supported, pending }
    }

    pub(crate) fn signers(&self) -> usize {
        self.members.as_ref().map_or(0, |members| members.replicas)
    }

    /// Returns the highest level that was agreed, active or pending.
    fn agreed(&self) -> FeatureLevel {
        self.reached.pending.map_or(self.reached.active, |pending| pending.level)
    }

    /// Returns whether the effect of the command is part of the state already.
    pub(crate) fn includes(&self, payload: &[u8]) -> bool {
        let change = LevelChange::is_in(payload).then(|| LevelChange::from_payload(payload));
        change.and_then(Result::ok).is_some_and(|change| (1..=self.agreed().0).contains(&change.level.0))
    }

    /// Returns the activation of a change in the block at `height`.
    ///
    /// # Errors
    /// Why the change has no effect.
    pub(crate) fn judge(&self, height: Height, payload: &[u8]) -> Result<PendingLevel, LevelFault> {
        let LevelChange { level, supports } = LevelChange::from_payload(payload)?;
        let reached = self.agreed();
        if level <= reached {
            return Err(LevelFault::NotHigher { level, reached });
        }
        if let Some(pending) = self.reached.pending {
            return Err(LevelFault::Pending(pending));
        }
        let needed = self.signers();
        let Some(members) = self.members.as_ref().filter(|_| supports.len() == needed) else {
            return Err(LevelFault::Incomplete { found: supports.len(), needed });
        };
        for (replica, LevelSupport { until, signature }) in (0..).map(ReplicaId).zip(supports) {
            if until < height {
                return Err(LevelFault::Expired { replica, level, until, height });
            }
            if !members.identities.verify(replica, &statement(&members.epoch, replica, level, until), &signature) {
                return Err(LevelFault::Forged { replica, level });
            }
        }
        Ok(PendingLevel { level, height: Height(height.0.saturating_add(ACTIVATION_DELAY_BLOCKS)) })
    }

    /// Executes a change in the block at `height`.
    ///
    /// # Errors
    /// Why it has no effect.
    pub(crate) fn change(&mut self, height: Height, payload: &[u8]) -> Result<PendingLevel, LevelFault> {
        if self.verified == MAX_CHANGES_PER_BLOCK {
            return Err(LevelFault::TooMany);
        }
        self.verified += 1;
        let pending = self.judge(height, payload)?;
        self.reached.pending = Some(pending);
        Ok(pending)
    }
}

/// Encodes the result of a change: the level and its first height.
pub(crate) fn put_result(pending: PendingLevel, result: &mut Vec<u8>) {
    let mut out = Encoder::default();
    pending.encode(&mut out);
    result.extend_from_slice(&out.finish());
}
