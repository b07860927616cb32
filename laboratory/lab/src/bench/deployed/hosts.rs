//! The file of `--hosts`: machines that run replicas and clients, reached over SSH.

use crate::experiments::{Node, Source, Table};
use crate::input;
use crate::result::HostRole as Role;
use quorate_types::{Address, Fault};
use std::collections::BTreeSet;
use std::path::Path;

/// Default directory of the laboratory on a host, below the user's home directory.
const DEFAULT_DIRECTORY: &str = "quorate-lab";
/// Maximum value of `cores`.
const MAX_CORES: u32 = 1024;
/// Keys that a host has, and that `[defaults]` has.
const COMMON: [&str; 8] = ["user", "port", "options", "directory", "region", "cores", "interface", "qdisc"];
/// Keys that only a host has.
const OWN: [&str; 4] = ["name", "role", "address", "ssh"];

/// A machine of a deployment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Unique name in results and errors; the address unless the file sets it.
    pub name: String,
    pub role: Role,
    /// IP address or host name by which replicas and clients reach it.
    pub address: String,
    /// Destination for `ssh`: a host name, an address, or an alias of the client's configuration.
    pub ssh: String,
    /// User and port for `ssh`; `None` leaves them to its configuration.
    pub user: Option<String>,
    pub port: Option<u16>,
    /// Options for `ssh -o`, such as `ProxyJump=bastion`.
    pub options: Vec<String>,
    /// Directory of the laboratory; below the user's home directory unless absolute.
    pub directory: String,
    /// Region in results.
    pub region: Option<String>,
    /// Number of cores to use; `None` for all.
    pub cores: Option<usize>,
    /// Network interface whose counters are reported.
    pub interface: Option<String>,
    /// Queueing discipline of this interface during a run, as in `tc qdisc add .. root QDISC`.
    pub qdisc: Option<String>,
}

/// Reads a hosts file.
///
/// # Errors
/// The first fault, with its line and key.
pub fn read(path: &Path) -> Result<Vec<Host>, Fault> {
    let name = path.display().to_string();
    let text = input::settings(path).map_err(|error| {
        let help = "name a file as described in docs/HOSTS.md";
        Fault::new(format!("--hosts {name}"), format!("cannot be read: {error}"), help)
    })?;
    parse(&text, &name)
}

/// Returns the hosts that run whole cells of experiments: those with the role `worker`; without any, all.
pub fn workers(hosts: &[Host]) -> Vec<Host> {
    let workers: Vec<Host> = hosts.iter().filter(|host| host.role == Role::Worker).cloned().collect();
    if workers.is_empty() { hosts.to_vec() } else { workers }
}

/// Parses the text of a hosts file, which errors call `name`.
///
/// # Errors
/// The first fault, with its line and key.
pub fn parse(text: &str, name: &str) -> Result<Vec<Host>, Fault> {
    let source = Source { name, text };
    let parsed = source.parse()?;
    let root = Table::root(&source, parsed.get_ref());
    root.known(&["defaults", "host"])?;
    let defaults = root.table("defaults")?;
    if let Some(defaults) = &defaults {
        defaults.known(&COMMON)?;
    }
    let mut hosts: Vec<Host> = Vec::new();
    let mut addresses = BTreeSet::new();
    for table in root.tables("host")? {
        let host = host(&table, defaults.as_ref())?;
        if hosts.iter().any(|other| other.name == host.name) {
            let help = "give each host a `name` of its own";
            return Err(table.fault(format!("the name `{}` occurs twice", host.name), help));
        }
        if host.role == Role::Replica && !addresses.insert(host.address.clone()) {
            let what = format!("the address `{}` occurs twice among replicas, whose ports would collide", host.address);
            return Err(table.fault(what, "give each replica a host of its own"));
        }
        hosts.push(host);
    }
    let has_workers = hosts.iter().any(|host| host.role == Role::Worker);
    for role in [Role::Replica, Role::Client].iter().filter(|_| !has_workers) {
        if !hosts.iter().any(|host| host.role == *role) {
            let what = format!("names no host with the role `{role}`");
            return Err(Fault::new(name, what, format!("add [[host]] with role = \"{role}\" and an address")));
        }
    }
    Ok(hosts)
}

fn host(table: &Table<'_>, defaults: Option<&Table<'_>>) -> Result<Host, Fault> {
    table.known(&[&OWN[..], &COMMON].concat())?;
    let node = |key: &str| table.get(key).or_else(|| defaults?.get(key));
    let text = |key: &str| node(key).map(|node| node.text()).transpose();
    let whole = |key: &str, most| node(key).map(|node| node.whole(1, most)).transpose();
    let address = table.need("address")?.text()?;
    if let Err(error) = Address::on(&address, 1) {
        return Err(table
            .need("address")?
            .fault(error.to_string(), "write an IP address or a host name, without a port"));
    }
    let options = match table.get("options") {
        Some(_) => table.texts("options")?,
        None => defaults.map_or(Ok(Vec::new()), |defaults| defaults.texts("options"))?,
    };
    let host = Host {
        name: table.text("name")?.unwrap_or_else(|| address.clone()),
        role: table.need("role")?.choice()?,
        ssh: table.text("ssh")?.unwrap_or_else(|| address.clone()),
        user: text("user")?,
        port: whole("port", u32::from(u16::MAX))?.map(|port| port as u16),
        directory: text("directory")?.unwrap_or_else(|| DEFAULT_DIRECTORY.to_owned()),
        region: text("region")?,
        cores: whole("cores", MAX_CORES)?.map(|cores| cores as usize),
        interface: text("interface")?,
        qdisc: text("qdisc")?,
        address,
        options,
    };
    check_words(&host, table, &node)?;
    if let Some(qdisc) = node("qdisc").filter(|_| host.interface.is_none()) {
        return Err(qdisc.fault("`qdisc` needs an `interface`", "name the one whose traffic it shapes"));
    }
    Ok(host)
}

/// Refuses words that a shell or `ssh` would take for something else.
fn check_words<'s>(host: &Host, table: &Table<'s>, node: &dyn Fn(&str) -> Option<Node<'s>>) -> Result<(), Fault> {
    let is_plain = |text: &str, others: &str| {
        !text.starts_with('-') && text.chars().all(|letter| letter.is_ascii_alphanumeric() || others.contains(letter))
    };
    let words = [
        ("name", Some(&host.name), "._:-"),
        ("ssh", Some(&host.ssh), "._:-"),
        ("user", host.user.as_ref(), "._-"),
        ("directory", Some(&host.directory), "._/-"),
        ("interface", host.interface.as_ref(), "._@-"),
        ("qdisc", host.qdisc.as_ref(), " .:%-"),
    ];
    for (key, word, others) in words {
        let Some(word) = word.filter(|word| !is_plain(word, others)) else { continue };
        let place = node(key).map_or_else(|| table.place(), |node| node.place());
        let letter = |letter| if letter == ' ' { "spaces".to_owned() } else { String::from(letter) };
        let shown: Vec<String> = others.chars().map(letter).collect();
        let help = format!("use letters, digits and {}, and no - at the start", shown.join(" "));
        return Err(Fault::new(place, format!("`{word}` is not usable as a {key}"), help));
    }
    if host.directory.split('/').any(|part| part == "..") {
        let place = node("directory").map_or_else(|| table.place(), |node| node.place());
        return Err(Fault::new(place, "contains `..`", "write the path without it"));
    }
    Ok(())
}
