//! Utilization of a replica's threads, and the thread that limits it.

use super::{Growth, per};
use crate::record::record;
use quorate_types::{ReplicaId, ThreadTimes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

record! {
    /// Utilization of the threads of one stage of a replica.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct StageThreads {
        /// Name of the stage: `core`, `network` or `verifiers`.
        pub stage: String,
        /// Number of its threads.
        pub threads: u16 ["threads"],
        /// CPU time of all its threads per executed command.
        pub us_per_command: Option<f64> ["us"],
        /// CPU time of its threads divided by their number and the measured time.
        pub busy_percent: f64 ["%"],
        /// Commands per second of the stage at full utilization: an upper bound.
        pub limit_per_s: Option<f64> ["commands/s"],
    }
}

record! {
    /// Utilization of the stages, at the replica with the busiest thread.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct ThreadLoads {
        /// The replica with the busiest thread.
        pub replica: ReplicaId,
        /// The stage with the busiest threads.
        pub limiting_stage: String,
        /// One entry per stage with threads.
        pub stages: Vec<StageThreads>,
    }
}

/// Stage, number of threads, and CPU time in nanoseconds.
type Load = (&'static str, u16, u64);

impl ThreadLoads {
    /// Returns the utilization over `window_ns` nanoseconds in which `commands` were executed; `None` if replicas did
    /// not report it.
    pub(crate) fn of(growth: &Growth<'_>, window_ns: f64, commands: u64) -> Option<ThreadLoads> {
        let grown = |of: fn(&ThreadTimes) -> u64| growth.by_replica(|status| of(&status.threads));
        let core = grown(|times| times.core_ns);
        let network = grown(|times| times.network_ns.unwrap_or(0));
        let verifiers = grown(|times| times.verifiers_ns);
        let last: BTreeMap<ReplicaId, ThreadTimes> =
            growth.last().into_iter().map(|(replica, status)| (replica, status.threads)).collect();
        let loads = |replica: ReplicaId| -> Vec<Load> {
            let ThreadTimes { network_ns, verifiers: count, .. } = last[&replica];
            let mut loads = vec![("core", 1, core[&replica])];
            loads.extend(network_ns.map(|_| ("network", 1, network[&replica])));
            loads.extend((count > 0).then(|| ("verifiers", count, verifiers[&replica])));
            loads
        };
        let most = |replica: &ReplicaId| loads(*replica).into_iter().max_by_key(each_ns).expect("there is a core");
        let replica = *core.keys().max_by_key(|replica| each_ns(&most(replica)))?;
        let (limiting, ..) = most(&replica);
        let stages = loads(replica).into_iter().map(|load| StageThreads::of(load, window_ns, commands)).collect();
        (each_ns(&most(&replica)) > 0).then(|| ThreadLoads { replica, limiting_stage: limiting.to_owned(), stages })
    }
}

/// Returns the CPU time per thread, in nanoseconds.
fn each_ns((_, threads, ns): &Load) -> u64 {
    ns / u64::from(*threads)
}

impl StageThreads {
    fn of(load: Load, window_ns: f64, commands: u64) -> StageThreads {
        let (stage, threads, ns) = load;
        let each = each_ns(&load) as f64;
        StageThreads {
            stage: stage.to_owned(),
            threads,
            us_per_command: per(ns as f64 / 1e3, commands),
            busy_percent: each / window_ns.max(1.0) * 100.0,
            limit_per_s: (each > 0.0).then(|| commands as f64 / each * 1e9),
        }
    }
}
