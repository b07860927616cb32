//! A tape that compares a run with a recording of it.

use crate::recording::entry::{Begin, End, Entry, Step};
use crate::recording::error::RecordingError;
use crate::recording::reader::{Ending, Reader};
use crate::recording::recorder::{Deviation, Rerun, Tape};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_consensus::{Input, Protocol, seam::text};
use quorate_types::{Decoder, Wire};

/// Description of the end of a run.
const OVER: &str = "the run is over";

/// Compares the inputs and actions of replicas with a recording.
pub struct Comparison {
    reader: Reader,
    steps: u64,
    deviation: Option<Deviation>,
    failed: Option<RecordingError>,
}

impl Comparison {
    /// Compares a run with a recording from its first entry on.
    pub fn new(reader: Reader) -> Comparison {
        Comparison { reader, steps: 0, deviation: None, failed: None }
    }

    /// Returns whether later entries cannot change the result.
    fn is_decided(&self) -> bool {
        self.deviation.is_some() || self.failed.is_some() || self.is_cut_short()
    }

    /// Returns whether the recording ended before its run.
    fn is_cut_short(&self) -> bool {
        matches!(self.reader.ending(), Some(Ending::BrokenOff { .. } | Ending::Told(End::Limit { .. })))
    }

    fn compare(&mut self, happened: Entry) {
        if self.is_decided() {
            return;
        }
        match self.reader.next_entry() {
            Err(error) => self.failed = Some(error),
            Ok(None) if self.is_cut_short() => {}
            Ok(Some(recorded)) if recorded == happened => {
                self.steps += u64::from(matches!(happened, Entry::Step(_)));
            }
            Ok(recorded) => {
                let happened = self.describe(&happened);
                self.differ(recorded, happened);
            }
        }
    }

    fn differ(&mut self, recorded: Option<Entry>, happened: String) {
        let recorded = recorded.map_or_else(|| OVER.into(), |entry| self.describe(&entry));
        self.deviation = Some(Deviation { after_steps: self.steps, recorded, happened });
    }

    fn describe(&self, entry: &Entry) -> String {
        match entry {
            Entry::Begin(Begin { replica, salt }) => format!("{replica:?} begins, with salt {salt}"),
            Entry::End(_) => OVER.into(),
            Entry::Step(step) => describe_step(self.reader.header().consensus.protocol, step),
        }
    }
}

impl Tape for Comparison {
    fn begin(&mut self, begin: Begin) {
        self.compare(Entry::Begin(begin));
    }

    fn step(&mut self, step: Step) {
        self.compare(Entry::Step(step));
    }

    fn flush(&mut self) -> Result<(), RecordingError> {
        Ok(())
    }

    fn finish(&mut self, trace: Option<&str>) -> Result<Option<Rerun>, RecordingError> {
        if !self.is_decided() {
            let recorded = self.reader.next_entry()?;
            if recorded.is_some() {
                self.differ(recorded, OVER.into());
            }
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let recorded_trace = match self.reader.ending() {
            Some(Ending::Told(End::Done { trace })) => trace.clone(),
            _ => None,
        };
        if self.deviation.is_none() && !self.is_cut_short() && recorded_trace.as_deref() != trace {
            let name = |trace: Option<&str>| format!("{OVER}, its trace is {}", trace.unwrap_or("unknown"));
            let (recorded, happened) = (name(recorded_trace.as_deref()), name(trace));
            self.deviation = Some(Deviation { after_steps: self.steps, recorded, happened });
        }
        Ok(Some(Rerun { steps: self.steps, deviation: self.deviation.take(), recorded_trace }))
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// Describes a step: its time, its replica, the input, and the kinds of its actions.
fn describe_step(protocol: ProtocolKind, step: &Step) -> String {
    struct InWords<'a>(&'a Step);
    impl ForProtocol for InWords<'_> {
        type Output = String;

        fn run<P: Protocol + 'static>(self, _: MakeReplica<P>) -> String {
            let input = Input::<P::Message>::decode(&mut Decoder::new(self.0.input.clone()));
            input.map_or_else(|error| format!("an invalid input ({error})"), |input| text::input(&input))
        }
    }
    let input = for_protocol(protocol, InWords(step));
    let Step { replica, now, actions, .. } = step;
    let gives = match actions {
        None => "panics".into(),
        Some(actions) if actions.is_empty() => "does nothing".into(),
        Some(actions) => actions.iter().map(Fingerprint::kind).collect::<Vec<_>>().join(", "),
    };
    format!("{now:?} {replica:?} takes {input}: {gives}")
}
