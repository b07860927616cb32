//! Instructions per command of the core's paths, held against counts of an earlier build.

use crate::error::RunnerError;
use comfy_table::{CellAlignment, Table, presets};
use quorate_lab::experiments::Row;
use quorate_lab::experiments::statistics::mean;
use quorate_operator::report::{Report, indented};
use quorate_types::{Fault, files};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Name of the figure in rows.
pub const FIGURE: &str = "instructions_per_command";
/// A path that executes more instructions than before by more than this is an error, in percent. Repeated counts of one
/// build differ by a few hundredths of a percent, because the keys of hash maps are random.
pub const LIMIT_PERCENT: f64 = 2.0;

/// Instructions per command of each path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Compiler, profile, library and instruction sets. Counts of unlike builds cannot be compared.
    pub build: String,
    pub instructions_per_command: BTreeMap<String, f64>,
}

impl Counts {
    /// Returns the means over the repetitions of each cell, by the cell's coordinates.
    pub fn of(rows: &[Row], build: String) -> Counts {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let cell: Vec<String> = row.cell.values().map(ToString::to_string).collect();
            values.entry(cell.join(", ")).or_default().extend(row.figures.get(FIGURE));
        }
        let means = values.into_iter().filter_map(|(cell, values)| Some((cell, mean(&values)?.round())));
        Counts { build, instructions_per_command: means.collect() }
    }

    /// Reads counts that [`write`](Counts::write) has written.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Counts, RunnerError> {
        let text = fs::read_to_string(path).map_err(RunnerError::read(path))?;
        let help = "name a file that `quorate lab instructions --write` has written";
        let wrong = |error| Fault::new(path.display().to_string(), format!("holds no counts: {error}"), help);
        Ok(serde_json::from_str(&text).map_err(wrong)?)
    }

    /// Writes the counts to a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), RunnerError> {
        files::replace(path, indented(self).as_bytes(), files::DEFAULT_MODE).map_err(RunnerError::write(path))
    }

    /// Compares these counts with earlier ones.
    pub fn since(self, before: Option<&Counts>) -> Changes {
        let comparable = before.filter(|before| before.build == self.build);
        let of_path = |(path, after): (&String, &f64)| {
            let before = comparable.and_then(|before| before.instructions_per_command.get(path)).copied();
            let percent = before.filter(|before| *before > 0.0).map(|before| (after / before - 1.0) * 100.0);
            Change { path: path.clone(), before, after: *after, percent }
        };
        let lost = |path: &&String| !self.instructions_per_command.contains_key(*path);
        let lost = comparable
            .map_or(Vec::new(), |before| before.instructions_per_command.keys().filter(lost).cloned().collect());
        let unlike = before.filter(|before| before.build != self.build).map(|before| before.build.clone());
        Changes {
            changes: self.instructions_per_command.iter().map(of_path).collect(),
            build: self.build,
            unlike,
            lost,
        }
    }
}

/// Count of a path before and after a change.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    pub path: String,
    pub before: Option<f64>,
    pub after: f64,
    pub percent: Option<f64>,
}

/// Counts of all paths before and after a change.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Changes {
    pub build: String,
    /// Build of the earlier counts if it differs, so that nothing is compared.
    pub unlike: Option<String>,
    pub changes: Vec<Change>,
    /// Paths that only the earlier counts have.
    pub lost: Vec<String>,
}

impl Report for Changes {
    fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["path", "before", "now", "change"]);
        for own in &self.changes {
            let percent = own.percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent:+.2} %"));
            let before = own.before.map_or_else(|| "–".to_owned(), |before| format!("{before:.0}"));
            table.add_row([own.path.clone(), before, format!("{:.0}", own.after), percent]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        let unlike = self.unlike.as_ref().map_or_else(String::new, |before| {
            format!(" not compared: this build is {}, the earlier counts are of {before}\n", self.build)
        });
        format!(" instructions per command\n{}{unlike}", lines.concat())
    }

    fn failure(&self) -> Option<String> {
        let risen = self.changes.iter().filter(|own| own.percent.is_some_and(|percent| percent > LIMIT_PERCENT));
        let mut what: Vec<String> = risen.map(|own| format!("{} takes more instructions", own.path)).collect();
        what.extend(self.lost.iter().map(|path| format!("{path} was not counted")));
        (!what.is_empty()).then(|| {
            format!(
                "{} (limit {LIMIT_PERCENT} %); help: find the cause with `valgrind --tool=callgrind quorate sim`, or, \
                 if the change is worth it, write the counts anew with --write",
                what.join("; ")
            )
        })
    }
}
