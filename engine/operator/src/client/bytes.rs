//! Keys and values on the command line and in the output.

use crate::failure::WrongCall;
use clap::Args;
use quorate_applications::key_value::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::text::escaped_bytes;
use std::io::{self, IsTerminal, Read};

/// Format of keys and values.
#[derive(Args, Clone, Copy)]
pub struct Form {
    /// Keys and values on the command line and in the output are hexadecimal; standard input is read as raw bytes.
    #[arg(long)]
    hex: bool,
    /// Print keys and values unescaped. Without it, a scan escapes them, and so does a value on a terminal: control
    /// characters and bytes that are not UTF-8 appear as \n, \t, \u{1b} or \xff, and a backslash is doubled.
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    /// Print the result as JSON. A key or value that is not UTF-8 appears in hexadecimal as `key_hex` or `value_hex`.
    #[arg(long)]
    pub json: bool,
}

impl Form {
    pub fn key(self, text: &str) -> Result<Vec<u8>, WrongCall> {
        self.decode("key", text, MAX_KEY_BYTES)
    }

    /// Returns the value, or standard input if `text` is `None`.
    pub fn value(self, text: Option<&str>) -> Result<Vec<u8>, WrongCall> {
        match text {
            Some(text) => self.decode("value", text, MAX_VALUE_BYTES),
            None => read_value(),
        }
    }

    pub fn decode(self, what: &str, text: &str, most: usize) -> Result<Vec<u8>, WrongCall> {
        let bytes = match self.hex {
            true => decode_hex(text).ok_or_else(|| {
                WrongCall(format!(
                    "the {what} `{text}` is not hexadecimal: write two digits for each byte, or omit --hex"
                ))
            })?,
            false => text.as_bytes().to_vec(),
        };
        fits(what, bytes.len(), most).map(|()| bytes)
    }

    /// Returns a value that is the whole output: unchanged for a program, escaped for a terminal.
    pub fn show(self, bytes: &[u8]) -> Vec<u8> {
        if io::stdout().is_terminal() { self.show_field(bytes) } else { self.as_given(bytes) }
    }

    /// Returns a key or value for a list. Because tabs and line ends separate the fields, those inside a field are
    /// escaped.
    pub fn show_field(self, bytes: &[u8]) -> Vec<u8> {
        if self.hex || self.raw { self.as_given(bytes) } else { escaped_bytes(bytes).into_bytes() }
    }

    fn as_given(self, bytes: &[u8]) -> Vec<u8> {
        if self.hex { encode_hex(bytes).into_bytes() } else { bytes.to_vec() }
    }
}

fn fits(what: &str, bytes: usize, most: usize) -> Result<(), WrongCall> {
    if bytes > most {
        Err(WrongCall(format!("the {what} has {bytes} bytes; at most {most} are allowed")))
    } else {
        Ok(())
    }
}

fn read_value() -> Result<Vec<u8>, WrongCall> {
    let input = io::stdin();
    if input.is_terminal() {
        let why = "the value is missing: write it after the key, or pipe it to standard input";
        return Err(WrongCall(why.into()));
    }
    let mut value = Vec::new();
    let read = input.lock().take(MAX_VALUE_BYTES as u64 + 1).read_to_end(&mut value);
    read.map_err(|error| WrongCall(format!("cannot read the value from standard input: {error}")))?;
    match value.len() > MAX_VALUE_BYTES {
        true => Err(WrongCall(format!("standard input has more than {MAX_VALUE_BYTES} bytes, the limit of a value"))),
        false => Ok(value),
    }
}
