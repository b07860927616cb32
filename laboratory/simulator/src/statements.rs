//! Recent statements of a replica, in order to detect contradictions.

use crate::trace::mix;
use quorate_types::{Attachment, Domain, Subject};

/// Number of remembered views, or of slots if votes are per slot. Each entry replaces the one this many views or slots
/// earlier.
const MAX_REMEMBERED: u64 = 8192;
/// Offset between the entries of two successive views, so that votes on a slot in a later view do not replace those in
/// the earlier one.
const SLOTS_APART: u64 = 1009;
const KINDS: usize = Domain::ALL.len();

/// Statements of one replica.
pub struct Statements {
    /// Hash of the view (and slot), and hash of the statement. Both are nonzero in used entries.
    said: Vec<[u64; 2]>,
}

impl Default for Statements {
    fn default() -> Statements {
        Statements { said: vec![[0; 2]; MAX_REMEMBERED as usize * KINDS] }
    }
}

impl Statements {
    /// Enters a statement. Returns false if it contradicts another of the same kind in the same view (and slot).
    pub fn enter(&mut self, subject: &Subject, attachment: &Attachment, by_slot: bool) -> bool {
        let Subject { domain, view, height, digest } = subject;
        let slot = if by_slot { height.0 } else { 0 };
        let number = if by_slot { slot.wrapping_add(view.0.wrapping_mul(SLOTS_APART)) } else { view.0 };
        let attached = match attachment {
            Attachment::None => 0,
            Attachment::HighView(view) => view.0 + 1,
            Attachment::HighCertificate(certificate) => mix(certificate.subject.digest.prefix(), certificate.view().0),
        };
        let place = mix(mix(1, view.0), slot) | 1;
        let said = mix(mix(digest.prefix(), height.0), attached) | 1;
        let at = (number % MAX_REMEMBERED) as usize * KINDS + *domain as usize - 1;
        let [earlier_place, earlier] = std::mem::replace(&mut self.said[at], [place, said]);
        earlier_place != place || earlier == said
    }
}
