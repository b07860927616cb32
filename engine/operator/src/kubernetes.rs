//! Manifests for Kubernetes: a cluster of replicas as a StatefulSet, for `kubectl apply --kustomize`.
//!
//! A pod has a name that does not change, `quorate-0`, and an address in DNS that changes with each restart. Replicas
//! dial names, so their configurations stay valid ([ADR 119](../../../docs/adr/119-one-statefulset.md)).

use crate::failure::cannot_use;
use quorate_node::NodeConfig;
use quorate_node::testnet::{self, Place};
use quorate_types::text::quote;
use quorate_types::{Address, Quorum};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// Directory of the journal in a pod, on the replica's own volume.
const JOURNAL: &str = "/var/lib/quorate/journal";
/// File that kustomize reads in a directory.
const KUSTOMIZATION: &str = "kustomization.yaml";
/// Directory of the cluster: keys, configurations and manifests.
pub(crate) const CLUSTER: &str = "cluster";
/// Directory of the kustomization that starts new replicas. Kustomize refuses one below the directory that it extends.
const FIRST_START: &str = "first-start";

/// The manifests, with `{name}` where a value belongs.
const TEMPLATES: [(&str, &str); 6] = [
    (KUSTOMIZATION, include_str!("kubernetes/kustomization.yaml")),
    ("statefulset.yaml", include_str!("kubernetes/statefulset.yaml")),
    ("service.yaml", include_str!("kubernetes/service.yaml")),
    ("disruption-budget.yaml", include_str!("kubernetes/disruption-budget.yaml")),
    ("network-policy.yaml", include_str!("kubernetes/network-policy.yaml")),
    ("service-monitor.yaml", include_str!("kubernetes/service-monitor.yaml")),
];

/// Moves the journal of replicas in pods to the volume of each.
pub(crate) fn move_journal(template: &mut NodeConfig) {
    template.journal.directory = JOURNAL.into();
}

/// Returns the places of the pods of a StatefulSet. All have the same ports.
///
/// # Errors
/// If the ports exceed 65535, or begin at 0.
pub(crate) fn places(replicas: usize, base_port: u16) -> Result<Vec<Place>, Box<dyn Error>> {
    let hosts: Vec<String> = (0..replicas).map(|at| format!("quorate-{at}.quorate-replicas:{base_port}")).collect();
    let mut places = testnet::places_on(&hosts, base_port)?;
    for place in &mut places {
        // The kubelet and Prometheus reach the pod at its own address.
        place.monitors = Address::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, place.monitors.port())));
    }
    Ok(places)
}

/// Writes the manifests of the cluster in `directory`, and returns how to apply them.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(places: &[Place], quorum: Quorum, directory: &Path) -> Result<String, Box<dyn Error>> {
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| cannot_use(format!("cannot write {}", path.display()), &error))
    };
    for (name, template) in TEMPLATES {
        write(&directory.join(name), &manifest(name, template, places, quorum))?;
    }
    let first_start = directory.with_file_name(FIRST_START);
    std::fs::create_dir(&first_start)
        .map_err(|error| cannot_use(format!("cannot create {}", first_start.display()), &error))?;
    write(&first_start.join(KUSTOMIZATION), include_str!("kubernetes/first-start.yaml"))?;
    let quoted = |path: &Path| quote(&path.display().to_string());
    Ok(format!(
        "wrote {} replicas and manifests; set the image in {}, and apply them with\n  \
         kubectl apply --kustomize {}    # once: the disks are empty\n  \
         kubectl rollout status statefulset/quorate\n  \
         kubectl apply --kustomize {}",
        places.len(),
        quoted(&directory.join(KUSTOMIZATION)),
        quoted(&first_start),
        quoted(directory)
    ))
}

fn manifest(name: &str, template: &str, places: &[Place], quorum: Quorum) -> String {
    let first = &places[0];
    let lines = |line: &dyn Fn(usize) -> String| (0..places.len()).map(line).collect::<Vec<_>>().join("\n");
    let (configurations, keys) = match name {
        KUSTOMIZATION => (
            lines(&|at| format!("      - replica-{at}.toml=replica-{at}/config.toml")),
            lines(&|at| format!("      - replica-{at}.key=replica-{at}/private.key")),
        ),
        _ => (
            lines(&|at| item(&format!("replica-{at}.toml"), &format!("quorate-{at}/config.toml"))),
            lines(&|at| item(&format!("replica-{at}.key"), &format!("quorate-{at}/private.key"))),
        ),
    };
    template
        .replace("{replicas}", &places.len().to_string())
        .replace("{faults}", &quorum.faults().to_string())
        .replace("{peers}", &first.peers.port().to_string())
        .replace("{clients}", &first.clients.port().to_string())
        .replace("{monitors}", &first.monitors.port().to_string())
        .replace("{configurations}", &configurations)
        .replace("{keys}", &keys)
}

/// Returns a file of a volume.
fn item(key: &str, path: &str) -> String {
    format!("                    - key: {key}\n                      path: {path}")
}
