//! Statements, main figures and facts of a page.

use crate::document::{Chip, Fact, Note, Tile, Tone};
use crate::escape::{escape, prose};

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Neutral => "neutral",
        Tone::Warning => "open",
        Tone::Bad => "bad",
    }
}

fn list(class: &str, items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", prose(item))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"{class}\">{items}</ul>") }
}

pub(crate) fn chips(chips: &[Chip]) -> String {
    let chip = |own: &Chip| format!("<li class=\"{}\">{}</li>", class(own.tone), escape(&own.text));
    format!("<ul class=\"chips\">{}</ul>\n", chips.iter().map(chip).collect::<String>())
}

pub(crate) fn tiles(tiles: &[Tile]) -> String {
    let tile = |own: &Tile| {
        format!(
            "<div class=\"tile\"><span>{}</span><p><b>{}</b> <span>{}</span></p></div>\n",
            escape(&own.name),
            escape(&own.value),
            escape(&own.unit)
        )
    };
    format!("<div class=\"tiles\">\n{}</div>\n", tiles.iter().map(tile).collect::<String>())
}

pub(crate) fn note(note: &Note) -> String {
    let head = format!("<b>{}</b> {}", escape(&note.title), prose(&note.text));
    let (class, items) = (class(note.tone), list("items", &note.items));
    match note.folded {
        true => format!("<details class=\"note {class}\"><summary>{head}</summary>{items}</details>\n"),
        false => format!("<div class=\"note {class}\">{head}{items}</div>\n"),
    }
}

pub(crate) fn facts(facts: &[Fact]) -> String {
    let fact = |own: &Fact| {
        let marked = if own.marked { " class=\"marked\"" } else { "" };
        let help = if own.help.is_empty() { String::new() } else { format!(" title=\"{}\"", escape(&own.help)) };
        format!("<div{marked}{help}><dt>{}</dt><dd>{}</dd></div>\n", escape(&own.name), escape(&own.value))
    };
    format!("<dl class=\"facts\">\n{}</dl>\n", facts.iter().map(fact).collect::<String>())
}

pub(crate) fn terms(terms: &[(String, String)]) -> String {
    let term = |(name, what): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(what));
    format!("<dl class=\"terms\">\n{}</dl>\n", terms.iter().map(term).collect::<String>())
}
