//! Escapes text for HTML, SVG and JSON inside HTML.

/// Escapes text for an element or a quoted attribute. Control characters, which HTML forbids, become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            // XML also forbids these two.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes prose, in which backticks mark code.
pub(crate) fn prose(text: &str) -> String {
    let safe = escape(text);
    if safe.matches('`').count() % 2 == 1 {
        return safe;
    }
    let part = |(at, part): (usize, &str)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() };
    safe.split('`').enumerate().map(part).collect()
}

/// Formats JSON for a `script` element: it contains no `<`, so it cannot end the element.
pub(crate) fn json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}
