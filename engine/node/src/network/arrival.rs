//! Network events as received by a replica.

use bytes::Bytes;
use quorate_consensus::{Envelope, Message};
use quorate_network::transports::{Event, LinkId, PathChange, Remote, Transport};
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{ClientId, ClientRequest, DecodeError, PayloadPath, ReplicaId, Wire, decode_message_by};

/// A frame, possibly already decoded by the network thread.
pub enum Frame<T> {
    Raw(Bytes),
    /// With its length in bytes.
    Decoded(usize, Box<Result<T, DecodeError>>),
}

impl<T: Wire> Frame<T> {
    /// Returns its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Frame::Raw(bytes) => bytes.len(),
            Frame::Decoded(bytes, _) => *bytes,
        }
    }

    /// Returns the message, decoding and hashing it now if necessary.
    ///
    /// # Errors
    /// If the frame is not a valid message.
    pub fn message(self, path: PayloadPath) -> Result<T, DecodeError> {
        match self {
            Frame::Raw(bytes) => {
                let _stage = stages::enter(Stage::Unmarshal);
                decode_message_by(bytes, path)
            }
            Frame::Decoded(_, message) => *message,
        }
    }

    /// Decodes the frame, if necessary.
    fn decoded(self, path: PayloadPath, kind: impl FnOnce(&T) -> MessageKind) -> Frame<T> {
        let _message = stages::message(MessageKind::Unread, 1);
        let bytes = self.bytes();
        let message = self.message(path);
        if let Ok(message) = &message {
            stages::name(kind(message));
        }
        Frame::Decoded(bytes, Box::new(message))
    }
}

/// A network event, as processed by a replica.
pub enum Arrival<M: Message> {
    Peer {
        from: ReplicaId,
        frame: Frame<Envelope<M>>,
    },
    Client {
        link: LinkId,
        client: ClientId,
        frame: Frame<ClientRequest>,
    },
    Operator {
        link: LinkId,
        frame: Bytes,
    },
    Connected {
        link: LinkId,
        remote: Remote,
        /// The number of the source group, if the remote is a client.
        source_group: u64,
    },
    Disconnected {
        link: LinkId,
        remote: Remote,
        why: String,
    },
    Path {
        remote: Remote,
        change: PathChange,
    },
}

impl<M: Message> Arrival<M> {
    #[inline]
    pub fn of(event: Event, transport: &dyn Transport) -> Arrival<M> {
        match event {
            Event::Received { remote: Remote::Replica(from), frame, .. } => {
                Arrival::Peer { from, frame: Frame::Raw(frame) }
            }
            Event::Received { remote: Remote::Client(client), link, frame } => {
                Arrival::Client { link, client, frame: Frame::Raw(frame) }
            }
            Event::Received { remote: Remote::Operator(_), link, frame } => Arrival::Operator { link, frame },
            Event::Connected { link, remote } => {
                let source_group = if let Remote::Client(_) = remote { transport.source_group(link) } else { 0 };
                Arrival::Connected { link, remote, source_group }
            }
            Event::Disconnected { link, remote, why } => Arrival::Disconnected { link, remote, why },
            Event::Path { remote, change, .. } => Arrival::Path { remote, change },
        }
    }

    /// Decodes the frame of a peer or of a client.
    pub fn decoded(self, path: PayloadPath) -> Arrival<M> {
        match self {
            Arrival::Peer { from, frame } => Arrival::Peer { from, frame: frame.decoded(path, Envelope::kind) },
            Arrival::Client { link, client, frame } => {
                Arrival::Client { link, client, frame: frame.decoded(path, kind_of_request) }
            }
            other => other,
        }
    }

    /// Returns its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let frame = match self {
            Arrival::Peer { frame, .. } => frame.bytes(),
            Arrival::Client { frame, .. } => frame.bytes(),
            Arrival::Operator { frame, .. } => frame.len(),
            Arrival::Connected { .. } | Arrival::Disconnected { .. } | Arrival::Path { .. } => 0,
        };
        frame + size_of::<Arrival<M>>()
    }
}

/// Returns the kind of a client's message.
pub(crate) fn kind_of_request(request: &ClientRequest) -> MessageKind {
    match request {
        ClientRequest::Submit(_) => MessageKind::Request,
        _ => MessageKind::Question,
    }
}
