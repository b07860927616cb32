//! Choices that must be equal on a cluster's replicas and its clients.

use crate::choice;

choice!(
    /// How bundles reach the replica that proposes them.
    #[derive(Default)]
    Dissemination, "dissemination",
    /// Clients send every bundle to all replicas, and proposals carry digests.
    #[default]
    Client = "client",
    /// Clients send every bundle to the leader, and proposals carry the commands.
    Leader = "leader",
    /// Clients send every bundle to one replica, which forwards it to the others, and proposals carry digests.
    Replicas = "replicas",
    /// As with `replicas`, but a leader proposes a bundle only after n-f replicas have signed that they hold it, so no
    /// vote waits for a bundle.
    ReplicasCertified = "replicas-certified",
);

impl Dissemination {
    /// Returns whether clients send each bundle to one replica, which forwards it to the others.
    pub fn is_spread(self) -> bool {
        matches!(self, Dissemination::Replicas | Dissemination::ReplicasCertified)
    }

    /// Returns whether leaders propose only bundles whose storage is certified.
    pub fn is_certified(self) -> bool {
        self == Dissemination::ReplicasCertified
    }
}

choice!(
    /// Replicas that answer clients, and the content of the answers. Replicas and clients take it from their
    /// configurations, not from the wire.
    #[derive(Default)]
    ReplyMode, "reply mode",
    /// Every replica answers every bundle with the outcome of each command; f+1 equal answers prove it.
    #[default]
    Each = "each",
    /// No replica answers with outcomes, so that ordering can be measured alone: replica 0 acknowledges each bundle
    /// with [`Results::bare`](crate::Results::bare), and the client accepts any `Executed` as the end of a bundle. One
    /// replica's reply proves nothing, and none arrives while replica 0 is down: for experiments only.
    None = "none",
);

choice!(
    /// Conversion of byte strings between frames and the replica's values.
    #[derive(Default)]
    PayloadPath, "payload path",
    /// Byte strings are slices of the received frame, and frames are encoded directly from the values.
    #[default]
    Shared = "shared",
    /// Byte strings and commands are copied into wire types and from there into the protocol's types, and back before
    /// sending, like the layer that translates generated types in the framework paper, section 5.3.1. For comparison
    /// only.
    Copied = "copied",
);
