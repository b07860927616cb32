//! quorate: closed forms of agreement over networks that lose packets.
//!
//! Pure: numbers in, numbers out, the same on every machine. [`phases`] has the distribution of PBFT's three phases and
//! the lower bound on replies, [`channel`] the chance that a message arrives over UDP or TCP and how many repetitions
//! are needed, [`traffic`] the numbers of messages.

pub mod binomial;
pub mod chance;
pub mod channel;
pub mod committee;
pub mod phases;
pub mod traffic;

pub use chance::Chance;
pub use channel::{Channel, Transport};
pub use committee::{Committee, Counting, MAX_REPLICAS};
pub use phases::{Messages, Phases};
