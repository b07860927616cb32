//! Clients whose configuration differs from a real cluster's beyond the genesis.

use crate::genesis::{client, says, set};
use crate::{Net, REPLICAS, call, succeeds};

/// A difference that prevents the client from working is reported at once, with both values.
#[test]
fn a_client_names_the_key_that_differs_with_both_values() {
    let mut net = Net::written("terms", &[]);
    net.start(0..REPLICAS);
    net.put("before");
    let cases = [
        ("client_authentication", "\"none\"", "`client_authentication` is none here and ed25519 there"),
        ("client_authentication", "\"mac\"", "`client_authentication` is mac here and ed25519 there"),
        ("reply_authentication", "\"signature\"", "`reply_authentication` is signature here and channel there"),
        ("reply_authentication", "\"mac\"", "`reply_authentication` is mac here and channel there"),
        ("application", "\"log\"", "`application` is log here and kv there"),
        ("reply", "\"none\"", "`reply` is none here and each there"),
    ];
    for (key, value, differs) in cases {
        let dir = client(&net, "away", set(key, value));
        says(&["client.toml does not fit the cluster: ", differs], 1, || {
            call(&["client", "--dir", &dir, "put", "key", "x"])
        });
        says(&["client.toml does not fit the cluster: ", differs], 1, || {
            call(&["client", "--dir", &dir, "get", "--stale", "before"])
        });
    }
}

/// Replicas that authenticate their replies inform a client that expects none.
#[test]
fn a_client_that_cannot_open_the_replies_names_the_key() {
    for kind in ["signature", "mac"] {
        let mut net = Net::written("terms-authenticated", &["--reply-authentication", kind]);
        net.start(0..REPLICAS);
        net.put("before");
        let dir = client(&net, "away", set("reply_authentication", "\"channel\""));
        let differs = format!("`reply_authentication` is channel here and {kind} there");
        says(&[&differs], 1, || call(&["client", "--dir", &dir, "put", "key", "x"]));
    }
}

#[test]
fn a_client_with_a_slow_dissemination_is_warned() {
    let mut net = Net::written("terms-slow", &["--leader", "round-robin"]);
    (0..REPLICAS).for_each(|replica| net.configure(replica, "dissemination", "\"leader\""));
    net.start(0..REPLICAS);
    // Leaders rotate, so clients send to all, as set in the testnet's file.
    let output = call(&["client", "--dir", net.dir(), "put", "before", "x"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    for value in ["leader", "replicas"] {
        let dir =
            client(&net, "away", set("dissemination", if value == "leader" { "\"leader\"" } else { "\"replicas\"" }));
        let differs = format!("warning: `dissemination` is {value} here and client there");
        says(&[&differs, "help: set it in client.toml"], 0, || call(&["client", "--dir", &dir, "put", "key", "x"]));
    }
}

/// The client learns the limit before it sends, over every transport.
#[test]
fn a_command_over_the_limit_of_a_frame_is_refused_with_both_lengths() {
    for channel in ["plain", "tls"] {
        let mut net = Net::written("terms-frame", &["--channel", channel]);
        (0..REPLICAS).for_each(|replica| net.configure(replica, "client_frame_bytes", "2000"));
        net.start(0..REPLICAS);
        succeeds(&["client", "--dir", net.dir(), "put", "key", &"x".repeat(1_000)]);
        let value = "x".repeat(3_000);
        let output = call(&["client", "--dir", net.dir(), "put", "key", &value]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("a frame of 3")
                && told.contains("is over the limit of 2000, `client_frame_bytes` in [links]"),
            "{told}"
        );
        assert_eq!(succeeds(&["client", "--dir", net.dir(), "get", "key"]).trim().len(), 1_000);
    }
}
