//! What a replica of basic HotStuff may vote for (algorithm 1), and what each certificate means (algorithm 2). Pure.

use crate::block_tree::BlockTree;
use crate::views::{Candidate, Refusal};
use quorate_types::{Certificate, Domain, Subject, View};

/// Algorithm 1, lines 25-27, safeNode.
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

/// What a replica is locked on by a certificate: by a precommitQC (algorithm 2, line 25), or by a commitQC, which presupposes one.
pub fn locks(certificate: &Certificate) -> Option<Subject> {
    let locked = matches!(certificate.subject.domain, Domain::PreCommit | Domain::Commit);
    locked.then_some(Subject { domain: Domain::PreCommit, ..certificate.subject })
}

/// With what a replica answers a certificate of the current view: a prepareQC with a pre-commit vote (line 17), a precommitQC with
/// a commit vote (line 26), a commitQC with no vote (line 35 executes).
pub fn answer(phase: Domain) -> Option<Domain> {
    match phase {
        Domain::Prepare => Some(Domain::PreCommit),
        Domain::PreCommit => Some(Domain::Commit),
        _ => None,
    }
}

/// Whether a certificate shows that the view before `view` came to its end: it is of its last phase.
pub fn finishes_view_before(view: View, certificate: &Certificate) -> bool {
    certificate.subject.domain == Domain::Commit && certificate.view().next() == view
}

/// The basis on which the leader after a timeout is elected: the block that it builds on, as if of a view that is below the one
/// that failed. That block's own view may be the one that failed, prepared yet not committed: its leader is not elected again.
pub fn basis_after_timeout(view: View, justify: &Certificate) -> Subject {
    let below_failed = View(view.0.saturating_sub(2));
    Subject { view: justify.view().min(below_failed), ..justify.subject }
}
