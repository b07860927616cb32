//! What the signers of one certificate signed.

use quorate_types::{Attachment, ClusterId, Statement, Subject};

/// What the signers of one certificate signed, in their order.
pub enum Statements {
    /// All the same, for lack of attachments.
    Common(Statement),
    /// One for each.
    Each(Vec<Statement>),
}

impl Statements {
    /// The statements on a subject, each with its attachment.
    pub fn new<'a>(
        cluster: &ClusterId,
        subject: &Subject,
        attachments: impl Iterator<Item = &'a Attachment> + Clone,
    ) -> Statements {
        let make = |attachment| Statement::new(cluster, subject, attachment);
        if attachments.clone().all(|attachment| *attachment == Attachment::None) {
            return Statements::Common(make(&Attachment::None));
        }
        Statements::Each(attachments.map(make).collect())
    }

    /// What the signer at a position signed.
    pub fn at(&self, position: usize) -> &[u8] {
        match self {
            Statements::Common(statement) => statement.as_bytes(),
            Statements::Each(statements) => statements[position].as_bytes(),
        }
    }
}
