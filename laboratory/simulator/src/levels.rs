//! Changes of the feature level in a simulation, and applications that tell the oracle at which level they execute.

use crate::faults::FaultSpec;
use crate::keys::{SimIdentity, genesis};
use crate::spec::SimSpec;
use bytes::Bytes;
use quorate_applications::levels::SUPPORT_LIFETIME_BLOCKS;
use quorate_applications::{
    Application, BlockContext, Changes, CheckpointRule, Executor, Footprint, Frozen, Rest, RestoreError,
};
use quorate_types::identity::Signer;
use quorate_types::level::{SYSTEM_SEQUENCE, statement};
use quorate_types::{
    Bundle, BundleBuilder, Command, Digest, EpochId, FeatureLevel, Height, LevelChange, LevelSupport, ReplicaId,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Levels at which an application executed commands, by block, since they were last read.
#[derive(Clone, Default)]
pub struct SeenLevels(Arc<Mutex<Vec<(Height, FeatureLevel)>>>);

impl SeenLevels {
    /// Returns the levels since the last call.
    pub fn take(&self) -> Vec<(Height, FeatureLevel)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, block: &BlockContext) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let this = (block.height(), block.level());
        if seen.last() != Some(&this) {
            seen.push(this);
        }
    }
}

/// Application whose program supports the levels of the schedule.
struct Watched {
    application: Box<dyn Application>,
    supported: FeatureLevel,
    seen: SeenLevels,
}

impl Application for Watched {
    fn name(&self) -> &'static str {
        self.application.name()
    }

    fn supported_level(&self) -> FeatureLevel {
        self.supported
    }

    fn execute(&mut self, block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        self.seen.note(block);
        self.application.execute(block, command, result);
    }

    fn footprint<'a>(&self, command: &Command<'a>) -> Footprint<'a> {
        self.application.footprint(command)
    }

    fn prepare(&self, command: &Command<'_>, result: &mut Vec<u8>) -> Option<Rest> {
        self.application.prepare(command, result)
    }

    fn apply(&mut self, changes: Changes) {
        self.application.apply(changes);
    }

    fn bundle_executed(&mut self, bundle: &Digest) {
        self.application.bundle_executed(bundle);
    }

    fn query(&self, question: &[u8]) -> Vec<u8> {
        self.application.query(question)
    }

    fn freeze(&mut self) -> Frozen {
        self.application.freeze()
    }

    fn snapshot_bytes(&self) -> usize {
        self.application.snapshot_bytes()
    }

    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        self.application.restore(snapshot)
    }
}

/// Returns the executor of a simulated replica, and the levels that its application sees if the schedule changes them.
pub(crate) fn executor(spec: &SimSpec, rule: CheckpointRule) -> (Executor, Option<SeenLevels>) {
    let (application, epoch) = (spec.application.make(), genesis(spec).epoch());
    let level = |fault: &FaultSpec| match fault {
        FaultSpec::Level { level, .. } => Some(FeatureLevel(*level)),
        _ => None,
    };
    let Some(supported) = spec.network.faults.iter().filter_map(level).max() else {
        return (Executor::new(application, &epoch).with_checkpoints(rule), None);
    };
    let seen = SeenLevels::default();
    let application = Box::new(Watched { application, supported, seen: seen.clone() });
    let identities = Arc::new(SimIdentity(ReplicaId(0)));
    let executor = Executor::new(application, &epoch).with_levels(spec.quorum.replicas(), identities);
    (executor.with_checkpoints(rule), Some(seen))
}

/// Returns a bundle with a change of the level, signed by all replicas when the highest of them is at this height.
pub(crate) fn change(
    epoch: &EpochId,
    replicas: usize,
    level: FeatureLevel,
    height: Height,
    origin: quorate_types::ClientId,
    finish: impl FnOnce(BundleBuilder) -> Bundle,
) -> Bundle {
    let until = Height(height.0 + SUPPORT_LIFETIME_BLOCKS);
    let supports = (0..replicas as u16).map(ReplicaId).map(|replica| {
        let signature = SimIdentity(replica).sign(&statement(epoch, replica, level, until));
        LevelSupport { until, signature }
    });
    let change = LevelChange { level, supports: supports.collect() };
    let mut builder = BundleBuilder::new(origin, height.latest_expiry());
    builder.push(origin, SYSTEM_SEQUENCE, &change.to_payload());
    finish(builder)
}
