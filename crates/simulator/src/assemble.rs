//! Runs replicas of whichever protocol.

use crate::run::{SimReport, run_protocol};
use crate::spec::{SimSpec, WorkloadFactory};
use quorate_consensus::protocols::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::{Protocol, Replica};
use quorate_recording::{Recorder, RecordingError, Rerun};

/// What came of a run: its report, and what its recorder says.
pub type Outcome = (SimReport, Result<Option<Rerun>, RecordingError>);

/// Changes replicas before they start, whatever their protocol. Tests of the oracles put bugs into them so.
pub trait Alter {
    /// The replica, made or made anew after a crash, as it is to be.
    fn alter<P: Protocol>(&self, replica: Replica<P>) -> Replica<P>;
}

/// Leaves replicas as they are.
pub struct AsMade;

impl Alter for AsMade {
    fn alter<P: Protocol>(&self, replica: Replica<P>) -> Replica<P> {
        replica
    }
}

/// One seed's run.
pub struct Run<'a, A = AsMade> {
    pub spec: &'a SimSpec,
    pub seed: u64,
    pub workload: WorkloadFactory<'a>,
    pub transcript: bool,
    /// Whether the hosts are told of marks.
    pub marks: bool,
    pub recorder: Option<Recorder>,
    /// Asked now and then; if not, the load is stopped.
    pub goes_on: fn() -> bool,
    pub alter: A,
}

/// Runs one seed.
pub fn run_once<A: Alter>(run: Run<'_, A>) -> Outcome {
    for_protocol(run.spec.consensus.protocol, run)
}

impl<A: Alter> ForProtocol for Run<'_, A> {
    type Output = Outcome;

    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Outcome {
        run_protocol(self, make)
    }
}
