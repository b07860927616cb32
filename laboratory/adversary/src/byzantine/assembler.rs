//! Certificates created by a Byzantine replica: genuine ones from others' statements and its own, before any other
//! replica has them, and forged ones in the names of replicas that did not sign.
//!
//! A proof is the concatenation of the signatures in the order of their signers. Only the host can sign for the
//! replica, so the replica first sends its statement to itself and receives it back with a signature.

use crate::byzantine::behaviour::Context;
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use quorate_consensus::seam::{Purpose, Role};
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::{Attachment, Certificate, Domain, ReplicaId, Subject, View, Vote};
use std::collections::BTreeMap;

/// Number of views for which to keep timeouts.
const MAX_VIEWS_KEPT: usize = 64;

/// Timeouts received in one view.
struct Heard<M> {
    votes: BTreeMap<ReplicaId, Vote>,
    /// Template for the replica's own timeout message.
    like: M,
    /// Attachment of the replica's own statement, if it was sent.
    said: Option<Attachment>,
    /// Whether the certificate was sent.
    shown: bool,
}

/// Assembles certificates of its own from the votes that it receives or signs.
pub struct Assembler<M> {
    timeouts: BTreeMap<View, Heard<M>>,
    /// Highest certificate that a block may extend.
    high: Option<Certificate>,
    /// Last view for which a forged certificate was sent.
    forged: View,
}

impl<M> Default for Assembler<M> {
    fn default() -> Assembler<M> {
        Assembler { timeouts: BTreeMap::new(), high: None, forged: View(0) }
    }
}

impl<M: Malleable> Assembler<M> {
    pub fn hear(&mut self, context: &Context, input: &Input<M>) {
        let Input::Receive { from, message: Envelope::Protocol(message) } = input else { return };
        let bases = message.certificates().into_iter().filter(|(role, _)| *role == Role::Base);
        for (_, base) in bases {
            if self.high.as_ref().is_none_or(|high| high.view() < base.view()) {
                self.high = Some(base.clone());
            }
        }
        let mut said = message.clone();
        let Some(vote) = said.vote_to_sign().filter(|vote| vote.subject.domain == Domain::Timeout) else { return };
        if vote.voter != *from || message.purpose() != Purpose::Timeout {
            return;
        }
        let (view, vote) = (vote.subject.view, vote.clone());
        let like = || Heard { votes: BTreeMap::new(), like: message.clone(), said: None, shown: false };
        let heard = self.timeouts.entry(view).or_insert_with(like);
        // The wrapped honest replica also makes a statement, which does not count here.
        if *from != context.me || heard.said.as_ref() == Some(&vote.attachment) {
            heard.votes.insert(*from, vote);
        }
        if self.timeouts.len() > MAX_VIEWS_KEPT {
            self.timeouts.pop_first();
        }
    }

    /// Returns the attachment of the replica's statement: a certificate `views` above the highest (saturating), or
    /// genesis if `views` is 0.
    fn reported(&self, views: u64) -> Attachment {
        let high = self.high.as_ref().map_or(View(0), Certificate::view);
        Attachment::HighView(match views {
            0 => View(0),
            views => View(high.0.saturating_add(views)),
        })
    }

    /// Once a quorum minus one have timed out, adds its own timeout, assembles the certificate and sends it to all.
    pub fn assemble(&mut self, context: &Context, views: u64, actions: &mut Vec<Action<M>>) {
        let (me, quorum, reported) = (context.me, context.quorum.quorum(), self.reported(views));
        for (view, heard) in self.timeouts.iter_mut().rev().filter(|(_, heard)| !heard.shown) {
            let others = heard.votes.keys().filter(|voter| **voter != me).count();
            if others + 1 < quorum {
                continue;
            }
            let Some(own) = heard.votes.get(&me) else {
                if heard.said.is_none() {
                    heard.said = Some(reported.clone());
                    actions.extend(say_to_oneself(me, &heard.like, &reported));
                }
                continue;
            };
            heard.shown = true;
            let mut chosen: Vec<&Vote> =
                heard.votes.values().filter(|vote| vote.voter != me).take(quorum - 1).collect();
            chosen.push(own);
            chosen.sort_unstable_by_key(|vote| vote.voter);
            let evidence = Certificate {
                subject: own.subject,
                signers: chosen.iter().map(|vote| vote.voter).collect(),
                attachments: chosen.iter().map(|vote| vote.attachment.clone()).collect(),
                proof: chosen.iter().flat_map(|vote| vote.signature.iter().copied()).collect::<Vec<u8>>().into(),
            };
            debug_assert_eq!(evidence.view(), *view);
            actions.extend(self.high.clone().and_then(|high| show(high, evidence)));
        }
    }

    /// Sends a timeout certificate without genuine signatures, once per view.
    pub fn forge(&mut self, context: &Context, view: View, actions: &mut Vec<Action<M>>) {
        let Some(high) = self.high.clone().filter(|_| view > self.forged) else { return };
        self.forged = view;
        let subject = Subject { view, ..quorate_consensus::voting::safety::timeout_subject(view) };
        let carries = self.timeouts.values().next_back().is_some_and(|heard| heard.votes.values().any(carries_whole));
        let reported = match carries {
            true => Attachment::HighCertificate(Box::new(high.clone())),
            false => Attachment::HighView(View(0)),
        };
        let evidence = lie::in_the_names_of_a_quorum(subject, reported, context);
        actions.extend(show(high, evidence));
    }
}

fn carries_whole(vote: &Vote) -> bool {
    matches!(vote.attachment, Attachment::HighCertificate(_))
}

fn say_to_oneself<M: Malleable>(me: ReplicaId, like: &M, reported: &Attachment) -> Option<Action<M>> {
    let mut own = like.clone();
    let vote = own.vote_to_sign()?;
    (vote.voter, vote.attachment, vote.signature) = (me, reported.clone(), bytes::Bytes::new());
    Some(Action::Send { to: To::One(me), message: Envelope::Protocol(own), after: None, sign: true })
}

fn show<M: Malleable>(high: Certificate, evidence: Certificate) -> Option<Action<M>> {
    let message = Envelope::Protocol(M::showing(high, Some(evidence))?);
    Some(Action::Send { to: To::Others, message, after: None, sign: false })
}
