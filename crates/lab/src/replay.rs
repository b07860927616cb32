//! `quorate replay`: gives recorded replicas again what they were given, makes a simulated run again, and says where they first differ.

use crate::bench::commands;
use crate::result::count;
use crate::sim::SimError;
use crate::sim::SimulatedRun;
use clap::Args;
use quorate_applications::ApplicationKind;
use quorate_recording::{
    Audience, Comparison, Difference, Disagreement, End, Ending, Header, Reader, Recorder, RecordingError, Replayed,
    Rerun, replay,
};
use quorate_simulator::run_recorded;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// All flags of `quorate replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The recording, which `quorate bench --record`, `quorate sim --record` or a node wrote.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print what the replicas take and do, step by step.
    #[arg(long)]
    pub transcript: bool,
    /// Stop after so many steps; a simulated run is then not made again.
    #[arg(long, value_name = "STEP", value_parser = clap::value_parser!(u64).range(1..))]
    pub until: Option<u64>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// What came of a replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayResult {
    /// The recording.
    pub file: String,
    /// The version of quorate that recorded it.
    pub recorded_by: String,
    /// The protocol.
    pub protocol: &'static str,
    /// n.
    pub replicas: usize,
    /// f.
    pub faults: usize,
    /// The replicas whose steps it has.
    pub recorded: Vec<u16>,
    /// Whether it is of a simulated run.
    pub simulated: bool,
    /// Steps that were taken again.
    pub steps: u64,
    /// The time of the last of them, since the start.
    pub seconds: f64,
    /// The highest view.
    pub views: u64,
    /// Blocks that the replica with the most committed.
    pub blocks: u64,
    /// Commands in them.
    pub commands: u64,
    /// Replicas that were made again after they were killed.
    pub restarts: u64,
    /// How the recording ends: `complete`, `limit`, `broken-off`; `not-reached` if the replay stopped before.
    pub end: &'static str,
    /// Bytes at its end that are no whole chunk.
    pub torn_bytes: u64,
    /// What the panic in the last step says, in which the recording ends too.
    pub panic: Option<String>,
    /// Where the replicas first differ from the recording.
    pub difference: Option<StepDifference>,
    /// What came of making a simulated run again.
    pub rerun: Option<RerunResult>,
}

/// A step whose actions are not those recorded.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StepDifference {
    /// Which step, from 1.
    pub step: u64,
    /// Whose.
    pub replica: u16,
    /// When, since the start.
    pub time_ms: f64,
    /// The view in which the replica was.
    pub view: u64,
    /// What it took, in words.
    pub input: String,
    /// What differs.
    pub what: String,
    /// The kinds of the actions recorded.
    pub recorded: Vec<&'static str>,
    /// The actions of the replay, in words.
    pub replayed: Vec<String>,
}

/// What came of making a simulated run again.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RerunResult {
    /// Why it could not be made.
    pub impossible: Option<String>,
    /// Steps that are the same.
    pub steps: u64,
    /// The name of the run recorded, if the recording has its end.
    pub recorded_trace: Option<String>,
    /// The name of the run made again.
    pub trace_hash: Option<String>,
    /// Where they first differ.
    pub difference: Option<RunDifference>,
}

/// Where a run that is made again first differs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunDifference {
    /// Steps before it.
    pub after_steps: u64,
    /// What the recording tells next.
    pub recorded: String,
    /// What happens next.
    pub happened: String,
}

/// Replays a recording; `audience` is told what the replicas take and do.
///
/// # Errors
/// If the recording cannot be read, or is not one that a replica could have made.
pub fn run(args: &ReplayArgs, audience: Option<Audience<'_>>) -> Result<ReplayResult, RecordingError> {
    let mut reader = Reader::open(&args.file)?;
    let replayed = replay(&mut reader, args.until, audience)?;
    let header = reader.header().clone();
    let rerun = match (&header.simulation, args.until) {
        (Some(simulation), None) => Some(rerun(simulation, &args.file)?),
        _ => None,
    };
    Ok(result(&args.file, &header, replayed, rerun))
}

/// Makes a simulated run again, and holds it against its recording.
fn rerun(simulation: &serde_json::Value, file: &Path) -> Result<RerunResult, RecordingError> {
    let impossible = |why: String| RerunResult {
        impossible: Some(why),
        steps: 0,
        recorded_trace: None,
        trace_hash: None,
        difference: None,
    };
    let run: SimulatedRun = match serde_json::from_value(simulation.clone()) {
        Ok(run) => run,
        Err(error) => return Ok(impossible(format!("what the recording says of it is not understood: {error}"))),
    };
    match run_again(&run, file) {
        Ok((trace, Rerun { steps, deviation, recorded_trace })) => Ok(RerunResult {
            impossible: None,
            steps,
            recorded_trace,
            trace_hash: Some(trace),
            difference: deviation.map(|deviation| RunDifference {
                after_steps: deviation.after_steps,
                recorded: deviation.recorded,
                happened: deviation.happened,
            }),
        }),
        Err(SimError::Recording(error)) => Err(error),
        Err(error) => Ok(impossible(error.to_string())),
    }
}

fn run_again(run: &SimulatedRun, file: &Path) -> Result<(String, Rerun), SimError> {
    run.spec.validate()?;
    let sim = run.sim_spec()?;
    let is_key_value = sim.application == ApplicationKind::KeyValue;
    commands(&run.spec, is_key_value)?;
    let workload = || commands(&run.spec, is_key_value).expect("it was made before");
    let recorder = Recorder::new(Comparison::new(Reader::open(file)?));
    let (report, compared) = run_recorded(&sim, run.seed, &workload, recorder)?;
    Ok((report.trace_hash, compared.expect("a comparison says what came of it")))
}

fn result(file: &Path, header: &Header, replayed: Replayed, rerun: Option<RerunResult>) -> ReplayResult {
    let (end, torn_bytes) = match replayed.ending {
        None => ("not-reached", 0),
        Some(Ending::Told(End::Done { .. })) => ("complete", 0),
        Some(Ending::Told(End::Limit { .. })) => ("limit", 0),
        Some(Ending::BrokenOff { torn_bytes }) => ("broken-off", torn_bytes),
    };
    ReplayResult {
        file: file.display().to_string(),
        recorded_by: header.quorate.clone(),
        protocol: header.consensus.protocol.name(),
        replicas: header.replicas,
        faults: header.faults,
        recorded: replayed.replicas.iter().map(|replica| replica.0).collect(),
        simulated: header.simulation.is_some(),
        steps: replayed.steps,
        seconds: replayed.time.0 as f64 / 1e9,
        views: replayed.view.0,
        blocks: replayed.blocks,
        commands: replayed.commands,
        restarts: replayed.restarts,
        end,
        torn_bytes,
        panic: replayed.panic,
        difference: replayed.difference.map(step_difference),
        rerun,
    }
}

fn step_difference(difference: Difference) -> StepDifference {
    let what = match difference.what {
        Disagreement::Panic(panic) => format!("the replay panics, and the recorded replica did not: {panic}"),
        Disagreement::NoPanic => "the recorded replica panicked, and the replay does not".to_owned(),
        Disagreement::Action(at) => match (difference.recorded.get(at), difference.replayed.get(at)) {
            (Some(_), Some(_)) => format!("action {} is another", at + 1),
            (Some(_), None) => format!("action {} and what follows was recorded, and is not done again", at + 1),
            _ => format!("action {} and what follows is done, and was not recorded", at + 1),
        },
    };
    StepDifference {
        step: difference.step,
        replica: difference.replica.0,
        time_ms: difference.time.0 as f64 / 1e6,
        view: difference.view.0,
        input: difference.input,
        what,
        recorded: difference.recorded,
        replayed: difference.replayed,
    }
}

impl ReplayResult {
    /// What is not as it was recorded; nothing if all is.
    pub fn failure(&self) -> Option<String> {
        if let Some(difference) = &self.difference {
            return Some(format!("the replay differs from the recording, first in step {}", difference.step));
        }
        let rerun = self.rerun.as_ref()?;
        if let Some(difference) = &rerun.difference {
            return Some(format!("the run differs from its recording, first after step {}", difference.after_steps));
        }
        rerun.impossible.as_ref().map(|why| format!("the run cannot be made again: {why}"))
    }

    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a result is plain data");
        text.push('\n');
        text
    }

    /// The lines for a terminal.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let recorded: Vec<String> = self.recorded.iter().map(u16::to_string).collect();
        let (which, kind) = (recorded.join(" "), if self.simulated { "simulated" } else { "real" });
        let (protocol, n, by) = (self.protocol, self.replicas, &self.recorded_by);
        writeln!(text, "recording   {}: {kind}, {protocol}, replica {which} of {n}, by quorate {by}", self.file)?;
        let [steps, views, blocks, commands] = [self.steps, self.views, self.blocks, self.commands].map(count);
        writeln!(text, "replayed    {steps} steps, {:.3} s of its time", self.seconds)?;
        writeln!(text, "            {views} views, {blocks} blocks with {commands} commands committed")?;
        if self.restarts > 0 {
            writeln!(text, "            {} restarts", self.restarts)?;
        }
        let end = match self.end {
            "complete" => "as recorded, with its end".to_owned(),
            "limit" => "the recording reached its limit there; the run went on".to_owned(),
            "not-reached" => "stopped before the end of the recording".to_owned(),
            _ => format!("the recording breaks off: who recorded was killed ({} torn bytes)", self.torn_bytes),
        };
        writeln!(text, "end         {end}")?;
        if let Some(panic) = &self.panic {
            writeln!(text, "            the last step panics, as it did when it was recorded: {panic}")?;
        }
        match &self.difference {
            None => writeln!(text, "difference  none: every action is the one recorded")?,
            Some(difference) => difference.write(text)?,
        }
        self.rerun.as_ref().map_or(Ok(()), |rerun| rerun.write(text))
    }
}

impl StepDifference {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let StepDifference { step, replica, time_ms, view, input, what, .. } = self;
        writeln!(text, "difference  step {step}, replica {replica}, view {view}, at {time_ms:.3} ms: {what}")?;
        writeln!(text, "  takes     {input}")?;
        writeln!(
            text,
            "  recorded  {}",
            if self.recorded.is_empty() { "nothing".into() } else { self.recorded.join(", ") }
        )?;
        let replayed = if self.replayed.is_empty() { vec!["nothing".to_owned()] } else { self.replayed.clone() };
        writeln!(text, "  replayed  {}", replayed.join("\n            "))
    }
}

impl RerunResult {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        if let Some(why) = &self.impossible {
            return writeln!(text, "whole run   cannot be made again: {why}");
        }
        let steps = count(self.steps);
        if let Some(RunDifference { after_steps, recorded, happened }) = &self.difference {
            writeln!(text, "whole run   differs after {} steps", count(*after_steps))?;
            writeln!(text, "  recorded  {recorded}")?;
            return writeln!(text, "  again     {happened}");
        }
        match &self.recorded_trace {
            Some(trace) => writeln!(text, "whole run   made again: the same {steps} steps, the same trace {trace}"),
            None => {
                writeln!(text, "whole run   made again: the same {steps} steps; the recording does not have its end")
            }
        }
    }
}
