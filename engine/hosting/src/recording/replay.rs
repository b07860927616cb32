//! Replay of recorded inputs, and comparison of the resulting actions.

use crate::recording::entry::{Begin, Entry, Step};
use crate::recording::error::{Fault, RecordingError};
use crate::recording::reader::{Ending, Reader};
use crate::recording::requests::Requests;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::seam::encoding::Fingerprint;
use quorate_consensus::{Action, Input, Protocol, Replica, seam::text};
use quorate_types::{Bundle, Decoder, Encoder, ReplicaId, Time, View, Wire};
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Indentation of the actions in a transcript.
const INDENT: &str = "                            ";

/// Receiver of a transcript, line by line.
pub type Audience<'a> = &'a mut (dyn FnMut(&str) + 'a);

/// Result of a replay.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// Replayed steps of all replicas.
    pub steps: u64,
    /// Replicas that were replayed.
    pub replicas: BTreeSet<ReplicaId>,
    pub restarts: u64,
    /// Time of the last step.
    pub time: Time,
    /// The highest view of any replica.
    pub view: View,
    /// Maximum number of blocks committed by any replica.
    pub blocks: u64,
    /// Maximum number of commands committed by any replica.
    pub commands: u64,
    /// End of the recording; `None` if the replay stopped earlier.
    pub ending: Option<Ending>,
    /// Message of the panic in the last step, if both the recorded replica and the replay panicked.
    pub panic: Option<String>,
    /// The first difference, at which the replay stops.
    pub difference: Option<Difference>,
}

/// A step whose actions differ from the recorded ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Number of the step in the recording, from 1.
    pub step: u64,
    pub replica: ReplicaId,
    pub time: Time,
    /// View of the replica before the step.
    pub view: View,
    /// Description of the input.
    pub input: String,
    pub what: Disagreement,
    /// Kinds of the recorded actions.
    pub recorded: Vec<&'static str>,
    /// Descriptions of the replayed actions.
    pub replayed: Vec<String>,
}

/// Kind of the difference between the actions of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disagreement {
    /// Index of the first action that differs or exists on one side only.
    Action(usize),
    /// The replay panics with this message, but the recorded replica did not.
    Panic(String),
    /// The recorded replica panicked, but the replay does not.
    NoPanic,
}

/// Replays a recording up to its end, to the step `until`, or to the first difference. `transcript` receives a line for
/// each input and action, `requests` collects the times of client bundles.
///
/// # Errors
/// If the recording cannot be read or is inconsistent.
pub fn replay(
    reader: &mut Reader,
    until: Option<u64>,
    transcript: Option<Audience<'_>>,
    requests: Option<&mut Requests>,
) -> Result<Replayed, RecordingError> {
    let protocol = reader.header().consensus.protocol;
    for_protocol(protocol, Work { reader, until: until.unwrap_or(u64::MAX), transcript, requests })
}

struct Work<'r, 't, 'q> {
    reader: &'r mut Reader,
    until: u64,
    transcript: Option<Audience<'t>>,
    requests: Option<&'q mut Requests>,
}

impl ForProtocol for Work<'_, '_, '_> {
    type Output = Result<Replayed, RecordingError>;

    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
        let replicas = (0..self.reader.header().replicas).map(|_| None).collect();
        let (actions, encoder) = (Vec::new(), Encoder::default());
        let stage = Stage { make, replicas, actions, encoder, transcript: self.transcript, requests: self.requests };
        stage.play(self.reader, self.until)
    }
}

/// Replica in a replay.
struct Actor<P: Protocol> {
    replica: Replica<P>,
    blocks: u64,
    commands: u64,
}

struct Stage<'t, 'q, P: Protocol> {
    make: MakeReplica<P>,
    replicas: Vec<Option<Actor<P>>>,
    actions: Vec<Action<P::Message>>,
    encoder: Encoder,
    transcript: Option<Audience<'t>>,
    requests: Option<&'q mut Requests>,
}

impl<P: Protocol> Stage<'_, '_, P> {
    fn play(mut self, reader: &mut Reader, until: u64) -> Result<Replayed, RecordingError> {
        let mut replayed = Replayed::default();
        while reader.steps() < until && replayed.difference.is_none() {
            match reader.next_entry()? {
                None => break,
                Some(Entry::Begin(begin)) => {
                    replayed.restarts += u64::from(self.begin(reader, begin));
                    replayed.replicas.insert(begin.replica);
                }
                Some(Entry::Step(step)) => self.step(reader, step, &mut replayed)?,
                Some(Entry::End(_)) => unreachable!("a reader returns no end"),
            }
        }
        replayed.ending = reader.ending().cloned();
        for actor in self.replicas.iter().flatten() {
            replayed.blocks = replayed.blocks.max(actor.blocks);
            replayed.commands = replayed.commands.max(actor.commands);
        }
        Ok(replayed)
    }

    /// Creates a replica. Returns whether one with this id existed before.
    fn begin(&mut self, reader: &Reader, Begin { replica: me, salt }: Begin) -> bool {
        let header = reader.header();
        let replica = (self.make)(header.consensus.clone(), header.quorum(), header.epoch, me, salt);
        if let Some(transcript) = &mut self.transcript {
            transcript(&format!("{me:?} begins"));
        }
        if let Some(requests) = &mut self.requests {
            requests.on_begin(me);
        }
        self.replicas[me.index()].replace(Actor { replica, blocks: 0, commands: 0 }).is_some()
    }

    fn step(&mut self, reader: &Reader, step: Step, replayed: &mut Replayed) -> Result<(), RecordingError> {
        let (number, Step { replica: me, now, input, actions: recorded }) = (reader.steps(), step);
        let bad_input = |source| Fault::Input { step: number, source }.of(reader.path());
        let mut decoder = Decoder::new(input);
        let input: Input<P::Message> = Wire::decode(&mut decoder).map_err(bad_input)?;
        decoder.finish("end of input").map_err(bad_input)?;
        let actor = self.replicas[me.index()].as_mut();
        let actor = actor.ok_or_else(|| Fault::NotBegun { step: number, replica: me.0 }.of(reader.path()))?;
        let view = actor.replica.view();
        let said = text::input(&input);
        if let Some(transcript) = &mut self.transcript {
            let time = format!("{now:?}");
            transcript(&format!("{number:>7} {time:>13}  {me:?} {view:?} takes {said}"));
        }
        if let Some(requests) = &mut self.requests {
            requests.on_input(me, now, &input);
        }
        self.actions.clear();
        let actions = &mut self.actions;
        let ended = catch_unwind(AssertUnwindSafe(|| actor.replica.step(now, input, actions)));
        let panic = ended.err().map(|panic| message(&*panic));
        if let Some(transcript) = &mut self.transcript {
            self.actions.iter().for_each(|action| transcript(&format!("{INDENT}{}", text::action(action))));
            panic.iter().for_each(|panic| transcript(&format!("{INDENT}panics: {panic}")));
        }
        if let Some(requests) = &mut self.requests {
            self.actions.iter().for_each(|action| requests.on_action(me, now, action));
        }
        replayed.steps += 1;
        replayed.time = replayed.time.max(now);
        replayed.view = replayed.view.max(actor.replica.view());
        actor.count(&self.actions);
        let what = match (&recorded, panic) {
            (None, Some(panic)) => {
                replayed.panic = Some(panic);
                self.replicas[me.index()] = None;
                None
            }
            (None, None) => Some(Disagreement::NoPanic),
            (Some(_), Some(panic)) => Some(Disagreement::Panic(panic)),
            (Some(recorded), None) => {
                first_difference(recorded, &self.actions, &mut self.encoder).map(Disagreement::Action)
            }
        };
        replayed.difference = what.map(|what| Difference {
            step: number,
            replica: me,
            time: now,
            view,
            input: said,
            what,
            recorded: recorded.iter().flatten().map(Fingerprint::kind).collect(),
            replayed: self.actions.iter().map(text::action).collect(),
        });
        Ok(())
    }
}

impl<P: Protocol> Actor<P> {
    fn count(&mut self, actions: &[Action<P::Message>]) {
        for action in actions {
            if let Action::Commit { bundles, .. } = action {
                self.blocks += 1;
                self.commands += bundles.iter().map(|bundle: &Bundle| bundle.len() as u64).sum::<u64>();
            }
        }
    }
}

/// Returns the index of the first action that differs from the recorded one.
fn first_difference<M: Wire>(recorded: &[Fingerprint], actions: &[Action<M>], encoder: &mut Encoder) -> Option<usize> {
    let same = |(recorded, action): (&Fingerprint, &Action<M>)| *recorded == Fingerprint::of(action, encoder);
    let at = recorded.iter().zip(actions).map(same).take_while(|same| *same).count();
    (at < recorded.len().max(actions.len())).then_some(at)
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a value that is not text").to_owned()
}
