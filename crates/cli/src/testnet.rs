//! `quorate testnet`: the directories and keys of a new cluster.

use crate::failure::wrong_call;
use crate::{Outcome, output};
use quorate_applications::ApplicationKind;
use quorate_lab::BenchSpec;
use quorate_lab::bench::{client_config, node_template};
use quorate_lab::spec::{ClientAuthentication, quote};
use quorate_node::NodeError;
use quorate_node::testnet::{self, Place};
use quorate_types::ReplicaId;
use std::path::Path;

/// Writes a cluster of this host, or of those that are named.
pub fn run(mut spec: BenchSpec, hosts: &[String], directory: &Path) -> Outcome {
    let places = match hosts {
        [] => testnet::places_here(spec.replicas as usize, spec.base_port)?,
        hosts => {
            let named = hosts.len() as u32;
            if spec.replicas != BenchSpec::default().replicas && spec.replicas != named {
                return Err(wrong_call(format!(
                    "--replicas {} and --hosts with {named} hosts: leave --replicas out, or name a host for each replica",
                    spec.replicas
                )));
            }
            spec.replicas = named;
            spec.validate()?;
            testnet::places_on(hosts, spec.base_port)?
        }
    };
    let mut template = node_template(&spec);
    template.application = ApplicationKind::KeyValue;
    let net = testnet::write_at(&template, places, directory)?;
    let committee = net.client_committee().map_err(NodeError::from)?;
    let config = client_config(&spec, &committee, &template.cluster, template.application);
    let path = directory.join(quorate_client::CLIENT_CONFIG_FILE);
    std::fs::write(&path, config.to_toml()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let written = match net.directories.len() {
        1 => "1 replica".to_owned(),
        more => format!("{more} replicas"),
    };
    let start = if hosts.is_empty() { "start each with" } else { "copy each directory to its host and start it with" };
    let mut text = format!("wrote {written} and {}; {start}\n", path.display());
    for home in &net.directories {
        text.push_str(&format!("  quorate node --dir {}\n", quote(&home.display().to_string())));
    }
    let quoted = quote(&directory.display().to_string());
    text.push_str(&format!("then try\n  quorate client --dir {quoted} put greeting hello\n"));
    text.push_str(&firewall(&net.places));
    output::say(&text)?;
    if spec.client_authentication == ClientAuthentication::None {
        output::complain(
            "warning: --client-authentication none: anybody may speak for any client; for measurements only",
        );
    }
    if let Some(warning) = spec.consensus().stalls_with_silent(spec.quorum(), &silent_and_apart(&spec)) {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Which ports are whose.
fn firewall(places: &[Place]) -> String {
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
        "ports: {} for peers, {} for clients, {} on loopback for `quorate status`",
        ports(&|place| place.peers.port()),
        ports(&|place| place.clients.port()),
        ports(&|place| place.operators.port())
    )
}

/// As many silent replicas as the cluster has to bear, as far apart as can be: the shortest rows of live leaders.
fn silent_and_apart(spec: &BenchSpec) -> Vec<ReplicaId> {
    let (replicas, faults) = (spec.replicas as usize, spec.quorum().faults());
    (1..=faults).map(|at| ReplicaId((at * replicas / faults - 1) as u16)).collect()
}
