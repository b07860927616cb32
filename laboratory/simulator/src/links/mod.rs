//! quorate: random numbers from a seed, and packet loss. Shared by the simulated and the emulated network, so that a
//! network file means the same in both.

mod loss;
mod random;

pub use loss::{Loss, LossProcess};
pub use random::{Purpose, Random};
