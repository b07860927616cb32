//! Key files are read back as written, and another owner's file is refused with the owner's name.

use crate::common::*;
use proptest::prelude::*;
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{self, KeyFileFault, MAX_KEY_FILE_BYTES};
use quorate_crypto::{KeyPair, ReplicaKeys, SchemeKind};
use quorate_testkit::schemes::AGGREGATE;
use quorate_types::{ClusterId, ReplicaId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const KIND: SchemeKind = SchemeKind::ED25519;
const ME: ReplicaId = ReplicaId(3);

/// A directory of one test, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quorate-crypto-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("replica.key")
    }

    /// A valid key file of replica 3, and its text.
    fn with_key(test: &str) -> (Directory, PathBuf, String) {
        let directory = Directory::new(test);
        let path = directory.file();
        key_file::write(&path, &cluster(), ME, &keys(KIND, 3)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        (directory, path, text)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> Result<ReplicaKeys, key_file::KeyFileError> {
    key_file::read(path, KIND, &cluster(), ME, &Passphrases::default())
}

/// Returns the error of reading a changed text; the file keeps a key file's mode.
fn refusal(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    let message = read(path).unwrap_err().to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message:?} does not name the file");
    message
}

#[test]
fn a_written_key_is_read_back() {
    for kind in SchemeKind::ALL.iter().copied().chain([AGGREGATE]) {
        let directory = Directory::new(&format!("round-{kind}"));
        let path = directory.file();
        let keys = ReplicaKeys::generate(kind).unwrap();
        key_file::write(&path, &cluster(), ME, &keys).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let back = key_file::read(&path, kind, &cluster(), ME, &Passphrases::default()).unwrap();
        assert_eq!(back.voting.kind(), kind);
        for (back, key) in [(back.voting, keys.voting), (back.identity, keys.identity)] {
            assert_eq!(back.public_key(), key.public_key());
            assert_eq!(back.sign(b"message"), key.sign(b"message"));
        }
    }
}

#[test]
fn generated_keys_differ_and_equal_seeds_give_equal_keys() {
    let [one, two] = [0, 1].map(|_| KeyPair::generate(KIND).unwrap());
    assert_ne!(one.public_key(), two.public_key());
    assert_eq!(key(KIND, 7).public_key(), key(KIND, 7).public_key());
    assert_ne!(key(KIND, 7).public_key(), key(KIND, 8).public_key());
    let ReplicaKeys { identity, voting } = keys(KIND, 7);
    assert_ne!(identity.public_key(), voting.public_key());
}

#[test]
fn debug_output_has_no_secret() {
    let seed = [0xab; 32];
    let shown = format!("{:?} {:#?}", KeyPair::from_seed(KIND, seed), KeyPair::from_seed(KIND, seed));
    assert!(shown.contains("ed25519"));
    assert!(!shown.contains("abab") && !shown.contains("171, 171"), "{shown}");
}

#[test]
fn a_file_is_never_overwritten() {
    let (_directory, path, before) = Directory::with_key("overwrite");
    let error = key_file::write(&path, &cluster(), ME, &keys(KIND, 4)).unwrap_err();
    assert!(matches!(error.fault, KeyFileFault::Exists), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn a_file_that_others_can_access_is_refused() {
    let (_directory, path, _) = Directory::with_key("mode");
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o666, 0o777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains(&format!("chmod 600 {}", path.display())), "{message}");
        assert!(message.contains(&format!("{mode:o}")), "{message}");
    }
    for mode in [0o600, 0o400] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(read(&path).is_ok());
    }
}

#[test]
fn the_group_may_read_a_file_of_root_that_a_service_manager_passes_on() {
    const ROOT: u32 = 0;
    const REPLICA: u32 = 999;
    for (owner, mode, reader, is_open) in [
        (ROOT, 0o440, REPLICA, false),
        (ROOT, 0o640, REPLICA, false),
        (ROOT, 0o660, REPLICA, true),
        (ROOT, 0o650, REPLICA, true),
        (ROOT, 0o644, REPLICA, true),
        (ROOT, 0o640, ROOT, true),
        (REPLICA, 0o640, REPLICA, true),
        (REPLICA, 0o600, REPLICA, false),
        // Of another user than root, who could also change it.
        (1000, 0o640, REPLICA, true),
    ] {
        let found = key_file::is_open_to_others(owner, mode, reader);
        assert_eq!(found, is_open, "owner {owner}, mode {mode:o}, reader {reader}");
    }
}

#[test]
fn another_owners_file_is_refused_by_name() {
    let (_directory, path, _) = Directory::with_key("owner");
    let none = Passphrases::default();
    let error = key_file::read(&path, KIND, &cluster(), ReplicaId(5), &none).unwrap_err().to_string();
    assert!(error.contains("belongs to replica 3, not to replica 5"), "{error}");
    let another = ClusterId::from_name("another");
    let error = key_file::read(&path, KIND, &another, ME, &none).unwrap_err().to_string();
    assert!(error.contains(&cluster().0.to_hex()) && error.contains(&another.0.to_hex()), "{error}");
    let error = key_file::read(&path, SchemeKind::NONE, &cluster(), ME, &none).unwrap_err().to_string();
    assert!(error.contains("for the scheme ed25519, not for none"), "{error}");
}

#[test]
fn errors_name_the_damage_without_showing_the_secret() {
    let (_directory, path, text) = Directory::with_key("damage");
    let secret = text.lines().last().unwrap().split(" = ").nth(1).unwrap().to_owned();
    assert_eq!(secret.len(), 64);
    let line = |name: &str| text.lines().position(|line| line.starts_with(name)).unwrap() + 1;
    let without =
        |name: &str| text.lines().filter(|l| !l.starts_with(name)).map(|l| format!("{l}\n")).collect::<String>();
    for name in [
        "scheme",
        "cluster",
        "replica",
        "identity_public_key",
        "identity_secret_key",
        "voting_public_key",
        "voting_secret_key",
    ] {
        let message = refusal(&path, &without(name));
        assert!(message.contains(&format!("{name:?} is missing")), "{message}");
        let message = refusal(&path, &format!("{text}{name} = 1\n"));
        assert!(message.contains(&format!("line {} repeats", text.lines().count() + 1)), "{message}");
    }
    let cases = [
        (text.replace("version 2", "version 3"), "version \"3\"".to_owned()),
        (text.replace("version 2", "version 1"), "make a new cluster with `quorate testnet`".to_owned()),
        (text.replace("quorate", "other"), "not a key file".to_owned()),
        (String::new(), "not a key file".to_owned()),
        (text.replace("scheme = ed25519", "scheme = rsa"), format!("line {} names no", line("scheme"))),
        (text.replace("replica = 3", "replica = 70000"), format!("line {} is not a replica", line("replica"))),
        (
            text.replace("voting_secret_key = ", "secret = "),
            format!("line {} has an unknown field", line("voting_secret_key")),
        ),
        (text.replace("voting_secret_key = ", ""), format!("line {} is not of the form", line("voting_secret_key"))),
        (
            text.replace(&secret, &secret[..62]),
            format!("line {} is not a private key of its scheme", line("voting_secret_key")),
        ),
        (
            text.replace(&secret, &"0".repeat(64)),
            "its voting_public_key does not belong to its voting_secret_key".to_owned(),
        ),
        (text.clone() + &"#".repeat(MAX_KEY_FILE_BYTES), "longer than".to_owned()),
    ];
    for (changed, why) in cases {
        let message = refusal(&path, &changed);
        assert!(message.contains(&why), "{message:?} does not say {why:?}");
        assert!(!message.contains(&secret[..16]), "the secret is shown: {message}");
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("not a key file"));
}

#[test]
fn a_missing_file_and_a_directory_are_refused() {
    let directory = Directory::new("absent");
    assert!(read(&directory.file()).unwrap_err().to_string().contains("cannot open it"));
    assert!(matches!(read(&directory.0).unwrap_err().fault, KeyFileFault::NotAFile));
    let nowhere = directory.0.join("none").join("replica.key");
    assert!(
        key_file::write(&nowhere, &cluster(), ME, &keys(KIND, 3)).unwrap_err().to_string().contains("cannot create")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Reading any text after the header returns a key or an error.
    #[test]
    fn arbitrary_text_never_panics(body in "[ -~\n]{0,200}") {
        let directory = Directory::new("any");
        let path = directory.file();
        fs::write(&path, format!("quorate private key, version 2\n{body}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        prop_assert!(read(&path).is_err());
    }
}
