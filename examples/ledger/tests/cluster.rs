//! The ledger as processes: four replicas, one of which is killed, and clients that receive typed refusals.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Time after which an unanswered call counts as hung, generous for busy machines.
const HANG: Duration = Duration::from_secs(60);

struct Replicas {
    directory: PathBuf,
    children: Vec<Child>,
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Ignore errors: it may have already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn ledger(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ledger")).args(arguments).output().expect("the program runs")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn path(directory: &Path) -> &str {
    directory.to_str().expect("a path in UTF-8")
}

/// Repeats a call until it succeeds, since replicas take a moment to start.
fn eventually(arguments: &[&str]) -> String {
    let start = Instant::now();
    loop {
        let output = ledger(arguments);
        if output.status.success() {
            return printed(&output);
        }
        assert!(start.elapsed() < HANG, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_ledger_survives_the_loss_of_a_replica() {
    let directory = std::env::temp_dir().join(format!("quorate-ledger-{}", std::process::id()));
    let mut replicas = Replicas { directory, children: Vec::new() };
    let net = replicas.directory.clone();
    let written = ledger(&["new", path(&net)]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert_eq!(printed(&written).lines().count(), 4);
    for replica in 0..4 {
        let home = net.join(format!("replica-{replica}"));
        let mut start = Command::new(env!("CARGO_BIN_EXE_ledger"));
        start.args(["replica", path(&home)]).stdout(Stdio::null()).stderr(Stdio::null());
        replicas.children.push(start.spawn().expect("the program runs"));
    }
    assert_eq!(eventually(&["deposit", path(&net), "ada", "100"]), "100 after this entry");
    assert_eq!(eventually(&["transfer", path(&net), "ada", "bob", "30"]), "30 after this entry");
    replicas.children[0].kill().expect("it runs");
    assert_eq!(eventually(&["deposit", path(&net), "bob", "1"]), "31 after this entry");
    let refused = ledger(&["transfer", path(&net), "ada", "bob", "71"]);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("the balance is only 70"), "{text}");
    let expired = ledger(&["transfer", path(&net), "ada", "bob", "1", "1000"]);
    let text = String::from_utf8_lossy(&expired.stderr).into_owned();
    assert!(!expired.status.success() && text.contains("the transfer expired"), "{text}");
    let in_time = (SystemTime::now() + HANG).duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
    assert_eq!(eventually(&["transfer", path(&net), "ada", "bob", "1", &in_time.to_string()]), "32 after this entry");
    assert_eq!(eventually(&["balance", path(&net), "ada"]), "69");
}
