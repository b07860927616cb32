//! Ids shared by all layers.

/// Id that matches a device's answer to its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Job(pub u64);

/// Id of a journal record, in the order of writing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(pub u64);

/// Part of a state that can be requested: 0 is the manifest, and `i + 1` is chunk `i`.
pub type Part = u32;
/// The manifest's part number.
pub const MANIFEST: Part = 0;
