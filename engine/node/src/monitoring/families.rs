//! The metrics of a replica: its [status](Status) and its process' [resources](Resources) in the terms of a monitor.
//!
//! docs/METRICS.md lists them. No label has a value that clients choose, and `peer` has at most 255.

use super::health::{lag, unreadiness};
use super::page::{Format, Label, Page, seconds};
use super::process::Resources;
use quorate_consensus::seam::Drop;
use quorate_types::meter::Primitive;
use quorate_types::{HostStatus, Status};
use std::collections::BTreeMap;

/// Constant facts about a replica.
#[derive(Clone, PartialEq, Debug)]
pub struct About {
    pub cluster: String,
    pub protocol: &'static str,
    pub scheme: &'static str,
    pub transport: &'static str,
    pub channel: &'static str,
    /// Time of the start, in seconds since 1970.
    pub started: f64,
    /// Maximum bytes of the journal; `None` if it is in memory.
    pub journal_capacity_bytes: Option<u64>,
}

/// Reasons in [`Status::dropped`] that concern clients; all others concern messages of replicas.
const OF_CLIENTS: [&str; 8] = [
    "busy",
    "not-admitted",
    "over-quota",
    "questions-not-admitted",
    "questions-over-quota",
    "undecodable-from-clients",
    "forged-by-clients",
    "clients-cut",
];

/// Reasons in [`Status::dropped`] that concern messages of replicas, besides those of the core.
const OF_HOST: [&str; 3] = ["undecodable-from-peers", "forged-by-peers", "not-queued"];

/// Returns the page of all metrics.
pub fn page(format: Format, about: &About, status: &Status, resources: &Resources) -> String {
    let mut page = Page::new(format);
    let absent = HostStatus::default();
    let host = status.host.as_deref().unwrap_or(&absent);
    identity(&mut page, about, status, host);
    agreement(&mut page, status, host);
    trust(&mut page, status, host);
    latencies(&mut page, status, host);
    queues(&mut page, status, host);
    refusals(&mut page, status);
    links(&mut page, status, host);
    traffic(&mut page, status, host);
    disk(&mut page, about, status, resources);
    states(&mut page, host);
    work(&mut page, status, host);
    process(&mut page, about, status, resources);
    page.finish()
}

fn identity(page: &mut Page, about: &About, status: &Status, host: &HostStatus) {
    let version: [Label<'_>; 1] = [("version", &host.version)];
    page.gauge("quorate_build_info", "Version of the program; always 1.").add(&version, 1u64);
    let replica = status.replica.to_string();
    let labels: [Label<'_>; 6] = [
        ("cluster", &about.cluster),
        ("replica", &replica),
        ("protocol", about.protocol),
        ("scheme", about.scheme),
        ("transport", about.transport),
        ("channel", about.channel),
    ];
    page.gauge("quorate_replica_info", "The replica and the kind of its cluster; always 1.").add(&labels, 1u64);
    page.gauge("quorate_replicas", "Replicas of the cluster.").value(status.peers + 1);
    page.gauge("quorate_quorum_replicas", "Replicas that form a quorum.").value(host.quorum);
    page.gauge("quorate_tolerated_faults", "Faulty replicas that the cluster tolerates.").value(host.faults);
}

fn agreement(page: &mut Page, status: &Status, host: &HostStatus) {
    let leads = status.leader == status.replica;
    page.gauge("quorate_ready", "Whether the replica has caught up, votes, and reaches a quorum.")
        .value(unreadiness(status, host).is_empty());
    page.gauge("quorate_view", "Current view.").value(status.view.0);
    page.gauge("quorate_leader", "Id of the current view's leader.").value(u64::from(status.leader.0));
    page.gauge("quorate_is_leader", "Whether this replica leads the current view.").value(leads);
    page.gauge("quorate_height", "Height of the last executed block.").value(status.height.0);
    page.gauge("quorate_known_height", "Greatest height that others have proved to this replica.")
        .value(host.known_height.0);
    page.gauge("quorate_lag_blocks", "Blocks that others have proved and this replica has not executed.")
        .value(lag(status, host));
    page.gauge("quorate_height_age_seconds", "Time since the last block was executed.")
        .value(status.height_age_ms as f64 / 1e3);
    page.counter("quorate_blocks_executed_total", "Executed blocks, including empty ones.")
        .value(status.committed_blocks);
    page.counter("quorate_commands_executed_total", "Executed commands, without duplicates.")
        .value(status.committed_commands);
    if let Some(level) = &host.level {
        page.gauge("quorate_feature_level", "Feature level at which the next block is executed.")
            .value(u64::from(level.active.0));
        page.gauge("quorate_supported_feature_level", "Highest feature level that the program supports.")
            .value(u64::from(level.supported.0));
        page.gauge(
            "quorate_pending_feature_level_height",
            "First height of the next feature level; 0 if none is agreed.",
        )
        .value(level.pending.map_or(0, |pending| pending.height.0));
    }
    let mut timeouts = page.counter(
        "quorate_view_timeouts_total",
        "Views that this replica timed out of: without a link to the leader, without a proposal, or without a quorum \
         for the proposal.",
    );
    timeouts.add(&[("reason", "leader-unreachable")], host.timeouts.leader_unreachable);
    timeouts.add(&[("reason", "no-proposal")], host.timeouts.no_proposal);
    timeouts.add(&[("reason", "no-quorum")], host.timeouts.no_quorum);
}

fn trust(page: &mut Page, status: &Status, host: &HostStatus) {
    page.gauge("quorate_attention_items", "Problems in the status that need an operator's attention.")
        .value(status.attention.len());
    page.gauge("quorate_abstaining", "Whether the replica does not vote, because it lost its journal.")
        .value(status.abstains);
    if let Some(signer) = &host.signer {
        page.gauge("quorate_signer_connected", "Whether the process that signs the replica's votes has answered last.")
            .value(signer.connected);
        page.gauge("quorate_signer_waiting_messages", "Messages that wait for their signatures.")
            .value(signer.waiting_messages);
        page.counter("quorate_signer_refusals_total", "Statements that the signer refused, as they contradict others.")
            .value(signer.refused);
    }
    page.gauge("quorate_evidence", "Proofs of other replicas' misbehaviour.").value(status.evidence.len());
    page.gauge("quorate_hearsay_evidence", "Contradictions of other replicas that prove nothing to third parties.")
        .value(status.hearsay.len());
    page.counter(
        "quorate_voided_bundles_total",
        "Bundles lost by more replicas than tolerated: blocks ran without them.",
    )
    .value(host.voided_bundles);
    let error = host.clock_error_ms.unwrap_or(0).unsigned_abs() as f64 / 1e3;
    page.gauge("quorate_clock_error_seconds", "Distance of the clock from the last block's time, if it is too great.")
        .value(error);
}

fn latencies(page: &mut Page, status: &Status, host: &HostStatus) {
    let of = &host.latencies;
    page.histogram(
        "quorate_request_duration_seconds",
        "Time from the receipt of a client's commands to their execution, sampled every few milliseconds.",
        &of.request,
    );
    page.histogram(
        "quorate_commit_duration_seconds",
        "Time from this replica's proposal of a block to the block's execution.",
        &of.commit,
    );
    page.histogram("quorate_execution_duration_seconds", "Time to execute a block.", &of.execution);
    let writes = status.journal_writes.unwrap_or_default();
    page.histogram(
        "quorate_journal_write_duration_seconds",
        "Time to write a group of records to the journal and flush it.",
        &writes.all,
    );
    page.gauge("quorate_journal_write_pending_seconds", "Duration so far of the journal's write in progress.")
        .value(seconds(writes.pending_us));
}

fn queues(page: &mut Page, status: &Status, host: &HostStatus) {
    let of = &host.queues;
    page.gauge("quorate_waiting_bundles", "Bundles of commands here that are not executed.")
        .value(status.waiting_bundles);
    page.gauge("quorate_waiting_commands", "Commands of this replica's clients that are not executed.")
        .value(of.commands);
    page.gauge("quorate_waiting_bytes", "Bytes of the bundles of this replica's clients that are not executed.")
        .value(of.bytes);
    page.gauge("quorate_admission_limit_bytes", "Work that admission control lets wait.")
        .value(of.admission_limit_bytes);
    page.gauge("quorate_incomplete_blocks", "Blocks that wait for missing parts.").value(of.incomplete_blocks);
    page.gauge("quorate_held_messages", "Messages that wait for the journal.").value(of.held_messages);
}

fn refusals(page: &mut Page, status: &Status) {
    let mut clients = page.counter(
        "quorate_client_refusals_total",
        "Refused bundles and questions of clients, and client links closed, by reason.",
    );
    for reason in OF_CLIENTS {
        clients.add(&[("reason", reason)], status.dropped.get(reason).copied().unwrap_or(0));
    }
    let mut dropped = page.counter("quorate_dropped_messages_total", "Ignored messages of replicas, by reason.");
    // A counter that begins at 0 has a rate from its first event on.
    let known = Drop::ALL.iter().map(ToString::to_string).chain(OF_HOST.map(str::to_owned));
    let mut counts: BTreeMap<String, u64> = known.map(|reason| (reason, 0)).collect();
    let counted = status.dropped.iter().filter(|(reason, _)| !OF_CLIENTS.contains(&reason.as_str()));
    counts.extend(counted.map(|(reason, count)| (reason.clone(), *count)));
    for (reason, count) in &counts {
        dropped.add(&[("reason", reason)], *count);
    }
}

fn links(page: &mut Page, status: &Status, host: &HostStatus) {
    page.gauge("quorate_peers", "Other replicas.").value(status.peers);
    let replicas = (0..=status.peers).filter(|peer| *peer != usize::from(status.replica.0));
    let mut connected = page.gauge("quorate_peer_connected", "Whether there is a link to the replica.");
    for peer in replicas {
        let is_connected = status.connected.iter().any(|other| usize::from(other.0) == peer);
        connected.add(&[("peer", &peer.to_string())], is_connected);
    }
    let mut trips =
        page.gauge("quorate_peer_round_trip_seconds", "Smoothed round-trip time of the link to the replica.");
    for (peer, us) in &status.round_trips_us {
        trips.add(&[("peer", &peer.to_string())], seconds(*us));
    }
    page.gauge("quorate_wire_version", "Newest wire version that this replica may speak.")
        .value(u64::from(host.wire.newest));
    let mut versions = page.gauge("quorate_peer_wire_version", "Wire version of the link to the replica.");
    for link in &host.wire.links {
        versions.add(&[("peer", &link.peer.to_string())], u64::from(link.version));
    }
    let mut links = page.gauge("quorate_links", "Authenticated links, by class of the other end.");
    links.add(&[("class", "replica")], status.connected.len());
    links.add(&[("class", "client")], host.links.clients);
    links.add(&[("class", "operator")], host.links.operators);
}

fn traffic(page: &mut Page, status: &Status, host: &HostStatus) {
    let of = &host.links;
    page.counter("quorate_network_sent_bytes_total", "Bytes passed to the network, framing included.")
        .value(status.bytes_sent);
    page.counter("quorate_network_received_bytes_total", "Bytes received, framing included.").value(of.bytes_received);
    page.counter("quorate_network_sent_messages_total", "Messages passed to the network.").value(status.messages_sent);
    page.counter("quorate_network_received_messages_total", "Messages received.").value(of.messages_received);
    page.counter("quorate_network_writes_total", "System calls that sent data.").value(of.write_calls);
    page.counter("quorate_network_sent_packets_total", "Packets sent, by a transport over packets.")
        .value(status.packets_sent);
    page.counter("quorate_network_retransmitted_packets_total", "Of the packets sent, the retransmissions.")
        .value(status.retransmissions);
    page.counter(
        "quorate_network_retransmission_timeouts_total",
        "Retransmission timeouts of a transport over packets.",
    )
    .value(status.retransmission_timeouts.unwrap_or(0));
    page.counter("quorate_handshakes_total", "Successful handshakes.").value(status.handshakes);
    page.counter("quorate_handshake_seconds_total", "Duration of all successful handshakes.")
        .value(seconds(status.handshakes_us));
    page.gauge("quorate_client_memory_peak_bytes", "Peak of the bytes held by client links, received or queued.")
        .value(status.client_memory_peak_bytes);
}

fn disk(page: &mut Page, about: &About, status: &Status, resources: &Resources) {
    let is_kept = about.journal_capacity_bytes.is_some() && status.journal_writes.is_some();
    page.gauge("quorate_journal_durable", "Whether the journal is on a disk.").value(is_kept);
    optional(page, "quorate_journal_bytes", "Bytes of the journal's files.", resources.journal_bytes);
    let capacity = about.journal_capacity_bytes;
    optional(page, "quorate_journal_capacity_bytes", "Bytes at which the journal is full.", capacity);
    optional(page, "quorate_snapshot_bytes", "Bytes of the files with states.", resources.snapshot_bytes);
    let (free, total) = (resources.disk.map(|of| of.free_bytes), resources.disk.map(|of| of.total_bytes));
    optional(page, "quorate_disk_free_bytes", "Bytes left on the journal's file system.", free);
    optional(page, "quorate_disk_size_bytes", "Size of the journal's file system.", total);
}

fn states(page: &mut Page, host: &HostStatus) {
    let checkpoint = host.checkpoint.unwrap_or_default();
    page.gauge("quorate_checkpoint_height", "Height of the last certified checkpoint since the start, or 0.")
        .value(checkpoint.height.0);
    page.gauge(
        "quorate_checkpoint_age_seconds",
        "Time since the last checkpoint was certified, or 0 if there is none.",
    )
    .value(checkpoint.age_ms as f64 / 1e3);
    let transfer = host.transfer.unwrap_or_default();
    page.gauge("quorate_state_transfer_active", "Whether the replica needs a state from its peers.")
        .value(host.transfer.is_some());
    page.gauge("quorate_state_transfer_chunks", "Chunks of that state; 0 until a peer has listed them.")
        .value(transfer.chunks);
    page.gauge("quorate_state_transfer_received_chunks", "Of these, the chunks that are here.")
        .value(transfer.received);
}

fn work(page: &mut Page, status: &Status, host: &HostStatus) {
    page.counter("quorate_event_loop_iterations_total", "Iterations of the event loop.").value(host.iterations);
    page.counter("quorate_event_loop_busy_seconds_total", "Time in which the core's thread ran or was runnable.")
        .value(status.busy_ns as f64 / 1e9);
    let threads = &status.threads;
    let mut stages = page.counter("quorate_thread_cpu_seconds_total", "CPU time of the replica's threads, by stage.");
    stages.add(&[("stage", "core")], threads.core_ns as f64 / 1e9);
    stages.add(&[("stage", "network")], threads.network_ns.unwrap_or(0) as f64 / 1e9);
    stages.add(&[("stage", "verifiers")], threads.verifiers_ns as f64 / 1e9);
    page.gauge("quorate_verifier_threads", "Threads that verify signatures.").value(u64::from(threads.verifiers));
    page.counter("quorate_signature_verifications_total", "Signatures verified; a quorum of k counts k.")
        .value(status.verifications);
    page.counter("quorate_certificate_verifications_total", "Certificates of peers verified.")
        .value(status.certificates_verified);
    let mut calls = page.counter("quorate_crypto_operations_total", "Cryptographic operations, by kind.");
    for primitive in Primitive::ALL {
        calls.add(&[("operation", named(primitive))], status.crypto.of(primitive).calls);
    }
    let mut time =
        page.counter("quorate_crypto_cpu_seconds_total", "CPU time of cryptography, estimated from a sample.");
    for primitive in Primitive::ALL {
        let ns = status.crypto.of(primitive).estimated_ns().unwrap_or(0.0);
        time.add(&[("operation", named(primitive))], ns / 1e9);
    }
}

fn named(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Sign => "sign",
        Primitive::VerifySingle => "verify-single",
        Primitive::VerifyBatch => "verify-batch",
        Primitive::VerifyAggregate => "verify-aggregate",
        Primitive::Mac => "mac",
        Primitive::Hash => "hash",
        Primitive::Channel => "channel",
    }
}

fn process(page: &mut Page, about: &About, status: &Status, resources: &Resources) {
    if let Some(seconds) = resources.cpu_seconds {
        page.counter("process_cpu_seconds_total", "CPU time of the process.").value(seconds);
    }
    page.gauge("process_start_time_seconds", "Time of the start, since 1970.").value(about.started);
    optional(page, "process_resident_memory_bytes", "Resident memory of the process.", resources.resident_bytes);
    optional(page, "process_virtual_memory_bytes", "Virtual memory of the process.", resources.virtual_bytes);
    optional(page, "process_threads", "Threads of the process.", resources.threads);
    optional(page, "process_open_fds", "File descriptors that are open.", resources.descriptors);
    optional(page, "process_max_fds", "File descriptors that may be open.", resources.max_descriptors);
    page.gauge("quorate_peak_memory_bytes", "Peak resident memory of the process.").value(status.peak_rss_kb << 10);
    let heap = resources.heap;
    let used = heap.map(|heap| heap.used_bytes as u64);
    optional(page, "quorate_heap_used_bytes", "Bytes that the allocator has given out.", used);
    let free = heap.map(|heap| heap.free_bytes as u64);
    optional(page, "quorate_heap_free_bytes", "Bytes that the allocator keeps for later.", free);
}

/// Adds a gauge if it has a value.
fn optional(page: &mut Page, name: &'static str, help: &str, value: Option<u64>) {
    if let Some(value) = value {
        page.gauge(name, help).value(value);
    }
}
