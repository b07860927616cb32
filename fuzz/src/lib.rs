//! Check shared by the fuzz targets of all messages: decoding does not panic, and no value has a second encoding.
//!
//! A target is a file of one line in `fuzz_targets/`, `quorate_fuzz::message!(the_crate::TheType);`, and a `[[bin]]` in
//! `Cargo.toml`. Packet transports have a check of their own, in [`packets`].

pub mod packets;
pub mod sessions;

use bytes::Bytes;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::{Wire, decode_message, encode_message};

#[doc(hidden)]
pub use libfuzzer_sys;
#[doc(hidden)]
pub use quorate_network::channels::ChannelKind;
#[doc(hidden)]
pub use quorate_network::transports::TransportKind;

/// Decodes any bytes as a message and asserts that a decoded value encodes to the same bytes. Prepends the version
/// byte, which the fuzzer need not guess.
pub fn check<T: Wire + PartialEq>(data: &[u8]) {
    let message = Bytes::from([&[WIRE_VERSION], data].concat());
    if let Ok(value) = decode_message::<T>(message.clone()) {
        assert!(encode_message(&value) == message, "one value has two encodings");
        assert!(decode_message::<T>(message).is_ok_and(|again| again == value), "one encoding decodes to two values");
    }
}

/// Body of a fuzz target for a message type, which must be [`Wire`] and `PartialEq`.
#[macro_export]
macro_rules! message {
    ($type:ty) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::check::<$type>(data));
    };
}
