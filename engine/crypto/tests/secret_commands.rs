//! Keys and passphrases come from commands, whose output no error shows.

use crate::common::cluster;
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{self, KeyFileError, KeySource, SecretCommand, vault};
use quorate_crypto::{ReplicaKeys, SchemeKind};
use quorate_types::ReplicaId;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

fn command(key: &'static str, words: &[&str], timeout: Duration) -> SecretCommand {
    SecretCommand { key, words: words.iter().map(|word| (*word).to_owned()).collect(), timeout }
}

fn read(words: &[&str], timeout: Duration, passphrases: &Passphrases) -> Result<ReplicaKeys, KeyFileError> {
    let source = KeySource::Command(command("key_command", words, timeout));
    key_file::read_from(&source, SchemeKind::ED25519, &cluster(), ReplicaId(3), passphrases)
}

/// Returns the error of a shell's command, and whether a restart cannot help.
fn failure(script: &str, timeout: Duration) -> (String, bool) {
    let error = read(&["sh", "-c", script], timeout, &Passphrases::default()).expect_err(script);
    (error.to_string(), error.is_wrong_call())
}

struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quorate-commands-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_key_and_its_passphrase_are_the_output_of_commands() {
    let directory = Directory::new("output");
    let (path, words) = (directory.file("key"), directory.file("words"));
    let keys = ReplicaKeys::generate(SchemeKind::ED25519).unwrap();
    key_file::write(path.as_ref(), &cluster(), ReplicaId(3), &keys).unwrap();
    let none = Passphrases::default();
    let read_key = || read(&["cat", &path], LONG, &none);
    assert_eq!(read_key().unwrap().voting.public_key(), keys.voting.public_key());
    fs::write(&words, "correct horse\nand more\n").unwrap();
    fs::set_permissions(&words, fs::Permissions::from_mode(0o600)).unwrap();
    let by = |words: &[&str]| Passphrases { file: None, command: Some(command("passphrase_command", words, LONG)) };
    vault::encrypt(path.as_ref(), &by(&["cat", &words])).unwrap();
    let back = read(&["cat", &path], LONG, &by(&["cat", &words])).unwrap();
    assert_eq!(back.identity.public_key(), keys.identity.public_key());
    let wrong = read(&["cat", &path], LONG, &by(&["echo", "wrong"])).unwrap_err().to_string();
    assert!(wrong.contains("private key of `key_command` (cat): ") && wrong.contains("passphrase is wrong"), "{wrong}");
    let empty = read(&["cat", &path], LONG, &by(&["true"])).unwrap_err().to_string();
    assert!(empty.contains("the passphrase from `passphrase_command` is empty"), "{empty}");
    let failed = read(&["cat", &path], LONG, &by(&["false", "secret-argument"])).unwrap_err().to_string();
    assert!(failed.contains("(false) has provided no passphrase: it ended with exit status: 1;"), "{failed}");
    assert!(!failed.contains("secret-argument"), "{failed}");
}

#[test]
fn an_unusable_command_is_an_error_that_shows_no_output() {
    const SECRET: &str = "secret-5c1e";
    let short = Duration::from_millis(50);
    let cases = [
        (
            format!("echo {SECRET}; echo no service >&2; exit 3"),
            LONG,
            false,
            "exit status: 3 and wrote to its standard \
            error: no service; help: run it by hand",
        ),
        (format!("echo {SECRET}; kill -9 $$"), LONG, false, "it ended with signal: 9 (SIGKILL)"),
        (format!("echo {SECRET}; sleep 1000 & sleep 1000"), short, false, "it took longer than 50 ms and was killed"),
        (format!("echo {SECRET}; exec >&- 2>&-; sleep 1000"), short, false, "it took longer than 50 ms and was killed"),
        (format!("while :; do echo {SECRET}; done"), LONG, true, "it wrote more than 4"),
        (format!("echo {SECRET}"), LONG, true, "its first line is not \"quorate private key, version 2\""),
        (format!("echo quorate private key, version 2; echo {SECRET}"), LONG, true, "line 2 is not of the form"),
    ];
    for (script, timeout, is_wrong_call, why) in cases {
        let (error, wrong_call) = failure(&script, timeout);
        assert!(error.starts_with("private key of `key_command` (sh): ") && error.contains(why), "{script}: {error}");
        assert!(!error.contains(SECRET) && wrong_call == is_wrong_call, "{script}: {error}");
    }
    let error = read(&["/nowhere/vault"], LONG, &Passphrases::default()).unwrap_err();
    assert!(error.to_string().contains("it cannot be started: ") && error.is_wrong_call(), "{error}");
}

#[test]
fn standard_error_is_shown_in_part_and_cannot_act_on_a_terminal() {
    let (error, _) = failure(
        r"printf '\033[31mred\n' >&2; i=0; while [ $i -lt 9000 ]; do echo filler >&2; i=$((i+1)); done; false",
        LONG,
    );
    assert!(error.contains("\\u{1b}[31mred\\nfiller") && !error.contains('\x1b'), "{error}");
    assert!(error.len() < 4_000, "{} bytes", error.len());
}

#[test]
fn a_command_has_the_environment_and_no_input() {
    let (error, _) = failure("cat; echo \"path: ${PATH:+set}\" >&2; false", LONG);
    assert!(error.contains("standard error: path: set;"), "{error}");
}
