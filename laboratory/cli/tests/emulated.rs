//! `quorate bench --host emulated`. Most of these tests need root: `cargo test -p quorate-cli -- --ignored privileged`.

use crate::common::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[test]
fn without_rights_there_is_one_error_with_the_alternative() {
    let mut command = quorate_heeding_signals();
    command.args(["bench", "--host", "emulated", "--network", "wan4"]);
    /// Number of the capability to create namespaces, `CAP_SYS_ADMIN`.
    const RIGHT: libc::c_ulong = 21;
    // SAFETY: makes one system call between fork and exec, which fails harmlessly without the capability.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_CAPBSET_DROP, RIGHT, 0, 0, 0);
            Ok(())
        })
    };
    let output = command.output().expect("the binary runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("error: --host emulated: cannot create a network namespace: Operation not permitted"),
        "{said}"
    );
    assert!(said.contains("help: run it as root") && said.contains("quorate sim --network wan4"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(output.stdout.is_empty());
}

/// Runs emulated networks one at a time: next to another one, packet times depend on the machine's load.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the emulators available on this host. If netem is missing, prints the reason.
fn emulators() -> Vec<&'static str> {
    let output = quorate(&[SHORT, &["--network", "lan", "--emulator", "netem"]].concat());
    let said = text(&output.stderr);
    let lacks = said.lines().find(|line| line.contains("cannot use the kernel's netem: the kernel does not "));
    if let Some(line) = lacks {
        println!("netem is skipped: {line}");
        assert!(line.ends_with("sch_netem and cls_u32, or set --emulator router"), "{line}");
        assert_eq!(output.status.code(), Some(1), "{said}");
        return vec!["router"];
    }
    assert!(output.status.success(), "{said}");
    vec!["router", "netem"]
}

#[test]
#[ignore = "needs root"]
fn privileged_what_netem_cannot_do_needs_the_router() {
    let _alone = alone();
    let scratch = Scratch::new("emulated-netem");
    let network = scratch.0.join("errors.toml");
    fs::write(&network, "packets = { bit_error_rate = 1e-9 }").expect("written");
    let network = ["--network", network.to_str().expect("UTF-8")];
    let output = quorate(&[SHORT, &network, &["--emulator", "netem"]].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("(`bit_error_rate`); help: set --emulator router"), "{said}");
    let emulation = &json(&[SHORT, &network].concat())["emulation"];
    assert_eq!(emulation["emulator"], "router");
    assert!(emulation["fallback"].as_str().expect("a reason").contains("`bit_error_rate`"), "{emulation}");
}

#[test]
fn flags_of_the_network_have_clear_errors() {
    for (arguments, expected) in [
        (&["--network", "wan4"][..], "--network needs an emulated network, but the host is `threads`"),
        (&["--host", "emulated", "--network", "no-such"], "cannot read no-such"),
        (&["--host", "emulated", "--loss", "2"], "write a fraction from 0 to 1"),
        (&["--host", "emulated", "--rto-min-ms", "0"], "write milliseconds from 0.001 to 120000"),
        (&["--host", "emulated", "--emulator", "tc"], "[possible values: auto, netem, router]"),
        (&["--emulator", "netem"], "--emulator needs an emulated network, but the host is `threads`"),
        (&["--host", "emulated", "--congestion-control", "../x"], "write a name such as cubic or reno"),
    ] {
        let output = quorate(&[&["bench"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

/// Flags of a small run that ends by itself.
const SHORT: &[&str] =
    &["bench", "--host", "emulated", "--rate", "200", "--warmup", "500ms", "--duration", "2s", "--json", "-"];

#[test]
#[ignore = "needs root"]
fn privileged_a_run_reports_its_network() {
    let _alone = alone();
    emulators().into_iter().for_each(a_run_reports_its_network);
}

fn a_run_reports_its_network(emulator: &str) {
    let network = ["--network", "us4", "--loss", "0.01", "--rto-min-ms", "20", "--emulator", emulator];
    let result = json(&[SHORT, &network].concat());
    let emulation = &result["emulation"];
    assert_eq!(result["spec"]["host"], "emulated");
    assert_eq!((&emulation["network"], &emulation["emulator"]), (&"us4".into(), &emulator.into()));
    assert_eq!((&emulation["congestion_control"], &emulation["rto_min_ms"]), (&"cubic".into(), &20.0.into()));
    assert_eq!(emulation["shortest_delay_us"], 500.0, "the clients and replica 0 share a region");
    assert!(emulation["emulation_added_us"]["p50"].is_number(), "{emulation}");
    let count = |key: &str| emulation[key].as_u64().expect("a count");
    assert!(count("lost") > 0 && count("packets") > 1000 && count("bytes_on_wire") > 100_000, "{emulation}");
    // A command travels from Virginia to California or Oregon and back several times.
    assert!(result["latency_ms"]["p50"].as_f64().expect("commands were completed") > 60.0, "{}", result["latency_ms"]);
    assert_eq!(result["agreement"], true);
    let command = result["command"].as_str().expect("a command");
    assert!(
        command.contains("--host emulated")
            && command.ends_with(&format!("--network us4 --loss 0.01 --rto-min-ms 20 --emulator {emulator}"))
    );
}

#[test]
#[ignore = "needs root"]
fn privileged_faults_of_the_network_file_happen_in_time() {
    let _alone = alone();
    let scratch = Scratch::new("emulated-faults");
    let network = scratch.0.join("faults.toml");
    let text = "[delay]\nkind = \"constant\"\nmean_ms = 1\n\
                [[faults]]\nkind = \"cut\"\nat_ms = 1000\nfor_ms = 700\nfrom = [\"clients\"]\nto = [0, 1, 2, 3]\n\
                [[faults]]\nkind = \"crash\"\nat_ms = 600\nreplica = 3\n";
    fs::write(&network, text).expect("written");
    for emulator in emulators() {
        faults_happen_in_time(network.to_str().expect("UTF-8"), emulator);
    }
}

fn faults_happen_in_time(network: &str, emulator: &str) {
    let result = json(&[SHORT, &["--network", network, "--emulator", emulator]].concat());
    assert!(result["emulation"]["cut"].as_u64().expect("a count") > 0, "{}", result["emulation"]);
    assert!(result["longest_gap_ms"].as_f64().expect("a gap") > 600.0, "{}", result["longest_gap_ms"]);
    let events = result["events"].to_string();
    assert!(events.contains("replica 3 killed"), "{events}");
    assert_eq!(result["spec"]["fault"], serde_json::json!([]), "the network file names its faults itself");
}

#[test]
#[ignore = "needs root"]
fn privileged_a_killed_replica_returns_to_its_namespace() {
    let _alone = alone();
    let result = json(&[SHORT, &["--network", "lan", "--fault", "restart:1@300ms+300ms"]].concat());
    assert_eq!(result["agreement"], true, "{}", result["warnings"]);
    assert!(result["events"].to_string().contains("replica 1 restarted"));
}

/// Maximum relative difference between the kernel's TCP and the simulator's.
const MODEL_ERROR: f64 = 0.15;

/// One command at a time over a round trip of 20 ms, so that the machine's own time is small. Half of all commands
/// experience no loss. About 4 in 100 wait for one minimum timeout, so the 99th percentile is among them, and about 1
/// in 1000 waits for two.
#[test]
#[ignore = "needs root"]
fn privileged_losses_cost_in_the_simulator_what_they_cost_in_the_kernel() {
    let _alone = alone();
    let scratch = Scratch::new("emulated-distributions");
    for rto_min_ms in [200.0, 50.0] {
        let network = scratch.0.join(format!("rto-{rto_min_ms}.toml"));
        let text = format!(
            "delay = {{ kind = \"constant\", mean_ms = 10 }}\n\
             transport = {{ rto_min_ms = {rto_min_ms}, rto_max_ms = 10000 }}"
        );
        fs::write(&network, text).expect("written");
        let common = ["--network", network.to_str().expect("UTF-8"), "--loss", "0.015", "--clients", "1"];
        // Adaptive views would end before a lost packet is repeated.
        let load = ["--outstanding", "1", "--warmup", "1s", "--view-duration", "exponential", "--json", "-"];
        let kernel = ["bench", "--host", "emulated", "--congestion-control", "reno", "--journal", "memory"];
        let latencies = |command: &[&str], duration: &str| {
            let result = json(&[command, &common, &load, &["--duration", duration]].concat());
            let at = |quantile: &str| result["latency_ms"][quantile].as_f64().expect("commands were completed");
            [at("p50"), at("p99")]
        };
        let measured = latencies(&kernel, "45s");
        let simulated = latencies(&["sim"], "180s");
        for (measured, simulated) in measured.iter().zip(&simulated) {
            let off = (simulated / measured - 1.0).abs();
            assert!(off <= MODEL_ERROR, "rto_min {rto_min_ms} ms: {simulated} ms simulated, {measured} ms measured");
        }
        // The plateau exceeds the median by the smoothed round trip, the minimum timeout, and ticks of the kernel's
        // clock.
        for [p50, p99] in [measured, simulated] {
            let cost = p99 - p50;
            assert!((rto_min_ms + 15.0..rto_min_ms + 60.0).contains(&cost), "rto_min {rto_min_ms} ms: {cost} ms");
        }
    }
}

/// Returns the network namespaces of all processes.
fn namespaces() -> BTreeSet<PathBuf> {
    let all = fs::read_dir("/proc").expect("there is /proc").flatten();
    all.filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok()).collect()
}

/// Returns the processes whose command line contains a directory below `place`.
fn processes(place: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").expect("there is /proc").flatten().map(|entry| entry.path());
    let command = |path: &PathBuf| fs::read(path.join("cmdline")).unwrap_or_default();
    all.filter(|path| String::from_utf8_lossy(&command(path)).contains(&format!("{place}/quorate-run-"))).collect()
}

fn start(place: &str, emulator: &str) -> Child {
    let mut command = quorate_heeding_signals();
    command.args(["bench", "--host", "emulated", "--network", "us4", "--duration", "10m", "--rate", "20"]);
    command.args(["--emulator", emulator]);
    command.env("TMPDIR", place).current_dir(place);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

#[test]
#[ignore = "needs root"]
fn privileged_nothing_is_left_however_a_run_ends() {
    let _alone = alone();
    emulators().into_iter().for_each(nothing_is_left);
}

fn nothing_is_left(emulator: &str) {
    let devices = || fs::read_to_string("/proc/net/dev").map(|text| text.lines().count()).expect("there is /proc");
    let named = || fs::read_dir("/run/netns").map_or(0, Iterator::count);
    let before = (devices(), named());
    for signals in [&[libc::SIGKILL][..], &[libc::SIGTERM], &[libc::SIGINT, libc::SIGINT]] {
        let scratch = Scratch::new("emulated-left");
        let place = scratch.0.to_str().expect("a test's path is UTF-8").to_owned();
        let mut run = start(&place, emulator);
        wait_until("four replicas run", || processes(&place).len() == 4);
        let own: BTreeSet<PathBuf> =
            processes(&place).iter().filter_map(|path| fs::read_link(path.join("ns/net")).ok()).collect();
        assert_eq!(own.len(), 4, "each replica has a namespace of its own");
        for signal in signals {
            // SAFETY: sends a signal to a process that this test started and has not waited for.
            assert_eq!(unsafe { libc::kill(run.id() as libc::pid_t, *signal) }, 0);
        }
        let status = run.wait().expect("it ends");
        assert!(signals[0] != libc::SIGKILL || status.signal() == Some(libc::SIGKILL));
        wait_until("the replicas are gone", || processes(&place).is_empty());
        assert!(namespaces().is_disjoint(&own), "after {signals:?}");
        assert_eq!((devices(), named()), before, "after {signals:?}");
    }
}
