//! An experiment with its rows and the verdicts on its claims.

use comfy_table::{ContentArrangement, Table, presets};
use quorate_lab::experiments::{Instrument, Judgement, Plan, Profile, Row, Verdict, judge};
use quorate_operator::report::Report;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Width of the table of claims, in columns.
const TABLE_WIDTH: u16 = 120;
/// Maximum number of failures shown individually.
const MAX_FAILURES_SHOWN: usize = 5;

/// Rows of an experiment, and their verdicts on its claims.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// `PAPER/ID`.
    pub experiment: String,
    pub title: String,
    pub paper: String,
    /// The paper's figure or table.
    pub figure: String,
    pub about: String,
    pub profile: Profile,
    pub instruments: Vec<Instrument>,
    pub rows: Vec<Row>,
    pub claims: Vec<Judgement>,
    /// Progress of the run when a signal or the loss of all hosts ended it; `None` if it completed.
    pub partial: Option<String>,
    /// Runs that were left when `--until` ended the run; `None` if none were.
    pub left: Option<Left>,
}

/// Runs that `--until` has left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Left {
    /// Number of runs known to be missing; undecided claims may add more.
    pub runs: usize,
    /// Expected time of these runs in seconds.
    pub expected_s: u64,
}

/// A claim in the JSON of results.
#[derive(Serialize)]
struct ClaimForm<'j> {
    experiment: &'j str,
    profile: Profile,
    #[serde(flatten)]
    judgement: &'j Judgement,
}

/// Results as JSON.
#[derive(Serialize)]
struct Form<'j> {
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<String>,
    claims: Vec<ClaimForm<'j>>,
    rows: Vec<&'j Row>,
}

impl Judged {
    /// Judges the claims of a plan on rows.
    pub fn of(plan: &Plan, rows: Vec<Row>) -> Judged {
        let experiment = plan.experiment;
        Judged {
            experiment: experiment.name(),
            title: experiment.title.clone(),
            paper: experiment.paper.clone(),
            figure: experiment.figure.clone(),
            about: experiment.about.clone(),
            profile: plan.profile,
            instruments: plan.instruments.clone(),
            claims: judge(plan, &rows),
            rows,
            partial: None,
            left: None,
        }
    }

    /// Returns the number of runs. Cells that cannot be run here have none.
    pub fn runs(&self) -> usize {
        self.rows.iter().filter(|row| row.not_measurable.is_none()).count()
    }

    /// Returns the rows of runs that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.failure.is_some())
    }

    /// Returns the number of claims with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }

    /// Returns the table for a terminal.
    fn table(&self) -> String {
        let instruments: Vec<&str> = self.instruments.iter().map(|own| own.name()).collect();
        let mut text = format!("\n {}  {}\n", self.experiment, self.title);
        let (failed, runs) = (self.failed().count(), self.runs());
        text.push_str(&format!(
            " profile {}, {}: {runs} runs, {failed} failed\n",
            self.profile,
            instruments.join(", ")
        ));
        if let Some(partial) = &self.partial {
            text.push_str(&format!(" PARTIAL  {partial}\n"));
        }
        if let Some(Left { runs, .. }) = &self.left {
            text.push_str(&format!(" PARTIAL  stopped by --until; {runs} runs are left\n"));
        }
        text.push_str(&self.obstacles());
        text.push_str(&self.failures());
        text.push('\n');
        text.push_str(&self.claims_table());
        text
    }

    /// Lists the cells that cannot be run here, by reason.
    fn obstacles(&self) -> String {
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for row in &self.rows {
            if let Some(why) = &row.not_measurable {
                by_reason.entry(why).or_default().push(place_of(row));
            }
        }
        let line = |(why, cells): (&str, Vec<String>)| format!(" NOT HERE  {}: {why}\n", cells.join("; "));
        by_reason.into_iter().map(line).collect()
    }

    fn failures(&self) -> String {
        let mut text = String::new();
        for row in self.failed().take(MAX_FAILURES_SHOWN) {
            let why = row.failure.as_deref().unwrap_or_default();
            text.push_str(&format!(" FAILED  {}: {why}\n", place_of(row)));
            text.push_str(&format!("         reproduce: {}\n", row.provenance.command));
        }
        let more = self.failed().count().saturating_sub(MAX_FAILURES_SHOWN);
        if more > 0 {
            text.push_str(&format!(" FAILED  and {more} more; --json has all\n"));
        }
        text
    }

    fn claims_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_WIDTH);
        table.set_header(["claim", "verdict", "measured", "paper"]);
        for claim in &self.claims {
            let overturned = claim.overturned.as_ref().map_or_else(String::new, |why| format!("\n{why}"));
            let measured = format!("{}{overturned}", claim.measured);
            table.add_row([claim.id.as_str(), claim.verdict.name(), &measured, &claim.paper]);
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        lines.concat()
    }
}

/// Returns the instrument and the coordinates of a row.
fn place_of(row: &Row) -> String {
    let cell: Vec<String> = row.cell.iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!("{} {}", row.instrument, cell.join(", "))
}

/// Several judged experiments: in JSON, `rows` and `claims`.
pub struct Verdicts<'j>(pub &'j [Judged]);

impl Serialize for Verdicts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let claims = self.0.iter().flat_map(|own| {
            let form = |judgement| ClaimForm { experiment: &own.experiment, profile: own.profile, judgement };
            own.claims.iter().map(form)
        });
        let form = Form {
            partial: self.0.iter().find_map(|own| own.partial.clone()),
            claims: claims.collect(),
            rows: self.0.iter().flat_map(|own| &own.rows).collect(),
        };
        form.serialize(serializer)
    }
}

impl Report for Verdicts<'_> {
    fn to_table(&self) -> String {
        let tables: String = self.0.iter().map(Judged::table).collect();
        format!("{tables}\n{}", summary(self.0))
    }

    /// Returns a message if no run succeeded. A claim that does not hold is a finding, not a failure.
    fn failure(&self) -> Option<String> {
        let runs = self.0.iter().map(Judged::runs).sum::<usize>();
        let failed = self.0.iter().map(|own| own.failed().count()).sum::<usize>();
        match runs {
            0 => Some("there are no runs, so nothing is shown".to_owned()),
            _ if runs == failed => Some(format!("none of {runs} runs succeeded")),
            _ => None,
        }
    }
}

/// Returns a line that counts the verdicts.
pub fn summary(judged: &[Judged]) -> String {
    let counts = Verdict::ALL.iter().map(|verdict| {
        let count: usize = judged.iter().map(|own| own.count(*verdict)).sum();
        format!("{count} {verdict}")
    });
    format!(" claims: {}", counts.collect::<Vec<_>>().join(", "))
}
