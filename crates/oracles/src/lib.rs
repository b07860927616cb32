//! quorate: what must hold of every run, judged from what replicas state and commit.
//!
//! [`Statements`] hears every message that a replica sends and every block that it commits, and nothing else: no view, lock or tally of
//! the replica itself. Of `quorate-consensus` it takes the shape of messages and no rule. Quorums are counted here, by arithmetic of
//! its own. Twins' judge and the simulator's oracle both ask it.
//!
//! [`Work`] holds what a replica does for one peer, and for one block, against budgets: answers, results, relays that wait, and what a
//! block holds that it votes for or commits.
//!
//! What is judged is honest. A replica that lies is assumed to have signed whatever helps a certificate along, so that no oracle speaks
//! where at most f replicas lie and the others keep to the protocol.

mod law;
mod relays;
mod statements;
mod tallies;
mod view_changes;
mod voices;
mod work;

pub use law::{Breach, Law};
pub use relays::Relays;
pub use statements::Statements;
pub use tallies::quorum;
pub use work::{
    MAX_ANSWER_BYTES_PER_SECOND, MAX_ANSWER_SIGNATURES_PER_SECOND, MAX_BLOCK_RESULT_BYTES, Weight, Work, is_answer,
};
