//! Voting: when a replica may vote, how votes are counted, who leads a view, and how long a view lasts.

pub mod clock;
pub mod fairness;
pub mod leader;
pub mod pacemaker;
pub mod safety;
pub mod spreading;
pub mod tally;
