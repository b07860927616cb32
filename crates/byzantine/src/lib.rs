//! quorate: Byzantine behaviours for tests and experiments.
//!
//! A [`Behaviour`] sits between an honest replica and its host, which signs. It observes the inputs of the replica and
//! rewrites its actions. Honest code is therefore never forked, every behaviour works with every protocol in every
//! host, and a false statement carries the signature of the replica that makes it and no other.
//!
//! [`fault`] lists the behaviours, [`lie`] turns one message into another, [`assembler`] makes certificates,
//! [`inventor`] makes up answers, [`censor`] leaves commands out, and [`wrapper`] decides who receives which message.

pub mod assembler;
pub mod behaviour;
pub mod censor;
pub mod fault;
pub mod hoard;
mod inventor;
pub mod lie;
pub mod malleable;
pub mod memory;
pub mod wrapper;

pub use behaviour::{Behaviour, Context};
pub use fault::{BadFault, Fault, Lie, Misbehaviour};
pub use malleable::Malleable;
