//! quorate: Byzantine behaviours for tests and experiments.
//!
//! A [`Behaviour`] sits between an honest replica and its host, which signs. It observes the inputs of the replica and
//! rewrites its actions. The honest code therefore needs no variants, every behaviour works with every protocol in
//! every host, and a false statement is signed by the misbehaving replica only.
//!
//! [`fault`] lists the behaviours, [`lie`] modifies messages, [`assembler`] makes certificates, [`inventor`] invents
//! answers, [`censor`] omits commands, [`hoarder`] keeps certificates of storage, and [`wrapper`] decides which replica
//! receives which message. [`client`] makes bundles of faulty clients.

pub mod assembler;
mod availability;
pub mod behaviour;
pub mod censor;
pub mod client;
pub mod collected;
pub mod fault;
pub mod hoarder;
mod inventor;
pub mod late;
pub mod lie;
pub mod malleable;
pub mod memory;
mod times;
pub mod wrapper;

pub use behaviour::{Behaviour, Context};
pub use fault::{BadFault, Fault, Lie, Misbehaviour};
pub use malleable::Malleable;
pub use times::Times;
