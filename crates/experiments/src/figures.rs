//! The figures and series that rows may have. A name ends with its unit.

/// A figure of a row, or a series of one value per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub unit: &'static str,
    pub about: &'static str,
}

const fn figure(name: &'static str, unit: &'static str, about: &'static str) -> Figure {
    Figure { name, unit, about }
}

/// Name of the share of requests that succeed.
pub const SUCCESS: &str = "success_probability";
/// Name of the number of requests behind it.
pub const REQUESTS: &str = "requests";
/// Figures that are a share of counted things, with the figure that counts these.
pub const SHARES: &[(&str, &str)] = &[(SUCCESS, REQUESTS), ("answered_probability", REQUESTS)];

/// The figures of a run.
pub const FIGURES: &[Figure] = &[
    figure("throughput_per_s", "commands/s", "commands completed per second of the measured time; 0 if none was"),
    figure("payload_mbit_per_s", "Mbit/s", "payload of the completed commands"),
    figure("mean_ms", "ms", "mean latency, from the intended sending of a command to its completion"),
    figure("p50_ms", "ms", "median latency"),
    figure("p90_ms", "ms", "90th percentile of the latency"),
    figure("p99_ms", "ms", "99th percentile of the latency"),
    figure("p999_ms", "ms", "99.9th percentile of the latency"),
    figure("max_ms", "ms", "highest latency"),
    figure(
        "commit_mean_ms",
        "ms",
        "mean latency up to the commit at the replica nearest to the client; simulated only",
    ),
    figure(
        "commit_p50_ms",
        "ms",
        "median latency up to the commit at the replica nearest to the client; simulated only",
    ),
    figure("commit_p99_ms", "ms", "99th percentile of the latency up to that commit; simulated only"),
    figure("tail_ratio", "", "99th percentile of the latency by its median"),
    figure("longest_gap_ms", "ms", "longest time without any completion"),
    figure("completed_commands", "commands", "commands completed in the measured time"),
    figure("executed_commands", "commands", "commands executed in the measured time, as one replica counts them"),
    figure("refused_commands", "commands", "commands of an open loop that replicas refused because of the load"),
    figure("committed_blocks", "blocks", "blocks committed in the measured time, as one replica counts them"),
    figure("commands_per_block", "commands", "executed commands by committed blocks, both as one replica counts them"),
    figure("views", "views", "views entered in the measured time, as one replica counts them"),
    figure("view_timeouts", "timeouts", "views that timed out in the measured time, as one replica counts them"),
    figure("recovery_percent", "%", "throughput while a recurring fault is off, by that before it was first on"),
    figure("cpu_us_per_command", "us", "processor time of all replicas and clients per completed command"),
    figure("replica_cpu_us_per_command", "us", "processor time of all replicas per completed command"),
    figure("client_cpu_us_per_command", "us", "processor time of all clients per completed command"),
    figure("core_percent", "%", "time that the core's thread worked, at the replica with the busiest thread"),
    figure("network_percent", "%", "time that the thread of its network worked; 0 without one"),
    figure("verifiers_percent", "%", "time that each of its threads for signatures worked; 0 without any"),
    figure("bytes_per_command", "B", "bytes that all replicas and clients send per completed command"),
    figure("bytes_per_block", "B", "bytes that replicas send per committed block"),
    figure(
        "leader_bytes_per_command",
        "B",
        "bytes that the replica with the most to send, the leader, sends per command",
    ),
    figure("line_bytes_per_command", "B", "the same on its line, with the headers of Ethernet, IP and TCP or UDP"),
    figure("goodput_mbit_per_s", "Mbit/s", "bytes of messages that leave the leader per second"),
    figure("goodput_percent", "%", "bytes of messages that leave the leader, by the bytes on its line"),
    figure("line_used_percent", "%", "bytes on the leader's line per second, by the line's rate"),
    figure("line_limit_per_s", "commands/s", "commands per second that the leader's line carries"),
    figure("messages_per_block", "messages", "messages between replicas per committed block"),
    figure("verifications_per_block", "signatures", "signatures that all replicas verify per committed block"),
    figure(
        "verification_us",
        "us",
        "processor time of verifying one of the signatures that all replicas verify, the mean; simulated only",
    ),
    figure("certificate_bytes", "B", "bytes of a certificate by a quorum, without its statement"),
    figure(
        "key_additions_per_certificate",
        "additions",
        "public keys added or subtracted to verify a certificate of a peer, the mean; with BLS only",
    ),
    figure("handshake_ms", "ms", "mean time of a handshake between replicas, over packets only"),
    figure(
        "packets",
        "packets",
        "packets sent by replicas, over packets; with TCP by all, in an emulated network only",
    ),
    figure("retransmissions", "packets", "those of them that were sent again"),
    figure("rto_events", "timeouts", "retransmission timeouts that were over"),
    figure("peak_rss_mb", "MB", "peak resident memory of all processes, in MB of 1,000,000 bytes"),
    figure(
        "allocations_per_command",
        "allocations",
        "heap allocations of all replicas' core threads per command; needs `count_allocations`",
    ),
    figure("allocated_bytes_per_command", "B", "bytes of these allocations; a reallocation counts its whole new size"),
    figure(
        "leader_receive_cycles",
        "cycles",
        "cycles of the leader's stage `receive` per executed command; needs `stages`",
    ),
    figure(
        "leader_unmarshal_cycles",
        "cycles",
        "cycles of the leader's stage `unmarshal` per executed command; needs `stages`",
    ),
    figure(
        "leader_authenticate_cycles",
        "cycles",
        "cycles of the leader's stage `authenticate` per executed command; needs `stages`",
    ),
    figure("leader_hash_cycles", "cycles", "cycles of the leader's stage `hash` per executed command; needs `stages`"),
    figure("leader_step_cycles", "cycles", "cycles of the leader's stage `step` per executed command; needs `stages`"),
    figure(
        "leader_persist_cycles",
        "cycles",
        "cycles of the leader's stage `persist` per executed command; needs `stages`",
    ),
    figure(
        "leader_execute_cycles",
        "cycles",
        "cycles of the leader's stage `execute` per executed command; needs `stages`",
    ),
    figure(
        "leader_marshal_cycles",
        "cycles",
        "cycles of the leader's stage `marshal` per executed command; needs `stages`",
    ),
    figure("leader_sign_cycles", "cycles", "cycles of the leader's stage `sign` per executed command; needs `stages`"),
    figure("leader_send_cycles", "cycles", "cycles of the leader's stage `send` per executed command; needs `stages`"),
    figure("leader_wait_cycles", "cycles", "cycles of the leader's stage `wait` per executed command; needs `stages`"),
    figure("leader_host_cycles", "cycles", "cycles of the leader's stage `host` per executed command; needs `stages`"),
    figure("leader_codec_cycles", "cycles", "those of `unmarshal` and `marshal` together"),
    figure(
        "codec_and_hash_percent",
        "%",
        "`unmarshal`, `marshal` and `hash` by what the leader spends apart from system calls; needs `stages`",
    ),
    figure("request_hash_cycles", "cycles", "hashing of one request at the leader, the mean; needs `stages`"),
    figure("reply_sign_cycles", "cycles", "signature or code of one reply at the leader, the mean; needs `stages`"),
    figure("scenarios", "scenarios", "scenarios of twins and partitions that were played"),
    figure("unsafe_scenarios", "scenarios", "scenarios that violated an invariant of safety"),
    figure("stalled_scenarios", "scenarios", "scenarios after which the replicas made no progress"),
    figure("scenarios_per_s", "scenarios/s", "scenarios played per second on all cores"),
    figure("bugs_missed", "bugs", "bugs put back that a search did not find within its budget"),
    figure("false_alarms", "bugs", "bugs whose scenarios show a violation even without the bug"),
    figure(
        "scenarios_until_found",
        "scenarios",
        "scenarios with twins until a bug was found, the one that found it included",
    ),
    figure(SUCCESS, "", "requests that get at least 2f+1 replies without a view change, by all requests"),
    figure(
        "answered_probability",
        "",
        "requests that get at least f+1 replies without a view change, by all requests; measured only",
    ),
    figure(REQUESTS, "requests", "requests behind these probabilities"),
    figure("agreement_probability", "", "requests that a quorum commits without a view change; formulas only"),
    figure(
        "expected_replies",
        "replies",
        "replies to a request that a quorum commits, 0 for the others, the mean; formulas only",
    ),
    figure("mean_replies", "replies", "replies to a request, the mean over all requests"),
    figure("success_mean_ms", "ms", "mean time until a request has 2f+1 replies, of those that get them"),
    figure("success_p50_ms", "ms", "median of that time"),
    figure("success_p90_ms", "ms", "90th percentile of that time"),
    figure("success_p99_ms", "ms", "99th percentile of that time"),
    figure("expected_replies_bound", "replies", "lower bound of equation 2 on expected_replies; formulas only"),
    figure("bound_ratio", "", "that bound by expected_replies; formulas only"),
    figure("message_loss", "", "probability that a vote is lost with all its copies or retransmissions; formulas only"),
    figure("messages_per_request", "messages", "messages of a request if nothing is lost; formulas only"),
    figure("printed_messages", "messages", "the same by the paper's formula, with messages to oneself; formulas only"),
    figure("packets_per_request", "packets", "expected packets of a request under loss; formulas only"),
    figure("retransmissions_needed", "copies", "copies or retransmissions by equation 7; formulas only"),
    figure("repetitions_needed", "copies", "the least number that suffices by equation 1; formulas only"),
    figure("attempts_ratio", "", "attempts that suffice by equation 1, by those of equation 7; formulas only"),
    figure("view_change_probability", "", "requests that need a view change at the best timeout; formulas only"),
    figure("best_timeout_ms", "ms", "timeout with the highest throughput of one request at a time; formulas only"),
    figure("operations_limit_per_s", "operations/s", "operations that the leader's line carries; plans only"),
    figure("values_of_line_percent", "%", "values in proposals at that rate, by the line's rate; plans only"),
    figure("signature_slices", "slices", "logic of an FPGA for signatures, made and verified; plans only"),
    figure("slices", "slices", "logic of an FPGA that a replica needs; plans only"),
    figure("dsps", "DSPs", "multipliers of an FPGA that a replica needs; plans only"),
    figure("brams", "BRAMs", "blocks of memory of an FPGA that a replica needs; plans only"),
    figure("remaining_slices", "slices", "logic of the FPGA that remains, below 0 if it does not fit; plans only"),
    figure("device_percent", "%", "the resource of the FPGA that is used most, by what there is; plans only"),
    figure("least_replicas", "replicas", "least group from which on all fit the FPGA, up to 100; plans only"),
    figure("least_value_bytes", "B", "least value from which on all fit the FPGA, up to 16 KiB; plans only"),
    figure("processor_cores", "cores", "cores of a replica that are busy, in the busier role; plans only"),
    figure("processor_us", "us", "processor time of an operation in that role; plans only"),
    figure("cores_limit_per_s", "operations/s", "throughput of the first of the numbers of cores; plans only"),
];

/// The series of a run: one value for each second of the measured time.
pub const SERIES: &[Figure] = &[
    figure("completed_per_s", "commands/s", "commands completed"),
    figure("executed_per_s", "commands/s", "commands executed, as one replica counts them"),
    figure("timeouts_per_s", "timeouts/s", "views that timed out, as one replica counts them"),
    figure("p50_ms", "ms", "median latency"),
    figure("p99_ms", "ms", "99th percentile of the latency"),
];

/// Returns the figure that counts what another is a share of; `None` if that is no share.
pub fn count_of(figure: &str) -> Option<&'static str> {
    SHARES.iter().find(|(share, _)| *share == figure).map(|(_, count)| *count)
}

/// Returns the names of figures or series.
pub fn names(figures: &[Figure]) -> Vec<&'static str> {
    figures.iter().map(|figure| figure.name).collect()
}
