//! Recording of a host's replicas.

use crate::recording::entry::{Begin, Step};
use crate::recording::error::RecordingError;
use bytes::Bytes;
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_consensus::{Action, Input, Protocol, Replica};
use quorate_types::{Encoder, ReplicaId, Time, Wire};

/// First difference between a run and its recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// Number of equal steps before it.
    pub after_steps: u64,
    /// Description of the next entry of the recording.
    pub recorded: String,
    /// Description of the next event of the run.
    pub happened: String,
}

/// Result of comparing a run with a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rerun {
    /// Number of equal steps.
    pub steps: u64,
    pub deviation: Option<Deviation>,
    /// Trace of the recorded run, if the recording is complete.
    pub recorded_trace: Option<String>,
}

/// Destination of recorded entries: stores them, or compares them with a recording.
pub trait Tape {
    /// Records the start of a replica.
    fn begin(&mut self, begin: Begin);
    /// Records a step of a replica.
    fn step(&mut self, step: Step);
    /// Ensures that all entries survive this process. Also returns earlier errors.
    fn flush(&mut self) -> Result<(), RecordingError>;
    /// Ends the recording; `trace` is the trace hash of a simulated run. A comparison returns its result.
    fn finish(&mut self, trace: Option<&str>) -> Result<Option<Rerun>, RecordingError>;
    /// Returns whether further entries are ignored.
    fn is_full(&self) -> bool;
}

/// Records replicas on a tape.
pub struct Recorder {
    tape: Box<dyn Tape + Send>,
    encoder: Encoder,
    /// Replica, time and input of the step in progress.
    begun: Option<(ReplicaId, Time, Bytes)>,
}

impl Recorder {
    pub fn new(tape: impl Tape + Send + 'static) -> Recorder {
        Recorder { tape: Box::new(tape), encoder: Encoder::default(), begun: None }
    }

    /// Records the start of a replica.
    pub fn begin(&mut self, replica: ReplicaId, salt: u64) {
        self.tape.begin(Begin { replica, salt });
    }

    fn on_input<M: Wire>(&mut self, replica: ReplicaId, now: Time, input: &Input<M>) {
        input.encode(&mut self.encoder);
        self.begun = Some((replica, now, self.encoder.take()));
    }

    fn on_actions<M: Wire>(&mut self, actions: &[Action<M>]) {
        let fingerprints = actions.iter().map(|action| Fingerprint::of(action, &mut self.encoder)).collect();
        self.end_step(Some(fingerprints));
    }

    fn end_step(&mut self, actions: Option<Vec<Fingerprint>>) {
        if let Some((replica, now, input)) = self.begun.take() {
            self.tape.step(Step { replica, now, input, actions });
        }
    }

    /// Ensures that all entries survive this process.
    ///
    /// # Errors
    /// If the tape cannot be written, now or earlier.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.tape.flush()
    }

    /// Ends the recording; `trace` is the trace hash of a simulated run. A comparison returns its result.
    ///
    /// # Errors
    /// If the tape cannot be written, or the recording to compare with cannot be read.
    pub fn finish(mut self, trace: Option<&str>) -> Result<Option<Rerun>, RecordingError> {
        self.end_step(None);
        self.tape.finish(trace)
    }

    /// Returns whether further entries are ignored.
    pub fn is_full(&self) -> bool {
        self.tape.is_full()
    }
}

/// Records a step that did not complete, because the replica panicked in it.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.end_step(None);
    }
}

/// Calls `Replica::step` and records the step, if there is a recorder.
pub fn step<P: Protocol>(
    recorder: Option<&mut Recorder>,
    replica: &mut Replica<P>,
    now: Time,
    input: Input<P::Message>,
    actions: &mut Vec<Action<P::Message>>,
) {
    let Some(recorder) = recorder else { return replica.step(now, input, actions) };
    let before = actions.len();
    recorder.on_input(replica.parts().me, now, &input);
    replica.step(now, input, actions);
    recorder.on_actions(&actions[before..]);
}
