//! quorate: misbehaviour on purpose.
//!
//! A [`Behaviour`] stands between a replica, which is honest, and its host, which signs. It hears what the replica hears, and rewrites
//! what the replica asks for. So honest code is never forked, every behaviour works with every protocol in every host, and whatever is
//! said wrong is signed by the one who says it, and by nobody else.
//!
//! Read [`fault`] for what there is, [`lie`] for how one message is turned into another, [`assembler`] for certificates that a
//! liar makes, [`inventor`] for answers that it makes up, [`censor`] for what it leaves out, and [`wrapper`] for who hears what.

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
