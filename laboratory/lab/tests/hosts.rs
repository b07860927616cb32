//! Hosts files, the checks of hosts, and the commands of `ssh`, without hosts.

use quorate_lab::bench::{DeployedHost, Facts, Needs, Ssh, parse_hosts, place_on_hosts};
use quorate_lab::result::HostRole;
use quorate_lab::spec::BenchSpec;
use std::path::Path;

const FILE: &str = r#"
[defaults]
user = "lab"
directory = "/scratch/lab"
options = ["ProxyJump=bastion"]

[[host]]
address = "10.0.0.1"
role = "replica"
region = "us-east-1"

[[host]]
name = "far"
address = "far.example.com"
ssh = "far-alias"
port = 2222
user = "other"
cores = 4
interface = "eth0"
options = []
role = "client"
"#;

#[test]
fn hosts_have_their_own_keys_or_the_defaults() {
    let hosts = parse_hosts(FILE, "hosts.toml").expect("a valid file");
    let expected = DeployedHost {
        name: "10.0.0.1".to_owned(),
        role: HostRole::Replica,
        address: "10.0.0.1".to_owned(),
        ssh: "10.0.0.1".to_owned(),
        user: Some("lab".to_owned()),
        port: None,
        options: vec!["ProxyJump=bastion".to_owned()],
        directory: "/scratch/lab".to_owned(),
        region: Some("us-east-1".to_owned()),
        cores: None,
        interface: None,
        qdisc: None,
    };
    assert_eq!(hosts[0], expected);
    let far = &hosts[1];
    assert_eq!((&*far.name, &*far.ssh, far.port, far.cores), ("far", "far-alias", Some(2222), Some(4)));
    assert_eq!((far.user.as_deref(), far.options.len()), (Some("other"), 0));
    assert_eq!((far.interface.as_deref(), &*far.directory), (Some("eth0"), "/scratch/lab"));
}

#[test]
fn each_fault_of_a_hosts_file_has_its_line_and_a_remedy() {
    let replica = "[[host]]\naddress = \"a\"\nrole = \"replica\"\n";
    let client = "[[host]]\naddress = \"b\"\nrole = \"client\"\n";
    for (text, expected) in [
        (
            format!("{replica}{client}[[hosts]]\n"),
            "hosts.toml, line 7, key `hosts`: `hosts` is no key here; help: did you mean `host`?",
        ),
        (
            format!("{replica}adress = \"c\"\n{client}"),
            "hosts.toml, line 4, key `host[1].adress`: `adress` is no key here; help: did you mean `address`?",
        ),
        (
            format!("{replica}{client}port = 0\n"),
            "line 7, key `host[2].port`: 0 is out of range; help: write a whole number from 1 to 65535",
        ),
        (
            format!("{replica}{client}role = \"leader\"\n").replacen("role = \"client\"\n", "", 1),
            "line 6, key `host[2].role`: `leader` is no role; help: use one of replica, client, worker",
        ),
        ("[[host]]\nrole = \"client\"\n".to_owned(), "`address` is missing; help: write `address = ..`"),
        ("[[host]]\naddress = \"a\"\n".to_owned(), "`role` is missing; help: write `role = ..`"),
        (replica.to_owned(), "hosts.toml: names no host with the role `client`; help: add [[host]] with role"),
        (format!("{replica}{replica}{client}"), "the name `a` occurs twice; help: give each host a `name` of its own"),
        (
            format!("{replica}{replica}name = \"c\"\n{client}"),
            "the address `a` occurs twice among replicas, whose ports would collide; help: give each replica a host",
        ),
        (format!("{replica}ssh = \"-oProxyCommand=x\"\n{client}"), "`-oProxyCommand=x` is not usable as a ssh; help:"),
        (
            format!("{replica}directory = \"a; rm -rf b\"\n{client}"),
            "line 4, key `host[1].directory`: `a; rm -rf b` is not usable as a directory; help: use letters, digits",
        ),
        (format!("{replica}directory = \"a/../b\"\n{client}"), "contains `..`; help: write the path without it"),
        (format!("{}{client}", replica.replace("\"a\"", "\"a:1\"")), "is neither a host name nor an IP address"),
        (
            format!("{replica}interface = \"eth0\"\nqdisc = \"netem; reboot\"\n{client}"),
            "key `host[1].qdisc`: `netem; reboot` is not usable as a qdisc; help: use letters, digits and",
        ),
        (
            format!("{replica}qdisc = \"netem delay 30ms\"\n{client}"),
            "`qdisc` needs an `interface`; help: name the one whose traffic it shapes",
        ),
        (format!("{replica}{client}user = 3\n"), "is of the type integer; help: write text in \"quotes\""),
        ("host = 3".to_owned(), "help: write a list in [brackets]"),
        ("[[host".to_owned(), "hosts.toml, line 1: "),
    ] {
        let said = parse_hosts(&text, "hosts.toml").expect_err(&text).to_string();
        assert!(said.contains(expected), "{said}\nexpected: {expected}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn replicas_take_the_first_hosts_and_clients_all_machines() {
    let mut text = String::new();
    for host in 0..8 {
        let role = if host % 2 == 0 { "replica" } else { "client" };
        text += &format!("[[host]]\naddress = \"h{host}\"\nrole = \"{role}\"\n");
    }
    let hosts = parse_hosts(&text, "hosts.toml").expect("a valid file");
    let spec = |replicas, clients| BenchSpec { replicas, clients, ..BenchSpec::default() };
    let names = |replicas, clients| {
        let placed = place_on_hosts(&hosts, &spec(replicas, clients), "hosts.toml").map_err(|fault| fault.to_string());
        placed.map(|hosts| hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(names(3, 4), Ok("h0 h2 h4 h1 h3 h5 h7".to_owned()));
    assert_eq!(
        names(7, 4).expect_err("too few hosts"),
        "hosts.toml: names 4 hosts for 7 replicas; help: set --replicas to at most 4, or add hosts"
    );
    assert_eq!(
        names(4, 2).expect_err("too many machines"),
        "hosts.toml: names 4 client machines for 2 clients; help: set --clients to at least 4, or remove hosts"
    );
}

#[test]
fn ssh_asks_nothing_shares_a_connection_and_takes_the_hosts_options() {
    let ssh = Ssh::new(Path::new("/tmp/run")).expect("a short path");
    let hosts = parse_hosts(FILE, "hosts.toml").expect("a valid file");
    let words = |command: std::process::Command| {
        assert_eq!(command.get_program(), "ssh");
        command.get_args().map(|word| word.to_str().expect("UTF-8").to_owned()).collect::<Vec<_>>().join(" ")
    };
    let common = "-o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 \
                  -o ControlPath=/tmp/run/s1 -o ControlPersist=no";
    assert_eq!(words(ssh.master(1, &hosts[1])), format!("-M -N -T {common} -p 2222 -l other -- far-alias"));
    let run = words(ssh.run(1, &hosts[0], "sh -s lab"));
    assert_eq!(run, format!("-T -o ControlMaster=no {common} -o ProxyJump=bastion -l lab -- 10.0.0.1 sh -s lab"));
    let long = format!("/tmp/{}", "x".repeat(100));
    let said = Ssh::new(Path::new(&long)).err().expect("a socket's path is short").to_string();
    assert!(said.contains("set TMPDIR to a shorter one"), "{said}");
}

const CHECKED: &str = "system=Linux x86_64\ncores=2\nfiles=4096\ngovernor=powersave\nclock_ns=5000\nfree_kb=1000000\n\
                       tcp=0100007F:1B58 0A\ntcp=0100007F:1B59 01\nudp6=0:1B5A 07\nend=yes\n";

fn needs() -> Needs {
    Needs { system: "Linux x86_64".to_owned(), program_bytes: 100_000_000, ports: vec![7001], profile: false }
}

#[test]
fn checks_are_parsed_and_judged() {
    let host = &parse_hosts(FILE, "hosts.toml").expect("a valid file")[1];
    let replica = &parse_hosts(FILE, "hosts.toml").expect("a valid file")[0];
    let facts = Facts::parse(CHECKED).expect("a whole answer");
    assert_eq!(
        facts.ports.iter().copied().collect::<Vec<_>>(),
        [7000, 7002],
        "an established connection is no listener"
    );
    assert_eq!((facts.clock_ns, facts.files, facts.free_bytes), (Some(5000), Some(4096), 1_024_000_000));
    assert_eq!(facts.faults(replica, &needs()), []);
    assert_eq!(Facts::parse(CHECKED.strip_suffix("end=yes\n").expect("it ends so")), None, "it was cut short");
    let faults = |facts: Facts, needs: Needs| {
        let faults = facts.faults(host, &needs);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let said = faults(facts.clone(), Needs { ports: vec![7000, 7002], ..needs() });
    assert!(said.contains("host far: has 2 cores, but the file says 4; help: set `cores`"), "{said}");
    assert!(said.contains("host far: something listens on the ports 7000, 7002; help: stop it"), "{said}");
    let poor = format!("{CHECKED}free_kb=300000\nfiles=256\nlacks=eth0\nlacks=sha256sum\n");
    let shaped = DeployedHost { qdisc: Some("tbf rate 1mbit".to_owned()), ..host.clone() };
    let many = Needs { system: "Linux aarch64".into(), profile: true, ..needs() };
    let found = Facts::parse(&poor).expect("a whole answer").faults(&shaped, &many);
    let said = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let equipped = Facts::parse(&format!("{CHECKED}tool=tc\ntool=perf\n")).expect("a whole answer");
    assert_eq!(equipped.faults(&shaped, &Needs { profile: true, ..needs() }).len(), 1, "the cores alone");
    for expected in [
        "is `Linux x86_64`, but this program was built for `Linux aarch64`; help: run a program built for the host",
        "has 307 MB free below `/scratch/lab`, 368 are needed; help: free some",
        "allows 256 open files, 1024 are needed; help: raise `nofile`",
        "has no interface `eth0`; help: list them",
        "has no `sha256sum`; help: install coreutils",
        "has no `tc`, which `qdisc` needs; help: install iproute2 there",
        "has no `perf`, which --perf needs; help: install it there (on Debian the package linux-perf), \
         or leave --perf out",
    ] {
        assert!(said.contains(expected), "{said}\nexpected: {expected}");
    }
    let warnings = facts.warnings(host, Some(-3.0)).join("\n");
    assert!(warnings.contains("the processor's governor is `powersave`, so its speed varies"), "{warnings}");
    assert!(warnings.contains("its clock differs by -3.0 s from this machine's, which the run corrects"), "{warnings}");
    assert_eq!(Facts { governor: "performance".into(), ..facts }.warnings(host, Some(0.2)).len(), 0);
}

#[test]
fn the_script_describes_this_machine() {
    use std::process::{Command, Stdio};
    let mut child = Command::new("sh");
    // The sources may belong to another user, while everybody may write here.
    child.args(["-s", "no-such/directory", "no-such-interface", "0"]).current_dir(std::env::temp_dir());
    child.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("there is a shell");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), quorate_lab::bench::HOST_CHECK.as_bytes())
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let listener = Facts::parse(&String::from_utf8(output.stdout).expect("UTF-8")).expect("a whole answer");
    assert!(listener.cores > 0 && listener.free_bytes > 0 && listener.clock_ns.is_some(), "{listener:?}");
    assert_eq!((listener.lacks, listener.digest, listener.refused), (vec!["no-such-interface".to_owned()], None, None));
}
