//! Retransmission profiles of single links.

use crate::transports::retransmission::RetransmissionProfile;
use quorate_types::ReplicaId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Retransmission profile of the link between two replicas, in both directions, written `0-3=s50`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkProfile {
    /// Lower id first.
    ends: [ReplicaId; 2],
    pub profile: RetransmissionProfile,
}

/// A string that names no link or no profile.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{given}` is no profile of a link: {what}; help: write two replicas and a profile, such as 0-3=s50")]
pub struct LinkProfileError {
    given: String,
    what: String,
}

impl LinkProfile {
    /// Returns the two replicas, lower id first.
    pub fn ends(&self) -> [ReplicaId; 2] {
        self.ends
    }

    /// Returns whether this is the link between two replicas, in either order.
    pub fn is_of(&self, one: ReplicaId, other: ReplicaId) -> bool {
        self.ends == [one.min(other), one.max(other)]
    }
}

impl FromStr for LinkProfile {
    type Err = LinkProfileError;

    fn from_str(text: &str) -> Result<LinkProfile, LinkProfileError> {
        let wrong = |what: String| LinkProfileError { given: text.to_owned(), what };
        let (pair, profile) = text.split_once('=').ok_or_else(|| wrong("it has no `=`".into()))?;
        let numbers = pair.split_once('-').and_then(|(one, other)| Some([one.parse().ok()?, other.parse().ok()?]));
        let [one, other] = numbers.ok_or_else(|| wrong("two numbers of replicas are missing".into()))?.map(ReplicaId);
        if one == other {
            return Err(wrong("a replica has no link to itself".into()));
        }
        let profile = profile.parse().map_err(|error| wrong(format!("{error}")))?;
        Ok(LinkProfile { ends: [one.min(other), one.max(other)], profile })
    }
}

impl TryFrom<String> for LinkProfile {
    type Error = LinkProfileError;

    fn try_from(text: String) -> Result<LinkProfile, LinkProfileError> {
        text.parse()
    }
}

impl fmt::Display for LinkProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.ends;
        write!(f, "{}-{}={}", one.0, other.0, self.profile)
    }
}

impl From<LinkProfile> for String {
    fn from(link: LinkProfile) -> String {
        link.to_string()
    }
}
