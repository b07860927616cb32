//! The offline page: light and dark, wide and narrow, with tooltips by pointer, touch and keyboard.

mod figure;
mod parts;
mod tables;

use crate::document::{Block, Page, Section};
use crate::escape::{escape, prose};
use crate::palette::{DARK, LIGHT};
use crate::svg;

/// Content security policy of the page: only inline style and script, and no requests.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
/// Minimum number of sections for a table of contents.
const MIN_CONTENTS: usize = 2;

/// Renders a page accepted by `check_page`.
pub(crate) fn render(page: &Page) -> String {
    let lead: String = page.lead.iter().map(|text| format!("<p class=\"lead\">{}</p>\n", escape(text))).collect();
    let sections: String = page.sections.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n\
         {lead}{contents}</header>\n{sections}</main>\n<footer>{footer}</footer>\n\
         <div id=\"~tip\" class=\"tip\" hidden></div>\n\
         <div id=\"~spoken\" class=\"spoken\" role=\"status\" aria-live=\"polite\"></div>\n\
         <script>\n{script}</script>\n\
         </body>\n</html>\n",
        title = escape(&page.title),
        style = style(),
        contents = contents(page),
        footer = escape(&page.footer),
        script = concat!(include_str!("page.js"), include_str!("views.js")),
    )
}

fn style() -> String {
    let (light, dark) = (svg::variables(&LIGHT), svg::variables(&DARK));
    format!(
        ":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n\
         @media print {{ :root {{ {light}}} }}\n{}{}",
        include_str!("page.css"),
        svg::rules()
    )
}

fn contents(page: &Page) -> String {
    let titled = || page.sections.iter().filter(|section| !section.title.is_empty());
    if titled().count() < MIN_CONTENTS {
        return String::new();
    }
    let line = |section: &Section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, escape(&section.title));
    let lines: String = titled().map(line).collect();
    format!("<nav aria-label=\"Contents\"><ul>\n{lines}</ul></nav>\n")
}

fn section(section: &Section) -> String {
    let blocks: String = section.blocks.iter().map(block).collect();
    let title = match section.title.as_str() {
        "" => String::new(),
        title => format!("<h2>{}</h2>\n", escape(title)),
    };
    format!("<section id=\"{}\">\n{title}{blocks}</section>\n", section.id)
}

fn block(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("<p>{}</p>\n", prose(text)),
        Block::Figure(data) => figure::render(data),
        Block::Claims(claims) => tables::claims(claims),
        Block::Chips(chips) => parts::chips(chips),
        Block::Tiles(tiles) => parts::tiles(tiles),
        Block::Note(note) => parts::note(note),
        Block::Facts(facts) => parts::facts(facts),
        Block::Terms(terms) => parts::terms(terms),
        Block::Table(table) => tables::folded(table),
        Block::Command(command) => {
            // Lines break between words, not after the dashes of a flag.
            let words: Vec<String> = command.split(' ').map(|word| format!("<span>{}</span>", escape(word))).collect();
            format!("<div class=\"command\"><pre><code>{}</code></pre>{COPY}</div>\n", words.join(" "))
        }
    }
}

/// Button that copies the adjacent code; the script makes it visible.
const COPY: &str = "<button type=\"button\" class=\"copy\" hidden>Copy</button>";
