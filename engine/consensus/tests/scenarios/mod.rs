//! Directed scenarios under every protocol: each injects events into the cluster and checks the outcome.

mod absence;
mod attacks;
mod certifying;
mod clocks;
mod covers;
mod crashes;
mod fair;
mod gaps;
mod late_certificates;
mod light_load;
mod poison;
mod returning_leaders;
mod spreading;
mod stalls;
