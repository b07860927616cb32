//! Runs replicas of whichever protocol.

use crate::run::{SimReport, run_protocol};
use crate::spec::{SimSpec, WorkloadFactory};
use quorate_consensus::Protocol;
use quorate_consensus::protocols::{ForProtocol, MakeReplica, for_protocol};
use quorate_recording::{Recorder, RecordingError, Rerun};

/// What came of a run: its report, and what its recorder says.
pub type Outcome = (SimReport, Result<Option<Rerun>, RecordingError>);

/// One seed's run.
pub struct Run<'a> {
    pub spec: &'a SimSpec,
    pub seed: u64,
    pub workload: WorkloadFactory<'a>,
    pub transcript: bool,
    pub recorder: Option<Recorder>,
    /// Asked now and then; if not, the load is stopped.
    pub goes_on: fn() -> bool,
}

/// Runs one seed.
pub fn run_once(run: Run<'_>) -> Outcome {
    for_protocol(run.spec.consensus.protocol, run)
}

impl ForProtocol for Run<'_> {
    type Output = Outcome;

    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Outcome {
        run_protocol(self, make)
    }
}
