//! Limits of the wire format. A value over its limit is refused by field name before anything is allocated for it.

/// Maximum number of replicas in a committee; the width of the signer bit set.
pub const MAX_REPLICAS: usize = 256;
/// Maximum length of a frame on any transport: a block of the largest bundles has to fit.
pub const MAX_FRAME_BYTES: usize = 64 << 20;
/// Maximum length of a command's payload.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;
/// Maximum number of commands in a bundle.
pub const MAX_BUNDLE_COMMANDS: usize = 65_536;
/// Maximum length of an encoded bundle.
pub const MAX_BUNDLE_BYTES: usize = 32 << 20;
/// Maximum number of bundles in a block.
pub const MAX_BLOCK_BUNDLES: usize = 65_536;
/// Maximum length of a certificate's proof: one signature for each of [`MAX_REPLICAS`].
pub const MAX_PROOF_BYTES: usize = MAX_REPLICAS * MAX_SIGNATURE_BYTES;
/// Maximum length of a signature: 16 bytes of authentication code for each of 256 replicas. ML-DSA-65 (3,309) fits too.
pub const MAX_SIGNATURE_BYTES: usize = 4096;
/// Maximum length of an error or status text.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum number of blocks from a bundle's execution to its expiry: 17 minutes at 1000 blocks a second. A client's
/// unanswered bundle is certainly void after that many blocks.
pub const MAX_BUNDLE_LIFETIME_BLOCKS: u64 = 1 << 20;
/// Runs of a client that keeps its key number their commands from a multiple of this, so that no two use one number.
pub const SEQUENCE_STRIDE: u64 = 1 << 14;
