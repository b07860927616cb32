//! An application with feature levels.

use bytes::Bytes;
use quorate_applications::{Application, BlockContext, Frozen, RestoreError};
use quorate_types::{Command, FeatureLevel};

/// Name of [`Levelled`].
pub const LEVELLED: &str = "levelled";

/// Returns the level of the block, supports levels up to its own, and has no state.
pub struct Levelled(pub FeatureLevel);

impl Application for Levelled {
    fn name(&self) -> &'static str {
        LEVELLED
    }

    fn supported_level(&self) -> FeatureLevel {
        self.0
    }

    fn execute(&mut self, block: &BlockContext, _command: &Command<'_>, result: &mut Vec<u8>) {
        result.extend(block.level().0.to_le_bytes());
    }

    fn query(&self, _question: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn freeze(&mut self) -> Frozen {
        Box::new(Bytes::new)
    }

    fn snapshot_bytes(&self) -> usize {
        0
    }

    fn restore(&mut self, _snapshot: Bytes) -> Result<(), RestoreError> {
        Ok(())
    }
}
