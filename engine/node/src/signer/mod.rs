//! A replica's votes, signed by another process.
//!
//! A *signer* holds a replica's private voting key, and a [record](record) of the statements that it has signed. The
//! replica sends it each statement over a Unix socket ([protocol]), and the signer signs it only if it contradicts
//! nothing in the record ([judge]), once the record is on the disk. So a replica whose host was taken over, or whose
//! journal was lost or rolled back, cannot sign two statements that contradict each other. `docs/adr/125` explains what
//! the rules cannot judge.

mod fault;
pub mod judge;
pub mod protocol;
mod record;
mod remote;
mod server;

pub use fault::SignerError;
pub use record::{Entry, Record};
pub(crate) use remote::{Outcome, Principal, RemoteSigner};
pub use remote::{RemoteFault, connect};
pub use server::{Ending, MAX_CONNECTIONS, Signer, SignerEvent, Tell, listen, serve};
