//! Blocks and bundles: what waits to be ordered, what is stored, and what is still missing.

pub mod alone;
pub mod answers;
pub mod batching;
pub mod block_limits;
pub mod block_tree;
pub mod digest_map;
pub mod lanes;
pub mod ledger;
pub mod pool;
pub mod store;
pub mod wants;
