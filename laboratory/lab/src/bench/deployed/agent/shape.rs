//! Queueing discipline of a host's interface for the time of a run.
//!
//! A guard removes it: a shell in a session of its own, which waits until the agent closes a pipe. The kernel closes
//! the pipe with the agent, however that ends.

use super::super::check::{SYSTEM_PATH, TC};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The guard. Its argument is the interface.
const GUARD: &str = r#"trap "" HUP INT QUIT TERM; read -r _; exec tc qdisc del dev "$1" root"#;
/// Handle of the disciplines that the kernel sets by itself.
const OF_KERNEL: &str = "0:";

/// A queueing discipline, removed on drop.
pub struct Shape {
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Shape {
    /// Sets the discipline at the root of an interface.
    ///
    /// # Errors
    /// If there is one already that is not the kernel's own, or the user may not set one.
    pub fn set(interface: &str, qdisc: &str) -> Result<Shape, String> {
        let shown = tc(&["qdisc", "show", "dev", interface])?;
        if let Some(own) = foreign(&shown) {
            return Err(format!(
                "the interface {interface} has the queueing discipline `{own}` already; remove it with `tc qdisc del \
                 dev {interface} root`, or leave `qdisc` out"
            ));
        }
        let shape = Shape::guard(interface)?;
        let words: Vec<&str> = ["qdisc", "add", "dev", interface, "root"].into_iter().chain(qdisc.split(' ')).collect();
        tc(&words)?;
        Ok(shape)
    }

    /// Starts the guard, before there is anything to remove.
    fn guard(interface: &str) -> Result<Shape, String> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "sh", interface]).env("PATH", path());
        // Not the agent's outputs, which end the connection only when nobody holds them.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        // SAFETY: only makes a system call between fork and exec.
        unsafe { command.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }) };
        let mut guard =
            command.spawn().map_err(|error| format!("cannot start the guard of the interface {interface}: {error}"))?;
        let pipe = guard.stdin.take();
        Ok(Shape { guard, pipe })
    }
}

impl Drop for Shape {
    fn drop(&mut self) {
        self.pipe = None;
        // The guard cannot be waited for only if somebody else did.
        let _ = self.guard.wait();
    }
}

/// Returns the line of a root discipline that somebody has set, from the output of `tc qdisc show`.
fn foreign(shown: &str) -> Option<&str> {
    let is_foreign = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"root") && words.get(2).is_some_and(|handle| *handle != OF_KERNEL)
    };
    shown.lines().find(is_foreign).map(str::trim)
}

fn tc(words: &[&str]) -> Result<String, String> {
    let output = Command::new(TC).args(words).env("PATH", path()).stdin(Stdio::null()).output();
    let shown = || format!("{TC} {}", words.join(" "));
    let output = output.map_err(|error| format!("`{}` cannot be run: {error}", shown()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("`{}` failed: {}", shown(), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Returns the search path with the directories of such programs.
pub fn path() -> String {
    format!("{}:{SYSTEM_PATH}", std::env::var("PATH").unwrap_or_default())
}
