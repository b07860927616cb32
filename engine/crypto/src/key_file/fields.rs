//! The text of key files: a first line with the kind and version, and lines `name = value`.

use super::{KeyFileFault, MAX_KEY_FILE_BYTES};
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::{ClusterId, Digest, ReplicaId};
use zeroize::Zeroizing;

/// Kind of a key file.
pub(super) struct Form {
    /// The first line up to the version.
    pub header: &'static str,
    pub version: &'static str,
    /// Names of all fields.
    pub fields: &'static [&'static str],
}

impl Form {
    pub fn mismatch(&self) -> KeyFileFault {
        KeyFileFault::NotAKeyFile(format!("{}{}", self.header, self.version))
    }

    fn wrong_version(&self, found: &str) -> KeyFileFault {
        let help = match (self.version, found) {
            ("2", "1") => "handshakes and votes have separate keys now, so make a new cluster with `quorate testnet`",
            _ => "use the program that wrote it",
        };
        KeyFileFault::Version { found: found.to_owned(), expected: self.version, help }
    }
}

/// Text of a key file being written.
pub(super) struct Text(Zeroizing<String>);

impl Text {
    /// Begins with the first line, and `warning` as a comment.
    pub fn new(form: &Form, warning: &str) -> Text {
        // Never reallocates, so no copy of the secrets stays behind in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES));
        [form.header, form.version, "\n# ", warning, "\n"].into_iter().for_each(|part| text.push_str(part));
        Text(text)
    }

    pub fn put(&mut self, field: &str, value: &str) {
        [field, " = ", value, "\n"].into_iter().for_each(|part| self.0.push_str(part));
        assert!(self.0.len() <= MAX_KEY_FILE_BYTES, "a key file has at most {MAX_KEY_FILE_BYTES} bytes");
    }

    /// Adds a public and a private key; nothing in the scheme `none`.
    pub fn put_key(&mut self, [public, secret]: [&str; 2], key: &KeyPair) {
        let encoded = key.encode();
        if !encoded.is_empty() {
            self.put(public, &encode_hex(&key.public_key()));
            self.put(secret, &Zeroizing::new(encode_hex(&encoded)));
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The line and value of each field, in the order of the form.
pub(super) struct Fields<'a> {
    form: &'a Form,
    found: Vec<Option<(usize, &'a str)>>,
}

impl<'a> Fields<'a> {
    pub fn read(text: &'a str, form: &'a Form) -> Result<Fields<'a>, KeyFileFault> {
        let mut lines = text.lines().map(str::trim_end).enumerate();
        let first = lines.next().map_or("", |(_, first)| first);
        let version = first.strip_prefix(form.header).ok_or_else(|| form.mismatch())?;
        if version != form.version {
            return Err(form.wrong_version(version));
        }
        let mut fields = Fields { form, found: vec![None; form.fields.len()] };
        for (at, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
            let wrong = |why| KeyFileFault::Line { line: at + 1, why };
            let (name, value) = text.split_once('=').ok_or_else(|| wrong("is not of the form `name = value`"))?;
            let field = form.fields.iter().position(|field| *field == name.trim());
            let field = field.ok_or_else(|| wrong("has an unknown field"))?;
            if fields.found[field].replace((at + 1, value.trim())).is_some() {
                return Err(wrong("repeats a field"));
            }
        }
        Ok(fields)
    }

    /// Returns a field's value, or `None` if it is missing. `why` describes the fault of a value that does not parse.
    pub fn optional<T>(
        &self,
        name: &'static str,
        why: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, KeyFileFault> {
        let at = self.form.fields.iter().position(|field| *field == name).expect("a field of the list");
        let Some((line, value)) = self.found[at] else { return Ok(None) };
        parse(value).ok_or(KeyFileFault::Line { line, why }).map(Some)
    }

    pub fn get<T>(
        &self,
        name: &'static str,
        why: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, KeyFileFault> {
        self.optional(name, why, parse)?.ok_or(KeyFileFault::Missing(name))
    }

    /// Returns the names and values of all fields except private keys.
    pub fn public(&self) -> Vec<(&'static str, String)> {
        let fields = self.form.fields.iter().zip(&self.found).filter(|(name, _)| !name.ends_with("secret_key"));
        fields.filter_map(|(name, found)| Some((*name, found.as_ref()?.1.to_owned()))).collect()
    }

    pub fn cluster(&self) -> Result<ClusterId, KeyFileFault> {
        Ok(ClusterId(self.get("cluster", "is not 64 hexadecimal digits", Digest::from_hex)?))
    }

    pub fn replica(&self) -> Result<ReplicaId, KeyFileFault> {
        Ok(ReplicaId(self.get("replica", "is not a replica id", |value| value.parse().ok())?))
    }

    pub fn scheme(&self) -> Result<SchemeKind, KeyFileFault> {
        self.get("scheme", "names no signature scheme", |value| value.parse().ok())
    }

    /// Returns whether a field is set.
    pub fn has(&self, name: &'static str) -> bool {
        self.form.fields.iter().zip(&self.found).any(|(field, found)| *field == name && found.is_some())
    }

    /// Returns the key pair of a role.
    pub fn key(&self, kind: SchemeKind, names: [&'static str; 2]) -> Result<KeyPair, KeyFileFault> {
        if kind.profile().public_key_bytes == 0 {
            return Ok(KeyPair::from_seed(kind, [0; SEED_BYTES]));
        }
        let public_key = self.get(names[0], "is not hexadecimal", decode_hex)?;
        let key = self.get(names[1], "is not a private key of its scheme in hexadecimal digits", |value| {
            KeyPair::decode(kind, &Zeroizing::new(decode_hex(value)?))
        })?;
        if key.public_key() != public_key {
            return Err(KeyFileFault::Damaged(names));
        }
        Ok(key)
    }
}
