//! The order of work in an event-loop iteration of a replica.

/// A host that works in iterations. It waits before an iteration, and sends the iteration's messages after it.
pub trait EventLoop {
    type Error;

    /// Passes received messages of peers to the replica.
    fn hear_peers(&mut self) -> Result<(), Self::Error>;
    /// Takes the answers of devices that have their own threads.
    fn take_answers(&mut self) -> Result<(), Self::Error>;
    /// Passes answers of devices, and the replica's messages to itself, to the replica.
    fn feed_local(&mut self) -> Result<(), Self::Error>;
    /// Passes due timeouts to the replica.
    fn ring_alarms(&mut self) -> Result<(), Self::Error>;
    /// Serves a bounded share of the clients' frames.
    fn serve_clients(&mut self) -> Result<(), Self::Error>;
    /// Begins to write the journal's records, and sends messages whose records are durable.
    fn settle_journal(&mut self) -> Result<(), Self::Error>;

    /// Runs an iteration. Peers come first, so that certificates and votes overtake commands, and a timeout takes
    /// effect only if no received message prevents it. All records that result from the iteration's inputs are written
    /// together.
    ///
    /// # Errors
    /// The first error of a step, which stops the replica.
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
