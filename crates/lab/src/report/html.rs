//! HTML elements around arbitrary text.

pub use quorate_plots::escape;

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
