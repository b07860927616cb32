//! Reading what a caller names: the limit holds while it is read, so that a device or a pipe without end is refused as well.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Largest file of settings that is read, in bytes: an experiment, a network, a cost table.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// Most bytes that are read of a file of scenarios.
pub const MAX_SCENARIOS_BYTES: u64 = 8 << 30;
/// Longest line of a file of scenarios, in bytes.
pub const MAX_LINE_BYTES: u64 = 1 << 20;

/// The text of a file of settings.
///
/// # Errors
/// If it cannot be read, is no text, or has more than [`MAX_SETTINGS_BYTES`].
pub(crate) fn settings(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_SETTINGS_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_SETTINGS_BYTES {
        true => Err(io::Error::other(format!("it is larger than {MAX_SETTINGS_BYTES} bytes"))),
        false => Ok(text),
    }
}

/// Calls `heard` with each line and its number, from 1, until it fails.
///
/// # Errors
/// Those of `heard`; and if a line cannot be read, is no text, or has more than [`MAX_LINE_BYTES`], or all together have more than
/// [`MAX_SCENARIOS_BYTES`].
pub(crate) fn each_line<E: From<io::Error>>(
    source: impl Read,
    mut heard: impl FnMut(usize, &str) -> Result<(), E>,
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
        heard(number, line.trim_end_matches(['\n', '\r']))?;
    }
    Ok(())
}
