//! quorate: closed forms of agreement over lossy networks, and of the hardware that a load needs ([`plan`]).
//!
//! Pure: numbers in, numbers out, the same on every machine. A [`Question`] has an [`Answer`], computed by these
//! modules: [`phases`] has the distribution of PBFT's three phases and the lower bound on replies, [`channel`] the
//! chance that a message arrives over UDP or TCP and the number of repetitions needed, [`packets`] the loss by bit
//! errors, fragments and bursts, [`traffic`] the numbers of messages, [`latency`] and [`star`] the times of PBFT and of
//! the HotStuff family on a [`grid`], [`timeouts`] the cost of view changes, and [`remedies`] the effect of remedies.

pub mod answer;
pub mod binomial;
pub mod chance;
pub mod channel;
pub mod committee;
pub mod delay;
pub mod grid;
pub mod latency;
pub mod packets;
pub mod phases;
pub mod plan;
pub mod question;
pub mod remedies;
pub mod star;
pub mod timeouts;
pub mod traffic;

pub use answer::Answer;
pub use chance::Chance;
pub use channel::{Channel, Transport};
pub use committee::{Committee, Counting, MAX_REPLICAS};
pub use delay::{Delay, Links, Shape, Times};
pub use latency::Latency;
pub use packets::Bursts;
pub use phases::{Messages, Phases};
pub use question::{ClientLink, Protocol, Question};
pub use remedies::Remedy;
pub use star::Star;
pub use timeouts::{Timeout, Timeouts};
