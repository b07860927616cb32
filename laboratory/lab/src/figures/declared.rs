//! Figures that are not fields of a result: ratios, choices between results, formulas and plans.

use super::run::{PERCENT, Run, ratio};
use crate::experiments::figures::{Figure, Fold};
use crate::spec::WorkloadKind;
use quorate_types::stages::{MessageKind, Stage};

const BITS_PER_BYTE: f64 = 8.0;
const BITS_PER_MBIT: f64 = 1e6;
/// Figure that counts the requests behind probabilities.
const REQUESTS: &str = "requests";

/// Figure with the function that derives it from a run.
pub(super) struct Derived {
    pub figure: Figure,
    pub of: fn(&Run) -> Option<f64>,
}

/// Declares figures: name, unit, meaning, the function that derives it from a run, and fields that differ from
/// [`Figure::new`].
macro_rules! derived {
    ($($name:literal, $unit:literal, $about:literal => $of:expr $(, $field:ident: $value:expr)*;)*) => {
        &[$(Derived { figure: Figure { $($field: $value,)* ..Figure::new($name, $unit, $about) }, of: $of }),*]
    };
}

/// Figures computed from the result of a cluster's run, real or simulated.
pub(super) const OF_CLUSTERS: &[Derived] = derived! {
    "payload_mbit_per_s", "Mbit/s", "Payload of the completed commands" =>
        |run| {
            let bench = run.bench().filter(|bench| bench.spec.workload == WorkloadKind::Fixed)?;
            Some(bench.throughput_ops * f64::from(bench.spec.payload) * BITS_PER_BYTE / BITS_PER_MBIT)
        };
    "mean_ms", "ms", "Mean latency, from the intended sending of a command to its completion" =>
        |run| run.latency()?.mean;
    "p50_ms", "ms", "Median latency" => |run| run.latency()?.p50;
    "p90_ms", "ms", "90th percentile of the latency" => |run| run.latency()?.p90;
    "p99_ms", "ms", "99th percentile of the latency" => |run| run.latency()?.p99;
    "p999_ms", "ms", "99.9th percentile of the latency" => |run| run.latency()?.p999;
    "max_ms", "ms", "Highest latency" => |run| run.latency()?.max;
    "commit_mean_ms", "ms", "Mean latency up to the commit at the replica nearest to the client; simulated only" =>
        |run| run.commit_latency()?.mean;
    "commit_p50_ms", "ms", "Median latency up to the commit at the replica nearest to the client; simulated only" =>
        |run| run.commit_latency()?.p50;
    "commit_p99_ms", "ms", "99th percentile of the latency up to that commit; simulated only" =>
        |run| run.commit_latency()?.p99;
    "tail_ratio", "", "99th percentile of the latency by its median" =>
        |run| {
            let latency = run.bench().and_then(|_| run.latency())?;
            ratio(latency.p99, latency.p50)
        };
    "commands_per_block", "commands", "Executed commands by committed blocks, both as one replica counts them" =>
        |run| {
            let bench = run.bench()?;
            ratio(Some(bench.executed_commands as f64), Some(bench.committed_blocks as f64))
        };
    "refused_percent", "%", "Refused commands by those that were refused or completed" =>
        |run| {
            let bench = run.bench()?;
            let offered = bench.refused_commands + bench.committed_commands;
            ratio(Some(bench.refused_commands as f64 * PERCENT), Some(offered as f64))
        };
    "instructions_per_command", "instructions", "Instructions of the whole simulation per completed command, its start \
        included; only if they are counted" =>
        |run| ratio(run.instructions.map(|count| count as f64), Some(run.bench()?.committed_commands as f64));
    "channel_us_per_command", "us", "CPU time of all channels per completed command" =>
        |run| {
            let spent = run.bench()?.channel_us_per_command?;
            Some(spent.replicas? + spent.clients?)
        };
    "core_percent", "%", "Utilization of the core thread, at the replica with the busiest thread" =>
        |run| run.busy_percent("core");
    "network_percent", "%", "Utilization of its network thread; 0 without one" =>
        |run| run.busy_percent("network");
    "verifiers_percent", "%", "Mean utilization of its verifiers; 0 without any" =>
        |run| run.busy_percent("verifiers");
    "verification_us", "us", "Mean CPU time per verified signature, over all replicas; simulated only" =>
        |run| {
            let share = run.verifications()?;
            ratio(Some(share.us_per_command), Some(share.count_per_command))
        };
    "packets", "packets", "Packets sent by replicas; with TCP by all endpoints, in emulated networks only" =>
        |run| {
            let bench = run.bench()?;
            let of_tcp = || bench.emulation.as_ref().map(|emulation| emulation.packets);
            bench.packets.map(|packets| packets.sent).or_else(of_tcp).map(|packets| packets as f64)
        }, whole: true;
    "retransmissions", "packets", "Retransmissions among these packets" =>
        |run| {
            let bench = run.bench()?;
            let of_tcp = || bench.emulation.as_ref().map(|emulation| emulation.retransmissions);
            bench.packets.map(|packets| packets.retransmissions).or_else(of_tcp).map(|packets| packets as f64)
        }, whole: true;
    "rto_events", "timeouts", "Expired retransmission timeouts" =>
        |run| {
            let bench = run.bench()?;
            let of_tcp = || bench.emulation.as_ref().map(|emulation| emulation.rto_events);
            bench.packets.and_then(|packets| packets.rto_events).or_else(of_tcp).map(|timeouts| timeouts as f64)
        }, whole: true;
    "peak_rss_mb", "MB", "Peak resident memory of all processes, in MB of 1,000,000 bytes" =>
        // A simulation does not measure memory.
        |run| run.bench().map(|bench| bench.peak_rss_mb).filter(|memory| *memory > 0.0);
    "leader_codec_cycles", "cycles", "Cycles of `unmarshal` and `marshal` together" =>
        |run| run.leader_cycles(&[Stage::Unmarshal, Stage::Marshal]);
    "codec_and_hash_percent", "%", "Share of `unmarshal`, `marshal` and `hash` in the leader's cycles without system \
        calls; needs `stages`" =>
        |run| run.leader_percent(&[Stage::Unmarshal, Stage::Marshal, Stage::Hash]);
    "request_hash_cycles", "cycles", "Mean cycles for hashing one request at the leader; needs `stages`" =>
        |run| run.message_cycles(MessageKind::Request, Stage::Hash);
    "reply_sign_cycles", "cycles", "Mean cycles for the signature or MAC of one reply at the leader; needs `stages`" =>
        |run| run.message_cycles(MessageKind::Reply, Stage::Sign);
    "leader_receive_cycles", "cycles", "Cycles of the leader's stage `receive` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Receive]);
    "leader_unmarshal_cycles", "cycles",
        "Cycles of the leader's stage `unmarshal` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Unmarshal]);
    "leader_authenticate_cycles", "cycles",
        "Cycles of the leader's stage `authenticate` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Authenticate]);
    "leader_hash_cycles", "cycles", "Cycles of the leader's stage `hash` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Hash]);
    "leader_step_cycles", "cycles", "Cycles of the leader's stage `step` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Step]);
    "leader_persist_cycles", "cycles", "Cycles of the leader's stage `persist` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Persist]);
    "leader_execute_cycles", "cycles", "Cycles of the leader's stage `execute` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Execute]);
    "leader_marshal_cycles", "cycles", "Cycles of the leader's stage `marshal` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Marshal]);
    "leader_sign_cycles", "cycles", "Cycles of the leader's stage `sign` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Sign]);
    "leader_send_cycles", "cycles", "Cycles of the leader's stage `send` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Send]);
    "leader_wait_cycles", "cycles", "Cycles of the leader's stage `wait` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Wait]);
    "leader_host_cycles", "cycles", "Cycles of the leader's stage `host` per executed command; needs `stages`" =>
        |run| run.leader_cycles(&[Stage::Host]);
};

/// Figures of scenarios, of model requests without retries, and of formulas.
pub(super) const OF_MODELS: &[Derived] = derived! {
    "scenarios_until_found", "scenarios", "Scenarios with twins up to and including the one that found a bug" =>
        Run::scenarios_until_found;
    "success_probability", "", "Share of requests with at least 2f+1 replies and no view change" =>
        |run| match run.requests() {
            Some(requests) => requests.success_probability,
            None => Some(run.model()?.success_probability),
        }, fold: Fold::ShareOf(REQUESTS);
    "answered_probability", "", "Share of requests with at least f+1 replies and no view change; measured only" =>
        |run| run.requests()?.answered_probability, fold: Fold::ShareOf(REQUESTS);
    "requests", "requests", "Requests behind these probabilities" => |run| Some(run.requests()?.requests as f64);
    "agreement_probability", "", "Share of requests that a quorum commits without a view change; formulas only" =>
        |run| run.model()?.agreement_probability;
    "expected_replies", "replies", "Mean replies to a request, 0 if no quorum commits it; formulas only" =>
        |run| Some(run.model()?.expected_replies);
    "mean_replies", "replies", "Mean replies to a request, over all requests" =>
        |run| match run.requests() {
            Some(requests) => requests.expected_replies,
            None => run.model()?.mean_replies,
        };
    "success_mean_ms", "ms", "Mean time until a request has 2f+1 replies, over the requests that get them" =>
        |run| run.success_latency()?.mean;
    "success_p50_ms", "ms", "Median of that time" => |run| run.success_latency()?.p50;
    "success_p90_ms", "ms", "90th percentile of that time" => |run| run.success_latency()?.p90;
    "success_p99_ms", "ms", "99th percentile of that time" => |run| run.success_latency()?.p99;
    "expected_replies_bound", "replies", "Lower bound of equation 2 on expected_replies; formulas only" =>
        |run| run.model()?.expected_replies_lower_bound;
    "bound_ratio", "", "That bound divided by expected_replies; formulas only" =>
        |run| {
            let model = run.model()?;
            ratio(model.expected_replies_lower_bound, Some(model.expected_replies))
        };
    "message_loss", "", "Probability that a vote is lost with all its copies or retransmissions; formulas only" =>
        |run| Some(run.model()?.message_loss);
    "messages_per_request", "messages", "Messages of a request without loss; formulas only" =>
        |run| Some(run.model()?.messages.without_loss);
    "printed_messages", "messages", "The same by the paper's formula, with messages to oneself; formulas only" =>
        |run| Some(run.model()?.messages.printed? as f64);
    "packets_per_request", "packets", "Expected packets of a request under loss; formulas only" =>
        |run| Some(run.model()?.messages.packets);
    "retransmissions_needed", "copies", "Copies or retransmissions by equation 7; formulas only" =>
        |run| run.model()?.retransmissions_needed.map(f64::from);
    "repetitions_needed", "copies", "The smallest number that suffices by equation 1; formulas only" =>
        |run| run.model()?.repetitions_needed.map(f64::from);
    "attempts_ratio", "", "Ratio of the sufficient attempts by equation 1 to those by equation 7; formulas only" =>
        |run| {
            // The total includes the first attempt.
            let attempts = |again: Option<u32>| again.map(|number| f64::from(number) + 1.0);
            let model = run.model()?;
            ratio(attempts(model.repetitions_needed), attempts(model.retransmissions_needed))
        };
    "view_change_probability", "", "Requests that need a view change at the best timeout; formulas only" =>
        |run| Some(run.model()?.view_change?.probability);
    "best_timeout_ms", "ms", "Timeout with the highest throughput of one request at a time; formulas only" =>
        |run| run.model()?.best_timeout_ms;
    "operations_limit_per_s", "operations/s", "Operations at the capacity of the leader's link; plans only" =>
        |run| match run.fpga_point() {
            Some(point) => Some(point.operations_per_s),
            None => Some(run.cpu_point()?.line_limit_per_s),
        };
    "values_of_line_percent", "%", "Values in proposals at that rate, by the line's rate; plans only" =>
        |run| Some(run.fpga_point()?.goodput_percent);
    "signature_slices", "slices", "Logic of an FPGA for signatures, made and verified; plans only" =>
        |run| Some(run.fpga_point()?.signature_slices);
    "slices", "slices", "Logic of an FPGA that a replica needs; plans only" =>
        |run| Some(run.fpga_point()?.total.slices);
    "dsps", "DSPs", "Multipliers of an FPGA that a replica needs; plans only" =>
        |run| Some(run.fpga_point()?.total.dsps);
    "brams", "BRAMs", "Blocks of memory of an FPGA that a replica needs; plans only" =>
        |run| Some(run.fpga_point()?.total.brams);
    "remaining_slices", "slices", "Logic of the FPGA that remains, below 0 if it does not fit; plans only" =>
        |run| Some(run.fpga_point()?.remaining.slices), signed: true;
    "device_percent", "%", "Utilization of the FPGA's most used resource; plans only" =>
        |run| Some(run.fpga_point()?.used_percent.largest().1);
    "least_replicas", "replicas", "Least group from which on all fit the FPGA, up to 100; plans only" =>
        |run| Some(run.fpga()?.plan.least_replicas.first()?.replicas? as f64);
    "least_value_bytes", "B", "Least value from which on all fit the FPGA, up to 16 KiB; plans only" =>
        |run| run.fpga()?.plan.least_values.first()?.value_bytes.map(f64::from);
    "processor_cores", "cores", "Cores of a replica that are busy, in the busier role; plans only" =>
        |run| run.busier_role(|role| role.cores);
    "processor_us", "us", "Processor time of an operation in that role; plans only" =>
        |run| run.busier_role(|role| role.us_per_operation);
    "cores_limit_per_s", "operations/s", "Throughput of the first of the numbers of cores; plans only" =>
        |run| Some(run.cpu_point()?.on_cores.first()?.operations_per_s);
};
