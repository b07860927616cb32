//! The one file that names concrete protocols.

use crate::run::{SimReport, run_protocol};
use crate::spec::{SimSpec, WorkloadFactory};
use quorate_consensus::chained::rules::{ChainedHotStuff, FastHotStuff, Jolteon, SimpleHotStuff};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::{basic, chained, pbft};

/// Runs one seed.
pub fn run_once(spec: &SimSpec, seed: u64, workload: WorkloadFactory<'_>, transcript: bool) -> SimReport {
    let (core, quorum) = (|| spec.consensus.clone(), spec.quorum);
    // A further protocol is one more arm.
    match spec.consensus.protocol {
        ProtocolKind::ChainedHotStuff => run_protocol(spec, seed, workload, transcript, |cluster, me, salt| {
            chained::replica::<ChainedHotStuff>(core(), quorum, cluster, me, salt)
        }),
        ProtocolKind::SimpleHotStuff => run_protocol(spec, seed, workload, transcript, |cluster, me, salt| {
            chained::replica::<SimpleHotStuff>(core(), quorum, cluster, me, salt)
        }),
        ProtocolKind::FastHotStuff => run_protocol(spec, seed, workload, transcript, |cluster, me, salt| {
            chained::replica::<FastHotStuff>(core(), quorum, cluster, me, salt)
        }),
        ProtocolKind::Jolteon => run_protocol(spec, seed, workload, transcript, |cluster, me, salt| {
            chained::replica::<Jolteon>(core(), quorum, cluster, me, salt)
        }),
        ProtocolKind::BasicHotStuff => run_protocol(spec, seed, workload, transcript, |cluster, me, salt| {
            basic::replica(core(), quorum, cluster, me, salt)
        }),
        ProtocolKind::Pbft => run_protocol(spec, seed, workload, transcript, |cluster, me, salt| {
            pbft::replica(core(), quorum, cluster, me, salt)
        }),
    }
}
