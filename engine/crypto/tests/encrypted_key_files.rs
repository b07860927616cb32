//! Encrypted key files can be read with their passphrase, by this program and by others that support the age format,
//! and not without.

use crate::common::cluster;
use quorate_crypto::key_file::client::{self, ClientKeys};
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{self, KeyFileError, vault};
use quorate_crypto::{KeyPair, ReplicaKeys, SchemeKind};
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::{ClusterId, Digest, ReplicaId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A directory of one test, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quorate-encrypted-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a private file.
    fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn passphrases(&self, text: &str) -> Passphrases {
        Passphrases { file: Some(self.file("passphrase", text.as_bytes())), command: None }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn keys() -> ClientKeys {
    ClientKeys { cluster: cluster(), key: KeyPair::from_seed(SchemeKind::ED25519, [7; 32]), certificate: None }
}

fn why<T>(result: Result<T, KeyFileError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn every_kind_is_encrypted_described_and_read() {
    let directory = Directory::new("kinds");
    let passphrases = directory.passphrases("correct horse\n");
    let [replica, own, certifier] = ["replica", "client", "certifier"].map(|name| directory.path(name));
    let of_replica = ReplicaKeys::generate(SchemeKind::ED25519).unwrap();
    key_file::write(&replica, &cluster(), ReplicaId(3), &of_replica).unwrap();
    client::write(&own, &keys()).unwrap();
    client::write_certifier(&certifier, &cluster(), &keys().key).unwrap();
    for (path, kind) in [(&replica, "replica"), (&own, "client"), (&certifier, "certifier")] {
        let before = fs::read(path).unwrap();
        let described = vault::describe(path, &passphrases).unwrap();
        assert!(described.kind == kind && !described.is_encrypted);
        vault::encrypt(path, &passphrases).unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(why(vault::encrypt(path, &passphrases)).contains("it is encrypted already; help:"));
        let again = vault::describe(path, &passphrases).unwrap();
        assert!(again.is_encrypted && again.fields == described.fields);
        assert!(again.fields.iter().all(|(name, _)| !name.contains("secret")), "{again:?}");
        let encrypted = fs::read(path).unwrap();
        vault::decrypt(path, &passphrases).unwrap();
        assert_eq!(fs::read(path).unwrap(), before);
        assert!(why(vault::decrypt(path, &passphrases)).contains("it is not encrypted"));
        fs::write(path, encrypted).unwrap();
    }
    let back = key_file::read(&replica, SchemeKind::ED25519, &cluster(), ReplicaId(3), &passphrases).unwrap();
    assert_eq!(back.identity.public_key(), of_replica.identity.public_key());
    assert_eq!(client::read(&own, &cluster(), &passphrases).unwrap().key.public_key(), keys().key.public_key());
    assert_eq!(client::read_certifier(&certifier, &passphrases).unwrap().1.public_key(), keys().key.public_key());
    let wrong = directory.passphrases("incorrect horse");
    assert!(why(client::read(&own, &cluster(), &wrong)).contains("the passphrase is wrong; help:"));
}

#[test]
fn a_certificate_is_added_to_an_encrypted_file() {
    let directory = Directory::new("certify");
    let (path, passphrases) = (directory.path("client"), directory.passphrases("p"));
    client::write(&path, &keys()).unwrap();
    vault::encrypt(&path, &passphrases).unwrap();
    let certify = |keys: &mut ClientKeys| {
        keys.certify(&KeyPair::from_seed(SchemeKind::ED25519, [1; 32]));
        Ok(())
    };
    vault::add_certificate(&path, certify, &passphrases).unwrap();
    assert!(vault::describe(&path, &passphrases).unwrap().is_encrypted);
    assert!(client::read(&path, &cluster(), &passphrases).unwrap().certificate.is_some());
}

#[test]
fn a_damaged_file_is_refused_wherever_it_was_damaged() {
    let directory = Directory::new("damage");
    let (path, passphrases) = (directory.path("client"), directory.passphrases("p"));
    client::write(&path, &keys()).unwrap();
    vault::encrypt(&path, &passphrases).unwrap();
    let encrypted = fs::read(&path).unwrap();
    let header = encrypted.windows(4).position(|four| four == b"--- ").unwrap();
    // In the salt, the encrypted file key, the MAC, the nonce and the payload.
    for at in [35, 70, header + 10, header + 50, encrypted.len() - 1] {
        let mut damaged = encrypted.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let why = why(client::read(&path, &cluster(), &passphrases));
        assert!(why.contains("damaged") || why.contains("the passphrase is wrong"), "{at}: {why}");
    }
    for length in [22, 30, header, encrypted.len() - 20, encrypted.len() - 1] {
        fs::write(&path, &encrypted[..length]).unwrap();
        assert!(why(client::read(&path, &cluster(), &passphrases)).contains("damaged"), "{length}");
    }
    let costly = String::from_utf8_lossy(&encrypted[..header]).replace(" 17\n", " 30\n");
    fs::write(&path, [costly.as_bytes(), &encrypted[header..]].concat()).unwrap();
    assert!(why(client::read(&path, &cluster(), &passphrases)).contains("the work factor 30, over the limit of 20"));
    fs::write(&path, b"age-encryption.org/v1\n-> X25519 abc\ndef\n--- ghi\n").unwrap();
    assert!(why(client::read(&path, &cluster(), &passphrases)).contains("not one for a passphrase"));
}

#[test]
fn a_passphrase_file_is_private_and_has_one_line() {
    let directory = Directory::new("passphrase");
    let path = directory.path("client");
    client::write(&path, &keys()).unwrap();
    vault::encrypt(&path, &directory.passphrases("a line\r\nand another")).unwrap();
    assert!(client::read(&path, &cluster(), &directory.passphrases("a line")).is_ok());
    let long = "x".repeat(1025);
    for (text, reason) in [("", "is empty, longer than 1024 bytes, or not UTF-8"), (&long, "longer than 1024 bytes")] {
        assert!(why(client::read(&path, &cluster(), &directory.passphrases(text))).contains(reason));
    }
    let open = directory.passphrases("a line");
    fs::set_permissions(open.file.as_ref().unwrap(), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(why(client::read(&path, &cluster(), &open)).contains("(mode 640); help: `chmod 600 "));
    let absent = Passphrases { file: Some(directory.path("absent")), command: None };
    assert!(why(client::read(&path, &cluster(), &absent)).contains("cannot be read"));
}

/// Written by the crate `age` 0.12.1 with the work factor 10 and the passphrase "correct horse", from a key file with
/// the key of [`keys`] for the cluster with the id 0909...09.
const BY_AGE: &str = include_str!("sealed_by_age.hex");

#[test]
fn a_file_of_another_program_is_read() {
    let directory = Directory::new("age");
    let path = directory.file("client", &decode_hex(BY_AGE.trim()).unwrap());
    let other = ClusterId(Digest([9; 32]));
    let read = client::read(&path, &other, &directory.passphrases("correct horse")).unwrap();
    assert_eq!(encode_hex(&read.key.public_key()), encode_hex(&keys().key.public_key()));
}
