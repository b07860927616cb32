//! The binary, its output, and a place for its files.
// Each test file uses a part of this.
#![allow(dead_code)]

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Runs the binary to its end.
pub fn quorate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quorate")).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// A call that succeeds.
pub fn succeeds(arguments: &[&str]) -> Output {
    let output = quorate(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

/// What a call that succeeds says on standard output, which is JSON.
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(arguments).stdout).expect("standard output is JSON and nothing else")
}

/// A directory of its own, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the temporary directory can be written");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a test's path is UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
