//! HTML elements around arbitrary text.

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
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns an element around text, which is escaped.
pub fn text(name: &str, class: &str, content: &str) -> String {
    element(name, class, &escape(content))
}

/// Returns an element around HTML.
pub fn element(name: &str, class: &str, inner: &str) -> String {
    if class.is_empty() {
        format!("<{name}>{inner}</{name}>")
    } else {
        format!("<{name} class=\"{class}\">{inner}</{name}>")
    }
}
