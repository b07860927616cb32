//! Proofs that consist of lists of signatures.

use crate::scheme::{Claim, Effort, ProofFault};
use crate::statements::Statements;
use bytes::{Bytes, BytesMut};
use quorate_types::Signers;

/// Concatenates the signatures of claims.
pub fn assemble_list(claims: &[Claim<'_>]) -> Bytes {
    let mut proof = BytesMut::with_capacity(claims.iter().map(|(_, _, signature)| signature.len()).sum());
    claims.iter().for_each(|(_, _, signature)| proof.extend_from_slice(signature));
    proof.freeze()
}

/// Verifies a list of signatures of `width` bytes each with `verify_many`.
pub fn verify_list(
    signers: &Signers,
    statements: &Statements,
    proof: &[u8],
    width: usize,
    verify_many: impl FnOnce(&[Claim<'_>]) -> bool,
) -> Result<Effort, ProofFault> {
    let expected = signers.len() * width;
    if proof.len() != expected {
        return Err(ProofFault::Length { expected });
    }
    let claims: Vec<Claim<'_>> = (signers.iter().enumerate())
        .map(|(at, signer)| (signer, statements.at(at), &proof[at * width..(at + 1) * width]))
        .collect();
    verify_many(&claims).then_some(Effort::default()).ok_or(ProofFault::Signature)
}
