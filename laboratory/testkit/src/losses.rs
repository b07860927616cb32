//! Journals that lack a bundle of a final block.

use quorate_consensus::recovery::journal::Record;
use quorate_types::{Block, Digest, Height};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the last block with bundles that every replica has committed, from the replicas' journals.
///
/// # Panics
/// If there is none.
pub fn last_common_block(journals: impl Iterator<Item = Vec<Record>>) -> Arc<Block> {
    let (mut blocks, mut common): (BTreeMap<Height, Arc<Block>>, _) = (BTreeMap::new(), Height(u64::MAX));
    for records in journals {
        let mut committed = Height(0);
        for record in records {
            match record {
                Record::Block(block) if !block.payload.is_empty() => _ = blocks.insert(block.height, block),
                Record::Commit { height, .. } => committed = committed.max(height),
                _ => {}
            }
        }
        common = common.min(committed);
    }
    blocks.range(..=common).next_back().expect("a common block has bundles").1.clone()
}

/// Removes a bundle, and the commits of its block and of later ones.
pub fn without_bundle(mut records: Vec<Record>, block: &Block, bundle: Digest) -> Vec<Record> {
    for record in &mut records {
        if let Record::Bundles(bundles) | Record::Kept { bundles, .. } = record {
            bundles.retain(|kept| kept.digest() != bundle);
        }
    }
    let is_lost = |record: &Record| match record {
        Record::Commit { height, .. } => *height >= block.height,
        Record::Bundles(bundles) | Record::Kept { bundles, .. } => bundles.is_empty(),
        _ => false,
    };
    records.retain(|record| !is_lost(record));
    records
}
