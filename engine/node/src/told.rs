//! The part of a replica's configuration that it reports.

use crate::config::NodeConfig;
use quorate_types::Settings;

impl NodeConfig {
    /// Returns the settings that affect measurements of the cluster.
    pub(crate) fn settings(&self) -> Settings {
        let consensus = &self.consensus;
        Settings {
            protocol: consensus.protocol.to_string(),
            leader: consensus.leader.to_string(),
            votes: consensus.votes.to_string(),
            batch: consensus.batch,
            batch_latency_ms: consensus.batch_latency_ms,
            batch_policy: consensus.batch_policy.to_string(),
            batch_wait_ms: consensus.batch_wait_ms,
            vote_wait_us: consensus.vote_wait_us,
            dissemination: consensus.dissemination.to_string(),
            view_timeout_ms: consensus.view_timeout_ms,
            max_queue_ms: consensus.max_queue().as_millis() as u64,
            view_duration: consensus.view_duration.to_string(),
            window: consensus.window,
            checkpoint_interval: consensus.checkpoint_interval,
            pipeline: consensus.pipeline,
            scheme: self.scheme.name().to_owned(),
            auth_profile: self.auth_profile.to_string(),
            mac_scheme: self.mac_scheme.name().to_owned(),
            client_authentication: self.client_authentication.to_string(),
            reply_authentication: self.reply_authentication.to_string(),
            channel: self.channel.to_string(),
            transport: self.transport.to_string(),
            application: self.application.name().to_owned(),
            journal: self.journal.kind.to_string(),
            fsync: self.journal.fsync.to_string(),
        }
    }
}
