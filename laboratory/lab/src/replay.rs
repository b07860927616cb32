//! `quorate replay`: replays recorded replicas, reruns recorded simulations, and reports the first difference.

use crate::requests::RequestTimes;
use crate::result::count;
use crate::settings::commands;
use crate::sim::SimError;
use crate::sim::SimulatedRun;
use clap::Args;
use quorate_hosting::recording::{
    Audience, Comparison, Difference, Disagreement, End, Ending, Header, Reader, Recorder, RecordingError, Replayed,
    Requests, Rerun, replay,
};
use quorate_operator::report::Report;
use quorate_simulator::run_recorded;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Maximum number of slow bundles that `--requests` lists.
const MAX_SLOWEST: u64 = 10_000;

/// Flags of `quorate replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// A recording of `quorate bench --record`, `quorate sim --record` or a node.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the inputs and actions of the replicas, step by step.
    #[arg(long)]
    pub transcript: bool,
    /// Stop after this many steps, and do not rerun a simulation.
    #[arg(long, value_name = "STEP", value_parser = clap::value_parser!(u64).range(1..))]
    pub until: Option<u64>,
    /// Report the time of clients' bundles from arrival to proposal and to commit, and list the slowest bundle of each
    /// of this many blocks.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u64).range(..=MAX_SLOWEST))]
    pub requests: Option<u64>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Comparison of a recording with its replay, for all replicas in the file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayResult {
    pub file: String,
    /// Version of quorate that wrote the recording.
    pub recorded_by: String,
    pub protocol: &'static str,
    /// Number of replicas, n.
    pub replicas: usize,
    /// Tolerated Byzantine replicas, f.
    pub faults: usize,
    /// The replicas whose steps were recorded.
    pub recorded: Vec<u16>,
    /// Whether the recording is of a simulated run.
    pub simulated: bool,
    pub steps: u64,
    /// Recorded time of the last replayed step, in seconds from the start.
    pub seconds: f64,
    pub views: u64,
    /// Blocks committed by the replica that committed most.
    pub blocks: u64,
    /// Commands in these blocks.
    pub commands: u64,
    /// Number of restarts after a crash.
    pub restarts: u64,
    /// Ending of the recording: `complete`, `limit`, `broken-off`; `not-reached` if the replay stopped before its end.
    pub end: &'static str,
    /// Bytes of an incomplete chunk at the end.
    pub torn_bytes: u64,
    /// Message of the panic in the last step, if the recording ends with one.
    pub panic: Option<String>,
    /// First difference between the replicas and the recording.
    pub difference: Option<StepDifference>,
    /// Result of rerunning a simulation.
    pub rerun: Option<RerunResult>,
    /// Times of clients' bundles, with `--requests`.
    pub requests: Option<RequestTimes>,
}

/// Step whose actions differ from the recorded ones.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StepDifference {
    /// Number of the step, from 1.
    pub step: u64,
    pub replica: u16,
    /// Milliseconds since the start.
    pub time_ms: f64,
    pub view: u64,
    pub input: String,
    pub what: String,
    /// Kinds of the recorded actions.
    pub recorded: Vec<&'static str>,
    /// Descriptions of the replay's actions.
    pub replayed: Vec<String>,
}

/// Comparison for one replica.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RerunResult {
    /// Reason why it could not be rerun.
    pub impossible: Option<String>,
    /// Number of steps that match.
    pub steps: u64,
    /// Trace hash of the recorded run, if the recording is complete.
    pub recorded_trace: Option<String>,
    /// Trace hash of the rerun.
    pub trace_hash: Option<String>,
    pub difference: Option<RunDifference>,
}

/// First difference between a rerun and its recording.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunDifference {
    /// Number of matching steps before it.
    pub after_steps: u64,
    /// The next recorded step.
    pub recorded: String,
    /// The step of the rerun.
    pub happened: String,
}

/// Replays a recording, and passes the replicas' inputs and actions to `audience`.
///
/// # Errors
/// If the recording cannot be read, or no replica can have written it.
pub fn run(args: &ReplayArgs, audience: Option<Audience<'_>>) -> Result<ReplayResult, RecordingError> {
    let mut reader = Reader::open(&args.file)?;
    let mut requests = args.requests.map(|_| Requests::default());
    let replayed = replay(&mut reader, args.until, audience, requests.as_mut())?;
    let header = reader.header().clone();
    let rerun = match (&header.simulation, args.until) {
        (Some(simulation), None) => Some(rerun(simulation, &args.file)?),
        _ => None,
    };
    let slowest = args.requests.unwrap_or_default() as usize;
    let requests = requests.map(|requests| RequestTimes::of(&requests, slowest));
    Ok(ReplayResult { requests, ..result(&args.file, &header, replayed, rerun) })
}

/// Reruns a simulation and compares it with its recording.
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
        Err(error) => return Ok(impossible(format!("the recorded spec cannot be read: {error}"))),
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
    commands(&run.spec)?;
    let workload = || commands(&run.spec).expect("the same workload was created before");
    let recorder = Recorder::new(Comparison::new(Reader::open(file)?));
    let (report, compared) = run_recorded(&sim, run.seed, &workload, recorder)?;
    Ok((report.trace_hash, compared.expect("a comparison has a result")))
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
        requests: None,
    }
}

fn step_difference(difference: Difference) -> StepDifference {
    let what = match difference.what {
        Disagreement::Panic(panic) => format!("the replay panics, but the recorded replica did not: {panic}"),
        Disagreement::NoPanic => "the recorded replica panicked, but the replay does not".to_owned(),
        Disagreement::Action(at) => match (difference.recorded.get(at), difference.replayed.get(at)) {
            (Some(_), Some(_)) => format!("action {} differs", at + 1),
            (Some(_), None) => format!("the replay lacks action {} and those after it", at + 1),
            _ => format!("action {} and those after it were not recorded", at + 1),
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
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let recorded: Vec<String> = self.recorded.iter().map(u16::to_string).collect();
        let (which, kind) = (recorded.join(" "), if self.simulated { "simulated" } else { "real" });
        let (protocol, n, by) = (self.protocol, self.replicas, &self.recorded_by);
        writeln!(text, "recording   {}: {kind}, {protocol}, replica {which} of {n}, by quorate {by}", self.file)?;
        let [steps, views, blocks, commands] = [self.steps, self.views, self.blocks, self.commands].map(count);
        writeln!(text, "replayed    {steps} steps, {:.3} s of recorded time", self.seconds)?;
        writeln!(text, "            {views} views, {blocks} blocks with {commands} commands committed")?;
        if self.restarts > 0 {
            writeln!(text, "            {} restarts", self.restarts)?;
        }
        let end = match self.end {
            "complete" => "as recorded, and the recording is complete".to_owned(),
            "limit" => "the recording reached its size limit there; the run continued".to_owned(),
            "not-reached" => "stopped before the end of the recording".to_owned(),
            _ => {
                format!("the recording breaks off: its process was killed or stopped ({} torn bytes)", self.torn_bytes)
            }
        };
        writeln!(text, "end         {end}")?;
        if let Some(panic) = &self.panic {
            writeln!(text, "            the last step panics, as recorded: {panic}")?;
        }
        match &self.difference {
            None => writeln!(text, "difference  none: every action is as recorded")?,
            Some(difference) => difference.write(text)?,
        }
        self.rerun.as_ref().map_or(Ok(()), |rerun| rerun.write(text))?;
        self.requests.as_ref().map_or(Ok(()), |requests| requests.write(text))
    }
}

impl Report for ReplayResult {
    fn to_table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    /// Returns a message if anything differs from the recording.
    fn failure(&self) -> Option<String> {
        if let Some(difference) = &self.difference {
            return Some(format!("the replay differs from the recording, first in step {}", difference.step));
        }
        let rerun = self.rerun.as_ref()?;
        if let Some(difference) = &rerun.difference {
            return Some(format!("the run differs from its recording, first after step {}", difference.after_steps));
        }
        rerun.impossible.as_ref().map(|why| format!("the run cannot be reproduced: {why}"))
    }
}

impl StepDifference {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let StepDifference { step, replica, time_ms, view, input, what, .. } = self;
        writeln!(text, "difference  step {step}, replica {replica}, view {view}, at {time_ms:.3} ms: {what}")?;
        writeln!(text, "  input     {input}")?;
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
            return writeln!(text, "whole run   cannot be reproduced: {why}");
        }
        let steps = count(self.steps);
        if let Some(RunDifference { after_steps, recorded, happened }) = &self.difference {
            writeln!(text, "whole run   differs after {} steps", count(*after_steps))?;
            writeln!(text, "  recorded  {recorded}")?;
            return writeln!(text, "  rerun     {happened}");
        }
        match &self.recorded_trace {
            Some(trace) => writeln!(text, "whole run   reproduced: the same {steps} steps, the same trace {trace}"),
            None => writeln!(text, "whole run   reproduced: the same {steps} steps; the recording is incomplete"),
        }
    }
}
