//! Tables of a page.

use crate::document::{Claim, Table, Verdict};
use crate::escape::escape;

/// Maximum rows of a table that is initially expanded.
const MAX_OPEN_ROWS: usize = 20;

/// Renders a table, collapsible if it is long.
pub(crate) fn folded(own: &Table) -> String {
    match own.rows.len() {
        0..=MAX_OPEN_ROWS => table(own),
        count => format!("<details>\n<summary>Table of {count} rows</summary>\n{}</details>\n", table(own)),
    }
}

pub(crate) fn table(table: &Table) -> String {
    let caption = match table.caption.as_str() {
        "" => String::new(),
        text => format!("<caption>{}</caption>\n", escape(text)),
    };
    let class = |numeric: bool| if numeric { " class=\"number\"" } else { "" };
    let head = table
        .columns
        .iter()
        .map(|column| format!("<th scope=\"col\"{}>{}</th>", class(column.numeric), escape(&column.title)));
    let row = |row: &Vec<String>| {
        let fields = row.iter().zip(&table.columns);
        let fields = fields.map(|(field, column)| format!("<td{}>{}</td>", class(column.numeric), escape(field)));
        format!("<tr>{}</tr>\n", fields.collect::<String>())
    };
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table>\n{caption}<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n\
         </table></div>\n",
        head.collect::<String>(),
        table.rows.iter().map(row).collect::<String>()
    )
}

/// Renders claims as a list, which is also readable on a phone.
pub(crate) fn claims(claims: &[Claim]) -> String {
    format!("<ul class=\"claims\">\n{}</ul>\n", claims.iter().map(claim).collect::<String>())
}

fn claim(claim: &Claim) -> String {
    let class = match claim.verdict {
        Verdict::Holds => "good",
        Verdict::DoesNotHold => "bad",
        Verdict::Undecided => "open",
        Verdict::NotMeasurableHere => "absent",
    };
    let fact = |name: &str, value: &str| format!("<dt>{name}</dt><dd>{}</dd>", escape(value));
    let mut facts = fact("measured", &claim.measured);
    facts.extend(claim.paper.iter().map(|paper| fact("paper", paper)));
    facts.extend(claim.note.iter().map(|note| fact("why", note)));
    format!(
        "<li><p><span class=\"verdict {class}\">{}</span> {} <code>{}</code></p><dl>{facts}</dl></li>\n",
        claim.verdict.words(),
        escape(&claim.text),
        escape(&claim.id),
    )
}
