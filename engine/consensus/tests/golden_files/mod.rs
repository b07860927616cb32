//! Transcripts as files: compared or rewritten.
#![allow(dead_code)]

use std::path::PathBuf;

/// Maximum number of characters in a line of prose.
const WIDTH: usize = 118;

/// Compares a text with `testdata/<protocol>/<name>.txt`.
pub fn compare(protocol: &str, name: &str, text: &str) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(protocol).join(format!("{name}.txt"));
    if std::env::var("QUORATE_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().expect("the path has a parent")).expect("the folder can be made");
        return std::fs::write(&path, text).expect("the transcript can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{} has changed:\n{}", path.display(), difference(&golden, text));
}

/// Returns the removed (-) and added (+) lines, with two lines of context.
pub fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for (i, left) in old.iter().enumerate().rev() {
        for (j, right) in new.iter().enumerate().rev() {
            common[i][j] = match left == right {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    let near = |at: usize| lines[at.saturating_sub(2)..(at + 3).min(lines.len())].iter().any(|(sign, _)| *sign != ' ');
    let shown = (0..lines.len()).filter(|at| near(*at)).map(|at| format!("{} {}\n", lines[at].0, lines[at].1));
    shown.collect::<String>()
        + "Rewrite it with: QUORATE_GOLDEN=write cargo test -p quorate-consensus --test tests golden"
}

/// Wraps prose into lines.
pub fn wrap(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            lines += &(std::mem::take(&mut line) + "\n");
        }
        line = if line.is_empty() { word.into() } else { line + " " + word };
    }
    lines + &line + "\n"
}
