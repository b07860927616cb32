//! Fuzz targets with two sessions behind one router, whose body is shared with a test of the transports.

use crate::{ChannelKind, TransportKind};

/// Interprets the data as third parties' actions next to two honest sessions.
pub fn check(transport: TransportKind, channel: ChannelKind, data: &[u8]) {
    quorate_testkit::strangers::check(transport, channel, data);
}

/// Body of a fuzz target for a packet transport and a channel.
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
