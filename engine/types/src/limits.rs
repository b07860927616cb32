//! Limits of the wire format. A value over its limit is refused, with an error that names the field, before anything is
//! allocated for it.

/// Maximum number of replicas in a committee, and width of the signer bit set.
pub const MAX_REPLICAS: usize = 256;
/// Maximum length of a frame on any transport, in bytes: a block of the largest bundles has to fit.
pub const MAX_FRAME_BYTES: usize = 64 << 20;
/// Maximum length of a command's payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;
/// Maximum number of commands in a bundle.
pub const MAX_BUNDLE_COMMANDS: usize = 65_536;
/// Maximum length of an encoded bundle, in bytes.
pub const MAX_BUNDLE_BYTES: usize = 32 << 20;
/// Maximum number of bundles in a block.
pub const MAX_BLOCK_BUNDLES: usize = 65_536;
/// Maximum length of a certificate's proof, in bytes: one signature for each of [`MAX_REPLICAS`].
pub const MAX_PROOF_BYTES: usize = MAX_REPLICAS * MAX_SIGNATURE_BYTES;
/// Maximum length of a signature, in bytes: a 16-byte MAC for each of 256 replicas. ML-DSA-65 (3,309) fits too.
pub const MAX_SIGNATURE_BYTES: usize = 4096;
/// Maximum length of an error or status text, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum number of blocks from a bundle's execution to its expiry: 17 minutes at 1000 blocks per second. After that
/// many blocks, a client's unanswered bundle is certainly void.
pub const MAX_BUNDLE_LIFETIME_BLOCKS: u64 = 1 << 20;
/// Runs of a client that keeps its key number their commands from a multiple of this, so that no two runs use the same
/// number.
pub const SEQUENCE_STRIDE: u64 = 1 << 14;
