//! Targets of two sessions behind one router: the body is that of a test of the transports.

use crate::{ChannelKind, TransportKind};

/// Lets the data act as strangers beside two honest sessions.
pub fn check(transport: TransportKind, channel: ChannelKind, data: &[u8]) {
    quorate_testkit::strangers::check(transport, channel, data);
}

/// Body of a fuzz target for a transport over packets and a channel.
#[macro_export]
macro_rules! sessions {
    ($transport:ident, $channel:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::sessions::check(
            $crate::TransportKind::$transport,
            $crate::ChannelKind::$channel,
            data
        ));
    };
}
