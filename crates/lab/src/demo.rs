//! The demonstration: four replicas as processes under load live through a Byzantine leader, a crash, and the crash of all.

use crate::bench::{Bench, BenchError, Progress, Watcher};
use crate::report::Verdict;
use crate::result::{Agreement, BenchResult, Event, count};
use crate::spec::{BenchSpec, Fault, Host, Interval, LeaderKind, Misbehaviour, WorkloadKind};
use crate::torture::{Ground, TortureError, Witnesses};
use quorate_types::ReplicaId;
use serde::Serialize;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Clients whose every command and answer is kept and judged, beside those that make the load.
const WITNESSES: usize = 4;
/// The replica that lies; it leads first, and every fourth view.
const LIAR: u16 = 0;
/// The replica that is killed while the leader lies; with it, more than f are faulty until it is back.
const VICTIM: u16 = 3;
/// Commands that each client of the load keeps unanswered: a machine that does other things too keeps up with that.
const OUTSTANDING: u32 = 400;

/// Records of the store: few, since the liar's clock runs while they are written.
const RECORDS: u64 = 1000;

/// Something that happens, and what is said when it does.
pub struct Scene {
    /// Seconds after the measured time began.
    pub at_s: u32,
    /// What is said.
    pub text: &'static str,
}

/// The scenes, in order; [`spec`] makes them happen.
pub const SCENES: &[Scene] = &[
    Scene {
        at_s: 4,
        text: "Replica 0 turns Byzantine: in every view that it leads it proposes one block to some and another to the rest. Two \
               quorums share an honest replica, so at most one of the blocks is certified; who has seen both keeps them as proof.",
    },
    Scene {
        at_s: 8,
        text: "Replica 3 is killed with -9, so that two of four are faulty, one more than the cluster is built for: it may stand still, \
               and decides nothing wrong. A second later replica 3 is started again and reads from its journal what it promised; \
               what it missed it fetches, with certificates.",
    },
    Scene {
        at_s: 12,
        text: "All four are killed with -9 at once. Whatever a client was told is in the journals of a quorum, on disk; \
               a second later all are started again.",
    },
];

/// What the demonstration runs.
pub fn spec() -> BenchSpec {
    let seconds = |s: u32| Interval::from_millis(u64::from(s) * 1000);
    let [lie, kill, kill_all] = [0, 1, 2].map(|scene| seconds(SCENES[scene].at_s));
    let away = seconds(1);
    let mut fault = vec![
        Fault::Misbehave(ReplicaId(LIAR), Misbehaviour::Equivocate, Some(lie)),
        Fault::Restart(ReplicaId(VICTIM), kill, away),
    ];
    fault.extend((0..4).map(|replica| Fault::Restart(ReplicaId(replica), kill_all, away)));
    BenchSpec {
        leader: LeaderKind::Reputation,
        workload: WorkloadKind::YcsbA,
        records: RECORDS,
        outstanding: Some(OUTSTANDING),
        view_timeout_ms: 500,
        warmup: seconds(1),
        duration: seconds(17),
        host: Host::Processes,
        fault,
        ..BenchSpec::default()
    }
}

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Demonstration {
    /// The load, as `quorate bench` reports it.
    pub load: BenchResult,
    /// What the witnesses saw.
    pub witnesses: Testimony,
}

/// What the witnesses saw.
#[derive(Debug, Serialize)]
pub struct Testimony {
    /// Commands of which they saw the beginning.
    pub operations: u64,
    /// Of these, how many were never answered.
    pub unanswered: u64,
    /// Histories of single keys that were judged.
    pub keys: u64,
    /// Histories that no store that does one thing at a time explains.
    pub violations: Vec<String>,
}

/// Why the demonstration could not be given.
#[derive(Debug, Error)]
pub enum DemoError {
    /// The cluster or its load cannot be run.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The witnesses cannot work.
    #[error(transparent)]
    Witnesses(#[from] TortureError),
}

impl DemoError {
    /// Whether a replica's disk ended the run.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            DemoError::Bench(error) => error.is_disk_trouble(),
            DemoError::Witnesses(error) => error.is_disk_trouble(),
        }
    }

    /// Whether what the caller gave cannot be used, as against what happened on the way.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            DemoError::Bench(error) => error.is_wrong_call(),
            DemoError::Witnesses(error) => error.is_wrong_call(),
        }
    }
}

/// Gives the demonstration that `spec` describes. `watcher` hears how it goes.
///
/// # Errors
/// If the cluster or its clients cannot be run; that the cluster broke its word is part of the outcome.
pub fn run(spec: &BenchSpec, watcher: &mut dyn Watcher) -> Result<Demonstration, DemoError> {
    let bench = Bench::start(spec)?;
    let witnesses = Witnesses::start(bench.client_config(), WITNESSES, spec.seed)?;
    let load = bench.run(&mut Caller { watcher, ground: &witnesses.ground });
    let judge = witnesses.finish();
    let (load, judge) = (load?, judge?);
    let witnesses = Testimony {
        operations: judge.operations(),
        unanswered: judge.unknown(),
        keys: judge.keys(),
        violations: judge.violations().iter().map(|violation| format!("{violation:?}")).collect(),
    };
    Ok(Demonstration { load, witnesses })
}

/// Calls the witnesses back when the measured time is over, so that their last answers come before the replicas go.
struct Caller<'a> {
    watcher: &'a mut dyn Watcher,
    ground: &'a Ground,
}

impl Watcher for Caller<'_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        if matches!(progress.load.stage, "drain" | "done") {
            self.ground.stop.store(true, Ordering::SeqCst);
        }
        self.watcher.progress(progress);
    }

    fn event(&mut self, event: &Event) {
        self.watcher.event(event);
    }

    fn warn(&mut self, text: &str) {
        self.watcher.warn(text);
    }
}

impl Demonstration {
    /// Whether the cluster kept its word.
    pub fn passed(&self) -> bool {
        self.witnesses.violations.is_empty() && self.load.agreement == Agreement::Agreed
    }

    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a result is plain data");
        text.push('\n');
        text
    }

    /// What to say if a signal ended it before its scenes were over: it then shows nothing.
    pub fn unfinished(&self) -> Option<String> {
        self.load.partial.as_ref().map(|partial| format!("the demonstration is not over: {partial}"))
    }

    /// What the report says of it.
    pub fn verdict(&self) -> Verdict {
        let claims = match self.passed() {
            true => ["Linearizable", "Nothing acknowledged was lost"].map(str::to_owned).to_vec(),
            false => vec!["The cluster broke its word".to_owned()],
        };
        let unfinished = self.unfinished().into_iter();
        Verdict { passed: self.passed(), claims, reasons: unfinished.chain(self.sentences()).collect() }
    }

    /// What it came to, in a few sentences.
    pub fn conclusion(&self) -> String {
        self.sentences().join("\n")
    }

    fn sentences(&self) -> Vec<String> {
        let Testimony { operations, unanswered, keys, violations } = &self.witnesses;
        let mut lines = vec![format!(
            "{} commands of the load were answered; the longest time without an answer was {:.1} s.",
            count(self.load.committed_commands),
            self.load.longest_gap_ms.unwrap_or(f64::INFINITY) / 1e3,
        )];
        lines.extend(
            self.load.evidence.first().map(|proof| format!("The honest replicas can prove who lied: {proof}.")),
        );
        lines.push(match violations.first() {
            None => format!(
                "{WITNESSES} witnesses kept all {} commands they sent and every answer ({unanswered} without one). The \
                 histories of all {keys} keys are linearizable: no acknowledged command was lost, none was executed twice.",
                count(*operations)
            ),
            Some(violation) => format!(
                "THE CLUSTER BROKE ITS WORD: {} of {keys} keys have a history that nothing explains. The first: {violation}",
                violations.len()
            ),
        });
        lines.push(format!("In the end: {}.", self.load.agreement));
        lines
    }
}
