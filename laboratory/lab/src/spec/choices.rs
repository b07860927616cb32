//! Keys of a spec whose value is one of a few names.

pub use quorate_adversary::copies::Remedy;
pub use quorate_consensus::config::{BatchPolicy, LeaderKind, ProtocolKind, ViewDuration, VotesTo};
pub use quorate_crypto::{
    AuthProfile, BlsVerification, CertificateCache, ClientAuthentication, ClientVerdicts, ReplyAuthentication,
    SchemeKind,
};
pub use quorate_network::channels::ChannelKind;
pub use quorate_network::transports::{LinkProfile, QuicVotes, RetransmissionProfile, TransportKind};
pub use quorate_operator::choice;
pub use quorate_storage::{Fsync, JournalKind};
pub use quorate_types::choice::nearest;
pub use quorate_types::{BatchSize, Choice, Dissemination, PayloadPath, ReplicaThreads, ReplyMode};

quorate_types::choice!(
    /// Place where the replicas run.
    Host, "host",
    /// All in this process, communicating over real sockets.
    Threads = "threads",
    /// One process per replica.
    Processes = "processes",
    /// One process per replica, and the clients, in namespaces of an emulated network.
    Emulated = "emulated",
    /// One process per replica, and the clients, on other machines.
    Deployed = "deployed",
);
