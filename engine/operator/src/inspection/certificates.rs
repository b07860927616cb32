//! Checks that each certificate of a journal proves a quorum, and that no two contradict each other.

use super::overview::kind_of;
use super::place::Place;
use bytes::Bytes;
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::seam::Message;
use quorate_crypto::{SchemeKind, VerifiedCache, verify_certificate};
use quorate_types::{Certificate, DecodeError, Decoder, Digest, Domain, Height, Subject, View, Vote, Wire};
use std::collections::BTreeMap;

/// Number of cached verified certificates; a journal repeats the certificates of its last views.
const MAX_CACHED_CERTIFICATES: usize = 4096;

/// Verified certificates of a journal.
pub(super) struct Certificates<'a> {
    place: &'a Place,
    cache: VerifiedCache,
    /// Certified digest by kind and view, and also by slot if there are slots.
    certified: BTreeMap<(Domain, View, Height), Digest>,
    pub checked: u64,
}

impl<'a> Certificates<'a> {
    pub fn new(place: &'a Place) -> Certificates<'a> {
        let cache = VerifiedCache::new(MAX_CACHED_CERTIFICATES);
        Certificates { place, cache, certified: BTreeMap::new(), checked: 0 }
    }

    /// Returns whether a quorum signed the certificate, even if it has another defect.
    pub fn is_genuine(&self, certificate: &Certificate) -> bool {
        *certificate == Certificate::genesis(&self.place.committee.epoch)
            || self.cache.contains(&certificate.fingerprint())
            || verify_certificate(&self.place.keyring, certificate).is_ok()
    }

    /// Checks a certificate and the highest certificate among its attachments. Protocols rely on no other attachment,
    /// and a Byzantine signer may have attached anything.
    pub fn check(&mut self, certificate: &Certificate) -> Result<(), String> {
        if *certificate == Certificate::genesis(&self.place.committee.epoch) {
            return Ok(());
        }
        let fingerprint = certificate.fingerprint();
        if self.cache.contains(&fingerprint) {
            return Ok(());
        }
        let name = name_of(&certificate.subject);
        verify_certificate(&self.place.keyring, certificate).map_err(|why| format!("the {name} is invalid: {why}"))?;
        if let Some(attached) = certificate.highest_attached_certificate() {
            self.check(attached)?;
        }
        let Subject { domain, view, height, digest } = certificate.subject;
        let by_height =
            matches!(domain, Domain::Checkpoint | Domain::Absent) || self.place.config.consensus.protocol.has_slots();
        let slot = (domain, view, if by_height { height } else { Height(0) });
        let other = self.certified.insert(slot, digest).filter(|other| *other != digest);
        self.cache.insert(fingerprint);
        self.checked += 1;
        match other {
            None => Ok(()),
            Some(other) => Err(format!(
                "the {name} certifies {digest}, but another certifies {other}: more replicas are Byzantine than the \
                 cluster tolerates"
            )),
        }
    }

    /// Checks a vote of another replica. The journal contains no signatures of its own replica.
    pub fn check_vote(&self, vote: &Vote) -> Result<(), String> {
        let own = vote.voter == self.place.config.replica && vote.signature.is_empty();
        let epoch = &self.place.committee.epoch;
        let genuine = || self.place.keyring.verify(vote.voter, vote.statement(epoch).as_bytes(), &vote.signature);
        match own || genuine() {
            true => Ok(()),
            false => Err(format!("the statement of replica {} lacks its valid signature", vote.voter)),
        }
    }
}

/// Returns why certificates of a scheme prove less than a reader may assume.
pub(crate) fn caveat(scheme: SchemeKind) -> Option<String> {
    let profile = scheme.profile();
    if !profile.unforgeable {
        return Some(format!("the scheme is {scheme}: certificates prove nothing"));
    }
    let why = profile.weakness?;
    Some(format!("the scheme is {scheme}, which is weak: {why}, and then certificates prove nothing"))
}

fn name_of(subject: &Subject) -> String {
    format!("{} certificate of view {}, height {}", kind_of(subject.domain), subject.view, subject.height)
}

/// Returns the certificates contained in a recorded message.
pub(super) fn shown(protocol: ProtocolKind, message: Bytes) -> Result<Vec<Certificate>, DecodeError> {
    struct Shown(Bytes);
    impl ForProtocol for Shown {
        type Output = Result<Vec<Certificate>, DecodeError>;
        fn run<P: Protocol + 'static>(self, _make: MakeReplica<P>) -> Self::Output {
            let message = P::Message::decode(&mut Decoder::new(self.0))?;
            Ok(message.certificates().into_iter().map(|(_, certificate)| certificate.clone()).collect())
        }
    }
    for_protocol(protocol, Shown(message))
}
