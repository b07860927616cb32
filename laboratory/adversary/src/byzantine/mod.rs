//! quorate: Byzantine behaviours for tests and experiments.
//!
//! A [`Behaviour`] sits between an honest replica and its host, which signs. It observes the inputs of the replica and
//! rewrites its actions. The honest code therefore needs no variants, every behaviour works with every protocol in
//! every host, and only the misbehaving replica signs a false statement.
//!
//! [`behaviours`] has a file and a line for each kind of fault. [`step`] is the interface of such a file, [`lie`]
//! modifies messages, [`assembler`] creates certificates, and [`wrapper`] connects the behaviour to the host.
//! [`client`] creates bundles of faulty clients.

pub mod assembler;
pub mod behaviour;
pub mod behaviours;
pub mod client;
pub mod collected;
pub mod fault;
pub mod kind;
pub mod lie;
pub mod malleable;
pub mod memory;
mod rivals;
pub mod step;
mod times;
pub mod wrapper;

pub use behaviour::{Behaviour, Context};
pub use fault::{BadFault, Fault, Misbehaviour};
pub use kind::{Exposure, Needs};
pub use malleable::Malleable;
pub use times::Times;
