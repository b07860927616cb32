//! Clients and journals whose genesis differs in one part from a real cluster's.

use crate::{Net, REPLICAS, call};
use std::fs;
use std::path::Path;
use std::process::Output;

/// Returns the part of `client.toml` before the members, and the members, each with its keys.
fn parts(text: &str) -> (String, Vec<String>) {
    let (head, members) = text.split_once("[[members]]").expect("a list of members");
    (head.to_owned(), members.split("[[members]]").map(str::to_owned).collect())
}

/// Writes a client configuration with different values, without the replicas' directories next to it.
pub fn client(net: &Net, name: &str, change: impl Fn(&mut String, &mut Vec<String>)) -> String {
    let away = net.path.join(name);
    fs::create_dir_all(&away).expect("a directory");
    let text = fs::read_to_string(net.path.join("client.toml")).expect("the configuration can be read");
    fs::copy(net.path.join("client.key"), away.join("client.key")).expect("a key");
    let (mut head, mut members) = parts(&text.replace("connect_timeout_ms = 5000", "connect_timeout_ms = 1000"));
    change(&mut head, &mut members);
    let members: Vec<String> = members.iter().map(|member| format!("[[members]]{member}")).collect();
    assert_ne!(format!("{head}{}", members.concat()), text);
    fs::write(away.join("client.toml"), head + &members.concat()).expect("it can be written");
    away.to_str().expect("a test's path is UTF-8").to_owned()
}

/// Changes a key in the first part of a configuration.
pub fn set(key: &'static str, value: &'static str) -> impl Fn(&mut String, &mut Vec<String>) {
    move |head, _| {
        let is_key = |line: &&str| line.split_once(" =").is_some_and(|(name, _)| name == key);
        let line = head.lines().find(is_key).unwrap_or_else(|| panic!("{key} has a line")).to_owned();
        *head = head.replace(&line, &format!("{key} = {value}"));
    }
}

/// Runs a program, repeatedly if other tests disturb it, until it prints everything expected.
pub fn says(expected: &[&str], exit: i32, call: impl Fn() -> Output) {
    let mut last = String::new();
    for _ in 0..20 {
        let output = call();
        last = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        if expected.iter().all(|text| last.contains(text)) {
            assert_eq!(output.status.code(), Some(exit), "{last}");
            return;
        }
    }
    panic!("it does not say {expected:?}: {last}");
}

/// The client reports the key and both values, and so does the status, which also reports that the replicas run.
fn client_is_told(net: &Net, key: &str, differs: &str, change: impl Fn(&mut String, &mut Vec<String>)) {
    let dir = client(net, &format!("away-{key}"), change);
    let put = || call(&["client", "--dir", &dir, "put", "key", "value"]);
    says(&["it has genesis ", "and this client genesis ", differs], 1, put);
    let status = || call(&["status", "--dir", &dir, "--timeout-ms", "2000"]);
    says(&["replica 0: runs with another configuration and is not read: 127.0.0.1:", differs], 1, status);
}

#[test]
fn a_client_names_the_key_of_the_genesis_that_differs_with_both_values() {
    let mut net = Net::written("genesis-client", &[]);
    net.start(0..REPLICAS);
    net.put("before");
    client_is_told(&net, "faults", "`faults` is 0 here and 1 there", set("faults", "0"));
    client_is_told(
        &net,
        "protocol",
        "`protocol` is hotstuff-2 here and jolteon there",
        set("protocol", "\"hotstuff-2\""),
    );
    client_is_told(&net, "profile", "`auth_profile` is domain here and pk there", set("auth_profile", "\"domain\""));
    // Replicas 0 and 1 are reached; the others have different keys than the client expects.
    let swapped = "`members` is in this order here and with replicas 2 and 3 swapped there";
    client_is_told(&net, "order", swapped, |_, members| {
        let (two, three) = (members[2].clone(), members[3].clone());
        let keys = |member: &str| member.split_once("identity_key").expect("keys").1.to_owned();
        members[2] = two.replace(&keys(&two), &keys(&three));
        members[3] = three.replace(&keys(&three), &keys(&two));
    });
    client_is_told(&net, "keys", "the members' keys, their number or their order differ", |_, members| {
        let own = members[3].split_once("voting_key = ").expect("a key").1.lines().next().expect("a value").to_owned();
        // The base point of the curve, whose secret key nobody has chosen.
        members[3] = members[3].replace(&own, &format!("\"58{}\"", "66".repeat(31)));
    });
}

#[test]
fn a_client_names_the_scheme_of_macs_that_differs() {
    let flags = ["--protocol", "pbft-mac", "--auth-profile", "domain"];
    let mut net = Net::written("genesis-macs", &flags);
    net.start(0..REPLICAS);
    net.put("before");
    let differs = "`mac_scheme` is aes-256-cmac here and hmac-sha256 there";
    client_is_told(&net, "macs", differs, set("mac_scheme", "\"aes-256-cmac\""));
    client_is_told(&net, "profile", "`auth_profile` is mac here and domain there", set("auth_profile", "\"mac\""));
}

#[test]
fn a_replica_names_the_key_in_which_its_journal_differs() {
    let mut net = Net::written("genesis-journal", &[]);
    net.start(0..REPLICAS);
    net.put("before");
    let differs = "`protocol` is hotstuff-2 here and jolteon there";
    net.nodes[3].kill().and_then(|()| net.nodes[3].wait()).expect("it runs");
    net.configure(3, "protocol", "\"hotstuff-2\"");
    let home = net.path.join("replica-3");
    let home: &Path = &home;
    let home = home.to_str().expect("UTF-8");
    says(&["belongs to the genesis", differs], 1, || call(&["run", "--dir", home]));
    says(&["belongs to replica 3 and the genesis", differs], 1, || call(&["inspect", "--dir", home, "--verify"]));
}
