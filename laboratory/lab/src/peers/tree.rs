//! The processes that a peer's script starts, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Time for processes to end after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between checks of the processes.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum length of a process's name that Linux keeps.
const NAME_BYTES: usize = 15;

/// A process below this one.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    pub id: i32,
    /// Name of the program, which Linux cuts.
    pub name: String,
    parent: i32,
    /// CPU time since its start.
    pub cpu: Duration,
}

impl Member {
    /// Parses `/proc/ID/stat`; `None` if it is not as documented in proc(5).
    pub fn parse(stat: &str, ticks_per_second: f64) -> Option<Member> {
        // The name may contain spaces and parentheses.
        let (id, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        Some(Member {
            id: id.parse().ok()?,
            name: name.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            cpu: Duration::from_secs_f64(ticks / ticks_per_second),
        })
    }

    /// Returns whether the process runs a program.
    pub fn runs(&self, program: &str) -> bool {
        let cut: String = program.chars().take(NAME_BYTES).collect();
        self.name == cut
    }
}

/// Makes this process the parent of processes whose parents end, so that none leaves its tree.
pub fn adopt() -> io::Result<()> {
    // SAFETY: takes and returns numbers.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the processes below this one.
pub fn members() -> Vec<Member> {
    // SAFETY: takes and returns numbers.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    let mut all: BTreeMap<i32, Member> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // A process may end in between.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(member) = Member::parse(&stat, ticks_per_second) {
            all.insert(member.id, member);
        }
    }
    let this = std::process::id() as i32;
    let is_below = |member: &Member| {
        let mut parent = member.parent;
        // No chain is longer than the number of processes.
        for _ in 0..all.len() {
            if parent == this {
                return true;
            }
            match all.get(&parent) {
                Some(above) => parent = above.parent,
                None => return false,
            }
        }
        false
    };
    all.values().filter(|member| is_below(member)).cloned().collect()
}

/// Sends a signal to a process below this one.
pub fn signal(member: &Member, signal: i32) {
    // SAFETY: sends a signal. This process reaps the members, and only in `end`, so the id is not reused.
    unsafe { libc::kill(member.id, signal) };
}

/// Ends all processes below this one, and waits for them.
pub fn end() {
    let (since, mut is_asked) = (Instant::now(), false);
    loop {
        reap();
        let left = members();
        if left.is_empty() {
            return;
        }
        if since.elapsed() >= END_TIMEOUT {
            left.iter().for_each(|member| signal(member, libc::SIGKILL));
        } else if !is_asked {
            left.iter().for_each(|member| signal(member, libc::SIGTERM));
            is_asked = true;
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

fn reap() {
    // SAFETY: waits for children that have ended, without their status.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}
