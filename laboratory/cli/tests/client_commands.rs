//! Tests the commands of `quorate client` on a cluster of processes.

use crate::common::*;
use serde_json::{Value, json as value};
use std::io::Write;
use std::process::{Command, Output, Stdio};

struct Cluster {
    net: String,
    _nodes: Nodes,
    _scratch: Scratch,
}

impl Cluster {
    fn start(name: &str) -> Cluster {
        let scratch = Scratch::new(name);
        let net = scratch.path("net");
        succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
        let nodes = Nodes::start(&net);
        Cluster { net, _nodes: nodes, _scratch: scratch }
    }

    fn call(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["client", "--dir", &self.net]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A command that does not read its input may end before the input is written.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// Expects success, and returns standard output.
    fn says(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.call(arguments, b"");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output.stdout
    }

    /// Expects failure, and returns standard error.
    fn fails(&self, arguments: &[&str], status: i32) -> String {
        let output = self.call(arguments, b"");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    }
}

fn lines(output: &[u8]) -> Vec<Value> {
    text(output).lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn values_are_written_read_compared_and_deleted() {
    let cluster = Cluster::start("client-commands");
    assert_eq!(cluster.says(&["put", "greeting", "hello"]), b"done\n");
    assert_eq!(cluster.says(&["get", "greeting"]), b"hello\n");
    assert_eq!(
        lines(&cluster.says(&["get", "greeting", "--json"])),
        [value!({"outcome": "value", "key": "greeting", "value": "hello"})]
    );
    assert!(cluster.fails(&["cas", "greeting", "hi", "--expected", "bye"], 1).contains("another value"));
    let conflict = cluster.call(&["cas", "greeting", "hi", "--absent", "--json"], b"");
    assert_eq!(conflict.status.code(), Some(1));
    assert_eq!(lines(&conflict.stdout), [value!({"outcome": "conflict", "key": "greeting", "value": "hello"})]);
    assert_eq!(cluster.says(&["compare-and-set", "greeting", "hi", "--expected", "hello"]), b"done\n");
    assert_eq!(cluster.says(&["cas", "new", "value", "--absent"]), b"done\n");
    assert_eq!(cluster.says(&["get", "greeting", "--timeout", "20s"]), b"hi\n");
    assert_eq!(cluster.says(&["delete", "greeting"]), b"done\n");
    assert!(cluster.fails(&["get", "greeting"], 1).contains("no such key"));
    assert!(cluster.fails(&["delete", "greeting"], 1).contains("no such key"));
    assert!(cluster.fails(&["cas", "greeting", "x", "--expected", "y"], 1).contains("does not exist"));
}

#[test]
fn binary_values_are_returned_unchanged() {
    let cluster = Cluster::start("client-binary");
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let put = cluster.call(&["put", "image"], &bytes);
    assert!(put.status.success(), "{}", text(&put.stderr));
    assert_eq!(cluster.says(&["get", "image"]), [&bytes[..], b"\n"].concat());
    assert_eq!(cluster.says(&["put", "--hex", "00ff", "c328"]), b"done\n");
    assert_eq!(cluster.says(&["get", "--hex", "00FF"]), b"c328\n");
    assert_eq!(
        lines(&cluster.says(&["get", "--hex", "--json", "00ff"])),
        [value!({"outcome": "value", "key_hex": "00ff", "value_hex": "c328"})]
    );
    assert!(cluster.fails(&["put", "--hex", "0", "00"], 2).contains("not hexadecimal"));
    assert!(cluster.fails(&["put", &"k".repeat(70_000), "v"], 2).contains("at most 4096"));
    let too_long = cluster.call(&["put", "key"], &vec![0; (1 << 20) + 1]);
    assert_eq!(too_long.status.code(), Some(2));
    assert!(text(&too_long.stderr).contains("more than 1048576 bytes"));
}

#[test]
fn scans_list_ranges_and_prefixes_in_order() {
    let cluster = Cluster::start("client-scan");
    for key in ["user/2", "user/10", "user/1", "group/1", "users"] {
        cluster.says(&["put", key, "v"]);
    }
    let keys = |arguments: &[&str]| {
        let mut call = vec!["scan", "--json"];
        call.extend(arguments);
        let pairs = lines(&cluster.says(&call));
        pairs.iter().map(|pair| pair["key"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&[]), ["group/1", "user/1", "user/10", "user/2", "users"]);
    assert_eq!(keys(&["--prefix", "user/"]), ["user/1", "user/10", "user/2"]);
    assert_eq!(keys(&["--from", "user/10", "--to", "users"]), ["user/10", "user/2"]);
    assert_eq!(keys(&["--prefix", "nobody"]), [""; 0]);
    let limited = cluster.call(&["scan", "--limit", "2"], b"");
    assert_eq!(text(&limited.stdout), "group/1\tv\nuser/1\tv\n");
    assert!(text(&limited.stderr).contains("2 pairs; there are more"));
    assert!(cluster.fails(&["scan", "--limit", "0"], 2).contains("--limit"));
}
