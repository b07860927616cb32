//! UDP without retransmission.
//!
//! Frames are packed into packets and unpacked; nothing is acknowledged or retransmitted, and order is not kept. After
//! a loss, a protocol makes progress by its view changes and by requesting missing data. Over links that lose more than
//! a few packets in a thousand, choose another transport.
//!
//! ```text
//! packet  pieces                see `pieces`; an empty one only shows that the remote is alive
//! ```

use crate::channels::{Carriage, Loss, Machine, Output, RemoteIdentity};
use crate::transports::carrier::{AboveChannel, TransportProfile};
use crate::transports::config::PacketConfig;
use crate::transports::pieces::{Assembler, Packer};
use bytes::{Bytes, BytesMut};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{Lane, Time};
use std::time::Duration;

/// UDP as a transport kind.
pub(crate) const UDP: AboveChannel = AboveChannel {
    profile: TransportProfile {
        name: "udp",
        summary: "UDP: lost packets are not retransmitted",
        carriage: Carriage::Datagrams,
        own_channel: None,
        guards_links: false,
        keeps_order: false,
        repairs_losses: false,
    },
    machine: |_, settings, mtu_budget| Box::new(UdpMachine::new(settings.packets, mtu_budget)),
};

/// One end of a connection over UDP, above its channel.
pub struct UdpMachine {
    config: PacketConfig,
    mtu_budget: usize,
    /// Packet length below the MTU budget, if the path carries no longer packets.
    short: Option<usize>,
    /// Prefix of each packet, for the machine below.
    prefix: Bytes,
    packer: Packer,
    assembler: Assembler,
    sent_at: Time,
    heard_at: Time,
    is_open: bool,
}

impl UdpMachine {
    /// Creates a machine whose packets have at most `mtu_budget` bytes.
    pub fn new(config: PacketConfig, mtu_budget: usize) -> UdpMachine {
        UdpMachine {
            config,
            mtu_budget,
            short: None,
            prefix: Bytes::new(),
            packer: Packer::new(0, 1),
            assembler: Assembler::new(2 * MAX_FRAME_BYTES, true),
            sent_at: Time(0),
            heard_at: Time(0),
            is_open: false,
        }
    }

    fn keepalive(&self) -> Duration {
        Duration::from_millis(self.config.keepalive_ms)
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.config.silent_remote_ms)
    }

    fn lose(&mut self, why: Loss, out: &mut Vec<Output>) {
        self.is_open = false;
        out.push(Output::Lost(why));
    }
}

impl Machine for UdpMachine {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        (self.is_open, self.sent_at, self.heard_at) = (true, now, now);
        out.push(Output::Established);
        self.flush(now, out);
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        if self.is_open {
            self.heard_at = now;
            if let Err(why) = self.assembler.take(packet, |frame| out.push(Output::Frame(frame))) {
                self.lose(why, out);
            }
        }
    }

    fn send(&mut self, now: Time, frame: Bytes, _: Lane, out: &mut Vec<Output>) {
        self.packer.push(frame);
        if self.config.frames_apart {
            self.flush(now, out);
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        while self.is_open && !self.packer.is_empty() {
            self.sent_at = now;
            let mtu_budget = self.short.unwrap_or(self.mtu_budget);
            let mut packet = BytesMut::with_capacity(self.prefix.len() + self.packer.packet_bytes(mtu_budget));
            packet.extend_from_slice(&self.prefix);
            self.packer.pack(&mut packet, mtu_budget);
            out.push(Output::Packet(packet.freeze()));
        }
    }

    fn due(&self) -> Option<Time> {
        self.is_open.then(|| (self.sent_at + self.keepalive()).min(self.heard_at + self.silence()))
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        if now.since(self.heard_at) >= self.silence() {
            return self.lose(Loss::Silent(self.config.silent_remote_ms), out);
        }
        if now.since(self.sent_at) >= self.keepalive() {
            self.sent_at = now;
            out.push(Output::Packet(self.prefix.clone()));
        }
    }

    fn begin_with(&mut self, prefix: Bytes) -> bool {
        self.prefix = prefix;
        true
    }

    fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    fn shorten(&mut self, bytes: Option<usize>) {
        self.short = bytes.map(|bytes| bytes.min(self.mtu_budget));
    }

    fn close(&mut self, _: Time, _: &mut Vec<Output>) {
        self.is_open = false;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        None
    }

    fn unsent_bytes(&self) -> usize {
        self.packer.bytes()
    }

    fn partial_bytes(&self) -> usize {
        self.assembler.held_bytes()
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.assembler.set_frame_limit(bytes);
    }
}
