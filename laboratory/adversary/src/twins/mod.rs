//! quorate: scripted scenarios, Twins, and the bugs that they find.
//!
//! A world is an environment in which a script decides which replicas lead and which messages arrive. The replicas are
//! the same as in the node and the simulator; only their environment differs.

#[cfg(feature = "museum")]
mod bugs;
#[cfg_attr(not(feature = "museum"), allow(dead_code, reason = "only the museum scripts a world by hand"))]
mod checker;
pub mod foreign;
pub mod hostile;
mod instance;
mod links;
#[cfg(feature = "museum")]
pub mod museum;
pub mod participants;
pub mod play;
pub mod run;
pub mod scenario;
mod shares;
pub mod shrink;
mod signatures;
pub mod space;
mod states;
mod stock;
pub mod symmetry;
mod transcript;
mod words;
#[cfg_attr(not(feature = "museum"), allow(dead_code, reason = "only the museum scripts a world by hand"))]
mod world;

pub use checker::{Property, Violation};
pub use participants::{InstanceId, InstanceSet, Participants};
pub use play::Verdict;
pub use scenario::{Entry, Round, Scenario};
pub use space::{Shape, Space};
