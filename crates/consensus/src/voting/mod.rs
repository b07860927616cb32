//! Votes: when a replica may give one, how votes are counted, who leads, and for how long.

pub mod fairness;
pub mod leader;
pub mod pacemaker;
pub mod safety;
pub mod tally;
