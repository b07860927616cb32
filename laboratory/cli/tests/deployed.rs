//! `quorate bench --host deployed` on hosts of this machine, with a program that stands in for `ssh`.

use crate::common::disks::{mount_memory, with_own_mounts};
use crate::common::fake_ssh::{FakeHosts, wait_for_stage};
use crate::common::*;
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};

/// Size of a small file system: less than twice the space at which a replica stops.
const SMALL_DISK_BYTES: usize = 48 << 20;
const SHORT: &[&str] = &["--warmup", "500ms", "--duration", "2s", "--json", "-"];

/// Expects that no process and no directory of a run is left on any host.
fn is_clean(hosts: &FakeHosts) {
    wait_until("no process is left", || hosts.processes(None).is_empty());
    wait_until("no directory is left", || hosts.runs().is_empty());
}

fn result_of(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn started(hosts: &FakeHosts, arguments: &[&str]) -> Child {
    let mut command = hosts.bench(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

#[test]
fn a_run_on_hosts_is_measured_collected_and_cleaned() {
    let hosts = FakeHosts::new("deployed-run", 4, 2);
    let (logs, record) = (hosts.scratch.path("logs"), hosts.scratch.path("recordings"));
    let more = ["--logs", &logs, "--record", &record, "--clients", "5", "--fault", "restart:1@300ms+300ms"];
    let result = result_of(started(&hosts, &[SHORT, &more].concat()));
    assert_eq!(result["spec"]["host"], "deployed");
    assert!(result["command"].as_str().expect("a command").ends_with(&format!("--hosts {}", hosts.file())));
    assert_eq!(result["agreement"], true, "{}", result["warnings"]);
    // 200 commands a second for two seconds, on either machine in proportion to its clients.
    let completed = result["committed_commands"].as_f64().expect("a count");
    assert!((300.0..=500.0).contains(&completed), "{completed}");
    let deployment = &result["deployment"];
    assert_eq!(deployment["copied"], 1, "only the first host lacked the program");
    let hosts_of = deployment["hosts"].as_array().expect("hosts");
    let of = |key: &str| hosts_of.iter().map(|host| host[key].clone()).collect::<Vec<Value>>();
    assert_eq!(of("name"), ["r0", "r1", "r2", "r3", "c0", "c1"]);
    assert!([of("failure"), of("kept")].concat().iter().all(Value::is_null), "{deployment}");
    assert!(of("sent_bytes").iter().all(|bytes| bytes.as_u64().is_some_and(|bytes| bytes > 10_000)), "{deployment}");
    let parts: Vec<f64> = of("throughput_ops").iter().filter_map(Value::as_f64).collect();
    assert!(parts.len() == 2 && parts[0] > 60.0 && parts[1] > 40.0, "{parts:?}");
    assert!((parts.iter().sum::<f64>() * 2.0 - completed).abs() < 1.0, "{parts:?}, together {completed}");
    let events = result["events"].to_string();
    assert!(events.contains("replica 1 killed") && events.contains("replica 1 restarted"), "{events}");
    for replica in 0..4 {
        assert!(hosts.at(&format!("logs/r{replica}.log")).exists(), "replica {replica}");
    }
    let recorded = fs::read_dir(&record).expect("recordings").flatten();
    let long = recorded.filter(|entry| entry.metadata().is_ok_and(|file| file.len() > 1000));
    assert_eq!(long.count(), 5, "four recordings, and the restart's");
    is_clean(&hosts);
}

/// Returns the agent on a host: the only process of the host that is called so.
fn agent(hosts: &FakeHosts, host: &str) -> Option<u32> {
    let is_agent = |process: &u32| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"deployed-agent")
    };
    hosts.processes(Some(host)).into_iter().find(is_agent)
}

#[test]
#[ignore = "needs root, to which alone replicas show their directories"]
fn privileged_hosts_that_die_or_lose_their_replica_are_named_and_the_rest_is_measured() {
    let hosts = FakeHosts::new("deployed-failures", 4, 2);
    let mut child = started(&hosts, &["--warmup", "500ms", "--duration", "8s", "--json", "-"]);
    wait_for_stage(&mut child, "measure");
    for host in ["r3", "c1"] {
        signal(agent(&hosts, host).expect("it runs"), libc::SIGKILL);
    }
    let result = result_of(child);
    let failed: Vec<&str> = result["deployment"]["hosts"]
        .as_array()
        .expect("hosts")
        .iter()
        .filter(|host| host["failure"].is_string())
        .map(|host| host["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(failed, ["r3", "c1"], "{}", result["deployment"]);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("host r3 failed; the rest was measured"), "{warnings}");
    assert!(warnings.contains("1 of 2 client machines have no report"), "{warnings}");
    assert!(result["events"].to_string().contains("host c1 failed: its connection ended"), "{}", result["events"]);
    assert!(result["committed_commands"].as_u64().expect("a count") > 100, "{}", result["committed_commands"]);
    wait_until("no process is left", || hosts.processes(None).is_empty());
}

/// The runs of one host are on a small file system, which fills up while the clients send.
#[test]
#[ignore = "needs root, which may mount file systems"]
fn privileged_a_host_with_a_full_disk_is_named_and_the_rest_is_measured() {
    with_own_mounts("deployed-full", |_| {
        let hosts = FakeHosts::new("deployed-full-disk", 4, 1);
        let runs = hosts.at("r2/quorate-lab/runs");
        fs::create_dir(&runs).expect("created");
        mount_memory(&runs, SMALL_DISK_BYTES as u64);
        let load = ["--payload", "32768", "--warmup", "500ms", "--duration", "7s", "--json", "-"];
        let mut child = started(&hosts, &load);
        wait_for_stage(&mut child, "measure");
        // Until no byte is free.
        let filled = fs::write(runs.join("others"), vec![1; SMALL_DISK_BYTES]).expect_err("it does not fit");
        assert_eq!(filled.raw_os_error(), Some(libc::ENOSPC));
        let result = result_of(child);
        let all = result["deployment"]["hosts"].as_array().expect("hosts").iter();
        let failed: Vec<(&str, &str)> =
            all.filter_map(|host| Some((host["name"].as_str().expect("a name"), host["failure"].as_str()?))).collect();
        assert!(matches!(failed[..], [("r2", why)] if why.contains(": disk failure")), "{failed:?}");
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains("host r2 failed; the rest was measured"), "{warnings}");
        assert!(result["committed_commands"].as_u64().expect("a count") > 300, "{}", result["committed_commands"]);
        wait_until("no process is left", || hosts.processes(None).is_empty());
    });
}

/// Where `perf` can sample, each host has call stacks of its own process.
#[test]
#[ignore = "needs root, which may sample other processes"]
fn privileged_profiles_are_collected_from_hosts() {
    let hosts = FakeHosts::new("deployed-perf", 4, 1);
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--output"]).arg(hosts.at("data")).arg("true");
    if !perf.output().is_ok_and(|output| output.status.success()) {
        println!("perf cannot sample here: not tested");
        return;
    }
    let directory = hosts.scratch.path("profiles");
    let load = ["--rate", "2000", "--warmup", "500ms", "--duration", "2s", "--json", "-", "--perf", &directory];
    let result = result_of(started(&hosts, &load));
    assert!(!result["warnings"].to_string().contains("profile"), "{}", result["warnings"]);
    for (host, thread) in [("r0", "replica"), ("r3", "replica"), ("c0", "clients")] {
        let stacks = fs::read_to_string(format!("{directory}/{host}.stacks")).expect("it is fetched");
        assert!(stacks.contains(thread), "{host}: {}", &stacks[..stacks.len().min(500)]);
        let drawing = fs::read_to_string(format!("{directory}/{host}.svg")).expect("it is drawn");
        assert!(drawing.contains("<svg"), "{host}");
    }
    is_clean(&hosts);
}

/// A call of `lab run` is killed after its first deployed run; the next one makes the second alone.
#[test]
fn deployed_cells_go_on_where_a_killed_call_stopped() {
    let hosts = FakeHosts::new("deployed-resume", 4, 1);
    let (file, dir) = (hosts.scratch.path("mine.toml"), hosts.scratch.path("rows"));
    let experiment = format!(
        "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"deployed\"]\n[base]\nreplicas = 4\nwarmup = \
         \"500ms\"\nduration = \"2s\"\nbase_port = {}\n[[axis]]\nkey = \"rate\"\nvalues = [100, 150]\n[repeat]\nmin = \
         1\nmax = 1\n",
        hosts.port,
    );
    fs::write(&file, experiment).expect("written");
    let call = || {
        let mut command = hosts.quorate();
        command.args(["lab", "run", &file, "--dir", &dir, "--hosts", &hosts.file(), "--json", "-"]);
        command
    };
    let log = hosts.scratch.path("log");
    let mut first = call();
    first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).expect("created"));
    let mut first = first.spawn().expect("it starts");
    wait_until("the first run is stored", || fs::read_to_string(&log).expect("it is there").contains("[1/2]"));
    wait_until("the second run is under way", || !hosts.runs().is_empty());
    signal(first.id(), libc::SIGKILL);
    first.wait().expect("it ends");
    is_clean(&hosts);
    let output = call().output().expect("it runs");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 runs are there already") && said.contains("[2/2]"), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let rows = result["rows"].as_array().expect("rows");
    assert!(rows.len() == 2 && rows.iter().all(|row| row["failure"].is_null()), "{rows:?}");
}

#[test]
fn fidelity_compares_the_simulator_with_hosts() {
    let hosts = FakeHosts::new("deployed-fidelity", 4, 1);
    let (grid, costs) = (hosts.scratch.path("grid.toml"), hosts.scratch.path("costs.toml"));
    let text_of_grid = format!(
        "[base]\nreplicas = 4\nrate = 300\nwarmup = \"300ms\"\nduration = \"1s\"\nbase_port = {}\n[quick]\ncells = \
         [{{ payload = 16 }}]\n[full]\ncells = [{{ payload = 16 }}]\n",
        hosts.port
    );
    fs::write(&grid, text_of_grid).expect("written");
    fs::write(&costs, include_str!("../../simulator/costs.toml")).expect("written");
    let mut command = hosts.quorate();
    command.args(["lab", "fidelity", "--grid", &grid, "--costs", &costs, "--hosts", &hosts.file(), "--json", "-"]);
    command.args(["--instrument", "real", "--instrument", "deployed", "--network", "loopback"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let cells = result["cells"].as_array().expect("cells");
    let mut instruments: Vec<&str> = cells.iter().filter_map(|cell| cell["instrument"].as_str()).collect();
    instruments.sort_unstable();
    assert_eq!(instruments, ["deployed", "real"], "{result}");
    for cell in cells {
        assert!(cell["failure"].is_null(), "{cell}");
        // The rate of the clients, on each instrument.
        assert!(cell["throughput_ratio"].as_f64().is_some_and(|ratio| (0.5..=2.0).contains(&ratio)), "{cell}");
    }
    is_clean(&hosts);
    let refused = quorate(&["lab", "fidelity", "--instrument", "deployed"]);
    let said = text(&refused.stderr);
    assert!(said.contains("`deployed` needs hosts; help: set --hosts FILE.toml"), "{said}");
}

#[test]
#[ignore = "needs root, to which alone replicas show their directories"]
fn privileged_nothing_is_left_on_hosts_however_a_run_ends() {
    let hosts = FakeHosts::new("deployed-left", 4, 1);
    for signals in [&[libc::SIGTERM][..], &[libc::SIGKILL], &[libc::SIGINT, libc::SIGINT]] {
        let mut child = started(&hosts, &["--duration", "10m"]);
        wait_until("the replicas run", || hosts.runs().len() == 5 && hosts.processes(None).len() >= 19);
        signals.iter().for_each(|number| signal(child.id(), *number));
        child.wait().expect("it ends");
        is_clean(&hosts);
    }
}

#[test]
fn obstacles_are_named_by_host_before_anything_starts() {
    let hosts = FakeHosts::new("deployed-obstacles", 4, 1);
    let refused = |arguments: &[&str], status: i32| {
        let output = hosts.bench(arguments).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(hosts.runs().is_empty(), "{said}");
        said
    };
    fs::write(hosts.at("r2/refuses"), "").expect("written");
    let said = refused(SHORT, 1);
    assert!(said.contains("host r2: cannot be reached: ssh: connect to host r2 port 22: Connection refused"), "{said}");
    assert!(said.contains("help: try `ssh r2`; it must connect without a password"), "{said}");
    fs::remove_file(hosts.at("r2/refuses")).expect("removed");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let said = refused(&[SHORT, &["--base-port", &port]].concat(), 1);
    let expected = format!("host r0: something listens on the ports {port}; help: stop it, or set --base-port");
    assert!(said.contains(&expected), "{said}");
    let said = refused(&["--replicas", "7"], 2);
    assert!(said.contains("names 4 hosts for 7 replicas; help: set --replicas to at most 4, or add hosts"), "{said}");
    let said = refused(&["--fault", "slow:1@1s"], 2);
    assert!(said.contains("`slow:1@1s` has times of the load, which replicas on hosts do not know"), "{said}");
    for (arguments, expected) in [
        (&["bench", "--host", "deployed"][..], "`deployed` needs hosts; help: set --hosts FILE.toml"),
        (&["bench", "--hosts", "x.toml"], "--hosts needs hosts, but the host is `threads`; help: set --host deployed"),
        (&["bench", "--host", "deployed", "--hosts", "no-such.toml"], "--hosts no-such.toml: cannot be read"),
    ] {
        let output = quorate(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let output = hosts.bench(&["--dry-run"]).output().expect("it runs");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("replica 0 at 127.0.0.2:") && said.contains("client machine 0, here"), "{said}");
    assert_eq!(said.matches("has the program").count(), 4, "{said}");
    assert!(hosts.runs().is_empty() && hosts.processes(None).is_empty());
}

#[test]
fn cells_of_experiments_run_on_hosts() {
    let hosts = FakeHosts::new("deployed-cells", 4, 1);
    let (file, dir) = (hosts.scratch.path("mine.toml"), hosts.scratch.path("rows"));
    let experiment = format!(
        "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"deployed\"]\n[base]\nrate = 100\nwarmup = \
         \"500ms\"\nduration = \"2s\"\nbase_port = {}\n[[axis]]\nkey = \"replicas\"\nvalues = [4, 7]\n[repeat]\nmin = \
         1\nmax = 1\n",
        hosts.port,
    );
    fs::write(&file, experiment).expect("written");
    let mut command = hosts.quorate();
    command.args(["lab", "run", &file, "--dir", &dir, "--hosts", &hosts.file(), "--json", "-"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let rows = result["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["cell"]["replicas"] == 4).expect("a row");
    assert_eq!((&row["instrument"], &row["failure"]), (&"deployed".into(), &Value::Null), "{row}");
    assert!(row["figures"]["throughput_per_s"].as_f64().is_some_and(|throughput| throughput > 80.0), "{row}");
    let command = row["provenance"]["command"].as_str().expect("a command");
    assert!(command.ends_with(&format!("--host deployed --hosts {}", hosts.file())), "{command}");
    let lacking = rows.iter().find(|row| row["cell"]["replicas"] == 7).expect("a row");
    let why = lacking["not_measurable"].as_str().expect("a reason");
    assert!(why.contains("names 4 hosts for 7 replicas"), "{why}");
    is_clean(&hosts);
}
