//! The statements covered by one certificate.

use quorate_types::{Attachment, EpochId, Statement, Subject};
use std::collections::BTreeMap;

/// Statements of the signers of a certificate: a common one, or one each.
pub enum Statements {
    /// A common statement: no signer has an attachment.
    Common(Statement),
    Each(Vec<Statement>),
}

impl Statements {
    /// Encodes the statements on a subject, one per attachment.
    pub fn new<'a>(
        epoch: &EpochId,
        subject: &Subject,
        attachments: impl Iterator<Item = &'a Attachment> + Clone,
    ) -> Statements {
        let make = |attachment| Statement::new(epoch, subject, attachment);
        if attachments.clone().all(|attachment| *attachment == Attachment::None) {
            return Statements::Common(make(&Attachment::None));
        }
        Statements::Each(attachments.map(make).collect())
    }

    /// Returns the number of signers of each distinct statement, out of `signers`.
    pub fn groups(&self, signers: usize) -> Vec<usize> {
        match self {
            Statements::Common(_) => vec![signers],
            Statements::Each(statements) => {
                let mut groups: BTreeMap<&[u8], usize> = BTreeMap::new();
                statements.iter().for_each(|statement| *groups.entry(statement.as_bytes()).or_default() += 1);
                groups.into_values().collect()
            }
        }
    }

    /// Returns the statement of the signer at index `position`.
    pub fn at(&self, position: usize) -> &[u8] {
        match self {
            Statements::Common(statement) => statement.as_bytes(),
            Statements::Each(statements) => statements[position].as_bytes(),
        }
    }
}
