//! Finds the commit from which the program is built, and whether it is compiled incrementally, for results.

use std::process::Command;

/// Digits of the commit that are shown.
const SHOWN_DIGITS: &str = "--short=12";

fn main() {
    println!("cargo::rerun-if-env-changed=QUORATE_COMMIT");
    let commit = std::env::var("QUORATE_COMMIT").ok().or_else(|| git(&["rev-parse", SHOWN_DIGITS, "HEAD"]));
    // Without a repository there is nothing to watch: an archive of the sources contains a single commit.
    for name in ["logs/HEAD", "HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    // Incremental compilation divides a crate into more units, which inline less.
    println!("cargo::rerun-if-env-changed=CARGO_INCREMENTAL");
    let is_off = std::env::var("CARGO_INCREMENTAL").is_ok_and(|value| value == "0");
    println!(
        "cargo::rustc-env=QUORATE_DEBUG_BUILD={}",
        if is_off { "debug, not incremental" } else { "debug, incremental" }
    );
    println!("cargo::rustc-env=QUORATE_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
