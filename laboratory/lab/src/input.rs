//! Reads user-specified files. Checks sizes while reading, so that endless devices and pipes are refused too.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum size of a settings file (experiment, network or cost table), in bytes.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// Maximum size of a scenario file, in bytes.
pub const MAX_SCENARIOS_BYTES: u64 = 8 << 30;
/// Maximum length of a line of a scenario file, in bytes.
pub const MAX_LINE_BYTES: u64 = 1 << 20;

/// Reads a settings file.
///
/// # Errors
/// If it cannot be read, is not UTF-8, or exceeds [`MAX_SETTINGS_BYTES`].
pub fn settings(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_SETTINGS_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SETTINGS_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_SETTINGS_BYTES} bytes")));
    }
    Ok(text)
}

/// Calls `on_line` with each line and its number, from 1, until it fails.
///
/// # Errors
/// Errors of `on_line`, or an I/O error if a line cannot be read, is not UTF-8 or exceeds [`MAX_LINE_BYTES`], or if the
/// source exceeds [`MAX_SCENARIOS_BYTES`].
pub(crate) fn each_line<E: From<io::Error>>(
    source: impl Read,
    mut on_line: impl FnMut(usize, &str) -> Result<(), E>,
) -> Result<(), E> {
    let (mut reader, mut line, mut read) = (BufReader::new(source), String::new(), 0);
    for number in 1.. {
        line.clear();
        read += (&mut reader).take(MAX_LINE_BYTES + 1).read_line(&mut line)? as u64;
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(io::Error::other(format!("line {number} is longer than {MAX_LINE_BYTES} bytes")).into());
        }
        if read > MAX_SCENARIOS_BYTES {
            return Err(io::Error::other(format!("it is larger than {MAX_SCENARIOS_BYTES} bytes")).into());
        }
        if line.is_empty() {
            break;
        }
        on_line(number, line.trim_end_matches(['\n', '\r']))?;
    }
    Ok(())
}
