//! `quorate testnet`: writes the directories and keys of a new cluster, with all flags that configure one.

use crate::Outcome;
use quorate_applications::ApplicationKind;
use quorate_lab::BenchSpec;
use quorate_lab::spec::{ClusterArgs, JournalKind};
use quorate_operator::testnet::{self, Program, Testnet, TestnetArgs};

/// This binary.
pub const PROGRAM: Program = Program { name: "quorate", run: "node" };

/// Writes a cluster for this host, or for the named hosts.
pub fn run(arguments: TestnetArgs<ClusterArgs>) -> Outcome {
    let TestnetArgs { dir, kubernetes, cluster, hosts, client_keys, admitted_clients } = arguments;
    let ClusterArgs(mut spec) = cluster;
    let given = Some(spec.replicas).filter(|replicas| *replicas != BenchSpec::default().replicas);
    if let Some(replicas) = testnet::count(given.map(|replicas| replicas as usize), &hosts)? {
        spec.replicas = replicas as u32;
        spec.validate()?;
    }
    let mut template = spec.template();
    (template.application, template.journal.kind) = (ApplicationKind::KEY_VALUE, JournalKind::File);
    let (replicas, base_port) = (spec.replicas as usize, spec.base_port);
    let (dir, hosts) = testnet::destination(dir, kubernetes, &hosts);
    let testnet = Testnet { template, replicas, base_port, hosts, client_keys, admitted_clients };
    testnet::write(&testnet, &dir, &PROGRAM)
}
