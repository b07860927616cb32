//! The order of work in an event-loop iteration of a replica.

/// Host that works in iterations. It waits before an iteration, and sends the messages of an iteration after it.
pub trait EventLoop {
    type Error;

    /// Passes received messages of peers to the replica.
    fn hear_peers(&mut self) -> Result<(), Self::Error>;
    /// Takes the answers of devices with threads of their own.
    fn take_answers(&mut self) -> Result<(), Self::Error>;
    /// Passes answers of devices, and messages to itself, to the replica.
    fn feed_local(&mut self) -> Result<(), Self::Error>;
    /// Passes due timeouts to the replica.
    fn ring_alarms(&mut self) -> Result<(), Self::Error>;
    /// Serves a bounded share of the clients' frames.
    fn serve_clients(&mut self) -> Result<(), Self::Error>;
    /// Begins to write the journal's records, and sends messages whose records are durable.
    fn settle_journal(&mut self) -> Result<(), Self::Error>;

    /// Runs an iteration. Peers come first: certificates and votes overtake commands, and a timeout counts only if
    /// nothing that has arrived prevents it. Records of all that follows from the iteration's inputs are written
    /// together.
    ///
    /// # Errors
    /// The first error of a step, which ends the replica.
    fn iterate(&mut self) -> Result<(), Self::Error> {
        self.hear_peers()?;
        self.take_answers()?;
        self.feed_local()?;
        self.ring_alarms()?;
        self.serve_clients()?;
        self.feed_local()?;
        self.settle_journal()?;
        self.feed_local()
    }
}
