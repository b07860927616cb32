//! Demonstration: four replica processes under load, with a Byzantine leader, a crash of one replica and a crash of
//! all.

use crate::bench::{Bench, BenchError, Progress, Watcher};
use crate::report::{Verdict, render_verdict};
use crate::result::{Agreement, BenchResult, Event, count};
use crate::spec::{BenchSpec, Fault, Host, Interval, LeaderKind, When, WorkloadKind};
use crate::torture::{CheckedClients, Ground, TortureError};
use quorate_adversary::byzantine::behaviours::Equivocate;
use quorate_operator::report::Report;
use quorate_types::ReplicaId;
use serde::Serialize;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Clients in addition to the load, whose commands and answers are all recorded and checked.
const CHECKED_CLIENTS: usize = 4;
/// The Byzantine replica. It leads the first view and every fourth one after it.
const LIAR: u16 = 0;
/// The replica to kill during the leader's misbehaviour, so that more than f are faulty until it restarts.
const VICTIM: u16 = 3;
/// Outstanding commands per client of the load: few, for machines that also do other work.
const OUTSTANDING: u32 = 400;

/// Records of the store. Few, because the misbehaviour's clock runs while they are written.
const RECORDS: u64 = 1000;

/// An event of the demonstration, with its explanation.
pub struct Scene {
    /// Seconds from the start of the measured time.
    pub at_s: u32,
    pub text: &'static str,
}

/// The scenes in order. [`spec`] produces them.
pub const SCENES: &[Scene] = &[
    Scene {
        at_s: 4,
        text: "Replica 0 turns Byzantine: in every view that it leads, it sends one block to some replicas and another \
               block to the rest. Two quorums share an honest replica, so at most one of the blocks is certified. A \
               replica that receives both keeps them as proof.",
    },
    Scene {
        at_s: 8,
        text: "Replica 3 is killed with -9. Two of four replicas are now faulty, one more than the cluster tolerates: \
               it may stall, but decides nothing wrong. A second later replica 3 restarts, reads its votes from its \
               journal and fetches the blocks it missed, with certificates.",
    },
    Scene {
        at_s: 12,
        text: "All four are killed with -9 at once. Every acknowledged command is on disk, in the journals of a \
               quorum. A second later all restart.",
    },
];

/// Returns the spec of the demonstration.
pub fn spec() -> BenchSpec {
    let seconds = |s: u32| Interval::from_millis(u64::from(s) * 1000);
    let [lie, kill, kill_all] = [0, 1, 2].map(|scene| seconds(SCENES[scene].at_s));
    let away = seconds(1);
    let liar = [ReplicaId(LIAR)].into_iter().collect();
    let mut fault = vec![
        Fault::Misbehave(liar, Equivocate.into(), When { at: Some(lie), ..When::ALWAYS }),
        Fault::Restart(ReplicaId(VICTIM), kill, away),
    ];
    fault.extend((0..4).map(|replica| Fault::Restart(ReplicaId(replica), kill_all, away)));
    {
        let mut spec = BenchSpec {
            workload: WorkloadKind::YcsbA,
            records: RECORDS,
            outstanding: Some(OUTSTANDING),
            warmup: seconds(1),
            duration: seconds(17),
            host: Host::Processes,
            fault,
            ..BenchSpec::default()
        };
        spec.node.consensus.leader = LeaderKind::Reputation;
        spec.node.consensus.view_timeout_ms = 500;
        spec
    }
}

/// Outcome of the demonstration: the measurements of the load, and the verdict on the checked clients.
#[derive(Debug, Serialize)]
pub struct Demonstration {
    /// Result in the format of `quorate bench`.
    pub load: BenchResult,
    pub checked_clients: History,
}

/// Observations of the checked clients.
#[derive(Debug, Serialize)]
pub struct History {
    /// Commands issued.
    pub operations: u64,
    /// Commands that were never answered.
    pub unanswered: u64,
    /// Histories of single keys that were checked.
    pub keys: u64,
    /// Histories that are not linearizable.
    pub violations: Vec<String>,
}

/// Reason why the demonstration could not run or be reported.
#[derive(Debug, Error)]
pub enum DemoError {
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    CheckedClients(#[from] TortureError),
}

impl DemoError {
    /// Returns whether a disk fault of a replica ended the run.
    pub fn is_disk_trouble(&self) -> bool {
        match self {
            DemoError::Bench(error) => error.is_disk_trouble(),
            DemoError::CheckedClients(error) => error.is_disk_trouble(),
        }
    }

    /// Returns whether the arguments are wrong; false if the run itself failed.
    pub fn is_wrong_call(&self) -> bool {
        match self {
            DemoError::Bench(error) => error.is_wrong_call(),
            DemoError::CheckedClients(error) => error.is_wrong_call(),
        }
    }
}

/// Runs the demonstration that `spec` describes.
///
/// # Errors
/// If the cluster or its clients cannot run. A safety violation is part of the outcome, not an error.
pub fn run(spec: &BenchSpec, watcher: &mut dyn Watcher) -> Result<Demonstration, DemoError> {
    let bench = Bench::start(spec)?;
    let checked_clients = CheckedClients::start(bench.client_config(), CHECKED_CLIENTS, spec.seed)?;
    let load = bench.run(&mut Caller { watcher, ground: &checked_clients.ground });
    let checker = checked_clients.finish();
    let (load, checker) = (load?, checker?);
    let checked_clients = History {
        operations: checker.operations(),
        unanswered: checker.unknown(),
        keys: checker.keys(),
        violations: checker.violations().iter().map(|violation| format!("{violation:?}")).collect(),
    };
    Ok(Demonstration { load, checked_clients })
}

/// Stops the checked clients at the end of the measured time, so that their last answers arrive before the replicas
/// stop.
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
    /// Returns whether the cluster was safe.
    pub fn passed(&self) -> bool {
        self.checked_clients.violations.is_empty() && self.load.agreement == Agreement::Agreed
    }

    /// Returns a message if a signal ended the demonstration early, in which case it shows nothing.
    pub fn unfinished(&self) -> Option<String> {
        self.load.partial.as_ref().map(|partial| format!("the demonstration is incomplete: {partial}"))
    }

    /// Returns the verdict that the report shows.
    pub fn verdict(&self) -> Verdict {
        let claims: &[&str] = if self.passed() {
            &["Linearizable", "Nothing acknowledged was lost"]
        } else {
            &["The cluster violated safety"]
        };
        let claims = claims.iter().map(ToString::to_string).collect();
        let unfinished = self.unfinished().into_iter();
        Verdict { passed: self.passed(), claims, reasons: unfinished.chain(self.sentences()).collect() }
    }

    /// Summarizes the outcome in a few sentences.
    pub fn conclusion(&self) -> String {
        self.sentences().join("\n")
    }

    fn sentences(&self) -> Vec<String> {
        let History { operations, unanswered, keys, violations } = &self.checked_clients;
        let mut lines = vec![format!(
            "{} commands of the load were answered; the longest time without an answer was {:.1} s.",
            count(self.load.committed_commands),
            self.load.longest_gap_ms.unwrap_or(f64::INFINITY) / 1e3,
        )];
        lines.extend(
            self.load.evidence.first().map(|proof| format!("The honest replicas can prove who misbehaved: {proof}.")),
        );
        lines.push(match violations.first() {
            None => format!(
                "{CHECKED_CLIENTS} clients recorded all {} commands they sent and every answer ({unanswered} had \
                 none). The histories of all {keys} keys are linearizable: no acknowledged command was lost, none was \
                 executed twice.",
                count(*operations)
            ),
            Some(violation) => format!(
                "SAFETY VIOLATION: {} of {keys} keys have a history that is not linearizable. The first: {violation}",
                violations.len()
            ),
        });
        lines.push(format!("In the end: {}.", self.load.agreement));
        lines
    }
}

impl Report for Demonstration {
    fn to_table(&self) -> String {
        format!("{}\n\n{}", self.load.to_table().trim_end(), self.conclusion())
    }

    fn to_page(&self) -> String {
        render_verdict(&self.load, &self.verdict())
    }

    fn failure(&self) -> Option<String> {
        if self.passed() { self.unfinished() } else { Some("the cluster violated safety".to_owned()) }
    }
}
