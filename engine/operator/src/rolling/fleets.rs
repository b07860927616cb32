//! The fleets of `quorate restart`: replicas as processes of this host, and replicas behind an operator's commands.

use super::{Fleet, Reading, Trouble};
use crate::replicas::StatusReader;
use quorate_node::config::CONFIG_FILE;
use quorate_node::testnet::replica_directory;
use quorate_node::{JournalKind, NodeConfig};
use quorate_storage::holder;
use quorate_types::ReplicaId;
use quorate_types::text::{escaped, quote};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// File in a replica's directory to which a replica started here logs.
pub const LOG_FILE: &str = "log";
/// Time for a process to end after SIGTERM. Then it is left alone: its disk may hang, which SIGKILL does not end.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between two looks at a process that ends.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Maximum time for all replicas' answers.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the end of a log that is read, in bytes.
const LOG_TAIL_BYTES: u64 = 4 << 10;

/// Stops and starts one replica at a time.
pub trait Supervisor {
    /// As [`Fleet::stop`].
    ///
    /// # Errors
    /// If the replica cannot be stopped.
    fn stop(&mut self, replica: ReplicaId) -> Result<(), Trouble>;

    /// As [`Fleet::start`].
    ///
    /// # Errors
    /// If the replica cannot be started.
    fn start(&mut self, replica: ReplicaId) -> Result<(), Trouble>;

    /// As [`Fleet::failure`].
    fn failure(&mut self, _replica: ReplicaId) -> Option<String> {
        None
    }
}

/// A fleet whose statuses are read over the network, as `quorate status` does.
pub struct Reached<'a> {
    pub reader: StatusReader,
    pub supervisor: &'a mut dyn Supervisor,
}

impl Fleet for Reached<'_> {
    fn read(&mut self) -> Result<Reading, Trouble> {
        Ok(self.reader.answers(READ_TIMEOUT)?)
    }

    fn stop(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        self.supervisor.stop(replica)
    }

    fn start(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        self.supervisor.start(replica)
    }

    fn failure(&mut self, replica: ReplicaId) -> Option<String> {
        self.supervisor.failure(replica)
    }
}

/// Replicas as processes of this host and this user, each from its directory in the testnet's directory. A restarted
/// replica keeps the flags of its former process, and logs to [`LOG_FILE`] in its directory.
pub struct Processes {
    testnet: PathBuf,
    program: PathBuf,
    /// Name of the command that runs a replica.
    run: &'static str,
    /// Flags of stopped processes.
    flags: BTreeMap<ReplicaId, Vec<String>>,
    children: BTreeMap<ReplicaId, Child>,
}

impl Processes {
    /// Creates a supervisor that starts replicas with `program`, whose command `run` runs one.
    pub fn new(testnet: &Path, program: PathBuf, run: &'static str) -> Processes {
        Processes { testnet: testnet.to_owned(), program, run, flags: BTreeMap::new(), children: BTreeMap::new() }
    }

    fn home(&self, replica: ReplicaId) -> PathBuf {
        replica_directory(&self.testnet, replica)
    }

    /// Returns the directory of a replica's journal.
    fn journal(&self, replica: ReplicaId) -> Result<PathBuf, Trouble> {
        let home = self.home(replica);
        let config = NodeConfig::read(&home.join(CONFIG_FILE))?;
        match config.journal.kind {
            JournalKind::File => Ok(home.join(&config.journal.directory)),
            JournalKind::Memory => {
                Err("its journal is in memory, and a restart would lose it; help: set `kind = \"file\"`".into())
            }
        }
    }
}

impl Supervisor for Processes {
    fn stop(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        let journal = self.journal(replica)?;
        let Some(process) = holder(&journal) else {
            return Err(format!(
                "no process of this host has {} open; help: if it runs elsewhere, use --restart-command",
                journal.display()
            )
            .into());
        };
        self.flags.insert(replica, flags(process));
        // SAFETY: takes integers. The process has the journal open, so its id is not another's.
        if unsafe { libc::kill(process as libc::pid_t, libc::SIGTERM) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(format!("process {process}: {error}; help: run this as the replica's user").into());
        }
        let begun = Instant::now();
        // The lock ends with the process, even if nobody waits for it.
        while holder(&journal) == Some(process) {
            if begun.elapsed() >= STOP_TIMEOUT {
                let seconds = STOP_TIMEOUT.as_secs();
                return Err(format!("process {process} has not ended {seconds} s after SIGTERM").into());
            }
            std::thread::sleep(STOP_POLL);
        }
        if let Some(mut child) = self.children.remove(&replica) {
            child.wait()?;
        }
        Ok(())
    }

    fn start(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        let home = self.home(replica);
        let path = home.join(LOG_FILE);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let mut command = Command::new(&self.program);
        command.arg(self.run).arg("--dir").arg(&home);
        command.args(self.flags.get(&replica).into_iter().flatten());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // A signal from the terminal is for this process alone.
        command.process_group(0);
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?;
        self.children.insert(replica, child);
        Ok(())
    }

    fn failure(&mut self, replica: ReplicaId) -> Option<String> {
        let ended = self.children.get_mut(&replica)?.try_wait().ok()??;
        let path = self.home(replica).join(LOG_FILE);
        let last = last_line(&path).map_or_else(String::new, |line| format!(": {}", escaped(&line)));
        Some(format!("has ended with {ended}{last}"))
    }
}

/// Returns the flags of a process that runs a replica, except its directory and `--first-start`.
fn flags(process: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    kept_flags(&words)
}

/// Returns the flags in the words of a command line `PROGRAM run --dir DIR ..` that a restarted replica keeps.
pub fn kept_flags(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = words.iter().skip(2).filter(|word| !word.is_empty());
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--dir" => drop(rest.next()),
            "--first-start" => {}
            other if other.starts_with("--dir=") => {}
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// Returns the last line of a log that is not empty.
fn last_line(path: &Path) -> Option<String> {
    let mut log = File::open(path).ok()?;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    log.take(LOG_TAIL_BYTES).read_to_end(&mut tail).ok()?;
    String::from_utf8_lossy(&tail).lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// Commands of the operator, run by `sh`. In each, `{id}` is the replica's number, `{dir}` its directory in the
/// testnet's, and `{host}` the host of its address.
pub struct Commands {
    pub testnet: PathBuf,
    /// Hosts by replica.
    pub hosts: Vec<String>,
    /// `None` if `start` also stops the replica.
    pub stop: Option<String>,
    pub start: String,
}

impl Commands {
    fn run(&self, command: &str, replica: ReplicaId) -> Result<(), Trouble> {
        let command = self.fill(command, replica);
        // Its output is for the operator, and standard output is for results.
        let output = Command::new("sh").arg("-c").arg(&command).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("`{command}` ended with {}: {}", output.status, escaped(said.trim())).into()),
        }
    }

    /// Returns a command for a replica.
    pub fn fill(&self, command: &str, replica: ReplicaId) -> String {
        let directory = quote(&replica_directory(&self.testnet, replica).display().to_string());
        let host = self.hosts.get(replica.index()).map_or_else(String::new, |host| quote(host));
        command.replace("{id}", &replica.to_string()).replace("{dir}", &directory).replace("{host}", &host)
    }
}

impl Supervisor for Commands {
    fn stop(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        self.stop.as_ref().map_or(Ok(()), |command| self.run(command, replica))
    }

    fn start(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        self.run(&self.start, replica)
    }
}
