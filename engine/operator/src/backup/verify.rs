//! Verification of a snapshot against the keys of its cluster, without the cluster.
//!
//! The base is empty, or the initial state that the trusted configuration names, or a state whose digest a quorum has
//! signed. The blocks are executed on it. The certificate at the end covers the history: every bundle, its result and
//! its time, in order, and so the state, because the application is deterministic.

use super::BackupError;
use super::file::{BackedBlock, Backup, Base};
use bytes::Bytes;
use quorate_applications::{ApplicationKind, ExecutionError, Executor, RestoreError};
use quorate_client::ClientConfig;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_crypto::{Identities, Keyring, SchemeKind, verify_certificate};
use quorate_node::NodeConfig;
use quorate_node::initial_state::{self, InitialState};
use quorate_types::{Certificate, Committee, Digest, Domain, FeatureLevel, Height, Manifest};
use std::sync::Arc;

/// The cluster that a snapshot has to be of.
pub struct Trusted {
    pub committee: Committee,
    identities: Arc<Identities>,
    keyring: Keyring,
    scheme: SchemeKind,
    application: ApplicationKind,
    /// Whether blocks are ordered by slot and do not extend each other.
    has_slots: bool,
    initial: Option<Digest>,
}

impl Trusted {
    /// Returns the cluster of a client's configuration.
    ///
    /// # Errors
    /// If its keys are invalid.
    pub fn of_client(config: &ClientConfig) -> Result<Trusted, BackupError> {
        let ClientConfig { scheme, application, protocol, initial_state, .. } = *config;
        Trusted::new(config.committee()?, scheme, application, protocol, initial_state)
    }

    /// Returns the cluster of a replica's configuration.
    ///
    /// # Errors
    /// If its keys are invalid.
    pub fn of_replica(config: &NodeConfig) -> Result<Trusted, BackupError> {
        let NodeConfig { scheme, application, initial_state, .. } = *config;
        Trusted::new(config.committee()?, scheme, application, config.consensus.protocol, initial_state)
    }

    fn new(
        committee: Committee,
        scheme: SchemeKind,
        application: ApplicationKind,
        protocol: ProtocolKind,
        initial: Option<Digest>,
    ) -> Result<Trusted, BackupError> {
        let (keyring, identities) = (Keyring::new(scheme, &committee)?, Arc::new(Identities::new(&committee)?));
        Ok(Trusted { committee, identities, keyring, scheme, application, has_slots: protocol.has_slots(), initial })
    }
}

/// A state that was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    pub height: Height,
    /// Time of the block at that height, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Commands executed since the cluster began.
    pub commands: u64,
    /// Replicas that signed the certificate of the state.
    pub signers: usize,
    pub application: ApplicationKind,
    /// Feature level of the next block.
    pub level: FeatureLevel,
    /// The application's state in canonical form, without clients' sessions.
    pub state: Bytes,
    /// Reasons why the certificate proves less than a reader may assume.
    pub caveat: Option<String>,
}

/// Verifies a snapshot, and returns the state in it.
///
/// # Errors
/// If it is of another cluster, or its state is not the certified one.
pub fn verify(backup: &Backup, trusted: &Trusted) -> Result<Verified, BackupError> {
    let epoch = trusted.committee.epoch;
    if backup.genesis != epoch {
        return Err(BackupError::OtherCluster { found: backup.genesis.0, expected: epoch.0 });
    }
    if backup.application != trusted.application.name() {
        let (found, expected) = (backup.application.clone(), trusted.application.name());
        return Err(BackupError::OtherApplication { found, expected });
    }
    let (mut executor, mut parent, of_base) = base(backup, trusted)?;
    let mut replies = Vec::new();
    for BackedBlock { block, bundles } in &backup.blocks {
        if block.height != executor.height().next() {
            let (found, last) = (block.height, executor.height());
            return Err(BackupError::Unproven(format!("block {found} follows block {last}")));
        }
        if !trusted.has_slots && block.parent() != parent {
            return Err(BackupError::Unproven(format!("block {} does not extend the one before it", block.height)));
        }
        parent = block.digest();
        replies.clear();
        executor.try_execute(block.into(), bundles, &mut replies).map_err(|why| match why {
            ExecutionError::UnsupportedLevel(why) => BackupError::Level(why),
            ExecutionError::Panicked(why) => BackupError::Unproven(why.to_string()),
        })?;
    }
    let certificate = match (&backup.proof, of_base) {
        (None, Some(of_base)) if backup.blocks.is_empty() => of_base,
        (Some((certificate, frontier)), _) if !backup.blocks.is_empty() => {
            check_proof(certificate, frontier, &mut executor, &parent, trusted)?;
            certificate
        }
        _ => return Err(BackupError::Unproven("nothing certifies its last block".to_owned())),
    };
    Ok(Verified {
        height: executor.height(),
        time_ms: executor.time_ms(),
        commands: executor.commands(),
        signers: certificate.signers.iter().count(),
        application: trusted.application,
        level: executor.level().active,
        state: executor.application_state(),
        caveat: crate::inspection::caveat(trusted.scheme),
    })
}

/// Returns an executor at the base, the digest of its last block, and the certificate of the base if it has one.
fn base<'a>(backup: &'a Backup, trusted: &Trusted) -> Result<(Executor, Digest, Option<&'a Certificate>), BackupError> {
    let epoch = trusted.committee.epoch;
    let fresh = |initial| -> Result<Executor, BackupError> {
        let executor = initial_state::executor(trusted.application, initial, &epoch)?;
        Ok(executor.with_levels(trusted.committee.len(), trusted.identities.clone()))
    };
    match &backup.base {
        Base::Empty => match trusted.initial {
            None => Ok((fresh(None)?, epoch.genesis(), None)),
            Some(expected) => Err(BackupError::OtherInitialState { found: None, expected: Some(expected) }),
        },
        Base::Initial(content) => {
            let found = initial_state::digest(content);
            if trusted.initial != Some(found) {
                return Err(BackupError::OtherInitialState { found: Some(found), expected: trusted.initial });
            }
            Ok((fresh(Some(InitialState::decode(content.clone())?))?, epoch.genesis(), None))
        }
        Base::State { certificate, state } => {
            check_certificate(certificate, trusted)?;
            if state.is_empty() || Manifest::of(state).digest() != certificate.subject.digest {
                return Err(BackupError::Unproven("the state is not the certified one".to_owned()));
            }
            let mut executor = fresh(None)?;
            let unusable = |why: String| BackupError::Unproven(format!("the certified state is unusable: {why}"));
            let frontier = executor.adopt(state.clone()).map_err(|why| match why {
                RestoreError::UnsupportedLevel(why) => BackupError::Level(why),
                why => unusable(why.to_string()),
            })?;
            let frontier = Frontier::from_bytes(frontier).map_err(|why| unusable(why.to_string()))?;
            let height = certificate.subject.height;
            if executor.height() != height || frontier.height() != height {
                return Err(unusable("it has another height than its certificate".to_owned()));
            }
            Ok((executor, frontier.head().digest(), Some(certificate)))
        }
    }
}

fn check_certificate(certificate: &Certificate, trusted: &Trusted) -> Result<(), BackupError> {
    let subject = &certificate.subject;
    if subject.domain != Domain::Checkpoint {
        return Err(BackupError::Unproven("its certificate is not one of a checkpoint".to_owned()));
    }
    verify_certificate(&trusted.keyring, certificate)
        .map_err(|why| BackupError::Unproven(format!("the certificate of height {} is invalid: {why}", subject.height)))
}

fn check_proof(
    certificate: &Certificate,
    frontier: &Frontier,
    executor: &mut Executor,
    last: &Digest,
    trusted: &Trusted,
) -> Result<(), BackupError> {
    check_certificate(certificate, trusted)?;
    let height = executor.height();
    if certificate.subject.height != height || frontier.head().digest() != *last {
        return Err(BackupError::Unproven(format!("its certificate is not of its last block, at height {height}")));
    }
    let reached = executor.checkpoint(frontier.digest(), Bytes::new).run();
    match reached.digest == certificate.subject.digest {
        true => Ok(()),
        false => Err(BackupError::Unproven(format!("executing it gives another state at height {height}"))),
    }
}
