//! A no-op log, for measuring ordering alone.

use crate::application::{Application, Frozen, RestoreError};
use crate::context::BlockContext;
use crate::executor::get_commands;
use bytes::Bytes;
use quorate_types::{Command, Decoder, Digest, Encoder, Hasher, Wire, tags};

/// The name used in configurations and snapshots.
pub const NAME: &str = "log";
const SNAPSHOT_BYTES: usize = 40;

/// Application that counts commands and chains the digests of their bundles. Every result is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    commands: u64,
    /// Covers the digest and the number of commands of every bundle, so that single commands need not be hashed.
    digest: Digest,
}

impl Log {
    pub fn new() -> Log {
        Log::default()
    }

    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Returns the digest of the whole log.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Encodes the number of commands (8 bytes, little-endian) and the digest (32 bytes).
    fn encode(&self) -> Bytes {
        let mut out = Encoder::with_capacity(SNAPSHOT_BYTES);
        out.put_u64(self.commands);
        self.digest.encode(&mut out);
        out.finish()
    }
}

impl Application for Log {
    fn name(&self) -> &'static str {
        NAME
    }

    fn execute(&mut self, _block: &BlockContext, _command: &Command<'_>, _result: &mut Vec<u8>) {
        self.commands += 1;
    }

    fn bundle_executed(&mut self, bundle: &Digest) {
        let mut hasher = Hasher::new(tags::LOG);
        hasher.update(&self.digest.0);
        hasher.update(&bundle.0);
        hasher.update(&self.commands.to_le_bytes());
        self.digest = hasher.finish();
    }

    /// Answers every query with the snapshot.
    fn query(&self, _question: &[u8]) -> Vec<u8> {
        self.encode().to_vec()
    }

    fn freeze(&mut self) -> Frozen {
        let bytes = self.encode();
        Box::new(move || bytes)
    }

    fn snapshot_bytes(&self) -> usize {
        SNAPSHOT_BYTES
    }

    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        let mut input = Decoder::new(snapshot);
        let restored = Log { commands: get_commands(&mut input)?, digest: Digest::decode(&mut input)? };
        input.finish("end of the log's snapshot")?;
        *self = restored;
        Ok(())
    }
}
