//! Descriptions of the messages of the protocols with views.

use super::play::Told;
use super::story::{Story, certificate_name};
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::views::message::{Proposal, ViewMessage};
use quorate_types::{Domain, ReplicaId, View};

impl Told for ViewMessage {
    fn view(&self) -> Option<View> {
        match self {
            ViewMessage::Proposal(proposal) => Some(proposal.block.view),
            ViewMessage::Vote(vote) => Some(vote.subject.view),
            ViewMessage::Timeout(timeout) => Some(timeout.vote.subject.view),
            ViewMessage::Advance { .. } => None,
        }
    }

    fn arrival(&self, story: &mut Story) -> Option<String> {
        match self {
            ViewMessage::Proposal(proposal) => Some(format!("receives {}", story.block(&proposal.block))),
            ViewMessage::Advance { high, .. } => Some(format!("receives {}", certificate_name(high))),
            ViewMessage::Vote(_) | ViewMessage::Timeout(_) => None,
        }
    }

    fn departure(&self, story: &mut Story, to: &[ReplicaId], others: &str) -> String {
        match self {
            ViewMessage::Proposal(proposal) => propose(story, proposal, others, to.len()),
            ViewMessage::Vote(vote) => {
                let phase = match vote.subject.domain {
                    Domain::Prepare => "in prepare ",
                    Domain::PreCommit => "in pre-commit ",
                    Domain::Commit => "in commit ",
                    _ => "",
                };
                let recipient = if to.len() > 1 { "all".into() } else { format!("{:?}", to[0]) };
                format!("votes {phase}for {} -> {recipient}", story.subject(&vote.subject))
            }
            ViewMessage::Timeout(timeout) => {
                format!("gives {:?} up, highest {}", timeout.vote.subject.view, certificate_name(&timeout.high))
            }
            ViewMessage::Advance { high, evidence } => {
                let evidence = evidence.as_ref().map(|evidence| format!(" and {}", certificate_name(evidence)));
                format!("shows {others} {}{}", certificate_name(high), evidence.unwrap_or_default())
            }
        }
    }
}

fn propose(story: &mut Story, proposal: &Proposal, others: &str, recipients: usize) -> String {
    let block = &proposal.block;
    let name = story.block(block);
    let load = story.load(&block.payload);
    let after = proposal.evidence.as_ref().map(|evidence| format!(", after {}", certificate_name(evidence)));
    let only = if recipients == 1 { format!(" -> {others}") } else { String::new() };
    if block.is_optimistic() {
        let shows = proposal.evidence.as_ref().map(|high| format!(", shows {}", certificate_name(high)));
        let parent = story.subject(&block.justify.subject);
        return format!(
            "proposes ahead {name} = {:?} {:?} on {parent} with {load}{}{only}",
            block.view,
            block.height,
            shows.unwrap_or_default()
        );
    }
    let on = certificate_name(&block.justify);
    format!(
        "proposes {name} = {:?} {:?} on {on}{} with {load}{only}",
        block.view,
        block.height,
        after.unwrap_or_default()
    )
}

impl Told for BasicMessage {
    fn view(&self) -> Option<View> {
        match self {
            BasicMessage::View(message) => message.view(),
            BasicMessage::Phase(certificate) => Some(certificate.view()),
        }
    }

    fn arrival(&self, story: &mut Story) -> Option<String> {
        match self {
            BasicMessage::View(message) => message.arrival(story),
            BasicMessage::Phase(certificate) => Some(format!("receives {}", certificate_name(certificate))),
        }
    }

    fn departure(&self, story: &mut Story, to: &[ReplicaId], others: &str) -> String {
        match self {
            BasicMessage::View(message) => message.departure(story, to, others),
            BasicMessage::Phase(certificate) => {
                let phase = match certificate.subject.domain {
                    Domain::Prepare => "begins pre-commit",
                    Domain::PreCommit => "begins commit",
                    _ => "tells the decision",
                };
                format!("{phase} with {}", certificate_name(certificate))
            }
        }
    }
}
