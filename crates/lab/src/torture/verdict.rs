//! What torture came to.

use crate::spec::Retention;
use serde::Serialize;
use std::fmt;

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The seed of the blows and of the clients' commands.
    pub seed: u64,
    /// How far the torture had come when a signal ended it; none if it came to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// What replicas kept for those who were away.
    pub retention: Retention,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What was done, at which second.
    pub blows: Vec<(f64, String)>,
    /// Commands of which the clients saw the beginning.
    pub operations: u64,
    /// Of these, how many were never answered.
    pub unanswered: u64,
    /// Histories of single keys that were judged.
    pub keys: u64,
    /// Keys whose history no store that does one thing at a time explains, with that history.
    pub violations: Vec<String>,
    /// Whether all replicas executed the same; why not, if not.
    pub divergence: Option<String>,
    /// The second at which the cluster stood still for longer than it may.
    pub stalled_at: Option<f64>,
    /// How many times a replica had been away for so long that it took the others' state over.
    pub states_taken_over: usize,
    /// Longest time in seconds from the return of the last victim to the next answer.
    pub longest_recovery_seconds: f64,
    /// Commands answered a second before the first blow, and after the last.
    pub operations_per_second: (f64, f64),
}

impl Verdict {
    /// What to say of a torture in which no blow fell, which shows nothing.
    pub fn nothing_done(&self) -> Option<String> {
        let nothing = self.blows.is_empty() && self.partial.is_none() && self.stalled_at.is_none();
        nothing.then(|| "no blow fell, so that nothing was shown; raise --minutes".to_owned())
    }

    /// Whether the cluster kept its word.
    pub fn passed(&self) -> bool {
        self.violations.is_empty() && self.divergence.is_none() && self.stalled_at.is_none()
    }

    /// All of it, by the names of the fields.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a verdict has a form in JSON")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { operations, unanswered, keys, .. } = self;
        let (before, after) = self.operations_per_second;
        let mut lines = vec![
            format!("{} blows in {:.0} s, seed {}", self.blows.len(), self.seconds, self.seed),
            self.retention.to_string(),
            format!("{operations} commands, {unanswered} of them never answered, in {keys} histories of one key each"),
            format!(
                "{} times a replica was too far behind for blocks, and took the others' state over",
                self.states_taken_over
            ),
            format!("answers resumed at most {:.2} s after the victims were back", self.longest_recovery_seconds),
            format!("{before:.0} commands a second before the first blow, {after:.0} after the last"),
        ];
        match self.violations.len() {
            0 => lines.push("linearizable: no acknowledged command was lost, none was executed twice".into()),
            count => {
                lines.push(format!("NOT LINEARIZABLE: {count} histories have no explanation; the first:"));
                lines.push(self.violations[0].clone());
            }
        }
        lines.push(match &self.divergence {
            None if self.stalled_at.is_none() => "all replicas executed the same".into(),
            None => "the replicas were not compared".into(),
            Some(what) => format!("THE REPLICAS DIFFER: {what}"),
        });
        if let Some(at) = self.stalled_at {
            lines.push(format!("STALLED at {at:.1} s"));
        }
        if let Some(partial) = &self.partial {
            lines.insert(0, format!("PARTIAL: {partial}"));
        }
        f.write_str(&lines.join("\n"))
    }
}
