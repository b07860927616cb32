//! The tags of all hashes. Each [`Hasher`](crate::Hasher) begins with one, so that no hash has two meanings.
//!
//! Each tag is used in one place; a test over the sources of all crates detects a second use and unlisted tags. Only
//! the checker of exports (`inspect/src/check`), which trusts no other code, computes some of the same hashes. Tests
//! and examples have separate tags, which begin with other letters.

/// Declares the tags, and checks that no two are equal.
macro_rules! tags {
    ($($(#[$doc:meta])* $name:ident = $tag:literal,)+) => {
        $($(#[$doc])* pub const $name: [u8; 4] = *$tag;)+

        /// All tags.
        pub const ALL: &[[u8; 4]] = &[$($name),+];
    };
}

tags! {
    /// A proof of an address.
    ADDRESS = b"addr",
    /// A proof of a new address of a session.
    MOVE = b"move",
    /// A bundle with its authenticator.
    SIGNED_BUNDLE = b"qA01",
    /// Name of a certificate of storage.
    COVER = b"qA02",
    /// A batch of bundles that a replica has spread.
    BATCH = b"qA03",
    /// An action of a replica, in a recording.
    ACTION = b"qA04",
    /// The content of a bundle.
    BUNDLE = b"qB03",
    /// The name of a cluster.
    CLUSTER = b"qC01",
    /// A replica's challenge for a link.
    CHALLENGE = b"qC02",
    /// Data that `quorate calibrate` hashes for timing.
    CALIBRATION = b"qC03",
    /// The genesis of a cluster.
    EPOCH = b"qE01",
    /// The keys of all members.
    MEMBERS = b"qE02",
    /// The last committed blocks.
    FRONTIER = b"qF01",
    /// The root of all chains of a genesis.
    EMPTY_CHAIN = b"qG01",
    BLOCK = b"qH02",
    /// The seed of an identity key derived from a seed.
    IDENTITY_SEED = b"qI01",
    /// The id of a client with a key.
    CLIENT_KEY = b"qK01",
    /// The state of the application `log`.
    LOG = b"qL01",
    /// The manifest of a state.
    MANIFEST = b"qM01",
    /// A part of a state.
    CHUNK = b"qM02",
    /// A statement, in a cache of signatures.
    SIGNED = b"qN01",
    /// The parameters of a replica.
    PARAMETERS = b"qP01",
    /// The parameters and the release of a replica, in a handshake.
    RELEASE = b"qP03",
    /// Members' keys, as replicas compare them.
    MEMBER_KEYS = b"qP02",
    /// A query identified by an answer.
    QUESTION = b"qQ01",
    /// Random bytes that applications get from a block.
    RANDOMNESS = b"qR02",
    /// Replies that are authenticated together.
    AUTHENTICATED_REPLIES = b"qR01",
    /// A file with a state.
    SNAPSHOT = b"qS02",
    /// A whole certificate, in a cache.
    CERTIFICATE = b"qV01",
    /// A VIEW-CHANGE of PBFT.
    VIEW_CHANGE = b"qW01",
    /// A NEW-VIEW of PBFT.
    NEW_VIEW = b"qW02",
    /// The history before the first block.
    NOTHING_EXECUTED = b"qX00",
    /// The history of all executed commands.
    HISTORY = b"qX03",
    /// The state at a checkpoint.
    CHECKPOINT = b"qX02",
    /// A connection id of QUIC.
    QUIC_CONNECTION = b"qcid",
    /// The first destination of a connection of QUIC.
    QUIC_DESTINATION = b"qdst",
    /// Random numbers of an endpoint of QUIC.
    QUIC_RANDOM = b"qrng",
    /// The tag of the connection ids of an endpoint of QUIC.
    QUIC_TAG = b"qtag",
    /// A signature of a simulated handshake.
    SIMULATED_SIGNATURE = b"simi",
    /// The token of a session.
    TOKEN = b"tokn",
    /// A cell of an experiment.
    CELL = b"xcel",
    /// The program of a run.
    PROGRAM = b"xexe",
    /// The input files of a run.
    INPUT = b"xinp",
    /// The name of a result row.
    ROW_NAME = b"xnam",
}

const _: () = assert!(are_distinct(ALL), "two kinds of hashes share a tag");

const fn are_distinct(tags: &[[u8; 4]]) -> bool {
    let (mut one, mut other) = (0, 1);
    while one < tags.len() {
        while other < tags.len() {
            if u32::from_le_bytes(tags[one]) == u32::from_le_bytes(tags[other]) {
                return false;
            }
            other += 1;
        }
        one += 1;
        other = one + 1;
    }
    true
}
