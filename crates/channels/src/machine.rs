//! One end of a connection over packets, sans-I/O: what RUDP, SCTP, QUIC and DTLS are.
//!
//! A [`Machine`] is told what comes in and what time it is, and answers with [`Output`]s. It has no clock and no
//! socket, so that the node drives it by the kernel's UDP and the simulator by its links, in virtual time. Machines
//! stand on each other: a channel that seals packets is a machine whose frames are the packets of the one above it, and
//! [`Stack`] is the two of them as one.
//!
//! ```text
//! frames    send |           ^ Frame
//!           retransmission, order, fragments      above
//! packets        v           |
//!           sealing, who is at the other end      below
//! packets   Packet           ^ packet
//! ```

use crate::{ChannelConfig, ChannelError, NONCE_BYTES, RemoteIdentity, Side};
use bytes::Bytes;
use quorate_types::Time;
use thiserror::Error;

/// What a machine asks of its driver, or tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Put these bytes on the way to the other end, in one packet.
    Packet(Bytes),
    /// Both ends are there: from now on frames pass. Told once.
    Established,
    /// A frame has come.
    Frame(Bytes),
    /// The connection is over. The last that a machine says; what it is told afterwards changes nothing.
    Lost(Loss),
}

/// Why a connection over packets is over.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Loss {
    /// The channel refuses the other end.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Nothing came back, however often it was said.
    #[error("nothing was acknowledged for {0} ms: the network is cut, or the remote is gone")]
    Silent(u64),
    /// The other end, or this one, closed it.
    #[error("the connection was closed")]
    Closed,
    /// The other end does what no honest one does.
    #[error("the remote broke the protocol: {0}")]
    Violation(&'static str),
    /// The other end announced a frame over the limit.
    #[error("the remote announced a frame of {bytes} bytes, over the limit of {limit}")]
    FrameTooLong {
        /// Bytes announced.
        bytes: usize,
        /// Most that are allowed.
        limit: usize,
    },
}

/// One end of a connection over packets.
///
/// After each call the driver performs the outputs, in their order, and asks again when the timer is
/// [due](Machine::due).
pub trait Machine: Send {
    /// Begins. The end that dials says something; the other waits to be spoken to.
    fn start(&mut self, now: Time, out: &mut Vec<Output>);

    /// A packet came. Whether it is of the other end, and whole, is for the machine to find out: drivers know only its
    /// source address.
    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>);

    /// Takes a frame to be sent, at once or when the other end is ready for it.
    fn send(&mut self, now: Time, frame: Bytes, out: &mut Vec<Output>);

    /// When [`Machine::timer`] is to be called; none if nothing is waited for. It may change with every other call.
    fn due(&self) -> Option<Time>;

    /// The time that was due has come.
    fn timer(&mut self, now: Time, out: &mut Vec<Output>);

    /// Says farewell, if the protocol has a word for it.
    fn close(&mut self, now: Time, out: &mut Vec<Output>);

    /// Who is at the other end, if this machine proves it and has done so.
    fn remote(&self) -> Option<RemoteIdentity>;

    /// Bytes of frames that were given to [`Machine::send`] and may have to be sent yet, or again.
    fn unsent_bytes(&self) -> usize;

    /// Bytes held of frames that have not come whole.
    fn partial_bytes(&self) -> usize;

    /// From now on refuses frames of more than so many bytes.
    fn set_frame_limit(&mut self, bytes: usize);
}

/// Two machines as one: the frames of `below` are the packets of `above`.
pub struct Stack {
    below: Box<dyn Machine>,
    above: Box<dyn Machine>,
    /// What `below` has said and nobody has followed yet, for reuse.
    said: Vec<Output>,
    is_over: bool,
}

impl Stack {
    /// Puts a machine on another.
    pub fn new(below: Box<dyn Machine>, above: Box<dyn Machine>) -> Stack {
        Stack { below, above, said: Vec::new(), is_over: false }
    }

    /// Puts a machine on the channel that `end` says.
    ///
    /// # Errors
    /// [`ChannelError::Carriage`] if that channel does not work over packets.
    pub fn on_channel(
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
        above: Box<dyn Machine>,
    ) -> Result<Stack, ChannelError> {
        Ok(Stack::new(end.kind.suite().over_packets(end, side, nonce)?, above))
    }

    /// Has one of the two do something, and the other what follows from it.
    fn run(
        &mut self,
        now: Time,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut dyn Machine, &mut dyn Machine, &mut Vec<Output>, &mut Vec<Output>),
    ) {
        if self.is_over {
            return;
        }
        let (mut from_below, mut from_above) = (std::mem::take(&mut self.said), Vec::new());
        act(&mut *self.below, &mut *self.above, &mut from_below, &mut from_above);
        while !self.is_over && (!from_below.is_empty() || !from_above.is_empty()) {
            for said in std::mem::take(&mut from_above) {
                match said {
                    Output::Packet(packet) => self.below.send(now, packet, &mut from_below),
                    other => self.tell(other, out),
                }
            }
            for said in std::mem::take(&mut from_below) {
                match said {
                    Output::Frame(frame) => self.above.packet(now, frame, &mut from_above),
                    Output::Established => self.above.start(now, &mut from_above),
                    other => self.tell(other, out),
                }
            }
        }
        from_below.clear();
        self.said = from_below;
    }

    fn tell(&mut self, said: Output, out: &mut Vec<Output>) {
        if !self.is_over {
            self.is_over = matches!(said, Output::Lost(_));
            out.push(said);
        }
    }
}

impl Machine for Stack {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |below, _, from_below, _| below.start(now, from_below));
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        self.run(now, out, |below, _, from_below, _| below.packet(now, packet, from_below));
    }

    fn send(&mut self, now: Time, frame: Bytes, out: &mut Vec<Output>) {
        self.run(now, out, |_, above, _, from_above| above.send(now, frame, from_above));
    }

    fn due(&self) -> Option<Time> {
        if self.is_over {
            return None;
        }
        [self.below.due(), self.above.due()].into_iter().flatten().min()
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |below, above, from_below, from_above| {
            if below.due().is_some_and(|due| due <= now) {
                below.timer(now, from_below);
            }
            if above.due().is_some_and(|due| due <= now) {
                above.timer(now, from_above);
            }
        });
    }

    fn close(&mut self, now: Time, out: &mut Vec<Output>) {
        self.run(now, out, |_, above, _, from_above| above.close(now, from_above));
        self.run(now, out, |below, _, from_below, _| below.close(now, from_below));
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.above.remote().or_else(|| self.below.remote())
    }

    fn unsent_bytes(&self) -> usize {
        self.above.unsent_bytes() + self.below.unsent_bytes()
    }

    fn partial_bytes(&self) -> usize {
        self.above.partial_bytes() + self.below.partial_bytes()
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.above.set_frame_limit(bytes);
    }
}
