//! Messages of basic HotStuff.
//!
//! PREPARE is a proposal, NEW-VIEW after a failed view is a timeout, and votes are votes: these messages exist in all
//! protocols with views. One message is added, for the certificate that begins a phase: PRE-COMMIT with a prepareQC,
//! COMMIT with a precommitQC, DECIDE with a commitQC.

use crate::protocols::views::message::{FromView, ViewMessage};
use crate::seam::text::certificate_name;
use crate::seam::{Message, Purpose, Role};
use quorate_types::stages::MessageKind;
use quorate_types::wire;
use quorate_types::{Block, Bundle, Certificate, View, Vote};
use std::sync::Arc;

/// Message of basic HotStuff: a message of all protocols with views, or the certificate of a phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BasicMessage {
    /// Message that all protocols with views share.
    View(ViewMessage),
    /// From the leader to all: the certificate of a phase, which begins the next one.
    Phase(Box<Certificate>),
}

impl Message for BasicMessage {
    fn vote_to_sign(&mut self) -> Option<&mut Vote> {
        match self {
            BasicMessage::View(message) => message.vote_to_sign(),
            BasicMessage::Phase(_) => None,
        }
    }

    fn purpose(&self) -> Purpose {
        match self {
            BasicMessage::View(message) => message.purpose(),
            BasicMessage::Phase(_) => Purpose::Certificate,
        }
    }

    fn kind(&self) -> MessageKind {
        match self {
            BasicMessage::View(message) => message.kind(),
            BasicMessage::Phase(_) => MessageKind::Certificate,
        }
    }

    fn proposed(&self) -> Option<(&Arc<Block>, &[Bundle])> {
        match self {
            BasicMessage::View(message) => message.proposed(),
            BasicMessage::Phase(_) => None,
        }
    }

    fn certificates(&self) -> Vec<(Role, &Certificate)> {
        match self {
            BasicMessage::View(message) => message.certificates(),
            BasicMessage::Phase(certificate) => vec![(Role::Phase, certificate)],
        }
    }

    fn view(&self) -> Option<View> {
        match self {
            BasicMessage::View(message) => message.view(),
            BasicMessage::Phase(certificate) => Some(certificate.view()),
        }
    }

    fn describe(&self) -> String {
        match self {
            BasicMessage::View(message) => message.describe(),
            BasicMessage::Phase(certificate) => format!("phase of {}", certificate_name(certificate)),
        }
    }
}

impl From<ViewMessage> for BasicMessage {
    fn from(message: ViewMessage) -> Self {
        BasicMessage::View(message)
    }
}

impl FromView for BasicMessage {
    fn into_view(self) -> Result<ViewMessage, Self> {
        match self {
            BasicMessage::View(message) => Ok(message),
            phase => Err(phase),
        }
    }

    fn as_view(&self) -> Option<&ViewMessage> {
        match self {
            BasicMessage::View(message) => Some(message),
            BasicMessage::Phase(_) => None,
        }
    }
}

wire! {
    enum BasicMessage as "basic message" {
        1 = View(message),
        2 = Phase(certificate),
    }
}
