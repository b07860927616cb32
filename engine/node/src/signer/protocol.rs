//! The protocol between a replica and its signer: frames of a length in four bytes, the version in two, and a message.
//! The replica says hello, the signer answers with its own hello, and then answers requests one by one.

use bytes::Bytes;
use quorate_types::limits::MAX_SIGNATURE_BYTES;
use quorate_types::{
    Attachment, Certificate, DecodeError, Decoder, Digest, Encoder, EpochId, ReplicaId, Signers, Statement, Subject,
    View, Vote, Wire, wire,
};
use std::io::{self, Read, Write};
use thiserror::Error;

/// Version of the protocol. Both ends must have the same.
pub const PROTOCOL_VERSION: u16 = 1;
/// Maximum length of a frame, in bytes, excluding its length.
pub const MAX_FRAME_BYTES: usize = MAX_SIGNATURE_BYTES + 64;
/// Maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 512;
/// Maximum length of a public key, in bytes.
const MAX_PUBLIC_KEY_BYTES: usize = 1024;

/// An addition to a statement, as far as its signature covers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attached {
    Nothing,
    /// View of the voter's highest certificate.
    View(View),
    /// Subject of the voter's highest certificate.
    Certificate(Subject),
}

wire! {
    enum Attached as "attachment" {
        0 = Nothing,
        1 = View(view),
        2 = Certificate(subject),
    }
}

/// A statement to sign. The signer adds the epoch, and encodes the bytes that it signs itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsigned {
    pub subject: Subject,
    pub attached: Attached,
}

wire! { struct Unsigned { subject, attached } }

impl Unsigned {
    /// Returns the statement of a vote.
    pub fn of(subject: Subject, attachment: &Attachment) -> Unsigned {
        let attached = match attachment {
            Attachment::None => Attached::Nothing,
            Attachment::HighView(view) => Attached::View(*view),
            Attachment::HighCertificate(certificate) => Attached::Certificate(certificate.subject),
        };
        Unsigned { subject, attached }
    }

    /// Returns the statement of a vote to be signed.
    pub fn of_vote(vote: &Vote) -> Unsigned {
        Unsigned::of(vote.subject, &vote.attachment)
    }

    /// Encodes the statement to sign.
    pub fn statement(&self, epoch: &EpochId) -> Statement {
        let attachment = match self.attached {
            Attached::Nothing => Attachment::None,
            Attached::View(view) => Attachment::HighView(view),
            // The signature covers the subject alone.
            Attached::Certificate(subject) => Attachment::HighCertificate(Box::new(Certificate {
                subject,
                signers: Signers::empty(),
                attachments: Vec::new(),
                proof: Bytes::new(),
            })),
        };
        Statement::new(epoch, &self.subject, &attachment)
    }
}

/// Message of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// The cluster's genesis, and the replica.
    Hello { epoch: Digest, replica: ReplicaId },
    /// Request for a signature. The answer repeats `number`.
    Sign { number: u64, unsigned: Unsigned },
}

wire! {
    enum Request as "request" {
        0 = Hello { epoch, replica },
        1 = Sign { number: u64["number"], unsigned },
    }
}

/// Message of a signer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The genesis, the replica and the public key for which the signer signs.
    Hello {
        epoch: Digest,
        replica: ReplicaId,
        public_key: Bytes,
    },
    Signed {
        number: u64,
        signature: Bytes,
    },
    /// The statement contradicts an earlier one.
    Refused {
        number: u64,
        why: String,
    },
}

wire! {
    enum Answer as "answer" {
        0 = Hello { epoch, replica, public_key: bytes["public key", MAX_PUBLIC_KEY_BYTES] },
        1 = Signed { number: u64["number"], signature: bytes["signature", MAX_SIGNATURE_BYTES] },
        2 = Refused { number: u64["number"], why: text["reason", MAX_REASON_BYTES] },
    }
}

impl Answer {
    /// Returns the refusal of a request, with a reason of limited length.
    pub fn refused(number: u64, why: &str) -> Answer {
        let end = (0..=MAX_REASON_BYTES.min(why.len())).rev().find(|end| why.is_char_boundary(*end)).unwrap_or(0);
        Answer::Refused { number, why: why[..end].to_owned() }
    }
}

/// Reason why no message can be read from the other end.
#[derive(Debug, Error)]
pub enum FrameFault {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the other end closed the connection")]
    Closed,
    #[error("a frame has {0} bytes, over the limit of {MAX_FRAME_BYTES}")]
    TooLong(usize),
    #[error(
        "the other end speaks version {0} of the signer protocol, and this program version {PROTOCOL_VERSION}; help: \
         run the same release of quorate on both ends"
    )]
    Version(u16),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl FrameFault {
    /// Returns whether the other end did not answer in time.
    pub fn is_timeout(&self) -> bool {
        let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        matches!(self, FrameFault::Io(error) if kinds.contains(&error.kind()))
    }
}

/// Encodes a message as a frame.
pub fn frame(message: &impl Wire) -> Bytes {
    let mut body = Encoder::with_capacity(256);
    body.put_u16(PROTOCOL_VERSION);
    message.encode(&mut body);
    let body = body.finish();
    assert!(body.len() <= MAX_FRAME_BYTES, "a frame has at most {MAX_FRAME_BYTES} bytes");
    let mut out = Encoder::with_capacity(4 + body.len());
    out.put_bytes(&body);
    out.finish()
}

/// Writes a message in one frame.
///
/// # Errors
/// The stream's error.
pub fn write(stream: &mut impl Write, message: &impl Wire) -> io::Result<()> {
    stream.write_all(&frame(message))
}

/// Reads the next message.
///
/// # Errors
/// [`FrameFault`]; the connection is then useless.
pub fn read<T: Wire>(stream: &mut impl Read) -> Result<T, FrameFault> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(closed)?;
    let length = usize::try_from(u32::from_le_bytes(length)).expect("a usize has at least 32 bits");
    if length > MAX_FRAME_BYTES {
        return Err(FrameFault::TooLong(length));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).map_err(closed)?;
    let mut input = Decoder::new(body.into());
    let version = input.get_u16("version")?;
    if version != PROTOCOL_VERSION {
        return Err(FrameFault::Version(version));
    }
    let message = T::decode(&mut input)?;
    input.finish("end of frame")?;
    Ok(message)
}

fn closed(error: io::Error) -> FrameFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => FrameFault::Closed,
        _ => FrameFault::Io(error),
    }
}
