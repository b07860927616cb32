//! Every bound that the wire format enforces. A value beyond its limit is refused by name before anything is allocated for it.

/// Most replicas in one committee; the width of the signer bit set.
pub const MAX_REPLICAS: usize = 256;
/// Most bytes in one frame on any transport: a block of the largest bundles has to fit.
pub const MAX_FRAME_BYTES: usize = 64 << 20;
/// Most bytes of payload in one command.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;
/// Most commands in one bundle.
pub const MAX_BUNDLE_COMMANDS: usize = 65_536;
/// Most bytes of one encoded bundle.
pub const MAX_BUNDLE_BYTES: usize = 32 << 20;
/// Most bundles that one block refers to.
pub const MAX_BLOCK_BUNDLES: usize = 65_536;
/// Most bytes in the proof of one certificate: as many signatures as there may be replicas.
pub const MAX_PROOF_BYTES: usize = MAX_REPLICAS * MAX_SIGNATURE_BYTES;
/// Most bytes in one signature: a vector of authentication codes of 16 bytes for each of 256 replicas, or one of ML-DSA-65 (3,309).
pub const MAX_SIGNATURE_BYTES: usize = 4096;
/// Most bytes in one error or status text on the wire.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Most heights between the one at which a bundle is executed and the one at which it expires: 17 minutes at 1000 blocks a second.
/// What a client sends and hears nothing of is certainly void after that many blocks.
pub const MAX_BUNDLE_LIFETIME_BLOCKS: u64 = 1 << 20;
