//! The choices that a cluster and its clients have to make alike.

use crate::choice;

choice!(
    /// How commands reach the replica that proposes them.
    #[derive(Default)]
    Dissemination, "dissemination",
    /// Clients send every bundle to all replicas, and proposals carry digests.
    #[default]
    Client = "client",
    /// Clients send every bundle to the leader, and proposals carry the commands.
    Leader = "leader",
);

choice!(
    /// Which replicas answer clients, and with what. Replicas and clients learn it from their configurations, not from
    /// the wire.
    #[derive(Default)]
    ReplyMode, "reply mode",
    /// Every replica answers every bundle with the outcome of each command; f+1 equal answers are the truth.
    #[default]
    Each = "each",
    /// No replica answers with outcomes, so that ordering alone can be measured: replica 0 acknowledges each bundle,
    /// with [`Results::bare`](crate::Results::bare), and the client takes any `Executed` for a bundle as its end. One
    /// replica's word proves nothing, and no acknowledgement comes while replica 0 is down: for experiments only.
    None = "none",
);

choice!(
    /// Which application a cluster runs.
    #[derive(Default)]
    ApplicationKind, "application",
    /// Orders commands and executes nothing.
    Log = "log",
    /// A key-value store.
    #[default]
    KeyValue = "kv",
);
