//! quorate: scripted scenarios, Twins, and the bugs that they find.
//!
//! A stage is an environment in which a script decides which replicas lead and which messages arrive. The replicas
//! are those of the node and the simulator; only their environment differs.

mod actor;
pub mod cast;
pub mod hostile;
mod judge;
mod links;
#[cfg(feature = "museum")]
pub mod museum;
mod notary;
pub mod play;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod space;
mod stage;
mod states;
mod stock;
pub mod symmetry;
mod transcript;
mod words;

pub use cast::{ActorId, ActorSet, Cast};
pub use judge::{Complaint, Law};
pub use play::Verdict;
pub use scenario::{Entry, Round, Scenario};
pub use space::{Shape, Space};
