//! Directories and keys of a new cluster.

use crate::failure::{cannot_use, wrong_call};
use crate::node::keep_memory_secret;
use crate::setting_flags::ReplicaFlags;
use crate::{Outcome, choice, kubernetes, output};
use clap::Args;
use quorate_client::{CLIENT_CONFIG_FILE, CLIENT_KEY_FILE, ClientConfig};
pub use quorate_crypto::AdmittedClients;
use quorate_crypto::key_file::client::{self, ClientKeys};
use quorate_crypto::{ClientAuthentication, KeyPair, SchemeKind};
use quorate_node::testnet::{self, Place};
use quorate_node::{ClientRules, NodeConfig, NodeError, private};
use quorate_types::digest::encode_hex;
use quorate_types::settings::{CLUSTER, check_effects};
use quorate_types::text::quote;
use quorate_types::{ClusterId, Committee, Quorum, ReplicaId};
use std::error::Error;
use std::path::{Path, PathBuf};

/// First port of a testnet, fixed so that its replicas find each other after a restart.
pub const DEFAULT_PORT: u16 = 7000;
/// Default number of replicas of a testnet.
pub const DEFAULT_REPLICAS: usize = 4;

/// Default number of client keys of a testnet.
pub const DEFAULT_CLIENT_KEYS: u32 = 1;
/// Name of the file with the key that certifies clients.
pub const CERTIFIER_KEY_FILE: &str = "certifier.key";
/// Maximum number of client keys of a testnet.
pub const MAX_CLIENT_KEYS: u32 = 1000;

/// Flags of `testnet`, with those that shape the cluster.
#[derive(Args)]
pub struct TestnetArgs<C: Args> {
    /// Directory to write; it must be empty or not exist.
    #[arg(long, value_name = "DIR", required_unless_present = "kubernetes")]
    pub dir: Option<PathBuf>,
    /// Directory to write for Kubernetes, with manifests for `kubectl apply --kustomize`: the cluster, and its first
    /// start.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "hosts"])]
    pub kubernetes: Option<PathBuf>,
    #[command(flatten)]
    pub cluster: C,
    /// Hosts of the replicas, each HOST or HOST:PORT, as a name or an IP address; a host may occur more than once
    /// [default: only this host]. A replica listens on four ports: for peers, for clients, and on loopback for its
    /// status and for monitors.
    #[arg(long, value_name = "HOST,HOST,..", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Number of client keys to write. client.toml names the first. With 0 it names none, and each run of a client
    /// generates a new key.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CLIENT_KEYS)]
    pub client_keys: u32,
    /// Clients to admit: everyone, those whose keys are written here, or those with a certificate of the certifier
    /// whose key is written here, to certify more.
    #[arg(long, value_name = "RULE", default_value = "any", value_parser = choice::<AdmittedClients>())]
    pub admitted_clients: AdmittedClients,
}

/// Flags of `quorate-node testnet` that shape the cluster. Everything else is set in the replicas' `config.toml`.
#[derive(Args)]
pub struct ClusterArgs {
    /// Number of replicas, n [default: 4, or as many as --hosts names].
    #[arg(long, value_name = "N", help_heading = CLUSTER)]
    replicas: Option<usize>,
    /// First of the ports that the replicas listen on.
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT, help_heading = CLUSTER)]
    base_port: u16,
    #[command(flatten)]
    settings: ReplicaFlags,
}

impl ClusterArgs {
    /// Returns the settings of all replicas, the number of replicas, and the first port.
    pub(crate) fn into_parts(self, hosts: &[String]) -> Result<(NodeConfig, usize, u16), Box<dyn Error>> {
        let ClusterArgs { replicas, base_port, settings: ReplicaFlags(template) } = self;
        Ok((template, count(replicas, hosts)?.unwrap_or(DEFAULT_REPLICAS), base_port))
    }
}

/// Name of the binary, and of its command that runs a replica.
pub struct Program {
    pub name: &'static str,
    pub run: &'static str,
}

/// Where a cluster's replicas run.
#[derive(Clone, Copy)]
pub enum Hosts<'a> {
    /// On these hosts, one for each replica; all on this host if there are none.
    Named(&'a [String]),
    /// In the pods of a StatefulSet.
    Kubernetes,
}

/// A cluster to be written: its replicas' addresses, and the location of its files.
pub struct Testnet<'a> {
    /// Settings shared by all replicas.
    pub template: NodeConfig,
    pub replicas: usize,
    pub base_port: u16,
    pub hosts: Hosts<'a>,
    /// Number of client keys to write.
    pub client_keys: u32,
    pub admitted_clients: AdmittedClients,
}

/// Writes the cluster described by the flags.
///
/// # Errors
/// If the flags are invalid, or the files cannot be written.
pub fn run(arguments: TestnetArgs<ClusterArgs>, program: &Program) -> Outcome {
    let TestnetArgs { dir, kubernetes, cluster, hosts, client_keys, admitted_clients } = arguments;
    let (template, replicas, base_port) = cluster.into_parts(&hosts)?;
    let (dir, hosts) = destination(dir, kubernetes, &hosts);
    write(&Testnet { template, replicas, base_port, hosts, client_keys, admitted_clients }, &dir, program)
}

/// Returns the directory to write, and where the replicas run.
pub fn destination(dir: Option<PathBuf>, kubernetes: Option<PathBuf>, hosts: &[String]) -> (PathBuf, Hosts<'_>) {
    match kubernetes {
        Some(dir) => (dir.join(kubernetes::CLUSTER), Hosts::Kubernetes),
        None => (dir.expect("clap requires one of the two"), Hosts::Named(hosts)),
    }
}

/// Returns the number of replicas, given directly or by their hosts; `None` if neither is given.
///
/// # Errors
/// A wrong call, if the two numbers differ.
pub fn count(replicas: Option<usize>, hosts: &[String]) -> Result<Option<usize>, Box<dyn Error>> {
    match (replicas, hosts.len()) {
        (replicas, 0) => Ok(replicas),
        (Some(replicas), named) if replicas != named => Err(wrong_call(format!(
            "--replicas {replicas} and --hosts with {named} hosts: omit --replicas, or name a host for each replica"
        ))),
        (_, named) => Ok(Some(named)),
    }
}

/// Writes a cluster, and prints how to run it with `program`.
///
/// # Errors
/// If the cluster is invalid, or the files cannot be written.
pub fn write(testnet: &Testnet<'_>, directory: &Path, program: &Program) -> Outcome {
    let Testnet { template, replicas, base_port, hosts, .. } = testnet;
    check_effects(template).map_err(|fault| wrong_call(fault.at(|key| format!("`{key}`")).to_string()))?;
    keep_memory_secret()?;
    let keys = NewKeys::generate(testnet)?;
    let mut template = NodeConfig { clients: keys.rules(testnet.admitted_clients), ..template.clone() };
    let places = match hosts {
        Hosts::Named([]) => testnet::places_here(*replicas, *base_port)?,
        Hosts::Named(hosts) => testnet::places_on(hosts, *base_port)?,
        Hosts::Kubernetes => {
            kubernetes::move_journal(&mut template);
            kubernetes::places(*replicas, *base_port)?
        }
    };
    let template = &template;
    let net = testnet::write_at(template, places, directory)?;
    let committee = net.client_committee().map_err(NodeError::from)?;
    let mut config = client_config(template, &committee);
    config.key_file = keys.write(&ClusterId::from_name(&template.cluster), directory)?;
    let path = directory.join(CLIENT_CONFIG_FILE);
    private::write(&path, config.to_toml().as_bytes())
        .map_err(|error| cannot_use(format!("cannot write {}", path.display()), &error))?;
    let mut text = match hosts {
        Hosts::Kubernetes => kubernetes::write(&net.places, committee.quorum, directory)?,
        Hosts::Named(hosts) => next_steps(&net, hosts, directory, program),
    };
    if testnet.admitted_clients == AdmittedClients::Any {
        output::say(&text)?;
        output::control(output::BOLD)?;
        text = PUBLIC.to_owned();
    }
    output::say(&text)?;
    output::control(output::NOT_BOLD)?;
    if template.client_authentication == ClientAuthentication::None {
        output::report(
            "warning: --client-authentication none: anyone can send commands as any client; for measurements only",
        );
    }
    if let Some(warning) = template.consensus.stalls_with_silent(committee.quorum, &silent_and_apart(committee.quorum))
    {
        output::report(&format!("warning: {warning}"));
    }
    for fault in net.configs[0].warnings() {
        output::report(&format!("warning: {fault}"));
    }
    Ok(())
}

/// Returns how to run the cluster that was written.
fn next_steps(net: &testnet::Testnet, hosts: &[String], directory: &Path, program: &Program) -> String {
    let written = match net.directories.len() {
        1 => "1 replica".to_owned(),
        more => format!("{more} replicas"),
    };
    let start = if hosts.is_empty() { "start each with" } else { "copy each directory to its host and start it with" };
    let Program { name, run } = program;
    let mut text = format!("wrote {written} and {}; {start}\n", directory.join(CLIENT_CONFIG_FILE).display());
    for home in &net.directories {
        text.push_str(&format!("  {name} {run} --dir {}\n", quote(&home.display().to_string())));
    }
    let quoted = quote(&directory.display().to_string());
    text.push_str(&format!("then try\n  {name} client --dir {quoted} put greeting hello\n"));
    text.push_str(&firewall(&net.places, name));
    text
}

/// Returns the configuration of clients of a cluster: the settings that replicas have too, with their values.
pub fn client_config(replicas: &NodeConfig, committee: &Committee) -> ClientConfig {
    let consensus = &replicas.consensus;
    ClientConfig::of(consensus.protocol, consensus.client_dissemination(), replicas.of_clients(committee))
}

/// Warning about the default admission policy.
const PUBLIC: &str = "PUBLIC: anyone who reaches the clients' ports can write, and read the whole state, the history \
     and the status; to admit only known keys, use --admitted-clients listed or certified";

/// Keys of a new cluster's clients and of their certifier.
struct NewKeys {
    clients: Vec<ClientKeys>,
    certifier: Option<KeyPair>,
}

impl NewKeys {
    /// Generates the keys; none if clients do not sign.
    fn generate(testnet: &Testnet<'_>) -> Result<NewKeys, Box<dyn Error>> {
        let Testnet { template, client_keys, admitted_clients, .. } = testnet;
        if *client_keys > MAX_CLIENT_KEYS {
            return Err(wrong_call(format!("--client-keys {client_keys}: at most {MAX_CLIENT_KEYS} are allowed")));
        }
        if *admitted_clients == AdmittedClients::Listed && *client_keys == 0 {
            return Err(wrong_call("--admitted-clients listed needs --client-keys of 1 or more".to_owned()));
        }
        let cluster = ClusterId::from_name(&template.cluster);
        let is_signed = template.client_authentication != ClientAuthentication::None;
        let count = if is_signed { *client_keys } else { 0 };
        let mut clients = (0..count).map(|_| ClientKeys::generate(cluster)).collect::<Result<Vec<_>, _>>()?;
        let is_certified = *admitted_clients == AdmittedClients::Certified;
        let certifier = is_certified.then(|| KeyPair::generate(SchemeKind::ED25519)).transpose()?;
        if let Some(certifier) = &certifier {
            clients.iter_mut().for_each(|keys| keys.certify(certifier));
        }
        Ok(NewKeys { clients, certifier })
    }

    /// Returns the policies that admit these clients.
    fn rules(&self, admitted: AdmittedClients) -> ClientRules {
        let is_listed = admitted == AdmittedClients::Listed;
        let keys = self.clients.iter().filter(|_| is_listed).map(|keys| encode_hex(&keys.key.public_key())).collect();
        let certifier = self.certifier.as_ref().map(|key| encode_hex(&key.public_key())).unwrap_or_default();
        ClientRules { admitted, keys, certifier, ..ClientRules::default() }
    }

    /// Writes `client.key`, `client-1.key` and so on, and the certifier's key. Returns the first file for client.toml.
    fn write(&self, cluster: &ClusterId, directory: &Path) -> Result<Option<PathBuf>, Box<dyn Error>> {
        let name = |number: usize| match number {
            0 => CLIENT_KEY_FILE.to_owned(),
            _ => format!("client-{number}.key"),
        };
        for (number, keys) in self.clients.iter().enumerate() {
            client::write(&directory.join(name(number)), keys)?;
        }
        if let Some(certifier) = &self.certifier {
            client::write_certifier(&directory.join(CERTIFIER_KEY_FILE), cluster, certifier)?;
        }
        Ok((!self.clients.is_empty()).then(|| name(0).into()))
    }
}

/// Returns advice on the ports to open.
fn firewall(places: &[Place], program: &str) -> String {
    let ports = |of: &dyn Fn(&Place) -> u16| {
        let mut ports: Vec<u16> = places.iter().map(of).collect();
        ports.sort_unstable();
        ports.dedup();
        let (first, last) = (ports[0], ports[ports.len() - 1]);
        match usize::from(last - first) + 1 == ports.len() {
            true if first == last => first.to_string(),
            true => format!("{first}-{last}"),
            false => ports.iter().map(u16::to_string).collect::<Vec<_>>().join(","),
        }
    };
    format!(
        "ports: {} for peers, {} for clients, {} on loopback for `{program} status`, {} on loopback for /metrics and \
         /healthz",
        ports(&|place| place.peers.port()),
        ports(&|place| place.clients.port()),
        ports(&|place| place.operators.port()),
        ports(&|place| place.monitors.port())
    )
}

/// Returns f replicas to silence, spread evenly: this gives the shortest runs of live leaders.
fn silent_and_apart(quorum: Quorum) -> Vec<ReplicaId> {
    let (replicas, faults) = (quorum.replicas(), quorum.faults());
    (1..=faults).map(|at| ReplicaId((at * replicas / faults - 1) as u16)).collect()
}
