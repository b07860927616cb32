//! Voting rule of basic HotStuff (algorithm 1) and effect of each certificate (algorithm 2), as pure functions.

use crate::data::block_tree::BlockTree;
use crate::protocols::views::{Candidate, Refusal};
use quorate_types::{Certificate, Domain, Subject, View};

/// Checks safeNode (algorithm 1, lines 25-27).
pub fn safe_node(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
    let Candidate { block, lock, .. } = candidate;
    let safe = tree.extends(block, lock.digest, lock.height); // line 26: the safety rule
    let live = block.justify.view() > lock.view; // line 27: the liveness rule
    if safe || live {
        Ok(())
    } else {
        Err("safeNode: neither extends the lock nor carries a certificate newer than it")
    }
}

/// Returns the lock that a certificate implies. A precommitQC locks (algorithm 2, line 25), and so does a commitQC,
/// which implies a precommitQC.
pub fn locks(certificate: &Certificate) -> Option<Subject> {
    let locked = matches!(certificate.subject.domain, Domain::PreCommit | Domain::Commit);
    locked.then_some(Subject { domain: Domain::PreCommit, ..certificate.subject })
}

/// Returns the phase of the vote that responds to a certificate of the current view: a pre-commit vote to a prepareQC
/// (line 17), a commit vote to a precommitQC (line 26), none to a commitQC (line 35 executes).
pub fn answer(phase: Domain) -> Option<Domain> {
    match phase {
        Domain::Prepare => Some(Domain::PreCommit),
        Domain::PreCommit => Some(Domain::Commit),
        _ => None,
    }
}

/// Returns whether a certificate of the last phase shows that the view before `view` is over.
pub fn finishes_view_before(view: View, certificate: &Certificate) -> bool {
    certificate.subject.domain == Domain::Commit && certificate.view().next() == view
}

/// Returns the basis for electing the leader after a timeout: the block to be extended, with its view capped below the
/// failed one. The block may be from the failed view itself, prepared but not committed; the cap keeps that view's
/// leader from being elected again.
pub fn basis_after_timeout(view: View, justify: &Certificate) -> Subject {
    let below_failed = View(view.0.saturating_sub(2));
    Subject { view: justify.view().min(below_failed), ..justify.subject }
}
