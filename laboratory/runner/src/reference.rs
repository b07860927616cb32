//! Generates the tables of `docs/RESULTS.md` from the declarations of keys, figures and columns.

use crate::export::{Fixed, IDENTITY, ORIGIN, SAMPLE};
use quorate_lab::experiments::Figure;
use quorate_lab::figures::{table_line, tables, vocabulary};
use std::collections::BTreeMap;

/// Marker before a table, followed by the table's name and [`CLOSE`].
const BEGIN: &str = "<!-- table ";
const CLOSE: &str = " -->";
/// Marker after a table.
const END: &str = "<!-- end -->";

/// Returns a page with regenerated tables.
///
/// # Errors
/// The names of tables that are missing on the page, or not declared.
pub fn with_tables(page: &str) -> Result<String, String> {
    let mut declared: BTreeMap<&str, String> = tables().into_iter().collect();
    let described = |all: &[Figure]| columns_table(all.iter().map(|own| (own.name, own.unit, own.about)));
    declared.extend([("identity", fixed(IDENTITY)), ("origin", fixed(ORIGIN)), ("sample", fixed(SAMPLE))]);
    declared.extend([("figures", described(vocabulary().figures)), ("series", described(vocabulary().series))]);
    let (mut text, mut lines) = (String::new(), page.lines());
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(CLOSE)) else { continue };
        let table =
            declared.remove(name).ok_or_else(|| format!("no table `{name}` is declared, or it stands there twice"))?;
        text += &format!("\n{table}\n{END}\n");
        lines.by_ref().find(|line| *line == END).ok_or_else(|| format!("the table `{name}` has no {END}"))?;
    }
    match declared.is_empty() {
        true => Ok(text),
        false => Err(format!("the page lacks the tables {}", declared.into_keys().collect::<Vec<_>>().join(", "))),
    }
}

fn columns_table(columns: impl Iterator<Item = (&'static str, &'static str, &'static str)>) -> String {
    let head = "| column | unit | meaning |\n|---|---|---|\n".to_owned();
    columns.fold(head, |table, (name, unit, about)| table + &table_line(name, unit, about))
}

fn fixed<T>(columns: &[Fixed<T>]) -> String {
    columns_table(columns.iter().map(|own| (own.name, own.unit, own.about)))
}
