//! Blocks and bundles: pending, stored and missing ones.

pub mod alone;
pub mod answers;
pub mod batches;
pub mod batching;
pub mod block_limits;
pub mod block_tree;
pub mod digest_map;
pub mod digest_table;
pub mod early;
pub mod kept;
pub mod lanes;
pub mod lateness;
pub mod ledger;
pub mod naming;
pub mod pace;
pub mod pool;
pub(crate) mod shares;
pub mod sizing;
