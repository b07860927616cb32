//! The order of work in an iteration, shared with the real host.

use super::{Node, Surroundings};
use quorate_consensus::Protocol;
use quorate_hosting::EventLoop;
use std::convert::Infallible;

/// An iteration of a node.
pub(super) struct Iteration<'a, 'b, P: Protocol> {
    pub node: &'a mut Node<P>,
    pub world: &'a mut Surroundings<'b, P::Message>,
}

impl<P: Protocol> EventLoop for Iteration<'_, '_, P> {
    type Error = Infallible;

    fn hear_peers(&mut self) -> Result<(), Infallible> {
        self.node.hear_peers(self.world);
        Ok(())
    }

    /// Nothing to do: the world delivers answers itself.
    fn take_answers(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn feed_local(&mut self) -> Result<(), Infallible> {
        self.node.feed_local(self.world);
        Ok(())
    }

    fn ring_alarms(&mut self) -> Result<(), Infallible> {
        self.node.ring_alarms(self.world);
        Ok(())
    }

    fn serve_clients(&mut self) -> Result<(), Infallible> {
        self.node.serve_clients(self.world);
        Ok(())
    }

    fn settle_journal(&mut self) -> Result<(), Infallible> {
        self.node.hand_out(self.world);
        self.node.settle_journal(self.world);
        Ok(())
    }
}
