//! Directed scenarios: each says what happens to the cluster, and what must come of it, under every protocol.

mod attacks;
mod crashes;
mod fair;
mod gaps;
mod light_load;
mod poison;
mod stalls;
