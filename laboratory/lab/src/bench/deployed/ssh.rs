//! Commands of the client's own `ssh`, and their runs on several hosts at once.

use super::hosts::Host;
use crate::bench::scratch::Offspring;
use crate::partial;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks of running commands.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Time for a connection, including authentication.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of a control socket's path in bytes. The system's limit is 107, and `ssh` appends 17 at first.
const MAX_SOCKET_BYTES: usize = 90;
/// Lines shown from the end of a command's errors.
const SHOWN_LINES: usize = 3;

/// The `ssh` of this machine, with a control socket for each host.
pub struct Ssh {
    directory: PathBuf,
}

impl Ssh {
    /// Keeps sockets and outputs in `directory`.
    ///
    /// # Errors
    /// If its path is too long for a socket.
    pub fn new(directory: &Path) -> io::Result<Ssh> {
        let ssh = Ssh { directory: directory.to_owned() };
        let bytes = ssh.socket(9_999).as_os_str().len();
        if bytes > MAX_SOCKET_BYTES {
            let what = format!("its path is too long for a socket ({bytes} bytes); set TMPDIR to a shorter one");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(ssh)
    }

    /// Returns the control socket of the host with this number.
    pub fn socket(&self, host: usize) -> PathBuf {
        self.directory.join(format!("s{host}"))
    }

    /// Returns a file for the output of a host's command.
    pub fn file(&self, host: usize, what: &str) -> PathBuf {
        self.directory.join(format!("{what}{host}"))
    }

    /// Returns the options of each call, up to the destination.
    pub fn arguments(&self, number: usize, host: &Host) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |text: String| words.extend(["-o".to_owned(), text]);
        option("BatchMode=yes".to_owned());
        option(format!("ConnectTimeout={}", CONNECT_TIMEOUT.as_secs()));
        option("ServerAliveInterval=5".to_owned());
        option("ServerAliveCountMax=3".to_owned());
        option(format!("ControlPath={}", self.socket(number).display()));
        option("ControlPersist=no".to_owned());
        host.options.iter().cloned().for_each(&mut option);
        if let Some(port) = host.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = &host.user {
            words.extend(["-l".to_owned(), user.clone()]);
        }
        words
    }

    /// Returns the command of a host's master connection, which the other commands share.
    pub fn master(&self, number: usize, host: &Host) -> Command {
        let mut command = self.command();
        command.args(["-M", "-N", "-T"]).args(self.arguments(number, host)).arg("--").arg(&host.ssh);
        command
    }

    /// Returns a command that runs `remote` in the user's login shell on the host.
    pub fn run(&self, number: usize, host: &Host, remote: &str) -> Command {
        let mut command = self.command();
        command.args(["-T", "-o", "ControlMaster=no"]).args(self.arguments(number, host));
        command.arg("--").arg(&host.ssh).arg(remote);
        command
    }

    /// Returns the program in a process group of its own: a terminal sends its signals to whole groups, and the hosts
    /// need their connections for an orderly end.
    fn command(&self) -> Command {
        let mut command = Command::new("ssh");
        command.process_group(0).stdin(Stdio::null());
        command
    }
}

/// A command on a host, and its outputs.
pub struct Job {
    /// Number of the host.
    pub host: usize,
    pub command: Command,
    /// File for its standard output.
    pub out: PathBuf,
}

/// End of a [`Job`].
pub enum Ended {
    /// It ended with this status.
    With(ExitStatus),
    /// It was still running after its time, and was killed.
    Late(Duration),
}

/// A finished job.
pub struct Done {
    pub host: usize,
    pub ended: Ended,
    /// The end of its standard error, on one line.
    pub said: String,
}

impl Done {
    /// Returns the reason why the job failed; `None` if it succeeded.
    pub fn failure(&self) -> Option<String> {
        match &self.ended {
            Ended::With(status) if status.success() => None,
            Ended::With(status) if self.said.is_empty() => Some(status.to_string()),
            Ended::With(_) => Some(self.said.clone()),
            Ended::Late(limit) => Some(format!("no answer within {} s", limit.as_secs())),
        }
    }
}

/// Runs jobs at the same time, each at most for `limit`. Returns `None` if a signal ended the program's run.
///
/// # Errors
/// If `ssh` cannot be started, or a file for its outputs cannot be created.
pub fn run_all(jobs: Vec<Job>, limit: Duration) -> io::Result<Option<Vec<Done>>> {
    let mut running = Vec::new();
    for mut job in jobs {
        let errors = job.out.with_extension("err");
        job.command.stdout(File::create(&job.out)?).stderr(File::create(&errors)?);
        running.push((job.host, errors, start(&mut job.command)?));
    }
    let (mut done, begun) = (Vec::new(), Instant::now());
    while !running.is_empty() {
        if !partial::goes_on() {
            return Ok(None);
        }
        let mut left = Vec::new();
        for (host, errors, mut child) in running {
            let ended = match child.try_wait()? {
                Some(status) => Ended::With(status),
                None if begun.elapsed() > limit => {
                    child.kill()?;
                    Ended::Late(limit)
                }
                None => {
                    left.push((host, errors, child));
                    continue;
                }
            };
            done.push(Done { host, ended, said: last_lines(&errors) });
        }
        running = left;
        thread::sleep(LOOK_INTERVAL);
    }
    done.sort_by_key(|done| done.host);
    Ok(Some(done))
}

/// Starts `ssh`.
///
/// # Errors
/// If there is none, with the remedy.
pub fn start(command: &mut Command) -> io::Result<Offspring> {
    Offspring::spawn(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(error.kind(), "there is no `ssh` here; install OpenSSH's client"),
        _ => error,
    })
}

/// Returns the end of a file, on one line.
pub fn last_lines(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("; ")
}
