//! Clusters of real processes, and faults that their replicas are started with.

use super::prometheus::page;
use crate::common::disks::mount_memory;
use crate::common::{free_ports, heeding_signals, quorate, signal, succeeds, text, wait_until};
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const REPLICAS: usize = 4;

pub fn within(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().expect("a test's path is UTF-8").to_owned()
}

/// Child process that is killed on drop.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cluster of four replicas, which is one scrape job.
pub struct Cluster {
    /// Name of the scrape job.
    pub job: &'static str,
    pub targets: Vec<SocketAddr>,
    net: String,
    replicas: Vec<Option<Killed>>,
    clients: Vec<Killed>,
}

impl Cluster {
    /// Writes a cluster with these flags of `testnet`; `vary` changes the configuration of each replica.
    pub fn written(directory: &Path, job: &'static str, flags: &[&str], vary: impl Fn(&mut NodeConfig)) -> Cluster {
        let (net, ports) = (within(directory, job), free_ports().to_string());
        succeeds(&[&["testnet", "--dir", &net, "--base-port", &ports], flags].concat());
        let mut cluster = Cluster {
            job,
            targets: Vec::new(),
            net,
            replicas: (0..REPLICAS).map(|_| None).collect(),
            clients: Vec::new(),
        };
        for replica in 0..REPLICAS {
            let config = cluster.configure(replica, &vary);
            let target = config.monitoring.address.and_then(|address| address.socket()).expect("testnet sets it");
            cluster.targets.push(target);
        }
        cluster
    }

    /// Changes the configuration of a replica.
    pub fn configure(&self, replica: usize, vary: impl Fn(&mut NodeConfig)) -> NodeConfig {
        let path = self.home(replica).join(CONFIG_FILE);
        let mut config = NodeConfig::read(&path).expect("it was written by testnet");
        vary(&mut config);
        fs::write(&path, config.to_toml()).expect("its settings");
        config
    }

    /// Moves the directory of a replica that does not run to a disk of this size.
    pub fn move_to_disk(&self, replica: usize, bytes: u64) {
        let (home, moved) = (self.home(replica), Path::new(&self.net).join(format!("moved-{replica}")));
        fs::rename(&home, &moved).expect("it can be moved");
        fs::create_dir(&home).expect("a place for the disk");
        mount_memory(&home, bytes);
        for entry in fs::read_dir(&moved).expect("its home").flatten() {
            fs::copy(entry.path(), home.join(entry.file_name())).expect("it moves to the disk");
        }
    }

    pub fn home(&self, replica: usize) -> PathBuf {
        Path::new(&self.net).join(format!("replica-{replica}"))
    }

    pub fn start(&mut self, replicas: impl IntoIterator<Item = usize>) {
        for replica in replicas {
            self.start_with(replica, env!("CARGO_BIN_EXE_quorate"), &[]);
        }
    }

    /// Starts a replica with this program and these environment variables.
    pub fn start_with(&mut self, replica: usize, program: &str, environment: &[(&str, &str)]) {
        let log = fs::File::options().create(true).append(true).open(self.home(replica).join("log")).expect("a log");
        let mut command = heeding_signals(program);
        command.args(["node", "--dir"]).arg(self.home(replica)).envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.replicas[replica] = Some(Killed(command.spawn().expect("a replica starts")));
    }

    pub fn kill(&mut self, replica: usize) {
        assert!(self.replicas[replica].take().is_some(), "replica {replica} runs");
    }

    /// Stops a replica in order.
    pub fn stop(&mut self, replica: usize) {
        let mut process = self.replicas[replica].take().expect("it runs");
        signal(process.0.id(), libc::SIGTERM);
        process.0.wait().expect("it ends");
    }

    /// Returns the process id of a replica.
    pub fn process(&self, replica: usize) -> u32 {
        self.replicas[replica].as_ref().expect("it runs").0.id()
    }

    pub fn log(&self, replica: usize) -> String {
        fs::read_to_string(self.home(replica).join("log")).unwrap_or_default()
    }

    /// Runs a client's command in the background.
    pub fn client(&mut self, arguments: &[&str]) {
        let log = fs::File::create(Path::new(&self.net).join("client.log")).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["client", "--dir", &self.net, "--timeout", "10m"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.clients.push(Killed(command.spawn().expect("a client starts")));
    }

    /// Writes a key, and returns once that is acknowledged.
    pub fn put(&self, key: &str) {
        let output = quorate(&["client", "--dir", &self.net, "--timeout", "2m", "put", key, "value"]);
        assert!(output.status.success(), "{}: {}", self.job, text(&output.stderr));
    }

    /// Writes a key with a value of this many bytes, and returns once that is acknowledged.
    pub fn put_large(&self, key: &str, bytes: usize) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["client", "--dir", &self.net, "--timeout", "2m", "put", key]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut client = command.spawn().expect("a client starts");
        client.stdin.take().expect("a pipe").write_all(&vec![b'v'; bytes]).expect("it reads");
        let output = client.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}: {}", self.job, text(&output.stderr));
    }

    /// Returns the value of a metric without labels; `None` if the replica does not answer or does not have it.
    pub fn metric(&self, replica: usize, name: &str) -> Option<f64> {
        let (_, body) = page(self.targets[replica], "/metrics")?;
        body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    pub fn wait_for_metric(&self, replica: usize, name: &str, is_reached: impl Fn(f64) -> bool) {
        let what = format!("{name} of replica {replica} of {}", self.job);
        wait_until(&what, || self.metric(replica, name).is_some_and(&is_reached));
    }

    pub fn wait_until_ready(&self, replicas: impl IntoIterator<Item = usize>) {
        replicas.into_iter().for_each(|replica| self.wait_for_metric(replica, "quorate_ready", |ready| ready == 1.0));
    }
}

/// Milliseconds by which [`slowed`] delays each write of a file.
pub const WRITE_DELAY: &str = "QUORATE_TEST_WRITE_DELAY_MS";
/// Seconds by which [`slowed`] sets the wall clock ahead.
pub const CLOCK_AHEAD: &str = "QUORATE_TEST_CLOCK_AHEAD_S";

/// Compiles a library that, preloaded, makes a process' disk slow or its wall clock wrong, and returns its path.
pub fn faulty_machine(directory: &Path) -> String {
    const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long setting(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

static void wait_for_disk(void) {
    long ms = setting("QUORATE_TEST_WRITE_DELAY_MS");
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    wait_for_disk();
    return syscall(SYS_pwrite64, file, bytes, count, at);
}

int fdatasync(int file) {
    wait_for_disk();
    return syscall(SYS_fdatasync, file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += setting("QUORATE_TEST_CLOCK_AHEAD_S");
    return result;
}
"#;
    let (source, library) = (within(directory, "machine.c"), within(directory, "machine.so"));
    fs::write(&source, SOURCE).expect("a file");
    let compiled = Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o", &library, &source]).output();
    let compiled = compiled.expect("there is a C compiler");
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    library
}

/// Copies the program with another version, as a stand-in for another release.
pub fn other_release(directory: &Path) -> String {
    let path = within(directory, "other-release");
    fs::copy(env!("CARGO_BIN_EXE_quorate"), &path).expect("the program can be copied");
    // A processor's instructions may store a short text in pieces of four bytes.
    let (piece, _) = env!("CARGO_PKG_VERSION").split_at(4);
    let changed = format!("s/{}/9{}/g", piece.replace('.', "\\."), &piece[1..]);
    let edited = Command::new("sed").env("LC_ALL", "C").args(["-i", &changed, &path]).status().expect("there is sed");
    assert!(edited.success());
    path
}
