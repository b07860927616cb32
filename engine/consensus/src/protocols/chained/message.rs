//! Messages of the chained protocols: exactly the messages of all protocols with views.

pub use crate::protocols::views::message::{Proposal, Timeout, ViewMessage as ChainedMessage};
