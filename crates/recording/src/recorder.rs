//! Where a host's replicas are heard.

use crate::entry::{Begin, Step};
use crate::error::RecordingError;
use bytes::Bytes;
use quorate_consensus::encoding::Fingerprint;
use quorate_consensus::{Action, Input, Protocol, Replica};
use quorate_types::{Encoder, ReplicaId, Time, Wire};

/// Where a run first differs from the recording of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// The number of steps that are the same.
    pub after_steps: u64,
    /// What the recording tells next.
    pub recorded: String,
    /// What happened next in the run.
    pub happened: String,
}

/// What came of a run that was held against a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rerun {
    /// Steps that are the same.
    pub steps: u64,
    /// Where they first differ.
    pub deviation: Option<Deviation>,
    /// The name of the recorded run, if the recording has its end.
    pub recorded_trace: Option<String>,
}

/// What takes down, or checks, what replicas take and give.
pub trait Tape {
    /// A replica is made.
    fn begin(&mut self, begin: Begin);
    /// A replica has taken a step.
    fn step(&mut self, step: Step);
    /// Makes sure that what was told outlives this process; returns what went wrong since.
    fn flush(&mut self) -> Result<(), RecordingError>;
    /// All that there was has been told; `trace` is the name of the run, if it was simulated. A tape that compares says what came of
    /// it.
    fn finish(&mut self, trace: Option<&str>) -> Result<Option<Rerun>, RecordingError>;
    /// Whether it takes nothing any more.
    fn is_full(&self) -> bool;
}

/// Hears replicas, and tells a tape in entries.
pub struct Recorder {
    tape: Box<dyn Tape + Send>,
    encoder: Encoder,
    /// A step that has begun.
    begun: Option<(ReplicaId, Time, Bytes)>,
}

impl Recorder {
    /// A recorder onto that tape.
    pub fn new(tape: impl Tape + Send + 'static) -> Recorder {
        Recorder { tape: Box::new(tape), encoder: Encoder::default(), begun: None }
    }

    /// A replica is made with this salt.
    pub fn begin(&mut self, replica: ReplicaId, salt: u64) {
        self.tape.begin(Begin { replica, salt });
    }

    fn takes<M: Wire>(&mut self, replica: ReplicaId, now: Time, input: &Input<M>) {
        input.encode(&mut self.encoder);
        self.begun = Some((replica, now, self.encoder.take()));
    }

    fn gives<M: Wire>(&mut self, actions: &[Action<M>]) {
        let fingerprints = actions.iter().map(|action| Fingerprint::of(action, &mut self.encoder)).collect();
        self.tell(Some(fingerprints));
    }

    fn tell(&mut self, actions: Option<Vec<Fingerprint>>) {
        if let Some((replica, now, input)) = self.begun.take() {
            self.tape.step(Step { replica, now, input, actions });
        }
    }

    /// Makes sure that what was heard outlives this process; returns what went wrong since.
    ///
    /// # Errors
    /// If the tape cannot be written.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.tape.flush()
    }

    /// All that there was has been heard; `trace` is the name of the run, if it was simulated. A tape that compares says what came of
    /// it.
    ///
    /// # Errors
    /// If the tape cannot be written, or the recording that it is compared with cannot be read.
    pub fn finish(mut self, trace: Option<&str>) -> Result<Option<Rerun>, RecordingError> {
        self.tell(None);
        self.tape.finish(trace)
    }

    /// Whether the tape takes nothing any more.
    pub fn is_full(&self) -> bool {
        self.tape.is_full()
    }
}

/// A step that did not come to an end is part of the story: it is the one in which the replica panicked.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.tell(None);
    }
}

/// `Replica::step`, heard by the recorder if there is one.
pub fn step<P: Protocol>(
    recorder: Option<&mut Recorder>,
    replica: &mut Replica<P>,
    now: Time,
    input: Input<P::Message>,
    actions: &mut Vec<Action<P::Message>>,
) {
    let Some(recorder) = recorder else { return replica.step(now, input, actions) };
    let before = actions.len();
    recorder.takes(replica.parts().me, now, &input);
    replica.step(now, input, actions);
    recorder.gives(&actions[before..]);
}
