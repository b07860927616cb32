//! `quorate lab run --on slurm` with a real Slurm: a controller and a daemon on this machine, authenticated by munge.
//! Needs root and the Debian packages slurm-wlm and munge: `cargo test -p quorate-cli -- --ignored slurm::privileged`.

use crate::common::*;
use crate::sweeps::{completed, experiment, files, missing};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// Bytes of the key that munge shares.
const KEY_BYTES: u8 = 128;

/// Daemons of Slurm, which end with this value.
struct Slurm {
    scratch: Scratch,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Jobs that are left, before the daemon that knows them.
        let _ = self.command("scancel").args(["--signal=KILL", "--full", "--user=root"]).output();
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Slurm {
    fn start() -> Slurm {
        let scratch = Scratch::new("slurm");
        for directory in ["state", "spool"] {
            fs::create_dir(scratch.0.join(directory)).expect("created");
        }
        let key = scratch.0.join("munge.key");
        fs::write(&key, (0..KEY_BYTES).collect::<Vec<u8>>()).expect("written");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
        fs::write(scratch.0.join("slurm.conf"), config(&scratch)).expect("written");
        let mut slurm = Slurm { scratch, daemons: Vec::new() };
        let path = |name: &str| format!("--{name}-file={}", slurm.scratch.path(&format!("munge.{name}")));
        let socket = slurm.scratch.path("munge.socket");
        // Any directory above may be writable by others here, which munge would refuse.
        let mut munged = vec!["--foreground".to_owned(), "--force".to_owned(), format!("--socket={socket}")];
        munged.extend(["key", "pid", "log", "seed"].map(path));
        slurm.daemon("munged", &munged);
        wait_until("munge has its socket", || Path::new(&socket).exists());
        slurm.daemon("slurmctld", &["-D".to_owned()]);
        slurm.daemon("slurmd", &["-D".to_owned()]);
        wait_until("the node is idle", || slurm.said("sinfo", &["--noheader", "--format=%T"]).trim() == "idle");
        slurm
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.scratch.0.join("slurm.conf")).stdin(Stdio::null());
        command
    }

    fn daemon(&mut self, program: &str, arguments: &[String]) {
        let log = File::create(self.scratch.path(&format!("{program}.out"))).expect("created");
        let place = Path::new("/usr/sbin").join(program);
        let mut command = self.command(place.to_str().expect("UTF-8"));
        command.args(arguments).stdout(log.try_clone().expect("a descriptor")).stderr(log);
        self.daemons
            .push(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; install slurm-wlm, munge")));
    }

    fn said(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().expect("it is installed");
        text(&output.stdout)
    }

    /// Submits a sweep as an array of two jobs, and returns the number of the array.
    fn submit(&self, file: &str, dir: &str) -> String {
        let mut command = self.command(env!("CARGO_BIN_EXE_quorate"));
        let output = command.args(["lab", "run", file, "--dir", dir, "--on", "slurm:2"]).output().expect("it runs");
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let number = said.strip_prefix("Submitted batch job ").and_then(|rest| rest.split(':').next());
        number.unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    /// Returns the tasks of an array that are waiting or running, with their states.
    fn tasks(&self, array: &str) -> Vec<String> {
        let said = self.said("squeue", &["--noheader", "--array", "--format=%i %T", "--jobs", array]);
        said.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn has_ended(&self, task: &str) -> bool {
        !self.tasks(task.split('_').next().expect("an array")).iter().any(|line| line.starts_with(task))
    }
}

fn config(scratch: &Scratch) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("it has a name");
    let host = host.trim().split('.').next().expect("a name").to_owned();
    let sockets: Vec<TcpListener> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<u16> = sockets.iter().map(|socket| socket.local_addr().expect("an address").port()).collect();
    let path = |name: &str| scratch.path(name);
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmdPort={}\nSlurmUser=root\n\
         SlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={}\nStateSaveLocation={}\nSlurmdSpoolDir={}\n\
         SlurmctldPidFile={}\nSlurmdPidFile={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
         SchedulerType=sched/builtin\nMpiDefault=none\nReturnToService=2\nKillWait=2\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
         PartitionName=all Nodes={host} Default=YES State=UP\n",
        ports[0],
        ports[1],
        path("munge.socket"),
        path("state"),
        path("spool"),
        path("ctld.pid"),
        path("slurmd.pid"),
    )
}

fn rows(dir: &str) -> Vec<(PathBuf, SystemTime)> {
    let written = |path: &PathBuf| fs::metadata(path).and_then(|about| about.modified()).expect("it is there");
    files(dir, "cells", "json").into_iter().map(|path| (path.clone(), written(&path))).collect()
}

/// One job is killed and the other one cancelled, as at the end of its time. A second array completes the rest.
#[test]
#[ignore = "needs root and Slurm"]
fn privileged_a_second_array_of_jobs_completes_exactly_the_missing_runs() {
    let slurm = Slurm::start();
    let (file, dir) = (experiment(&slurm.scratch, "", ""), slurm.scratch.path("dir"));
    let array = slurm.submit(&file, &dir);
    wait_until("both jobs run, and a run is completed", || {
        slurm.tasks(&array).iter().filter(|line| line.ends_with("RUNNING")).count() == 2 && !rows(&dir).is_empty()
    });
    let (first, second) = (format!("{array}_1"), format!("{array}_2"));
    slurm.said("scancel", &["--signal=KILL", "--full", &first]);
    wait_until("the killed job has ended", || slurm.has_ended(&first));
    let before = rows(&dir).len();
    wait_until("the other job goes on", || rows(&dir).len() > before);
    slurm.said("scancel", &[&second]);
    wait_until("the cancelled job has ended", || slurm.has_ended(&second));
    let (present, lacking) = (rows(&dir), missing(&file, &dir));
    assert!(lacking > 0, "the jobs were too fast to be interrupted");
    let again = slurm.submit(&file, &dir);
    wait_until("the second array has ended", || slurm.tasks(&again).is_empty());
    assert_eq!(missing(&file, &dir), 0);
    let log = |task: usize| fs::read_to_string(format!("{dir}/jobs/{again}-{task}.log")).expect("Slurm writes it");
    let made: Vec<String> = (1..=2).flat_map(|task| completed(&log(task))).collect();
    assert_eq!((made.len(), made.iter().collect::<BTreeSet<_>>().len()), (lacking, lacking), "{made:?}");
    let now = rows(&dir);
    assert!(present.iter().all(|row| now.contains(row)), "a run that was there was made again");
}
