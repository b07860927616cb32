//! quorate: random numbers from a seed, and the loss of packets. The simulated and the emulated network share them, so
//! that a network file means the same in both.

mod loss;
mod random;

pub use loss::{Loss, LossProcess};
pub use random::{Purpose, Random};
