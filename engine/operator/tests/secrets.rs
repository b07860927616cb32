//! Replicas and clients read their keys from systemd credentials and from commands.

use crate::{Net, REPLICAS, call, program};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs a replica that cannot start, with these credentials.
fn refused(home: &Path, credentials: Option<&Path>) -> Output {
    let mut run = program();
    run.args(["run", "--dir"]).arg(home).env_remove("CREDENTIALS_DIRECTORY");
    if let Some(directory) = credentials {
        run.env("CREDENTIALS_DIRECTORY", directory);
    }
    run.output().expect("the binary runs")
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("testnet wrote it");
    assert!(text.contains(from), "{from} is in {text}");
    fs::write(path, text.replacen(from, to, 1)).expect("it is ours");
}

#[test]
fn keys_are_credentials_of_a_service_or_the_output_of_a_command() {
    const PASSPHRASE: &str = "correct horse";
    let mut net = Net::written("credentials", &[]);
    let credentials = net.path.join("credentials");
    fs::create_dir(&credentials).expect("a directory");
    let homes: Vec<_> = (0..REPLICAS).map(|replica| net.path.join(format!("replica-{replica}"))).collect();
    for (at, home) in homes.iter().enumerate() {
        let key = home.join("private.key");
        let mut encrypt = program();
        encrypt.args(["keys", "encrypt"]).arg(&key).env("QUORATE_PASSPHRASE", PASSPHRASE);
        assert!(encrypt.output().expect("it runs").status.success());
        let (replica, name) = (at as u16, format!("key-{at}"));
        fs::rename(&key, credentials.join(&name)).expect("it is ours");
        if at % 2 == 0 {
            net.configure(replica, "key_file", &format!("\"credential:{name}\""));
            net.configure(replica, "passphrase_file", "\"credential:passphrase\"");
        } else {
            let path = credentials.join(&name).display().to_string();
            net.configure(replica, "key_command", &format!("[\"cat\", \"{path}\"]"));
            net.configure(replica, "passphrase_command", &format!("[\"echo\", \"{PASSPHRASE}\"]"));
        }
    }
    for (directory, why) in [
        (None, "private key file credential:key-0: there are no credentials, because CREDENTIALS_DIRECTORY is not set"),
        (Some(net.path.as_path()), "has no such credential; help: add `LoadCredential=key-0:FILE`"),
        (Some(credentials.as_path()), "the passphrase file credential:passphrase: "),
    ] {
        let output = refused(&homes[0], directory);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{told}");
    }
    crate::write_private(&credentials.join("passphrase"), &format!("{PASSPHRASE}\n"));
    let client = net.path.join("client.key");
    fs::rename(&client, credentials.join("client")).expect("it is ours");
    replace(&net.path.join("client.toml"), "key_file = \"client.key\"", "key_file = \"credential:client\"");
    let told = call(&["client", "--dir", net.dir(), "get", "greeting"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("private key file credential:client: "), "{told:?}");
    for home in &homes {
        let mut run = program();
        run.args(["run", "--dir"]).arg(home).stdout(Stdio::null()).stderr(Stdio::null());
        net.nodes.push(run.env("CREDENTIALS_DIRECTORY", &credentials).spawn().expect("a replica starts"));
    }
    let mut put = program();
    put.args(["client", "--dir", net.dir(), "put", "greeting", "hello"]).env("CREDENTIALS_DIRECTORY", &credentials);
    let output = put.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    // A busy replica may still be connecting, which the status reports; it has to be there in any case.
    let shown = call(&["status", "--dir", net.dir(), "--json"]);
    let shown = String::from_utf8_lossy(&[shown.stdout, shown.stderr].concat()).into_owned();
    assert!(shown.contains("\"replicas\""), "{shown}");
    for node in &net.nodes {
        let arguments = fs::read_to_string(format!("/proc/{}/cmdline", node.id())).expect("it runs");
        assert!(!arguments.contains(PASSPHRASE));
    }
    assert!(!shown.contains(PASSPHRASE), "{shown}");
}

#[test]
fn a_command_that_names_no_program_and_a_key_without_effect_are_refused() {
    let net = Net::written("commands", &[]);
    let home = net.path.join("replica-0");
    let config = home.join("config.toml");
    let before = fs::read_to_string(&config).expect("testnet wrote it");
    for (line, why) in [
        ("key_command = []", "`key_command`: names no program; help: leave it out, or write a list"),
        ("passphrase_command = [\"\"]", "`passphrase_command`: names no program"),
        ("key_command = \"vault kv get\"", "key_command"),
        ("secret_command_timeout_ms = 5", "`secret_command_timeout_ms`: has no effect"),
        ("key_command = [\"cat\"]\nkey_file = \"my.key\"", "`key_file`: has no effect, because `key_command` is"),
        ("key_command = [\"cat\"]\nsecret_command_timeout_ms = 0", "set 1 to 600000"),
    ] {
        fs::write(&config, before.replacen("key_file = \"private.key\"", line, 1)).expect("it is ours");
        let output = refused(&home, None);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{line}: {told}");
    }
}
