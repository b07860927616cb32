//! Views in which replicas have voted, according to the journal and the evidence of peers.

use super::message::ViewChange;
use crate::protocols::parts::Parts;
use crate::recovery::journal::Standing;
use quorate_types::{Attachment, Domain, View, Vote};
use std::collections::BTreeMap;

/// State gathered from the journal, in addition to [`Safety`](crate::voting::safety::Safety) and the log.
#[derive(Default)]
pub(super) struct Recall {
    pub any: bool,
    pub change: Option<Box<ViewChange>>,
    /// Recalled view change that was not sent, unless its promise follows in the journal.
    pub unsaid: Option<Box<ViewChange>>,
    /// Whether a summary lists P, so that the earlier COMMITs repeated in it add nothing.
    pub listed: bool,
    /// Peers' signed view changes known to this replica when it wrote `change`.
    pub shown: Vec<Vote>,
}

/// Returns an upper bound on the views in which any replica can have voted. The statements prove that an honest replica
/// requested view `p` or a higher one. The peer that sends them may be in `p + 1` itself, since only its own statement
/// covers the last step. A replica votes in a later view only after a quorum has left the previous one. That quorum
/// includes an honest replica among those asked, which sends the statements that it had when it left, even after a
/// restart.
pub(super) fn spoken_up_to(standing: &Standing, parts: &Parts) -> Option<View> {
    let mut views = BTreeMap::new();
    for vote in &standing.votes {
        let fits = vote.subject.domain == Domain::ViewChange && vote.attachment == Attachment::None;
        let known = vote.voter.index() < parts.quorum.replicas() && vote.subject.view < View(u64::MAX - 4);
        if !fits || !known || views.insert(vote.voter, vote.subject.view).is_some() {
            return None;
        }
    }
    let mut views: Vec<View> = views.into_values().collect();
    views.sort_unstable_by(|one, other| other.cmp(one));
    let proven = views.get(parts.quorum.weak() - 1).copied().unwrap_or_default();
    standing.certificates.is_empty().then(|| proven.next().next())
}
