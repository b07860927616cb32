//! Directed scenarios: each says what happens to the cluster, and what must come of it, under every protocol.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod crashes;
mod gaps;
mod light_load;
mod stalls;
