//! Records build information in the binary. Works without git and without network access.

use std::env;
use std::process::Command;

fn main() {
    let commit = output("git", &["describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]);
    let rustc = env::var("RUSTC").ok().and_then(|rustc| output(&rustc, &["--version"]));
    let backend = match env::var("CARGO_CFG_CURVE25519_DALEK_BACKEND").ok().as_deref() {
        Some("avx512") => "avx512, avx2 or serial, as the processor allows".to_owned(),
        Some(forced) => forced.to_owned(),
        None => "avx2 or serial, as the processor allows; .cargo/config.toml was ignored".to_owned(),
    };
    for (name, value) in [
        ("QUORATE_COMMIT", commit),
        ("QUORATE_TARGET", env::var("TARGET").ok()),
        ("QUORATE_RUSTC", rustc.map(|told| told.trim_start_matches("rustc ").to_owned())),
        ("QUORATE_CURVE_BACKEND", Some(backend)),
    ] {
        println!("cargo::rustc-env={name}={}", value.unwrap_or_else(|| "unknown".to_owned()));
    }
    println!("cargo::rerun-if-changed=build.rs");
    // A commit changes HEAD or the branch that it names; the log of HEAD records both.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns the first line printed by a program, or `None` if the program is missing or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?.lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}
