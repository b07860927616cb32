//! Passphrases of encrypted key files: from a file, a command, an environment variable or the terminal, never from an
//! argument.

use super::access::is_open;
use super::command::{CommandFault, SecretCommand};
use super::credential::{CredentialFault, resolve};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// Environment variable for the passphrase, used if no file is configured.
pub const PASSPHRASE_VARIABLE: &str = "QUORATE_PASSPHRASE";
/// Maximum length of a passphrase, in bytes.
pub const MAX_PASSPHRASE_BYTES: usize = 1024;
const TERMINAL: &str = "/dev/tty";

/// Source of the passphrases of encrypted key files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Passphrases {
    /// A file with a passphrase as its first line, which only its owner can read, or `credential:NAME`.
    pub file: Option<PathBuf>,
    /// A command whose first line of output is the passphrase, without a file. Without both: [`PASSPHRASE_VARIABLE`],
    /// or else the terminal if this process runs in the foreground.
    pub command: Option<SecretCommand>,
}

/// Reason why there is no passphrase.
#[derive(Debug, Error)]
pub enum PassphraseFault {
    #[error(
        "no passphrase is given; help: name a file with `passphrase_file` or --passphrase-file, set \
         {PASSPHRASE_VARIABLE}, or run the command in a terminal"
    )]
    Missing,
    #[error("the passphrase file {}: {fault}", path.display())]
    Credential { path: PathBuf, fault: CredentialFault },
    #[error("the command of `passphrase_command` ({program}) has provided no passphrase: {fault}")]
    Command { program: String, fault: CommandFault },
    #[error("the passphrase file {} cannot be read: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("other users can access the passphrase file {path} (mode {mode:03o}); help: `chmod 600 {path}`",
        path = path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("the passphrase from {0} is empty, longer than {MAX_PASSPHRASE_BYTES} bytes, or not UTF-8")]
    Unusable(String),
    #[error("the terminal cannot be read: {0}")]
    Terminal(#[source] io::Error),
    #[error("the two passphrases differ; help: type the same one twice")]
    Differ,
}

impl Passphrases {
    /// Returns the passphrase of an encrypted file.
    ///
    /// # Errors
    /// [`PassphraseFault`] without a passphrase, or if its source cannot be read.
    pub fn of(&self, path: &Path) -> Result<Zeroizing<String>, PassphraseFault> {
        self.get(|| ask(&format!("passphrase of {}: ", path.display())))
    }

    /// Returns a passphrase to encrypt a file with; a terminal asks for it twice.
    ///
    /// # Errors
    /// The errors of [`Passphrases::of`].
    pub fn new_for(&self, path: &Path) -> Result<Zeroizing<String>, PassphraseFault> {
        self.get(|| {
            let first = ask(&format!("new passphrase of {}: ", path.display()))?;
            let second = ask("the same again: ")?;
            if first == second { Ok(first) } else { Err(PassphraseFault::Differ) }
        })
    }

    fn get(
        &self,
        ask: impl FnOnce() -> Result<Zeroizing<String>, PassphraseFault>,
    ) -> Result<Zeroizing<String>, PassphraseFault> {
        if let Some(path) = &self.file {
            return read(path);
        }
        if let Some(command) = &self.command {
            let fail = |fault| PassphraseFault::Command { program: command.program().to_owned(), fault };
            let output = command.output(MAX_PASSPHRASE_BYTES + 2).map_err(fail)?;
            return first_line(&output[..], || format!("`{}`", command.key), PassphraseFault::Terminal);
        }
        match std::env::var(PASSPHRASE_VARIABLE).map(Zeroizing::new) {
            Ok(text) => check(text, || PASSPHRASE_VARIABLE.to_owned()),
            Err(std::env::VarError::NotUnicode(_)) => Err(PassphraseFault::Unusable(PASSPHRASE_VARIABLE.to_owned())),
            Err(std::env::VarError::NotPresent) => ask(),
        }
    }
}

fn check(text: Zeroizing<String>, place: impl Fn() -> String) -> Result<Zeroizing<String>, PassphraseFault> {
    if text.is_empty() || text.len() > MAX_PASSPHRASE_BYTES {
        return Err(PassphraseFault::Unusable(place()));
    }
    Ok(text)
}

fn read(path: &Path) -> Result<Zeroizing<String>, PassphraseFault> {
    let path = &*resolve(path).map_err(|fault| PassphraseFault::Credential { path: path.to_owned(), fault })?;
    let fail = |error| PassphraseFault::File { path: path.to_owned(), error };
    // Checked first, because opening a pipe would wait for a writer.
    let about = fs::metadata(path).map_err(fail)?;
    if !about.is_file() {
        return Err(fail(io::Error::other("it is not a regular file")));
    }
    if is_open(&about) {
        return Err(PassphraseFault::Open { path: path.to_owned(), mode: about.mode() & 0o777 });
    }
    first_line(File::open(path).map_err(fail)?, || path.display().to_string(), fail)
}

/// Reads a line without its line ending.
fn first_line(
    input: impl Read,
    place: impl Fn() -> String,
    fail: impl Fn(io::Error) -> PassphraseFault,
) -> Result<Zeroizing<String>, PassphraseFault> {
    // Never reallocates, so no copy of the passphrase stays behind in freed memory.
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_PASSPHRASE_BYTES + 2));
    let mut input = BufReader::with_capacity(1, input).take(MAX_PASSPHRASE_BYTES as u64 + 2);
    input.read_until(b'\n', &mut line).map_err(fail)?;
    while line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        line.pop();
    }
    match std::str::from_utf8(&line) {
        Ok(text) => check(Zeroizing::new(text.to_owned()), place),
        Err(_) => Err(PassphraseFault::Unusable(place())),
    }
}

/// Asks on the terminal without echoing the input.
fn ask(question: &str) -> Result<Zeroizing<String>, PassphraseFault> {
    let terminal = OpenOptions::new().read(true).write(true).open(TERMINAL).map_err(|_| PassphraseFault::Missing)?;
    if !io::stdin().is_terminal() || !is_in_foreground(&terminal) {
        return Err(PassphraseFault::Missing);
    }
    let fail = PassphraseFault::Terminal;
    (&terminal).write_all(question.as_bytes()).map_err(fail)?;
    let hidden = Hidden::begin(&terminal).map_err(fail)?;
    let line = first_line(&terminal, || "the terminal".to_owned(), fail);
    drop(hidden);
    (&terminal).write_all(b"\n").map_err(fail)?;
    line
}

/// Returns whether this process can read the terminal without being stopped.
fn is_in_foreground(terminal: &File) -> bool {
    // SAFETY: neither function has preconditions; the descriptor is open.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}

/// A terminal with echo turned off. Dropping it restores the terminal.
struct Hidden<'a> {
    terminal: &'a File,
    before: libc::termios,
}

impl Hidden<'_> {
    fn begin(terminal: &File) -> io::Result<Hidden<'_>> {
        // SAFETY: a structure of integers may be zero; the function fills it or fails.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the structure is writable.
        if unsafe { libc::tcgetattr(terminal.as_raw_fd(), &mut settings) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let hidden = Hidden { terminal, before: settings };
        settings.c_lflag &= !libc::ECHO;
        // SAFETY: the descriptor is open and the structure was filled above.
        if unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSAFLUSH, &settings) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(hidden)
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open and the structure is the terminal's own.
        unsafe { libc::tcsetattr(self.terminal.as_raw_fd(), libc::TCSAFLUSH, &self.before) };
    }
}
