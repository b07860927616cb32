//! Messages of the chained protocols: exactly those that all protocols with views share.

pub use crate::protocols::views::message::{Proposal, Timeout, ViewMessage as ChainedMessage};
