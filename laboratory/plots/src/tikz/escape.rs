//! Escapes text for TeX.

/// Escapes text for the body of a document. Control characters are left out.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '#' | '$' | '%' | '&' | '_' | '{' | '}' => {
                safe.push('\\');
                safe.push(c);
            }
            '\\' => safe.push_str("\\textbackslash{}"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '<' => safe.push_str("\\ensuremath{<}"),
            '>' => safe.push_str("\\ensuremath{>}"),
            '|' => safe.push_str("\\ensuremath{|}"),
            '"' => safe.push_str("''"),
            'µ' | 'μ' => safe.push_str("\\ensuremath{\\mu}"),
            '±' => safe.push_str("\\ensuremath{\\pm}"),
            '×' => safe.push_str("\\ensuremath{\\times}"),
            '≤' => safe.push_str("\\ensuremath{\\le}"),
            '≥' => safe.push_str("\\ensuremath{\\ge}"),
            '≈' => safe.push_str("\\ensuremath{\\approx}"),
            '−' => safe.push_str("\\ensuremath{-}"),
            '–' => safe.push_str("--"),
            '—' => safe.push_str("---"),
            '…' => safe.push_str("\\ldots{}"),
            '\u{a0}' | '\u{2009}' | '\u{202f}' => safe.push('~'),
            c if c.is_whitespace() => safe.push(' '),
            c if c.is_control() => {}
            c => safe.push(c),
        }
    }
    safe
}

/// Returns text for a comment, which ends with the line.
pub(super) fn remark(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !c.is_control()).collect()
}
