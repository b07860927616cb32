//! What replicas of a chained protocol say to each other: nothing but what every protocol with views needs.

pub use crate::views::message::{Proposal, Timeout, ViewMessage as ChainedMessage};
