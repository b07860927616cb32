//! Verification of certificates.

use crate::error::CertificateError;
use crate::keyring::Keyring;
use crate::scheme::{Effort, ProofFault};
use crate::statements::Statements;
use quorate_types::{Attachment, Certificate, Domain, View};

/// Verifies a certificate of a quorum, or of genesis, without a replica's key or cache, for example in an audit.
pub fn verify_certificate(keyring: &Keyring, certificate: &Certificate) -> Result<(), CertificateError> {
    if *certificate == Certificate::genesis(keyring.epoch()) {
        return Ok(());
    }
    check_structure(keyring, certificate)?;
    check_proof(keyring, certificate).map(drop)
}

pub(crate) fn check_structure(keyring: &Keyring, certificate: &Certificate) -> Result<(), CertificateError> {
    let Certificate { subject, signers, attachments, .. } = certificate;
    let quorum = keyring.quorum();
    match subject.domain {
        domain if domain.is_proposal() => return Err(CertificateError::Domain(subject.domain)),
        Domain::Vote if subject.view == View(0) => return Err(CertificateError::NotGenesis),
        _ => {}
    }
    if let Some(replica) = signers.highest().filter(|replica| !keyring.is_member(*replica)) {
        return Err(CertificateError::Stranger { replica, members: quorum.replicas() });
    }
    let count = signers.len();
    if count < quorum.quorum() {
        return Err(CertificateError::TooFewSigners { signers: count, quorum: quorum.quorum() });
    }
    let said = attachments.iter().filter(|attachment| **attachment != Attachment::None).count();
    if !attachments.is_empty() && (attachments.len() != count || said != count) {
        return Err(CertificateError::Attachments { attachments: said, signers: count });
    }
    Ok(())
}

/// Verifies the proof of a structurally valid certificate.
pub(crate) fn check_proof(keyring: &Keyring, certificate: &Certificate) -> Result<Effort, CertificateError> {
    let Certificate { subject, signers, attachments, proof } = certificate;
    let statements = Statements::new(keyring.epoch(), subject, attachments.iter());
    keyring.verify_proof(signers, &statements, proof).map_err(|fault| match fault {
        ProofFault::Length { expected } => CertificateError::ProofLength { found: proof.len(), expected },
        ProofFault::Signature => CertificateError::Signature { domain: subject.domain, view: subject.view },
    })
}
