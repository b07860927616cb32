//! Secrets from the standard output of a command, such as the client of a key management service.

use quorate_types::text::escaped;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;
use zeroize::Zeroizing;

/// Maximum bytes of a failed command's standard error in an error; the rest is dropped.
const MAX_STDERR_BYTES: usize = 1024;
/// Interval at which a command that has closed its outputs is checked for its end.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A command that writes a secret to its standard output. No shell runs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretCommand {
    /// The configuration key that names the command, for errors.
    pub key: &'static str,
    /// The program, by its path or a name in `PATH`, and its arguments. Not empty.
    pub words: Vec<String>,
    /// Maximum duration of the command, after which it is killed.
    pub timeout: Duration,
}

/// Reason why a command has provided no secret. None quotes its standard output.
#[derive(Debug, Error)]
pub enum CommandFault {
    #[error("it cannot be started: {0}; help: name a program that this user may run, by its path or by a name in PATH")]
    Start(#[source] io::Error),
    #[error("its output cannot be read: {0}; help: run it by hand as this user")]
    Read(#[source] io::Error),
    #[error(
        "it took longer than {} ms and was killed; help: run it by hand as this user, or raise \
         `secret_command_timeout_ms`",
        .0.as_millis()
    )]
    Timeout(Duration),
    #[error("it wrote more than {0} bytes; help: have it write the secret and nothing else to its standard output")]
    TooLong(usize),
    /// The status, and the beginning of its standard error.
    #[error("it ended with {0}{said}; help: run it by hand as this user", said = quoted(.1))]
    Failed(ExitStatus, String),
}

fn quoted(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(" and wrote to its standard error: {stderr}") }
}

impl SecretCommand {
    /// Returns the program without its arguments, which may be secret.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Runs the command with the environment of this process and no input, and returns at most `most` bytes of its
    /// standard output.
    ///
    /// # Errors
    /// [`CommandFault`] if it cannot be run, fails, takes too long or writes more. It no longer runs then.
    pub(super) fn output(&self, most: usize) -> Result<Zeroizing<Vec<u8>>, CommandFault> {
        let deadline = Instant::now() + self.timeout;
        let mut command = Command::new(self.program());
        command.args(self.words.iter().skip(1)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that a timeout kills the programs that it has started too.
        let mut group = Group { child: command.process_group(0).spawn().map_err(CommandFault::Start)?, ended: false };
        let mut stdout = Stream::new(group.child.stdout.take().expect("it is piped"), most + 1);
        let mut stderr = Stream::new(group.child.stderr.take().expect("it is piped"), MAX_STDERR_BYTES);
        while stdout.is_open || stderr.is_open {
            let readable = wait([stdout.descriptor(), stderr.descriptor()], deadline).map_err(CommandFault::Read)?;
            if readable == [false; 2] {
                return Err(CommandFault::Timeout(self.timeout));
            }
            if readable[0] {
                stdout.read().map_err(CommandFault::Read)?;
            }
            if readable[1] {
                stderr.read().map_err(CommandFault::Read)?;
            }
            if stdout.filled > most {
                return Err(CommandFault::TooLong(most));
            }
        }
        let status = loop {
            match group.child.try_wait().map_err(CommandFault::Read)? {
                Some(status) => break status,
                None if Instant::now() >= deadline => return Err(CommandFault::Timeout(self.timeout)),
                None => std::thread::sleep(EXIT_POLL),
            }
        };
        group.ended = true;
        if !status.success() {
            let text = String::from_utf8_lossy(stderr.taken()).trim().to_owned();
            return Err(CommandFault::Failed(status, escaped(&text).into_owned()));
        }
        stdout.bytes.truncate(stdout.filled);
        Ok(stdout.bytes)
    }
}

/// The processes of a command. Dropping it kills them unless the command has ended.
struct Group {
    child: Child,
    ended: bool,
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: it takes no pointer. The command has not been waited for, so its group is still its own.
            unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// An output of a command. Bytes beyond the buffer are read and dropped.
struct Stream<R> {
    source: R,
    /// Never reallocates, so no copy of the secret stays behind in freed memory.
    bytes: Zeroizing<Vec<u8>>,
    filled: usize,
    is_open: bool,
}

impl<R: Read + AsRawFd> Stream<R> {
    fn new(source: R, most: usize) -> Stream<R> {
        Stream { source, bytes: Zeroizing::new(vec![0; most]), filled: 0, is_open: true }
    }

    fn taken(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Returns the descriptor to wait for; -1 if it is closed.
    fn descriptor(&self) -> RawFd {
        if self.is_open { self.source.as_raw_fd() } else { -1 }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut dropped = Zeroizing::new([0; 256]);
        let is_dropped = self.filled == self.bytes.len();
        let into = if is_dropped { &mut dropped[..] } else { &mut self.bytes[self.filled..] };
        match self.source.read(into) {
            Ok(0) => self.is_open = false,
            Ok(count) if !is_dropped => self.filled += count,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Waits until descriptors can be read, and returns which; none after the deadline.
fn wait(descriptors: [RawFd; 2], deadline: Instant) -> io::Result<[bool; 2]> {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok([false; 2]);
        }
        let timeout_ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1);
        // SAFETY: the array is valid for its length during the call.
        match unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) } {
            0 => {}
            1.. => return Ok(polled.map(|polled| polled.revents != 0)),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
